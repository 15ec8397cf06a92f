"""The running account of each GPU: samples in, counted time and changes of state out.

`latest` has one row per GPU with the last sample and what is counted so far. A ledger reads those rows, takes
the samples of a run (or of an import, many at once) and writes everything back in `save`.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass, fields
from operator import attrgetter

from gpumon_static.store.history.machines import MachineCount
from gpumon_static.store.history.names import KnownGpu, Names
from gpumon_static.store.history.observed import (
    DOWN,
    FREE,
    HELD,
    MISSED,
    TAKEN,
    UNKNOWN,
    MachineValues,
    Observed,
)
from gpumon_static.store.history.rollups import HOUR, LATE, Tally, Use, save, stands_until
from gpumon_static.store.history.supply_count import ALLOCATED, IDLE, TOLD, SupplyNaming, open_supply
from gpumon_static.store.slurm.allocated import AllocatedCount

BRIDGE_S = HOUR
"""Who is seen in the same state before and after a pause of this length was so all the time."""
MOST_POOLS = 10_000


@dataclass(slots=True)
class Latest:
    """A row of `latest`, with its columns in order."""

    gpu: int
    present: int
    at: int
    state: int
    crew: int | None
    utilization: int | None
    weight: float
    counted_to: int
    known_at: int
    """The last time the host answered; the rest is how it was then."""
    known_state: int
    known_crew: int | None
    since: int
    """In this state."""
    taken_since: int | None
    """By these users, busy or not."""
    memory: int | None = None
    memory_total: int | None = None
    temperature: int | None = None
    power: int | None = None


_COLUMNS = [f.name for f in fields(Latest)]
_values = attrgetter(*_COLUMNS)


class Ledger:
    def __init__(
        self,
        connection: sqlite3.Connection,
        names: Names,
        interval_s: int,
        *,
        raw_from: int = 0,
        latest: dict[int, Latest] | None = None,
        naming: SupplyNaming | None = None,
    ) -> None:
        """`raw_from`: of older samples only the sums are kept. `latest`: instead of what the database has.

        `naming`: for the supply, which is counted in whole runs; an import has none, nor what Slurm reports.
        """
        self.names = names
        self.tally = Tally()
        self.latest = read_latest(connection) if latest is None else latest
        self.interval_s = interval_s
        self._raw_from = raw_from
        self._connection = connection
        self._present: dict[int, set[int]] = defaultdict(set)
        for row in self.latest.values():
            if row.present:
                self._present[names.by_id[row.gpu].host].add(row.gpu)
        self._seen: set[int] = set()
        self._shared: Container[str] = ()
        self._touched: set[int] = set()
        self._samples: list[tuple[object, ...]] = []
        self._spans: list[tuple[object, ...]] = []
        self._pools: dict[tuple[int, int, int], list[int]] = {}
        self._pool_rows: list[tuple[int, ...]] = []
        self._hosts: list[dict[str, int | None]] = []
        self._runs: list[tuple[int]] = []
        self._asked: set[int] = set()
        """The hosts of this run."""
        self._given: dict[int, bool] = {}
        """The GPUs of this run on which Slurm reports: whether a job has it."""
        self._machines = MachineCount(connection)
        self._supply = open_supply(connection, naming, interval_s) if naming else None
        self._allocated = AllocatedCount(connection, interval_s) if naming else None

    def host_of_all(self, uuids: set[str]) -> str | None:
        """The one host that had just these GPUs when it was last seen."""
        if not uuids <= self.names.gpus.keys():
            return None
        hosts = {self.names.gpus[uuid].host for uuid in uuids}
        host = hosts.pop()
        there = (self.names.by_id[gpu] for gpu in self._present[host])
        had = {gpu.key for gpu in there if gpu.slice is None}
        return self.names.host_name(host) if not hosts and had == uuids else None

    def next_run(self, at: int, shared: Container[str] = ()) -> None:
        """`shared`: UUIDs that more than one GPU of this run has."""
        self._shared = shared
        self._seen.clear()
        self._asked.clear()
        self._given.clear()
        self._runs.append((at,))

    def close_run(self, at: int) -> None:
        """Count what is free at once. A GPU whose last sample is stale, as after `--only`, is unknown."""
        if self._supply is None:
            return
        oldest = at - LATE * self.interval_s
        stock: Counter[tuple[int, int, int]] = Counter()
        given: Counter[tuple[int, int, int]] = Counter()
        for host in self._asked:
            for number in self._present[host]:
                gpu, row = self.names.by_id[number], self.latest[number]
                if gpu.slice is not None or gpu.host != host:
                    continue
                stock[host, gpu.model, row.state if row.at >= oldest else UNKNOWN] += 1
                if row.at >= oldest and row.state != DOWN and number in self._given:
                    is_given = self._given[number]
                    given[host, gpu.model, TOLD] += 1
                    given[host, gpu.model, ALLOCATED] += is_given
                    given[host, gpu.model, IDLE] += is_given and row.state == HELD
        self._supply.add_run(at, stock, self.interval_s, given)

    def add_host(
        self, host: str, at: int, seen: Iterable[Observed], machine: MachineValues | None = None
    ) -> None:
        host_id = self.names.host(host)
        self._asked.add(host_id)
        self._add_machine(host_id, at, machine or MachineValues())
        present = self._present[host_id]
        for observed in seen:
            gpu = self.names.gpu(host, observed, at, self._seen, self._shared)
            self._seen.add(gpu.id)
            present.add(gpu.id)
            if observed.is_told:
                self._given[gpu.id] = observed.allocated_to is not None
            self.add(gpu, at, observed)
        for number in self._missing(host_id):
            self.latest[number].present = 0
            present.remove(number)
            self._touched.add(number)
        self._hosts.append({"up": at, "down": None, "host": host_id})

    def add_failure(self, host: str, at: int) -> None:
        """Nothing is known of its GPUs from now on; they are still thought to be there."""
        host_id = self.names.host(host)
        self._asked.add(host_id)
        self._hosts.append({"up": None, "down": at, "host": host_id})
        self._add_machine(host_id, at, None)
        for number in self._missing(host_id):
            row = self.latest[number]
            if at > row.at:
                self.count(self.names.by_id[number], row, at)
                if self._allocated:
                    self._allocated.add(number, at, None)
                self._change(row, at, DOWN, None)
                self._samples.append((at, number, DOWN, *[None] * 5))
                row.utilization = None

    def _add_machine(self, host: int, at: int, values: MachineValues | None) -> None:
        self._machines.add(host, at, values, self.interval_s, raw=at >= self._raw_from)

    def add(self, gpu: KnownGpu, at: int, seen: Observed) -> bool:
        """False: that time has been counted already."""
        row = self.latest.get(gpu.id)
        if row and at <= row.at:
            return False
        crew = self.names.crew(seen.users)
        self.tally.add_values(gpu.id, at, seen.values)
        if row is None:
            row = Latest(gpu.id, 1, at, MISSED, None, None, 0, at, at, MISSED, None, at, None)
            self.latest[gpu.id] = row
        else:
            self.count(gpu, row, at)
        self._change(row, at, seen.state, crew)
        self._remember(row, at, seen, crew)
        if at >= self._raw_from:
            self._samples.append((at, gpu.id, seen.state, crew, *seen.values))
        self._add_to_pool(gpu, at, seen)
        if self._allocated:
            owner = self._owner(seen.allocated_to)
            self._allocated.add(gpu.id, at, owner, is_idle=seen.state == HELD)
        return True

    def _owner(self, name: str | None) -> int | None:
        return None if name is None else self.names.members(self.names.crew((name,)))[0]

    def count(self, gpu: KnownGpu, row: Latest, at: int) -> None:
        """The time since the last sample, as far as that stands for it."""
        if row.state == MISSED:
            return
        end = stands_until(row.at, at, self.interval_s)
        use = Use(row.state, self.names.members(row.crew), row.utilization, row.weight)
        self.tally.add_time(gpu, row.at if row.at > row.counted_to else row.counted_to, end, use)
        if end > row.counted_to:
            row.counted_to = end
        if end < at:
            self._change(row, end, MISSED, None)

    def save(self, leave_out: Iterable[int] = ()) -> None:
        """`leave_out`: GPUs whose latest row stays as the database has it."""
        self._close_pools()
        run = self._connection.executemany
        run("INSERT OR IGNORE INTO runs VALUES (?)", self._runs)
        run("INSERT OR IGNORE INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self._samples)
        run("INSERT OR REPLACE INTO spans VALUES (?, ?, ?, ?)", self._spans)
        write_latest(self._connection, (self.latest[gpu] for gpu in self._touched.difference(leave_out)))
        run("INSERT OR IGNORE INTO pool_runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", self._pool_rows)
        run(
            "UPDATE hosts SET answered_at = coalesce(max(answered_at, :up), :up, answered_at), down_since ="
            " CASE WHEN :down IS NULL THEN NULL ELSE coalesce(down_since, :down) END WHERE id = :host",
            self._hosts,
        )
        save(self._connection, self.tally)
        self._machines.save()
        if self._supply is not None:
            self._supply.save()
        if self._allocated:
            self._allocated.save()

    def _missing(self, host: int) -> list[int]:
        """What was there, is not now, and was not found elsewhere."""
        gone = self._present[host] - self._seen
        return [number for number in gone if self.names.by_id[number].host == host]

    def _change(self, row: Latest, at: int, state: int, crew: int | None) -> None:
        if (state, crew) != (row.state, row.crew) and at >= self._raw_from:
            self._spans.append((row.gpu, at, state, crew))
        row.at, row.state, row.crew = at, state, crew
        self._touched.add(row.gpu)

    def _remember(self, row: Latest, at: int, seen: Observed, crew: int | None) -> None:
        pause = at - row.known_at
        bridged = pause <= BRIDGE_S or pause <= LATE * self.interval_s
        if not (bridged and seen.state == row.known_state):
            row.since = at
        if seen.state not in TAKEN:
            row.taken_since = None
        elif not (bridged and row.taken_since is not None and crew == row.known_crew):
            row.taken_since = at
        row.present, row.weight = 1, seen.weight
        row.known_at, row.known_state, row.known_crew = at, seen.state, crew
        row.utilization, row.memory, row.temperature, row.power = seen.values
        row.memory_total = seen.memory_total

    def _add_to_pool(self, gpu: KnownGpu, at: int, seen: Observed) -> None:
        key = at, gpu.host, gpu.model
        counted = self._pools.get(key)
        if counted is None:
            if len(self._pools) >= MOST_POOLS:
                self._close_pools()
            counted = self._pools[key] = [0] * 7
        utilization, memory, _, _ = seen.values
        counted[0] += 1
        if seen.state == FREE:
            counted[1] += 1
        elif seen.state in TAKEN:
            counted[2] += 1
        if utilization is not None:
            counted[3] += 1
            counted[4] += utilization
        if memory is not None and seen.memory_total is not None:
            counted[5] += memory
            counted[6] += seen.memory_total

    def _close_pools(self) -> None:
        for (at, host, model), counted in self._pools.items():
            gpus, _free, _taken, *sums = counted
            self.tally.add_pool(at, host, model, gpus, sums)
            if at >= self._raw_from:
                self._pool_rows.append((at, host, model, *counted))
        self._pools.clear()


def read_latest(connection: sqlite3.Connection) -> dict[int, Latest]:
    return {row[0]: Latest(*row) for row in connection.execute("SELECT * FROM latest")}


def write_latest(connection: sqlite3.Connection, rows: Iterable[Latest]) -> None:
    marks = ", ".join("?" for _ in _COLUMNS)
    connection.executemany(f"INSERT OR REPLACE INTO latest VALUES ({marks})", map(_values, rows))  # noqa: S608
