"""Sums over hours and days, made while samples are added: no question has to go through the samples.

Tally     what one run (or an import) adds, in memory
save      Tally to the tables; what is already there is added to
prune     what is older than the config wants it
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from operator import add
from typing import Any, NamedTuple

from gpumon_static.store.history.database import GPU_MAXES, GPU_SUMS, POOL_MAXES, POOL_SUMS, USER_SUMS
from gpumon_static.store.history.observed import BUSY, FREE, TAKEN, Values

HOUR, DAY = 3600, 86400

Number = int | float
SumRow = list[Any]
"""Sums, then largest values, in the order of the table's columns."""


class Account(NamedTuple):
    """The numbers under which a GPU's time is summed up."""

    gpu: int
    host: int
    model: int


class Use(NamedTuple):
    """What a sample says about the time until the next one."""

    state: int
    users: tuple[int, ...]
    utilization: int | None
    weight: float
    """1 for a GPU; for a slice its share of the card, so that slices of a card add up to one."""


_FIRST_STATE_COLUMN = GPU_SUMS.index("free_s")
_EMPTY_GPU: tuple[Number | None, ...] = (*(0 for _ in GPU_SUMS), *(None for _ in GPU_MAXES))
_EMPTY_POOL: tuple[Number | None, ...] = (*(0 for _ in POOL_SUMS), *(None for _ in POOL_MAXES))
_POOL_COLUMN = {FREE: POOL_SUMS.index("free_s")} | dict.fromkeys(TAKEN, POOL_SUMS.index("taken_s"))


