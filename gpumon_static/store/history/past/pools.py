"""The past of pools: means over four ranges of time, and of the hours of a week.

A pool is the GPUs of one model in one host. There are millions of numbers at 80,000 GPUs: they are kept in
arrays, as the database returns them.
"""

from __future__ import annotations

import sqlite3
from array import array
from enum import IntEnum
from typing import NamedTuple

from gpumon_static.store.history.past.last_day import SLOT_S
from gpumon_static.store.history.rollups import DAY, HOUR
from gpumon_static.text import one_line

WEEKS = 4
"""Of the past that say what a week usually looks like."""
WEEK_HOURS = 7 * 24
THURSDAY = 3 * 24
"""The hour of the week, from Monday on, with which 1970 began."""
MOST_IN_DETAIL = 400
"""Hosts. With more of them points are further apart, so that no question goes through millions of rows."""


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


RANGES_OF_MANY = {
    "24h": Grid(HOUR, 24),
    "7d": Grid(6 * HOUR, 28),
    "30d": Grid(DAY, 30),
    "1y": Grid(15 * DAY, 25),
}


def grids(hosts: int) -> dict[str, Grid]:
    """The ranges of a site with so many hosts."""
    return RANGES_OF_MANY if hosts > MOST_IN_DETAIL else RANGES


def machine_grids(hosts: int) -> dict[str, Grid]:
    """Those of CPU, RAM, disk and load, of which the page of many hosts has room for a few points anyway."""
    return grids(hosts) | ({"7d": Grid(DAY, 7)} if hosts > MOST_IN_DETAIL else {})


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


Week = array  # of float
"""Of a pool: for each hour of the week in UTC, from Monday on, GPU seconds free, and known at all."""


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
    query, units = _query_of_a_point(grid.step)
    found: dict[tuple[int, int], Points[float]] = {}
    empty = Points("f")
    # One query for each point: all of them at once would have to be sorted, which are millions of rows.
    for point in range(first, last + 1):
        for row in connection.execute(query, (point * units, (point + 1) * units - 1)):
            if not found:
                first = point
                empty = Points("f", bytes(Points("f").itemsize * WIDTH * (last - first + 1)))
            points = found.get(row[:2])
            if points is None:
                points = found[row[:2]] = empty[:]
            place = WIDTH * (point - first)
            points[place : place + WIDTH] = Points("f", row[2:])
    return RangePast(first, {pools[key]: points for key, points in found.items()})


def _query_of_a_point(step: int) -> tuple[str, int]:
    """Host, model and the numbers of what is between two units of time, and how many of these a point has."""
    sums = "sum(utilization_sum), sum(utilization_n), sum(memory_sum), sum(memory_total)"
    if step < HOUR:
        table, unit, size, free, known = "pool_runs", "at", 1, "1.0 * sum(free) / count(*)", "1"
    else:
        table, unit, size = ("pool_hours", "hour", HOUR) if step < DAY else ("pool_days", "day", DAY)
        free = "ifnull(max(gpus) * sum(free_s) / nullif(1.0 * sum(free_s + taken_s), 0), 0.0)"
        # A run stands for the time after it, of which there is none yet when it is the first of an hour.
        known = "sum(free_s + taken_s) > 0"
    return (
        f"SELECT host, model, {sums}, {free}, {known} FROM {table}"  # noqa: S608 (our own names)
        f" WHERE {unit} BETWEEN ? AND ? GROUP BY host, model"
    ), step // size


def read_week(connection: sqlite3.Connection, pools: Pools, now: int) -> dict[Pool, Week[float]]:
    """Over the last weeks; where there are many hosts, over one."""
    weeks = WEEKS if pools.hosts <= MOST_IN_DETAIL else 1
    rows = connection.execute(
        "SELECT host, model, (hour + ?) % ? * 2, free_s, free_s + taken_s FROM pool_hours"
        " WHERE hour >= ? AND hour < ?",
        (THURSDAY, WEEK_HOURS, (now - weeks * 7 * DAY) // HOUR, now // HOUR),
    )
    empty = Week("f", bytes(Week("f").itemsize * 2 * WEEK_HOURS))
    found: dict[tuple[int, int], Week[float]] = {}
    for host, model, place, free, known in rows:
        pool = found.get((host, model))
        if pool is None:
            pool = found[host, model] = empty[:]
        pool[place] += free
        pool[place + 1] += known
    return {pools[numbers]: hours for numbers, hours in found.items()}


def read_sizes(connection: sqlite3.Connection, pools: Pools) -> dict[Pool, int]:
    rows = connection.execute(
        "SELECT g.host, g.model, count(*) FROM gpus AS g JOIN latest AS l ON l.gpu = g.id WHERE present"
        " GROUP BY 1, 2"
    )
    return {pools[host, model]: count for host, model, count in rows}
