"""Dask: the hosts are asked by the workers of a Dask cluster, shard by shard.

A host with `worker = "b"` goes to the workers that were started with the resource b, the others to any. What
a lost worker had, another one reads; Dask sees to that as long as one of those that may is there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from distributed import Client, Future, KilledWorker

from gpumon_static.collect import gate
from gpumon_static.collect.engines import dask_task
from gpumon_static.collect.engines.dask_cluster import PACKAGE, Cluster, connected, our_version
from gpumon_static.collect.engines.processes import GRACE_S
from gpumon_static.collect.engines.shards import deal
from gpumon_static.collect.readers import Note, ReaderFactory
from gpumon_static.config.settings import FetchConfig, HostConfig
from gpumon_static.model import HostReading, Status
from gpumon_static.text import Say, one_line

LOOK_EVERY_S = 1.0
NO_WORKER_S = 10.0
"""So long hosts wait for a worker that may ask them."""
LANDING_S = 3.0
"""For a process to start on the worker, and for the readings to come back."""
MOST_IN_SHARD = 128
"""Hosts. More save processes on the workers; fewer lose less with the scheduler."""


@dataclass(frozen=True)
class _Flight:
    label: str | None
    hosts: Sequence[HostConfig]
    future: Future[Any]
    workers: frozenset[str]


def ask(
    factory: ReaderFactory,
    config: FetchConfig,
    on_reading: Callable[[HostReading], None],
    on_note: Note,
    say: Say,
) -> list[HostReading]:
    """Raises `GpumonError` where there is no scheduler to be reached."""

    async def run() -> list[HostReading]:
        end = time.monotonic() + config.deadline
        async with connected(config) as client:
            return await _Run(client, factory, config, end, on_reading, on_note, say).run()

    return asyncio.run(run())


class _Run:
    def __init__(
        self,
        client: Client,
        factory: ReaderFactory,
        config: FetchConfig,
        end: float,
        on_reading: Callable[[HostReading], None],
        on_note: Note,
        say: Say,
    ) -> None:
        self._cluster = Cluster(client, say)
        self._factory = factory
        self._config = config
        self._end = end
        self._on_reading = on_reading
        self._on_note = on_note
        self._say = say
        self._ready: list[tuple[str | None, list[HostConfig]]] = []
        self._flights: dict[asyncio.Task[Any], _Flight] = {}
        self._done: dict[str, HostReading] = {}
        self._waiting: dict[str | None, list[HostConfig]] = {}
        self._waiting_since: dict[str | None, float] = {}
        for host in factory.hosts:
            self._wait(host.worker, [host])

    async def run(self) -> list[HostReading]:
        while len(self._done) < len(self._factory.hosts):
            if self._cluster.client.status != "running":
                self._lose_scheduler()
                break
            left = self._end + GRACE_S - time.monotonic()
            if left <= 0:
                told = f"not finished: the run's deadline of {self._config.deadline:g} s came first"
                self._fail(self._factory.hosts, Status.TIMEOUT, told)
                break
            with suppress(OSError, TimeoutError):
                await asyncio.wait_for(self._cluster.look(), left)
            self._cancel_stranded()
            self._deal()
            self._submit()
            await self._hear(max(0.0, min(LOOK_EVERY_S, self._end + GRACE_S - time.monotonic())))
        return [self._done[host.name] for host in self._factory.hosts]

    def _wait(self, label: str | None, hosts: Iterable[HostConfig]) -> None:
        self._waiting.setdefault(label, []).extend(hosts)
        self._waiting_since.setdefault(label, time.monotonic())

    def _cancel_stranded(self) -> None:
        """Dask would wait for workers that are gone. Others, or those under new addresses, may have come."""
        there = {one.address for one in self._cluster.workers}
        for task, flight in list(self._flights.items()):
            if not flight.workers & there:
                del self._flights[task]
                task.cancel()
                self._wait(flight.label, flight.hosts)

    def _deal(self) -> None:
        patience = min(NO_WORKER_S, self._config.deadline / 4)
        # Those that only some workers may ask come first: the others find a place anywhere.
        for label in sorted(self._waiting, key=lambda label: label is None):
            hosts = self._waiting[label]
            if able := self._cluster.able(label):
                shares = max(len(able), -(-len(hosts) // MOST_IN_SHARD))
                self._ready += [(label, share) for share in deal(hosts, shares, by_jump_host=False)]
            elif time.monotonic() < self._waiting_since[label] + patience:
                continue
            else:
                wanted = f' has the resource "{label}"' if label else " is there"
                self._fail(
                    hosts, Status.ERROR, f"not asked: no Dask worker with {PACKAGE} {our_version()}{wanted}"
                )
            del self._waiting[label], self._waiting_since[label]

    def _submit(self) -> None:
        """No more at once than the workers have threads for: the time in a queue is lost to the hosts."""
        for label, hosts in list(self._ready):
            able = self._cluster.able(label)
            addresses = frozenset(one.address for one in able)
            if not able:
                self._wait(label, hosts)
            elif self._load(addresses) >= sum(one.threads for one in able):
                continue
            else:
                self._start(label, hosts, addresses)
            self._ready.remove((label, hosts))

    def _load(self, addresses: frozenset[str]) -> float:
        """Shards on these workers. Which of those that may has one is not known: each counts in part."""
        return sum(len(flight.workers & addresses) / len(flight.workers) for flight in self._flights.values())

    def _start(self, label: str | None, hosts: Sequence[HostConfig], workers: frozenset[str]) -> None:
        left = max(0.1, self._end - LANDING_S - time.monotonic())
        content = dask_task.pack(self._factory, hosts, self._config, left)
        future = self._cluster.client.submit(
            dask_task.read_shard, content, pure=False, workers=sorted(workers)
        )
        flight = _Flight(label, hosts, future, workers)
        self._flights[asyncio.create_task(_result(future))] = flight

    async def _hear(self, seconds: float) -> None:
        if not self._flights:
            await asyncio.sleep(seconds)
            return
        done, _ = await asyncio.wait(self._flights, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            self._land(self._flights.pop(task), task)

    def _land(self, flight: _Flight, task: asyncio.Task[Any]) -> None:
        error = task.exception()
        if isinstance(error, CancelledError):
            # Somebody cancelled it, or the scheduler is gone, which is noticed elsewhere.
            self._wait(flight.label, flight.hosts)
        elif isinstance(error, KilledWorker):
            self._fail(flight.hosts, Status.ERROR, "gave up: several Dask workers died while asking it")
        elif error:
            told = one_line(f"{type(error).__name__}: {error}")
            self._fail(flight.hosts, Status.ERROR, f"the Dask cluster failed: {told}")
        elif isinstance(told := task.result(), str):
            self._fail(flight.hosts, Status.ERROR, told)
        else:
            for note in told.notes:
                self._on_note(*note)
            for reading in told.readings:
                self._finish(replace(reading, fetched_at=self._factory.clock()))

    def _lose_scheduler(self) -> None:
        told = f"the Dask scheduler {self._config.scheduler} has gone away"
        self._say(f"{told}: hosts that were not read by then have no reading")
        self._fail(self._factory.hosts, Status.ERROR, f"not finished: {told}")

    def _fail(self, hosts: Iterable[HostConfig], status: Status, told: str) -> None:
        for host in hosts:
            self._finish(gate.failure(host.name, self._factory.clock(), status, told))

    def _finish(self, reading: HostReading) -> None:
        """The first word about a host counts."""
        if reading.host not in self._done:
            self._done[reading.host] = reading
            self._on_reading(reading)


async def _result(future: Future[Any]) -> Any:
    try:
        return await future
    finally:
        # Where nobody waits any more, the worker notices and stops.
        future.release()
