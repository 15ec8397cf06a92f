"""The past of pools: means over four ranges of time, and of the hours of a week.

A pool is the GPUs of one model in one host. There are millions of numbers at 80,000 GPUs: they are kept in
arrays, as the database returns them.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections import defaultdict
from datetime import UTC, datetime
from enum import IntEnum
from typing import NamedTuple

from gpumon_static.store.history.past.last_day import SLOT_S
from gpumon_static.store.history.rollups import DAY, HOUR
from gpumon_static.text import one_line

WEEKS = 4
"""Of the past that say what a week usually looks like."""
MOST_BY_QUARTERS = 400
"""Hosts. With more of them the last day is read by the hour, from sums: single runs would be millions."""


class Grid(NamedTuple):
    """The points of a range of time; the last one is now."""

    step: int
    """Seconds of a point."""
    points: int

    def first(self, now: int) -> int:
        """The number of its first point since 1970."""
        return now // self.step - self.points + 1

    def wider(self, number: int) -> Grid:
        """With so many points in each of its own."""
        return Grid(self.step * number, -(-self.points // number))


RANGES = {
    "24h": Grid(SLOT_S, 96),
    "7d": Grid(2 * HOUR, 84),
    "30d": Grid(6 * HOUR, 120),
    "1y": Grid(3 * DAY, 122),
}


def grids(hosts: int) -> dict[str, Grid]:
    """The ranges of a site with so many hosts."""
    return RANGES | ({"24h": Grid(HOUR, 24)} if hosts > MOST_BY_QUARTERS else {})


class Pool(NamedTuple):
    host: str
    model: str
    profile: str


class PointColumn(IntEnum):
    """The numbers of one point of time."""

    UTILIZATION_SUM = 0
    UTILIZATION_N = 1
    MEMORY_SUM = 2
    MEMORY_TOTAL = 3
    FREE = 4
    """GPUs, in the mean."""
    KNOWN = 5
    """1 where that is known."""


WIDTH = len(PointColumn)
Points = array  # of float
"""Of a pool: `WIDTH` numbers for each point of time."""


class RangePast(NamedTuple):
    first: int
    """The number of the first point since 1970. A history may be younger than its range."""
    pools: dict[Pool, Points[float]]


class Pools(dict[tuple[int, int], Pool]):
    """The names of a pool by its numbers: made when asked for, since most models are in few hosts."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._hosts: dict[int, str] = dict(connection.execute("SELECT id, name FROM hosts"))
        self._models: dict[int, tuple[str, str]] = {
            number: (one_line(name) or "", one_line(profile) or "")
            for number, name, profile in connection.execute("SELECT * FROM models")
        }

    @property
    def hosts(self) -> int:
        """How many there are."""
        return len(self._hosts)

    def __missing__(self, numbers: tuple[int, int]) -> Pool:
        host, model = numbers
        self[numbers] = pool = Pool(self._hosts[host], *self._models[model])
        return pool


def read_range(connection: sqlite3.Connection, pools: Pools, grid: Grid, now: int) -> RangePast:
    first, last = grid.first(now), now // grid.step
    found: dict[tuple[int, int], Points[float]] = {}
    empty = Points("f")
    for row in _points(connection, grid.step, first, last):
        if not found:
            first = row[2]
            empty = Points("f", bytes(Points("f").itemsize * WIDTH * (last - first + 1)))
        points = found.get(row[:2])
        if points is None:
            points = found[row[:2]] = empty[:]
        place = WIDTH * (row[2] - first)
        points[place : place + WIDTH] = Points("f", row[3:])
    return RangePast(first, {pools[key]: points for key, points in found.items()})


def _points(connection: sqlite3.Connection, step: int, first: int, last: int) -> sqlite3.Cursor:
    """Host, model, number of the point, and its numbers; the first points first."""
    sums = "sum(utilization_sum), sum(utilization_n), sum(memory_sum), sum(memory_total)"
    if step < HOUR:
        table, unit, size, free, known = "pool_runs", "at", 1, "1.0 * sum(free) / count(*)", "1"
    else:
        table, unit, size = ("pool_hours", "hour", HOUR) if step < DAY else ("pool_days", "day", DAY)
        free = "ifnull(max(gpus) * sum(free_s) / nullif(1.0 * sum(free_s + taken_s), 0), 0.0)"
        # A run stands for the time after it, of which there is none yet when it is the first of an hour.
        known = "sum(free_s + taken_s) > 0"
    units = step // size
    return connection.execute(
        f"SELECT host, model, {unit} / ?, {sums}, {free}, {known} FROM {table}"  # noqa: S608 (our own names)
        f" WHERE {unit} BETWEEN ? AND ? GROUP BY 3, 1, 2 ORDER BY 3",
        (units, first * units, (last + 1) * units - 1),
    )


def read_week(
    connection: sqlite3.Connection, pools: Pools, now: int
) -> dict[Pool, dict[int, tuple[float, float]]]:
    """Hour of the week in UTC, from Monday on: GPU seconds free, and known at all."""
    rows = connection.execute(
        "SELECT host, model, hour, free_s, free_s + taken_s FROM pool_hours WHERE hour >= ? AND hour < ?",
        ((now - WEEKS * 7 * DAY) // HOUR, now // HOUR),
    )
    places: dict[int, int] = {}
    found: dict[tuple[int, int], dict[int, tuple[float, float]]] = defaultdict(dict)
    for host, model, hour, free, known in rows:
        if hour not in places:
            there = datetime.fromtimestamp(hour * HOUR, UTC)
            places[hour] = there.weekday() * 24 + there.hour
        pool = found[host, model]
        before = pool.get(places[hour], (0.0, 0.0))
        pool[places[hour]] = before[0] + free, before[1] + known
    return {pools[numbers]: hours for numbers, hours in found.items()}


def read_sizes(connection: sqlite3.Connection, pools: Pools) -> dict[Pool, int]:
    rows = connection.execute(
        "SELECT g.host, g.model, count(*) FROM gpus AS g JOIN latest AS l ON l.gpu = g.id WHERE present"
        " GROUP BY 1, 2"
    )
    return {pools[host, model]: count for host, model, count in rows}
