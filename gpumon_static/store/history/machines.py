"""The hosts around the GPUs: CPU, RAM, fullest disk and load of each run, and when the hosts answered.

A run's answer, or its failure, stands for the time until the next one of that host, as a sample does
(record.py).
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Mapping
from math import nan
from typing import NamedTuple

from gpumon_static.store.history.database import MACHINE_SUMS
from gpumon_static.store.history.observed import MachineValues
from gpumon_static.store.history.questions import has_table
from gpumon_static.store.history.rollups import (
    DAY,
    HOUR,
    MACHINE_ROLLUP,
    SumRow,
    add_rows,
    by_hours,
    stands_until,
)

DAYS = 30
"""Over which availability is asked."""
_FIRST_SUM = 2
_FIRST_MAX = _FIRST_SUM + len(MACHINE_SUMS)
_UP, _DOWN = (_FIRST_SUM + MACHINE_SUMS.index(column) for column in ("up_s", "down_s"))


class MachineCount:
    """The hosts of one run or of many, in memory until they are saved."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        last = connection.execute("SELECT host, at, up FROM machine_last")
        self._last: dict[int, tuple[int, int]] = {host: (at, up) for host, at, up in last}
        self._rows: dict[tuple[int, int], SumRow] = {}
        self._runs: list[tuple[int | None, ...]] = []
        self._seen: set[int] = set()

    def add(self, host: int, at: int, values: MachineValues | None, interval_s: int, *, raw: bool) -> None:
        """`values`: None where the host did not answer. `raw`: keep the run, and not only the sums."""
        last = self._last.get(host)
        if last and at <= last[0]:
            return
        if last:
            column = _UP if last[1] else _DOWN
            for hour, seconds in by_hours(last[0], stands_until(last[0], at, interval_s)):
                self._row(hour, host)[column] += seconds
        self._last[host] = at, int(values is not None)
        self._seen.add(host)
        if values is not None and values != MachineValues():
            self._add_values(self._row(at // HOUR, host), values)
            if raw:
                self._runs.append((at, host, *values))

    def save(self) -> None:
        add_rows(self._connection, MACHINE_ROLLUP, self._rows.values())
        insert = "INSERT OR IGNORE INTO machine_runs VALUES (?, ?, ?, ?, ?, ?)"
        self._connection.executemany(insert, self._runs)
        last = [(host, *self._last[host]) for host in self._seen]
        self._connection.executemany("INSERT OR REPLACE INTO machine_last VALUES (?, ?, ?)", last)
        self._rows, self._runs, self._seen = {}, [], set()

    def _row(self, hour: int, host: int) -> SumRow:
        row = self._rows.get((hour, host))
        if row is None:
            empty = [None] * len(MachineValues._fields)
            row = self._rows[hour, host] = [hour, host, *(0 for _ in MACHINE_SUMS), *empty]
        return row

    @staticmethod
    def _add_values(row: SumRow, values: MachineValues) -> None:
        for number, value in enumerate(values):
            if value is not None:
                row[_FIRST_SUM + 2 * number] += 1
                row[_FIRST_SUM + 2 * number + 1] += value
                top = _FIRST_MAX + number
                row[top] = value if row[top] is None else max(row[top], value)


class Availability(NamedTuple):
    """Of the last 30 days."""

    up_s: int
    down_s: int
    asked_s: int
    """Since the host was first asked, in these days."""

    @property
    def share(self) -> float | None:
        """The part of the known time in which the host answered."""
        known = self.up_s + self.down_s
        return self.up_s / known if known else None

    @property
    def coverage(self) -> float:
        return min(1.0, (self.up_s + self.down_s) / self.asked_s) if self.asked_s > 0 else 0.0


def availability(connection: sqlite3.Connection, now: int) -> dict[str, Availability]:
    """By host: the last 30 UTC days, of which today is one."""
    if not has_table(connection, "machine_days"):
        return {}
    first_day = now // DAY - DAYS + 1
    rows = connection.execute(
        "SELECT name, host, min(day), sum(up_s), sum(down_s) FROM machine_days JOIN hosts ON hosts.id = host"
        " WHERE day >= ? GROUP BY host",
        (first_day,),
    ).fetchall()
    # Of all these hours only those of the first day of a host, which is the same for most.
    hours = {
        (day, host): hour
        for day in {day for _, _, day, _, _ in rows}
        for host, hour in connection.execute(
            "SELECT host, min(hour) FROM machine_hours WHERE hour BETWEEN ? AND ? GROUP BY host",
            (day * 24, day * 24 + 23),
        )
    }
    found = {}
    for name, host, day, up, down in rows:
        hour = hours.get((day, host))
        # A day that was counted from its hours began with the first of them.
        first = day * DAY if hour is None else hour * HOUR
        found[name] = Availability(up, down, now - first)
    return found


MACHINE_WIDTH = len(MachineValues._fields)


class MachinePast(NamedTuple):
    first: int = 0
    """The number of the first point since 1970. A history may be younger than its range."""
    hosts: Mapping[str, array[float]] = {}
    """Mean CPU, RAM and fullest disk in percent and load, point by point; NaN is not known."""


def series(connection: sqlite3.Connection, step: int, count: int, now: int) -> MachinePast:
    """`count` points of `step` seconds each, up to now."""
    if not has_table(connection, "machine_runs"):
        return MachinePast()
    first, last = now // step - count + 1, now // step
    query, units = _query_of_a_point(step)
    found: dict[int, array[float]] = {}
    unknown: array[float] = array("f")
    # One query for each point, as in past/pools.py.
    for point in range(first, last + 1):
        for host, *values in connection.execute(query, (point * units, (point + 1) * units - 1)):
            if not found:
                first = point
                unknown = array("f", [nan]) * (MACHINE_WIDTH * (last - first + 1))
            points = found.get(host)
            if points is None:
                points = found[host] = unknown[:]
            place = MACHINE_WIDTH * (point - first)
            known = values if None not in values else [nan if value is None else value for value in values]
            points[place : place + MACHINE_WIDTH] = array("f", known)
    names = dict(connection.execute("SELECT id, name FROM hosts"))
    return MachinePast(first, {names[host]: points for host, points in found.items()})


def _query_of_a_point(step: int) -> tuple[str, int]:
    """Host and means of what is between two units of time, and how many of these a point has."""
    # The load is kept in tenths.
    scale = dict.fromkeys(MachineValues._fields, "") | {"load": " / 10"}
    if step < HOUR:
        means = [f"avg({name}){by}" for name, by in scale.items()]
        table, unit, size = "machine_runs", "at", 1
    else:
        means = [f"1.0 * sum({name}_sum) / sum({name}_n){by}" for name, by in scale.items()]
        table, unit, size = ("machine_hours", "hour", HOUR) if step < DAY else ("machine_days", "day", DAY)
    return (
        f"SELECT host, {', '.join(means)} FROM {table}"  # noqa: S608 (our own names)
        f" WHERE {unit} BETWEEN ? AND ? GROUP BY host"
    ), step // size
