"""A Dask cluster: its scheduler, and those of its workers that have our version of gpumon-static."""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache

from distributed import Client, Security

from gpumon_static.config.settings import FetchConfig
from gpumon_static.errors import GpumonError
from gpumon_static.system.command import Command
from gpumon_static.text import Say, one_line

PACKAGE = "gpumon-static"
SCHEDULER = "Dask scheduler"
CONNECT_S = 10.0
ANSWER_S = 10.0
"""For what the scheduler or a worker reports about itself."""
PROMPT_S = 1.0
CLOSE_S = 0.5


@dataclass(frozen=True)
class DaskWorker:
    address: str
    name: str
    threads: int
    resources: frozenset[str]
    version: str | None = None
    """Of gpumon-static there; None: it has none, or does not answer."""

    def may_ask(self, label: str | None) -> bool:
        return label is None or label in self.resources

    @property
    def is_ours(self) -> bool:
        return self.version == our_version()

    @property
    def label(self) -> str:
        """A worker without a name is known by its machine: it has another port after each start."""
        machine = self.address.rpartition("://")[2].rpartition(":")[0]
        return f"Dask worker {machine if self.name == self.address else self.name}"

    @property
    def trouble(self) -> str:
        name = self.name if self.name == self.address else f"{self.name} ({self.address})"
        if self.version is None:
            return f"the Dask worker {name} has no {PACKAGE}, or does not answer"
        return f"the Dask worker {name} has {PACKAGE} {self.version}, not {our_version()}"

    @property
    def fix(self) -> Command:
        return Command.of("pip", "install", f"{PACKAGE}[dask]=={our_version()}")


def workers(config: FetchConfig) -> list[DaskWorker]:
    """The cluster's workers, with their versions; raises `GpumonError`."""

    async def find() -> list[DaskWorker]:
        async with connected(config) as client:
            try:
                found = await _workers(client)
            except (OSError, TimeoutError) as error:
                raise GpumonError(f"the Dask scheduler {config.scheduler} does not answer") from error
            return await asyncio.gather(*(_with_version(client, one) for one in found))

    return asyncio.run(find())


@cache
def our_version() -> str:
    return importlib.metadata.version(PACKAGE)


@asynccontextmanager
async def connected(config: FetchConfig) -> AsyncIterator[Client]:
    """Raises `GpumonError` where there is no scheduler to be reached."""
    _silence_dask()
    try:
        client = await Client(
            config.scheduler,
            asynchronous=True,
            set_as_default=False,
            name=PACKAGE,
            timeout=min(CONNECT_S, config.deadline / 4),
            security=_security(config),
        )
    except (OSError, ImportError, RuntimeError, TypeError, ValueError) as error:
        # The others: what Dask raises where it has no certificate, or its configuration forbids the address.
        message = one_line(str(error)) or type(error).__name__
        raise GpumonError(f"cannot reach the Dask scheduler {config.scheduler}: {message}") from error
    try:
        await _check_scheduler(client, config)
        yield client
    finally:
        with suppress(OSError, TimeoutError):
            await client.close(timeout=CLOSE_S)


def _silence_dask() -> None:
    """What is worth a line is printed by us."""
    warnings.filterwarnings("ignore", module="distributed")
    for name in ("distributed", "distributed.client", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _security(config: FetchConfig) -> Security:
    """The files of the config, or those of Dask's own configuration."""
    files = {
        "tls_ca_file": config.tls_ca,
        "tls_client_cert": config.tls_cert,
        "tls_client_key": config.tls_key,
    }
    return Security(**{name: str(file) for name, file in files.items() if file})


async def _check_scheduler(client: Client, config: FetchConfig) -> None:
    """It unpickles what it passes on, and so needs our code."""
    scheduler = f"the Dask scheduler {config.scheduler}"
    try:
        found = await asyncio.wait_for(
            client.run_on_scheduler(importlib.metadata.version, PACKAGE), min(ANSWER_S, config.deadline / 4)
        )
    except importlib.metadata.PackageNotFoundError:
        found = ""
    except (OSError, TimeoutError) as error:
        raise GpumonError(f"{scheduler} does not answer") from error
    if found != our_version():
        has = f"{PACKAGE} {found}" if found else f"no {PACKAGE}"
        raise GpumonError(f"{scheduler} has {has}; install {PACKAGE}[dask]=={our_version()} there")


async def _workers(client: Client) -> list[DaskWorker]:
    """Raises `OSError` or `TimeoutError` where the scheduler does not answer."""
    identity = await asyncio.wait_for(client.scheduler.identity(n_workers=-1), ANSWER_S)
    return [
        DaskWorker(address, str(one["name"]), one["nthreads"], frozenset(one["resources"]))
        for address, one in identity["workers"].items()
        if one["status"] == "running"
    ]


async def _with_version(client: Client, one: DaskWorker) -> DaskWorker:
    """Asked with what every Python has: there may be no gpumon-static at all."""
    try:
        asked = client.run(importlib.metadata.version, PACKAGE, workers=[one.address], on_error="return")
        version = (await asyncio.wait_for(asked, ANSWER_S)).get(one.address)
    except (OSError, TimeoutError):
        version = None
    return replace(one, version=version if isinstance(version, str) else None)


class Cluster:
    """The workers of a run, looked at again and again. One that has just come is asked for its version."""

    def __init__(self, client: Client, say: Say) -> None:
        self.client = client
        self._say = say
        self._asked: dict[str, asyncio.Task[DaskWorker]] = {}
        self._known: dict[str, DaskWorker] = {}
        """All that this run has seen, by address."""
        self._there: set[str] = set()
        self.workers: list[DaskWorker] = []
        """Those that may be used."""
        self.hung: set[str] = set()
        """Addresses of workers that are not used any more in this run."""

    async def look(self) -> None:
        """Raises `OSError` or `TimeoutError` where the scheduler does not answer."""
        found = await _workers(self.client)
        self._there = {one.address for one in found}
        self._known |= {one.address: one for one in found}
        for one in found:
            if one.address not in self._asked:
                self._asked[one.address] = asyncio.create_task(self._ask_version(one))
        answers = [self._asked[one.address] for one in found]
        if answers:
            # Hosts are dealt among those that have answered; one that hangs must not hold them up.
            await asyncio.wait(answers, timeout=PROMPT_S)
        self.workers = [task.result() for task in answers if task.done() and task.result().is_ours]

    def able(self, label: str | None) -> list[DaskWorker]:
        return [one for one in self.workers if one.may_ask(label) and one.address not in self.hung]

    def states(self) -> dict[str, str]:
        """Each worker that this run has seen, and why it cannot be used; empty where it can."""
        states: dict[str, str] = {}
        for address, one in self._known.items():
            task = self._asked[address]
            why = ""
            if address not in self._there:
                why = "is gone"
            elif address in self.hung or not task.done():
                why = "does not answer"
            elif not task.result().is_ours:
                why = f"has another version of {PACKAGE}, none, or does not answer"
            # One that was started anew has the same name.
            states[one.label] = states.get(one.label, why) and why
        return states

    async def _ask_version(self, one: DaskWorker) -> DaskWorker:
        worker = await _with_version(self.client, one)
        if not worker.is_ours:
            self._say(f"{worker.trouble}: it is not used")
        return worker
