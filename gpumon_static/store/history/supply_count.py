"""How many GPUs of a model were free at once, counted run by run.

A run says how each model stands, in all hosts together and in each group; it stands for the time until the
next run, as a sample does (record.py). Rows are by model and group, whatever the number of GPUs. A GPU that
is cut into slices counts as one, in the state of the whole card: free only if all its slices are.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from gpumon_static.store.history.database import SLURM_SUPPLY_SUMS, SUPPLY_MAXES, SUPPLY_SUMS
from gpumon_static.store.history.observed import BUSY, FREE, HELD
from gpumon_static.store.history.rollups import (
    LATE,
    SLURM_SUPPLY_ROLLUP,
    SUPPLY_ROLLUP,
    SumRow,
    add_rows,
    by_hours,
    stands_until,
)

ALL_HOSTS = 0
"""In the place of a group."""
SIZES = (2, 4, 8)
"""GPUs free on one host: what people wait for."""

Stock = Mapping[tuple[int, int, int], int]
"""Host, model and state to the number of whole GPUs."""
TOLD, ALLOCATED, IDLE = range(3)
"""Of GPUs that Slurm manages: those it reports on; of these, what jobs have; of these, what is held idle."""
Given = Mapping[tuple[int, int, int], int]
"""Host, model and one of these to the number of whole GPUs."""
_Key = tuple[int, int]
"""Model and group."""


class SupplyNaming(NamedTuple):
    """What supply is counted by; the config and the survey decide it."""

    groups: Mapping[str, str]
    """Of hosts by their names; empty for none."""
    short: Callable[[str], str]
    """A model's name to what people call it: those with the same name count together."""


class RunCounts(NamedTuple):
    """A model at one run, as supply_last has it after its keys and time."""

    gpus: int
    host_gpus: int
    """Most GPUs of it in one host."""
    free: int
    busy: int
    held: int
    most_free: int
    """On one host."""
    told: int = 0
    """That Slurm reports on, as the next two."""
    allocated: int = 0
    idle: int = 0

    @property
    def is_judged(self) -> bool:
        """Whether enough is known to say that none is free: half of the GPUs at least."""
        return 2 * (self.free + self.busy + self.held) >= self.gpus