class Tally:
    def __init__(self) -> None:
        self.gpus: dict[tuple[int, ...], SumRow] = {}
        self.users: dict[tuple[int, ...], SumRow] = {}
        self.pools: dict[tuple[int, ...], SumRow] = {}

    def add_values(self, account: Account, at: int, values: Values) -> None:
        """A sample counts in the hour in which it was taken."""
        row = _row(self.gpus, (at // HOUR, account.gpu), _EMPTY_GPU)
        for number, value in enumerate(values):
            if value is not None:
                row[2 * number] += 1
                row[2 * number + 1] += value
                top = len(GPU_SUMS) + number
                row[top] = value if row[top] is None else max(row[top], value)

    def add_pool(self, at: int, host: int, model: int, gpus: int, sums: Sequence[int]) -> None:
        """`sums`: utilization_n, utilization_sum, memory_sum and memory_total of one run."""
        row = _row(self.pools, (at // HOUR, host, model), _EMPTY_POOL)
        for number, value in enumerate(sums):
            row[number] += value
        row[-1] = gpus if row[-1] is None else max(row[-1], gpus)

    def add_time(self, account: Account, start: int, end: int, use: Use) -> None:
        """A shared GPU's time is split evenly among its users."""
        for hour, seconds in _by_hour(start, end):
            _row(self.gpus, (hour, account.gpu), _EMPTY_GPU)[_FIRST_STATE_COLUMN + use.state] += seconds
            column = _POOL_COLUMN.get(use.state)
            if column is not None:
                _row(self.pools, (hour, account.host, account.model), _EMPTY_POOL)[column] += seconds
            if use.users:
                self._add_users(hour, account.gpu, seconds, use)

    def _add_users(self, hour: int, gpu: int, seconds: int, use: Use) -> None:
        share = seconds * use.weight / len(use.users)
        for user in use.users:
            row = _row(self.users, (hour, user, gpu), (0, 0, 0, 0))
            row[0 if use.state == BUSY else 1] += share
            if use.utilization is not None:
                row[2] += share * use.utilization
                row[3] += share


def save(connection: sqlite3.Connection, tally: Tally) -> None:
    for name, keys, sums, maxes, rows in (
        ("gpu", ["gpu"], GPU_SUMS, GPU_MAXES, tally.gpus),
        ("user", ["user", "gpu"], USER_SUMS, [], tally.users),
        ("pool", ["host", "model"], POOL_SUMS, POOL_MAXES, tally.pools),
    ):
        for unit, filled in (("hour", rows), ("day", _by_day(rows, len(sums)))):
            statement = upsert(f"{name}_{unit}s", [unit, *keys], sums, maxes)
            connection.executemany(statement, ((*key, *row) for key, row in filled.items()))


def upsert(table: str, keys: Sequence[str], sums: Sequence[str], maxes: Sequence[str]) -> str:
    marks = ", ".join("?" for _ in (*keys, *sums, *maxes))
    return f"INSERT INTO {table} VALUES ({marks}) {on_conflict(keys, sums, maxes)}"  # noqa: S608 (our own names)


def on_conflict(keys: Sequence[str], sums: Sequence[str], maxes: Sequence[str]) -> str:
    # max() of SQLite is NULL where one of the two is.
    added = [f"{name} = {name} + excluded.{name}" for name in sums]
    added += [f"{name} = coalesce(max({name}, excluded.{name}), {name}, excluded.{name})" for name in maxes]
    return f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {', '.join(added)}"


def prune(
    connection: sqlite3.Connection, now: int, *, raw_days: int, hours_days: int, days_days: int
) -> None:
    """Cheap: each table is in the order of time, so that what goes is a piece at its beginning."""
    raw = now - raw_days * DAY
    for table in ("samples", "pool_runs", "runs"):
        connection.execute(f"DELETE FROM {table} WHERE at < ?", (raw,))  # noqa: S608
    # The span that reaches over the border says how things stood there.
    connection.execute(
        "DELETE FROM spans WHERE at < ?1 AND EXISTS (SELECT 1 FROM spans AS later"
        " WHERE later.gpu = spans.gpu AND later.at > spans.at AND later.at <= ?1)",
        (raw,),
    )
    for unit, oldest in (("hour", (now - hours_days * DAY) // HOUR), ("day", (now - days_days * DAY) // DAY)):
        for name in ("gpu", "user", "pool"):
            connection.execute(f"DELETE FROM {name}_{unit}s WHERE {unit} < ?", (oldest,))  # noqa: S608


def forget_from(connection: sqlite3.Connection, hour: int) -> None:
    """Everything from that hour on, as if it had never been; the day it cuts is summed up anew."""
    at, day = hour * HOUR, hour * HOUR // DAY
    for table in ("samples", "spans", "pool_runs", "runs"):
        connection.execute(f"DELETE FROM {table} WHERE at >= ?", (at,))  # noqa: S608
    for name, keys, sums, maxes in (
        ("gpu", "gpu", GPU_SUMS, GPU_MAXES),
        ("user", "user, gpu", USER_SUMS, []),
        ("pool", "host, model", POOL_SUMS, POOL_MAXES),
    ):
        columns = ", ".join([f"sum({c})" for c in sums] + [f"max({c})" for c in maxes])
        connection.execute(f"DELETE FROM {name}_hours WHERE hour >= ?", (hour,))  # noqa: S608
        connection.execute(f"DELETE FROM {name}_days WHERE day >= ?", (day,))  # noqa: S608
        connection.execute(
            f"INSERT INTO {name}_days SELECT hour / 24, {keys}, {columns} FROM {name}_hours"  # noqa: S608
            f" WHERE hour >= ? GROUP BY hour / 24, {keys}",
            (day * 24,),
        )


def _row(rows: dict[tuple[int, ...], SumRow], key: tuple[int, ...], empty: Iterable[Number | None]) -> SumRow:
    row = rows.get(key)
    if row is None:
        row = rows[key] = list(empty)
    return row


def _by_hour(start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        hour = start // HOUR
        until = min(end, (hour + 1) * HOUR)
        yield hour, until - start
        start = until


def _by_day(rows: dict[tuple[int, ...], SumRow], sums: int) -> dict[tuple[int, ...], SumRow]:
    days: dict[tuple[int, ...], SumRow] = {}
    for (hour, *keys), row in rows.items():
        key = (hour // 24, *keys)
        day = days.get(key)
        if day is None:
            days[key] = list(row)
            continue
        day[:sums] = map(add, day[:sums], row[:sums])
        for number in range(sums, len(row)):
            known = [value for value in (day[number], row[number]) if value is not None]
            day[number] = max(known, default=None)
    return days
