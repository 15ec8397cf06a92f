"""Sums over hours and days, made while samples are added: no question has to go through the samples.

Tally     what one run (or an import) adds, in memory
save      Tally to the tables; what is already there is added to
prune     what is older than the config wants it
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from gpumon_static.store.history.database import (
    ALLOCATED_SUMS,
    GPU_MAXES,
    GPU_SUMS,
    MACHINE_MAXES,
    MACHINE_SUMS,
    POOL_MAXES,
    POOL_SUMS,
    SLURM_SUPPLY_SUMS,
    SUPPLY_MAXES,
    SUPPLY_SUMS,
    USER_SUMS,
)
from gpumon_static.store.history.names import KnownGpu
from gpumon_static.store.history.observed import BUSY, FREE, TAKEN, Values

HOUR, DAY = 3600, 86400

LEAST_BITE = 50_000
"""Rows of a table that one run may delete, whatever the number of GPUs: some tenths of a second."""
GROWTH = 4
"""For each GPU and slice that is known: more than a run adds to any table."""

LATE = 1.5
"""Times the usual interval: a run that comes later than that was missed, and what was before is stale."""


class Rollup(NamedTuple):
    """A pair of tables, NAME_hours and NAME_days: its columns after the hour or day."""

    name: str
    keys: tuple[str, ...]
    sums: Sequence[str]
    maxes: Sequence[str]


GPU_ROLLUP = Rollup("gpu", ("gpu",), GPU_SUMS, GPU_MAXES)
USER_ROLLUP = Rollup("user", ("user", "gpu"), USER_SUMS, ())
POOL_ROLLUP = Rollup("pool", ("host", "model"), POOL_SUMS, POOL_MAXES)
SUPPLY_ROLLUP = Rollup("supply", ("model", "host_group"), SUPPLY_SUMS, SUPPLY_MAXES)
MACHINE_ROLLUP = Rollup("machine", ("host",), MACHINE_SUMS, MACHINE_MAXES)
ALLOCATED_ROLLUP = Rollup("allocated", ("user", "gpu"), ALLOCATED_SUMS, ())
SLURM_SUPPLY_ROLLUP = Rollup("slurm_supply", ("model", "host_group"), SLURM_SUPPLY_SUMS, ())
ROLLUPS = (
    *(GPU_ROLLUP, USER_ROLLUP, POOL_ROLLUP, SUPPLY_ROLLUP, MACHINE_ROLLUP),
    *(ALLOCATED_ROLLUP, SLURM_SUPPLY_ROLLUP),
)

SumRow = list[Any]
"""Keys, sums, then largest values, in the order of the table's columns."""


class Use(NamedTuple):
    """What a sample says about the time until the next one."""

    state: int
    users: tuple[int, ...]
    utilization: int | None
    weight: float
    """1 for a GPU; for a slice its share of the card, so that slices of a card add up to one."""


_NO_SECONDS = (0,) * 5
_NO_VALUES = Values()
_FIRST_STATE_COLUMN = 2 + GPU_SUMS.index("free_s")
_FIRST_MAX_COLUMN = 2 + len(GPU_SUMS)
_EMPTY_POOL: tuple[int | None, ...] = (*(0 for _ in POOL_SUMS), *(None for _ in POOL_MAXES))
_POOL_COLUMN = {FREE: 3 + POOL_SUMS.index("free_s")} | dict.fromkeys(TAKEN, 3 + POOL_SUMS.index("taken_s"))