class SupplyCount:
    """The time of one run or of many, in memory until it is saved."""

    def __init__(self, connection: sqlite3.Connection, naming: SupplyNaming) -> None:
        self._connection = connection
        self._naming = naming
        self._groups: dict[str, int] = dict(connection.execute("SELECT name, id FROM host_groups"))
        models = connection.execute("SELECT model, name, counted_as FROM supply_models").fetchall()
        self._counted_as: dict[int, int] = {model: first for model, _, first in models}
        self._models: dict[str, int] = {name: first for _, name, first in models}
        self._rows: dict[tuple[int, int, int], SumRow] = {}
        self._slurm_rows: dict[tuple[int, int, int], SumRow] = {}
        self._last: dict[_Key, RunCounts] = {}
        self._at = 0
        for model, group, at, *counts in connection.execute("SELECT * FROM supply_last"):
            self._at, self._last[model, group] = at, RunCounts(*counts)

    def add_run(self, at: int, stock: Stock, interval_s: int, given: Given | None = None) -> None:
        end = stands_until(self._at, at, interval_s)
        for hour, seconds in by_hours(self._at, end) if self._last else ():
            for key, counts in self._last.items():
                self._add(hour, key, counts, seconds)
        self._at, self._last = at, dict(self._counts(stock, given or {}))

    def save(self) -> None:
        add_rows(self._connection, SUPPLY_ROLLUP, self._rows.values())
        add_rows(self._connection, SLURM_SUPPLY_ROLLUP, self._slurm_rows.values())
        self._rows, self._slurm_rows = {}, {}
        self._connection.execute("DELETE FROM supply_last")
        last = [(*key, self._at, *counts) for key, counts in self._last.items()]
        marks = ", ".join("?" for _ in ("model", "host_group", "at", *RunCounts._fields))
        self._connection.executemany(f"INSERT INTO supply_last VALUES ({marks})", last)  # noqa: S608

    def _add(self, hour: int, key: _Key, counts: RunCounts, seconds: int) -> None:
        row = self._rows.get((hour, *key))
        if row is None:
            row = self._rows[hour, *key] = [hour, *key, *(0 for _ in SUPPLY_SUMS), *(0 for _ in SUPPLY_MAXES)]
        gpus, host_gpus, free, busy, held, most_free, *slurm = counts
        judged = seconds if counts.is_judged else 0
        sums = [seconds, judged, judged if not free else 0]
        sums += [judged if most_free >= size else 0 for size in SIZES]
        sums += [seconds * number for number in (free, busy, held, gpus - free - busy - held)]
        for column, value in enumerate(sums, start=3):
            row[column] += value
        row[-2:] = max(row[-2], gpus), max(row[-1], host_gpus)
        if counts.told:
            none = [hour, *key, *(0 for _ in SLURM_SUPPLY_SUMS)]
            row = self._slurm_rows.setdefault((hour, *key), none)
            for column, number in enumerate(slurm, start=3):
                row[column] += seconds * number

    def _counts(self, stock: Stock, given: Given) -> Iterator[tuple[_Key, RunCounts]]:
        groups = {host: self._group(host) for host in {host for host, _, _ in stock}}
        by_host: dict[_Key, dict[int, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
        for (host, model, state), number in stock.items():
            for group in (ALL_HOSTS, groups[host]):
                by_host[self._model(model), group][host][state] += number
        slurm: dict[_Key, Counter[int]] = defaultdict(Counter)
        for (host, model, kind), number in given.items():
            for group in (ALL_HOSTS, groups[host]):
                slurm[self._model(model), group][kind] += number
        for key, hosts in by_host.items():
            yield key, _run_counts(list(hosts.values()), slurm[key])

    def _group(self, host: int) -> int:
        (name,) = self._connection.execute("SELECT name FROM hosts WHERE id = ?", (host,)).fetchone()
        group = self._naming.groups.get(name, "")
        if group not in self._groups:
            added = self._connection.execute("INSERT INTO host_groups (name) VALUES (?)", (group,))
            assert added.lastrowid is not None
            self._groups[group] = added.lastrowid
        return self._groups[group]

    def _model(self, model: int) -> int:
        """The number that this model's GPUs are counted under."""
        if model not in self._counted_as:
            (full,) = self._connection.execute("SELECT name FROM models WHERE id = ?", (model,)).fetchone()
            name = self._naming.short(full)
            first = self._models.setdefault(name, model)
            self._connection.execute("INSERT INTO supply_models VALUES (?, ?, ?)", (model, name, first))
            self._counted_as[model] = first
        return self._counted_as[model]


def _run_counts(hosts: list[Counter[int]], slurm: Counter[int]) -> RunCounts:
    """`hosts`: of each host the number of GPUs by state."""
    free, busy, held = (sum(host[state] for host in hosts) for state in (FREE, BUSY, HELD))
    sizes = [host.total() for host in hosts]
    most_free = max(host[FREE] for host in hosts)
    given = (slurm[kind] for kind in (TOLD, ALLOCATED, IDLE))
    return RunCounts(sum(sizes), max(sizes), free, busy, held, most_free, *given)


def open_supply(connection: sqlite3.Connection, naming: SupplyNaming, interval_s: int) -> SupplyCount:
    """Where nothing is counted yet, as after an update, the runs whose samples are kept are counted first."""
    supply = SupplyCount(connection, naming)
    (is_new,) = connection.execute(
        "SELECT NOT EXISTS (SELECT 1 FROM supply_last) AND NOT EXISTS (SELECT 1 FROM supply_hours)"
    ).fetchone()
    if is_new:
        for at, stock in _kept_runs(connection, interval_s):
            supply.add_run(at, stock, interval_s)
    return supply


def _kept_runs(connection: sqlite3.Connection, interval_s: int) -> Iterator[tuple[int, Stock]]:
    """The runs whose samples are kept. A host that was not asked counts as it was, until that is stale."""
    hosts: dict[int, tuple[int, Counter[tuple[int, int, int]]]] = {}
    before = 0
    for (at,) in connection.execute("SELECT at FROM runs ORDER BY at").fetchall():
        oldest = int(at - LATE * interval_s)
        seen: dict[int, Counter[tuple[int, int, int]]] = defaultdict(Counter)
        # Imported samples have no run: of each GPU only the newest since the last run counts.
        rows = connection.execute(
            "SELECT host, model, state, count(*) FROM (SELECT gpu, state, max(at) FROM samples"
            " WHERE at > ? AND at <= ? GROUP BY gpu) JOIN gpus ON gpus.id = gpu WHERE slice IS NULL"
            " GROUP BY host, model, state",
            (max(before, oldest), at),
        )
        for host, model, state, number in rows:
            seen[host][host, model, state] += number
        hosts |= {host: (at, counted) for host, counted in seen.items()}
        hosts = {host: entry for host, entry in hosts.items() if entry[0] >= oldest}
        stock: Counter[tuple[int, int, int]] = Counter()
        for _, counted in hosts.values():
            stock.update(counted)
        yield at, stock
        before = at
