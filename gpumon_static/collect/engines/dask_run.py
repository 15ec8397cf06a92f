"""Dask: the hosts are asked by the workers of a Dask cluster, shard by shard; readings come host by host.

A host with `worker = "b"` goes to the workers that were started with the resource b, the others to any. What
a worker cannot read, because it is gone, hangs or has no key, another one reads. Hosts that name no worker
are at last read by the collector itself (dask_fallback.py).
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

from distributed import Client, Future

from gpumon_static.collect import gate
from gpumon_static.collect.engines import dask_task
from gpumon_static.collect.engines.dask_cluster import (
    ANSWER_S,
    PACKAGE,
    SCHEDULER,
    Cluster,
    DaskWorker,
    connected,
    our_version,
)
from gpumon_static.collect.engines.dask_fallback import OwnReaders
from gpumon_static.collect.engines.processes import GRACE_S
from gpumon_static.collect.engines.shards import deal
from gpumon_static.collect.readers import Note, ReaderFactory
from gpumon_static.config.settings import FetchConfig, HostConfig
from gpumon_static.errors import GpumonError
from gpumon_static.model import HostReading, Status
from gpumon_static.text import Say, count, one_line

LOOK_EVERY_S = 1.0
NO_WORKER_S = 10.0
"""So long hosts wait for a worker that may ask them."""
NO_SIGN_S = 15.0
"""A worker that has sent nothing for this long, of a shard that it has, hangs."""
LANDING_S = 3.0
"""For a process to start on the worker, and for the readings to come back."""
MOST_IN_SHARD = 128
"""Hosts. More save processes on the workers."""


@dataclass(frozen=True)
class _Need:
    """What a worker must be to read some hosts."""

    label: str | None
    barred: frozenset[str] = frozenset()
    """Workers that could not."""


@dataclass(eq=False)
class _Flight:
    need: _Need
    hosts: Sequence[HostConfig]
    worker: DaskWorker
    heard: float


def ask(
    factory: ReaderFactory,
    config: FetchConfig,
    on_reading: Callable[[HostReading], None],
    on_note: Note,
    say: Say,
    on_workers: Callable[[dict[str, str]], None],
) -> list[HostReading]:
    """Raises `GpumonError` where there is no scheduler to be reached, and the config wants no fallback.

    `on_workers`: takes the scheduler and each worker, with why it could not be used.
    """

    async def run() -> list[HostReading]:
        end = time.monotonic() + config.deadline
        async with AsyncExitStack() as stack:
            client, lost = None, ""
            try:
                client = await stack.enter_async_context(connected(config))
            except GpumonError as error:
                if not config.dask_fallback:
                    raise
                lost = str(error)
            run = _Run(client, lost, factory, config, end, on_reading, on_note, say)
            readings = await run.run()
            on_workers(run.states())
            return readings

    return asyncio.run(run())


class _Run:
    def __init__(
        self,
        client: Client | None,
        lost: str,
        factory: ReaderFactory,
        config: FetchConfig,
        end: float,
        on_reading: Callable[[HostReading], None],
        on_note: Note,
        say: Say,
    ) -> None:
        self._cluster = Cluster(client, say) if client else None
        self._lost = lost
        """Why there is no cluster (any more)."""
        self._factory = factory
        self._config = config
        self._end = end
        self._on_reading = on_reading
        self._on_note = on_note
        self._say = say
        self._own = OwnReaders(factory, config, end, self._finish, on_note)
        self._mark = uuid.uuid4().hex
        self._ready: list[tuple[_Need, list[HostConfig]]] = []
        self._flights: dict[asyncio.Task[Any], _Flight] = {}
        self._by_mark: dict[str, _Flight] = {}
        self._done: dict[str, HostReading] = {}
        self._waiting: dict[_Need, list[HostConfig]] = {}
        self._waiting_since: dict[_Need, float] = {}
        self._reasons: dict[str, str] = {}
        """Why a worker could not read a host."""
        self._reported: set[str] = set()
        for host in factory.hosts:
            self._wait(_Need(host.worker), [host])

    async def run(self) -> list[HostReading]:
        if self._cluster:
            self._cluster.client.subscribe_topic(dask_task.TOPIC, self._take)
        while len(self._done) < len(self._factory.hosts):
            left = self._end + GRACE_S - time.monotonic()
            if left <= 0:
                message = f"not finished: the run's deadline of {self._config.deadline:g} s came first"
                self._fail(self._factory.hosts, Status.TIMEOUT, message)
                break
            await self._look(left)
            if self._lost:
                self._leave_cluster()
            else:
                self._end_unresponsive()
                self._deal()
                self._submit()
            await self._hear(max(0.0, min(LOOK_EVERY_S, self._end + GRACE_S - time.monotonic())))
        await self._own.close()
        return [self._done[host.name] for host in self._factory.hosts]

    def states(self) -> dict[str, str]:
        """Of the workers nothing is known where the scheduler is lost."""
        workers = self._cluster.states() if self._cluster and not self._lost else {}
        return {SCHEDULER: "does not answer" if self._lost else "", **workers}

    # The cluster

    async def _look(self, left: float) -> None:
        if self._cluster is None or self._lost:
            return
        address = self._config.scheduler
        if self._cluster.client.status != "running":
            self._lost = f"the Dask scheduler {address} has gone away"
            return
        try:
            await asyncio.wait_for(self._cluster.look(), min(left, ANSWER_S, self._config.deadline / 4))
        except (OSError, TimeoutError):
            self._lost = f"the Dask scheduler {address} does not answer"

    def _leave_cluster(self) -> None:
        """All that is not read yet is read without it, or not at all."""
        hosts = [host for host in self._factory.hosts if host.name not in self._done]
        for task in self._flights:
            task.cancel()
        self._flights.clear()
        self._ready.clear()
        self._waiting.clear()
        self._reasons.clear()
        self._do_without(hosts, self._lost)

    def _do_without(self, hosts: Sequence[HostConfig], reason: str) -> None:
        """Read hosts on the collector, those that name no worker; the others are an error."""
        own = [host for host in hosts if host.worker is None and host.name not in self._own.hosts]
        if own and self._config.dask_fallback:
            self._say(f"{reason}: {count(len(own), 'host')} are read by the collector itself")
            self._own.start(own, reason)
        for host in hosts:
            if host.name not in self._own.hosts:
                message = self._reasons.get(host.name, reason)
                self._fail([host], Status.ERROR, f"no worker: {message}")

    def _end_unresponsive(self) -> None:
        """Dask would wait for workers that are gone, and minutes for those that hang."""
        assert self._cluster
        there = {one.address for one in self._cluster.workers}
        limit = time.monotonic() - min(NO_SIGN_S, self._config.deadline / 4)
        for flight in list(self._flights.values()):
            is_gone = flight.worker.address not in there
            if not is_gone and flight.heard > limit:
                continue
            if not is_gone:
                self._cluster.hung.add(flight.worker.address)
            how = "is gone" if is_gone else "does not answer"
            self._report_once(f"the Dask worker {flight.worker.name} {how}: others read its hosts")
            self._take_back(flight)

    def _take_back(self, flight: _Flight) -> None:
        for task, other in list(self._flights.items()):
            if other is flight:
                del self._flights[task]
                task.cancel()
        self._wait(flight.need, flight.hosts)

    def _report_once(self, line: str) -> None:
        if line not in self._reported:
            self._reported.add(line)
            self._say(line)

    # Hosts to workers

    def _wait(self, need: _Need, hosts: Iterable[HostConfig]) -> None:
        if left := [host for host in hosts if host.name not in self._done]:
            self._waiting.setdefault(need, []).extend(left)
            self._waiting_since.setdefault(need, time.monotonic())

    def _able(self, need: _Need) -> list[DaskWorker]:
        assert self._cluster
        return [one for one in self._cluster.able(need.label) if one.address not in need.barred]

    def _deal(self) -> None:
        patience = min(NO_WORKER_S, self._config.deadline / 4)
        # Those that only some workers may ask come first: the others find a place anywhere.
        for need in sorted(self._waiting, key=lambda need: need.label is None):
            hosts = self._waiting[need]
            if able := self._able(need):
                shares = max(len(able), -(-len(hosts) // MOST_IN_SHARD))
                self._ready += [(need, share) for share in deal(hosts, shares, by_jump_host=False)]
            elif not need.barred and time.monotonic() < self._waiting_since[need] + patience:
                # One may come yet; after one that could not, no other is waited for.
                continue
            else:
                wanted = f' has the resource "{need.label}"' if need.label else " is there"
                self._do_without(hosts, f"no Dask worker with {PACKAGE} {our_version()}{wanted}")
            del self._waiting[need], self._waiting_since[need]

    def _submit(self) -> None:
        """No more at once than the workers have threads for: the time in a queue is lost to the hosts."""
        for need, hosts in list(self._ready):
            able = self._able(need)
            loads = {one.address: 0 for one in able}
            for flight in self._flights.values():
                if flight.worker.address in loads:
                    loads[flight.worker.address] += 1
            idle = [one for one in able if loads[one.address] < one.threads]
            if not able:
                self._wait(need, hosts)
            elif not idle:
                continue
            else:
                self._start(need, hosts, min(idle, key=lambda one: loads[one.address] / one.threads))
            self._ready.remove((need, hosts))

    def _start(self, need: _Need, hosts: Sequence[HostConfig], worker: DaskWorker) -> None:
        assert self._cluster
        left = max(0.1, self._end - LANDING_S - time.monotonic())
        mark = f"{self._mark}-{len(self._by_mark)}"
        content = dask_task.pack(self._factory, hosts, self._config, left, mark)
        future = self._cluster.client.submit(
            dask_task.read_shard, content, pure=False, workers=[worker.address]
        )
        flight = _Flight(need, hosts, worker, time.monotonic())
        self._by_mark[mark] = flight
        self._flights[asyncio.create_task(_result(future))] = flight

    # What comes back

    def _take(self, event: tuple[float, Any]) -> None:
        """A sign of life of a shard, or a reading."""
        mark, content = event[1]
        if flight := self._by_mark.get(mark):
            flight.heard = time.monotonic()
            if content:
                self._finish(dask_task.unpack(content))

    async def _hear(self, seconds: float) -> None:
        if not self._flights:
            await self._own.wait(seconds)
            return
        done, _ = await asyncio.wait(self._flights, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if task in self._flights:
                self._land(self._flights.pop(task), task)

    def _land(self, flight: _Flight, task: asyncio.Task[Any]) -> None:
        error = task.exception()
        answer = None if error else task.result()
        if isinstance(error, CancelledError):
            # Somebody cancelled it, or the scheduler is gone, which is noticed elsewhere.
            self._wait(flight.need, flight.hosts)
            return
        if isinstance(answer, dask_task.ShardReadings):
            for note in answer.notes:
                self._on_note(*note)
            for reading in answer.readings:
                self._finish(reading)
            on_worker = f"on the Dask worker {flight.worker.name}"
            refused = {name: f"{on_worker}: {why}" for name, why in answer.refused.items()}
        elif isinstance(answer, str):
            refused = {host.name: answer for host in flight.hosts}
        else:
            reason = one_line(f"{type(error).__name__}: {error}") or ""
            refused = {host.name: f"the Dask cluster failed: {reason}" for host in flight.hosts}
        self._reasons |= refused
        barred = flight.need.barred | {flight.worker.address}
        self._wait(replace(flight.need, barred=barred), (h for h in flight.hosts if h.name in refused))

    def _fail(self, hosts: Iterable[HostConfig], status: Status, message: str) -> None:
        for host in hosts:
            if host.name not in self._done:
                self._finish(gate.failure(host.name, self._factory.clock(), status, message))

    def _finish(self, reading: HostReading) -> None:
        """The first word about a host counts."""
        if reading.host not in self._done:
            self._done[reading.host] = replace(reading, fetched_at=self._factory.clock())
            self._on_reading(self._done[reading.host])


async def _result(future: Future[Any]) -> Any:
    try:
        return await future
    finally:
        # Where nobody waits any more, the worker notices and stops.
        with suppress(Exception):
            future.release()
