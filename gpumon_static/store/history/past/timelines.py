"""What the page shows of the history, asked in a handful of queries, whatever the number of GPUs.

`Past` is everything of it: how each GPU is and was in the last day (last_day.py), and for four ranges of time
the means of each pool (pools.py) and each host (machines.py).
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gpumon_static.bounds.tables import MEMORY, MOST_GPUS, MOST_SLICES, PERCENT, Range
from gpumon_static.store.events import Event
from gpumon_static.store.history.event_log import read_events
from gpumon_static.store.history.machines import Availability, MachinePast, availability, series
from gpumon_static.store.history.past.last_day import NO_SPANS, LastDay, Spans, read_days, read_spans
from gpumon_static.store.history.past.pools import (
    RANGES,
    Grid,
    Pool,
    Pools,
    RangePast,
    Week,
    grids,
    machine_grids,
    read_range,
    read_sizes,
    read_week,
)
from gpumon_static.store.history.questions import UserUse, has_table, is_place, names_of, period, users
from gpumon_static.store.history.rollups import DAY
from gpumon_static.store.history.supply import SupplyAnswer, supply
from gpumon_static.text import one_line

USER_RANGES = {"24h": DAY, "7d": 7 * DAY, "30d": 30 * DAY}
MACHINE_RANGES = ("24h", "7d", "30d")
SUPPLY_DAYS = {"7d": 7, "30d": 30, "90d": 90, "1y": 365}
MOST_GPU_DAYS = 500_000
"""In which who held what idle is looked up for the page: some tenths of a second."""
YEAR = 365 * DAY
MOST_EVENTS = 1000


@dataclass(slots=True)
class GpuPast:
    model: str
    profile: str
    state: int
    users: tuple[str, ...]
    known_at: int
    since: int
    taken_since: int | None
    utilization: int | None
    memory: int | None
    memory_total: int | None
    spans: Spans = NO_SPANS
    """Of the last day; where there was no run, none."""
    day: LastDay | None = None


GpuKey = tuple[str, str]
"""Host and index as cards have it: 3, or 3:1."""


@dataclass(frozen=True)
class Past:
    now: int
    gpus: dict[GpuKey, GpuPast]
    down_since: dict[str, int]
    ranges: dict[str, RangePast]
    users: dict[str, list[UserUse]]
    week: dict[Pool, Week[float]]
    sizes: dict[Pool, int]
    machines: dict[str, MachinePast] = field(default_factory=dict)
    """By range."""
    availability: dict[str, Availability] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    """The newest first, of the last year; at most `MOST_EVENTS`."""
    supply: dict[str, list[SupplyAnswer]] = field(default_factory=dict)
    """By range: in all hosts, and by group."""
    grids: dict[str, Grid] = field(default_factory=RANGES.copy)
    """By range: that of the pools."""
    machine_grids: dict[str, Grid] = field(default_factory=RANGES.copy)


def read(connection: sqlite3.Connection, now: datetime, groups: Mapping[str, str] | None = None) -> Past:
    """`groups`: of hosts by name."""
    at = int(now.timestamp())
    pools = Pools(connection)
    ranges, of_machines = grids(pools.hosts), machine_grids(pools.hosts)
    return Past(
        now=at,
        gpus=_gpus(connection, at),
        down_since=dict(
            connection.execute("SELECT name, down_since FROM hosts WHERE down_since IS NOT NULL")
        ),
        ranges={name: read_range(connection, pools, grid, at) for name, grid in ranges.items()},
        users={name: _users(connection, at, seconds) for name, seconds in USER_RANGES.items()},
        week=read_week(connection, pools, at),
        sizes=read_sizes(connection, pools),
        machines={name: series(connection, *of_machines[name], at) for name in MACHINE_RANGES},
        availability=availability(connection, at),
        events=read_events(connection, at - YEAR, MOST_EVENTS),
        supply=_supply(connection, at, groups or {}),
        grids=ranges,
        machine_grids=of_machines,
    )


def _supply(
    connection: sqlite3.Connection, now: int, groups: Mapping[str, str]
) -> dict[str, list[SupplyAnswer]]:
    if not has_table(connection, "supply_days"):
        return {}
    (gpus,) = connection.execute("SELECT count(*) FROM latest WHERE present").fetchone()
    found = {}
    for name, days in SUPPLY_DAYS.items():
        asked = period(connection, now - days * DAY, now)
        with_holders = gpus * days <= MOST_GPU_DAYS
        found[name] = [
            supply(connection, asked, by_group, with_holders=with_holders)
            for by_group in ([None, groups] if any(groups.values()) else [None])
        ]
    return found


def _gpus(connection: sqlite3.Connection, now: int) -> dict[GpuKey, GpuPast]:
    crews = _crews(connection)
    rows = connection.execute(
        "SELECT g.id, hosts.name, position, slice, models.name, profile, known_state, known_crew, known_at,"
        " since, taken_since, s.utilization, l.memory, memory_total"
        " FROM latest AS l JOIN gpus AS g ON g.id = l.gpu"
        " LEFT JOIN samples AS s ON s.at = known_at AND s.gpu = l.gpu"
        " JOIN hosts ON hosts.id = g.host JOIN models ON models.id = g.model WHERE present ORDER BY known_at"
    )
    found: dict[GpuKey, GpuPast] = {}
    by_id: dict[int, GpuPast] = {}
    per_host: Counter[str] = Counter()
    for number, host, position, slice_, model, profile, state, crew, *rest in rows:
        per_host[host] += 1
        if per_host[host] > MOST_GPUS + MOST_SLICES or not is_place(position, slice_):
            continue
        names = one_line(model) or "", one_line(profile) or ""
        rest[3:] = map(Range.known, (PERCENT, MEMORY, MEMORY), rest[3:])
        gpu = GpuPast(*names, state, crews.get(crew, ()), *rest)
        index = str(position) if slice_ is None else f"{position}:{slice_}"
        found[host, index] = by_id[number] = gpu
    for number, spans in read_spans(connection, now, crews):
        if known := by_id.get(number):
            known.spans = spans
    for number, day in read_days(connection, now, by_id).items():
        by_id[number].day = day
    return found


def _crews(connection: sqlite3.Connection) -> dict[int, tuple[str, ...]]:
    names = names_of(connection, "users")
    crews = connection.execute("SELECT id, members FROM crews")
    return {crew: tuple(names[int(member)] for member in members.split()) for crew, members in crews}


def _users(connection: sqlite3.Connection, now: int, seconds: int) -> list[UserUse]:
    asked = period(connection, now - seconds, now)
    return users(connection, asked, lambda host, _model: host, with_allocated=False)