class Tally:
    """Rows of the tables by the hour, by their keys."""

    def __init__(self) -> None:
        self.gpus: dict[tuple[int, int], SumRow] = {}
        self.users: dict[tuple[int, int, int], SumRow] = {}
        self.pools: dict[tuple[int, int, int], SumRow] = {}

    def add_values(self, gpu: int, at: int, values: Values) -> None:
        """A sample counts in the hour in which it was taken."""
        key = at // HOUR, gpu
        row = self.gpus.get(key)
        if row is None:
            self.gpus[key] = _gpu_row(key, values)
            return
        for number, value in enumerate(values):
            if value is not None:
                row[2 + 2 * number] += 1
                row[3 + 2 * number] += value
                top = _FIRST_MAX_COLUMN + number
                row[top] = value if row[top] is None else max(row[top], value)

    def add_pool(self, at: int, host: int, model: int, gpus: int, sums: Sequence[int]) -> None:
        """`sums`: utilization_n, utilization_sum, memory_sum and memory_total of one run."""
        row = self._pool(at // HOUR, host, model)
        for number, value in enumerate(sums, start=3):
            row[number] += value
        row[-1] = gpus if row[-1] is None else max(row[-1], gpus)

    def add_time(self, gpu: KnownGpu, start: int, end: int, use: Use) -> None:
        """A shared GPU's time is split evenly among its users."""
        while start < end:
            hour = start // HOUR
            border = (hour + 1) * HOUR
            seconds = (border if border < end else end) - start
            start = border
            key = hour, gpu.id
            row = self.gpus.get(key)
            if row is None:
                row = self.gpus[key] = _gpu_row(key, _NO_VALUES)
            row[_FIRST_STATE_COLUMN + use.state] += seconds
            column = _POOL_COLUMN.get(use.state)
            if column is not None:
                self._pool(hour, gpu.host, gpu.model)[column] += seconds
            if use.users:
                self._add_users(hour, gpu.id, seconds, use)

    def _add_users(self, hour: int, gpu: int, seconds: int, use: Use) -> None:
        share = seconds * use.weight / len(use.users)
        busy, held = (share, 0.0) if use.state == BUSY else (0.0, share)
        measured = 0.0 if use.utilization is None else share
        worked = measured * (use.utilization or 0)
        for user in use.users:
            key = hour, user, gpu
            row = self.users.get(key)
            if row is None:
                self.users[key] = [hour, user, gpu, busy, held, worked, measured]
                continue
            for column, value in enumerate((busy, held, worked, measured), start=3):
                row[column] += value

    def _pool(self, hour: int, host: int, model: int) -> SumRow:
        key = hour, host, model
        row = self.pools.get(key)
        if row is None:
            row = self.pools[key] = [*key, *_EMPTY_POOL]
        return row


def _gpu_row(key: tuple[int, int], values: Values) -> SumRow:
    """The first sample of an hour, or none of it yet: what is largest so far is what was seen."""
    sums: list[int] = []
    for value in values:
        sums += (0, 0) if value is None else (1, value)
    return [*key, *sums, *_NO_SECONDS, *values]


def stands_until(at: int, following: int, interval_s: int) -> int:
    """The end of the time that a sample or run stands for, given the one that follows."""
    return following if following - at <= LATE * interval_s else at + interval_s


def by_hours(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Each hour of that time, and the seconds in it."""
    while start < end:
        hour = start // HOUR
        border = min(end, (hour + 1) * HOUR)
        yield hour, border - start
        start = border


def save(connection: sqlite3.Connection, tally: Tally) -> None:
    add_rows(connection, GPU_ROLLUP, tally.gpus.values())
    add_rows(connection, USER_ROLLUP, tally.users.values())
    add_rows(connection, POOL_ROLLUP, tally.pools.values())


def add_rows(connection: sqlite3.Connection, rollup: Rollup, rows: Collection[SumRow]) -> None:
    """The same rows twice: the hour of each is turned into its day by SQLite."""
    for unit, first in (("hour", "?"), ("day", "? / 24")):
        table = f"{rollup.name}_{unit}s"
        statement = upsert(table, [unit, *rollup.keys], rollup.sums, rollup.maxes, first)
        connection.executemany(statement, rows)


def upsert(
    table: str, keys: Sequence[str], sums: Sequence[str], maxes: Sequence[str], first: str = "?"
) -> str:
    marks = ", ".join([first, *("?" for _ in (*keys[1:], *sums, *maxes))])
    return f"INSERT INTO {table} VALUES ({marks}) {on_conflict(keys, sums, maxes)}"  # noqa: S608 (our own names)


def on_conflict(keys: Sequence[str], sums: Sequence[str], maxes: Sequence[str]) -> str:
    # max() of SQLite is NULL where one of the two is.
    added = [f"{name} = {name} + excluded.{name}" for name in sums]
    added += [f"{name} = coalesce(max({name}, excluded.{name}), {name}, excluded.{name})" for name in maxes]
    return f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {', '.join(added)}"


def prune(
    connection: sqlite3.Connection,
    now: int,
    *,
    raw_days: int,
    hours_days: int,
    days_days: int,
    events_days: int = 365,
    most: int = LEAST_BITE,
) -> None:
    """The oldest rows first, and at most `most` of each table: the rest goes with the next runs."""
    # With fewer than a run adds, a large site's tables would grow for ever.
    most = max(most, GROWTH * connection.execute("SELECT count(*) FROM latest").fetchone()[0])
    raw = now - raw_days * DAY
    raw_tables = {
        "samples": "at, gpu",
        "pool_runs": "at, host, model",
        "machine_runs": "at, host",
        "runs": "at",
    }
    for table, keys in raw_tables.items():
        _delete_oldest(connection, table, keys, raw, most)
    connection.execute("DELETE FROM events WHERE at < ?", (now - events_days * DAY,))
    # The span that reaches over the border says how things stood there.
    connection.execute(
        "DELETE FROM spans WHERE (gpu, at) IN (SELECT gpu, at FROM spans AS old WHERE at < :raw AND EXISTS"
        " (SELECT 1 FROM spans AS later WHERE later.gpu = old.gpu AND later.at > old.at AND later.at <= :raw)"
        " ORDER BY at LIMIT :most)",
        {"raw": raw, "most": most},
    )
    for unit, oldest in (("hour", (now - hours_days * DAY) // HOUR), ("day", (now - days_days * DAY) // DAY)):
        for rollup in ROLLUPS:
            keys = ", ".join((unit, *rollup.keys))
            _delete_oldest(connection, f"{rollup.name}_{unit}s", keys, oldest, most)


def _delete_oldest(connection: sqlite3.Connection, table: str, keys: str, before: int, most: int) -> None:
    """Cheap: each table is in the order of time, so that what goes is a piece at its beginning."""
    unit = keys.partition(",")[0]
    # The tables have no rowid and SQLite's DELETE no LIMIT: up to the first row that stays.
    first_kept = connection.execute(
        f"SELECT {keys} FROM {table} WHERE {unit} < ? ORDER BY {keys} LIMIT 1 OFFSET ?",  # noqa: S608
        (before, most),
    ).fetchone()
    if first_kept is None:
        connection.execute(f"DELETE FROM {table} WHERE {unit} < ?", (before,))  # noqa: S608
    else:
        marks = ", ".join("?" for _ in first_kept)
        connection.execute(f"DELETE FROM {table} WHERE ({keys}) < ({marks})", first_kept)  # noqa: S608


def forget_from(connection: sqlite3.Connection, hour: int) -> None:
    """Everything from that hour on, as if it had never been; the day it cuts is summed up anew."""
    at, day = hour * HOUR, hour * HOUR // DAY
    for table in ("samples", "spans", "pool_runs", "machine_runs", "events", "runs"):
        connection.execute(f"DELETE FROM {table} WHERE at >= ?", (at,))  # noqa: S608
    # The next run has nothing to continue from: the time up to it is unknown.
    for table in ("supply_last", "machine_last", "allocated_last"):
        connection.execute(f"DELETE FROM {table} WHERE at >= ?", (at,))  # noqa: S608
    for rollup in ROLLUPS:
        connection.execute(f"DELETE FROM {rollup.name}_hours WHERE hour >= ?", (hour,))  # noqa: S608
        sum_up_days(connection, rollup, day)


def sum_up_days(connection: sqlite3.Connection, rollup: Rollup, first: int) -> None:
    """The days from the first one on, anew from their hours."""
    name, keys, sums, maxes = rollup
    by = ", ".join(keys)
    columns = ", ".join([f"sum({c})" for c in sums] + [f"max({c})" for c in maxes])
    connection.execute(f"DELETE FROM {name}_days WHERE day >= ?", (first,))  # noqa: S608
    connection.execute(
        f"INSERT INTO {name}_days SELECT hour / 24, {by}, {columns} FROM {name}_hours"  # noqa: S608
        f" WHERE hour >= ? GROUP BY hour / 24, {by}",
        (first * 24,),
    )
