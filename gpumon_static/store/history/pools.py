"""The past of pools: means over four ranges of time, and of the hours of a week.

A pool is the GPUs of one model in one host. There are millions of numbers at 80,000 GPUs: they are kept in
arrays, as the database returns them.
"""

from __future__ import annotations

from array import array
from enum import IntEnum
from typing import NamedTuple

from gpumon_static.store.history.engine import clean_name, filled, parquet
from gpumon_static.store.history.last_day import SLOT_S
from gpumon_static.store.history.layout import DAY, HOUR, LAST_FILE
from gpumon_static.store.history.reader import Period, Reader
from gpumon_static.store.history.supply import local_zone

WEEKS = 4
"""Of the past that show what a week usually looks like."""
WEEK_HOURS = 7 * 24
MOST_IN_DETAIL = 400
"""Hosts. With more of them points are further apart, so that the page stays small."""


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


def _pool(host: str, model: str, profile: str) -> Pool:
    return Pool(host, clean_name(model), clean_name(profile))


class PointColumn(IntEnum):
    """The numbers of one point of time, as questions/pool_series.sql lists them."""

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
"""Of a pool: for each hour of the week of this machine's zone, from Monday on, GPU seconds free and known."""


class RangePast(NamedTuple):
    first: int
    """The number of the first point since 1970. A history may be younger than its range."""
    pools: dict[Pool, Points[float]]


def read_range(reader: Reader, grid: Grid, now: int, newest: int) -> RangePast:
    asked = Period(grid.first(now) * grid.step, max(now, newest))
    kind = "pools_by_day" if grid.step % DAY == 0 else "pools"
    sums = reader.sums(kind, asked, is_exact=False)
    query = filled("questions/pool_series", pools=sums, step=str(grid.step))
    rows = reader.engine.rows(query)
    first = min((points[0] for *_, points, _ in rows), default=grid.first(now))
    first = max(first, grid.first(now))
    length = WIDTH * (now // grid.step - first + 1)
    empty = Points("f", bytes(Points("f").itemsize * length))
    found: dict[Pool, Points[float]] = {}
    for host, model, profile, points, numbers in rows:
        filled_in = found[_pool(host, model, profile)] = empty[:]
        values = Points("f", numbers)
        if len(values) == length and points[0] == first:
            filled_in[:] = values
            continue
        for place, point in enumerate(points):
            start = WIDTH * (point - first)
            if 0 <= start < length:
                filled_in[start : start + WIDTH] = values[WIDTH * place : WIDTH * (place + 1)]
    return RangePast(first, found)


def read_week(reader: Reader, now: int) -> dict[Pool, Week[float]]:
    """Over the last weeks, of whole hours, in the zone of this machine: an hour is one of the clock then."""
    asked = Period((now - WEEKS * 7 * DAY) // HOUR * HOUR, now // HOUR * HOUR)
    sums = reader.sums("pools", asked, is_exact=False)
    found: dict[Pool, Week[float]] = {}
    # The reading at the end of the period stands for the hour after it.
    for host, model, profile, hours, free, known in reader.engine.rows(
        filled("questions/usual_week", pools=sums), {"until": asked.until, "zone": local_zone()}
    ):
        week = found[_pool(host, model, profile)] = Week("f", bytes(Week("f").itemsize * 2 * WEEK_HOURS))
        for hour, free_s, known_s in zip(hours, free, known, strict=True):
            week[2 * hour], week[2 * hour + 1] = free_s, known_s
    return found


def read_sizes(reader: Reader) -> dict[Pool, int]:
    rows = reader.engine.rows(
        "SELECT host, coalesce(gpu_name, ''), coalesce(mig_profile, ''), count(*)"
        f" FROM {parquet([reader.folder / LAST_FILE])} WHERE card <> '' GROUP BY 1, 2, 3"
    )
    return {_pool(host, model, profile): number for host, model, profile, number in rows}
