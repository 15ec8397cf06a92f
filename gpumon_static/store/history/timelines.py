"""What the page shows of the history, asked in a handful of queries, whatever the number of GPUs.

`Past` is everything of it: how each GPU is and was in the last day, and for four ranges of time the means of
each pool. A pool is the GPUs of one model in one host.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from gpumon_static.bounds.tables import MEMORY, MOST_GPUS, MOST_SLICES, PERCENT, Range
from gpumon_static.store.events import Event
from gpumon_static.store.history.event_log import read_events
from gpumon_static.store.history.last_day import LastDay, read_days
from gpumon_static.store.history.machines import Availability, MachinePoints, availability, series
from gpumon_static.store.history.observed import MISSED
from gpumon_static.store.history.questions import UserUse, has_table, is_place, names_of, period, users
from gpumon_static.store.history.rollups import DAY, HOUR
from gpumon_static.store.history.supply import SupplyAnswer, supply
from gpumon_static.text import one_line

SLOT_S = 15 * 60
HALF_SLOT = SLOT_S // 2
RIBBON_S = DAY
WEEKS = 4
"""Of the past that say what a week usually looks like."""

RANGES = {"24h": (SLOT_S, 96), "7d": (2 * HOUR, 84), "30d": (6 * HOUR, 120), "1y": (3 * DAY, 122)}
"""Seconds of a point, and how many points."""
USER_RANGES = {"24h": DAY, "7d": 7 * DAY, "30d": 30 * DAY}
MACHINE_RANGES = ("24h", "7d", "30d")
SUPPLY_DAYS = {"7d": 7, "30d": 30, "90d": 90, "1y": 365}
MOST_GPU_DAYS = 500_000
"""In which who held what idle is looked up for the page: some tenths of a second."""
YEAR = 365 * DAY
MOST_EVENTS = 1000


Span = tuple[int, int, int, tuple[str, ...]]
"""Of the last day: the slots of one state, counted from the day's first: the first of them, the one after the
last, the state, and whose it was."""


class Pool(NamedTuple):
    host: str
    model: str
    profile: str


Point = tuple[int, int, int, int, float]
"""Of a pool at one point of time: utilization_sum, utilization_n, memory_sum, memory_total, and how many were
free in the mean. As the database returns it, since there are hundreds of thousands."""
FREE_OF_POINT = 4


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
    spans: list[Span] = field(default_factory=list)
    """Of the last day; where there was no run, none."""
    day: LastDay | None = None


_Change = tuple[int, int, int, int | None]
"""Of which GPU, from which slot of the last day on, to which state, with which crew."""
GpuKey = tuple[str, str]
"""Host and index as cards have it: 3, or 3:1."""


@dataclass(frozen=True)
class Past:
    now: int
    gpus: dict[GpuKey, GpuPast]
    down_since: dict[str, int]
    ranges: dict[str, dict[Pool, dict[int, Point]]]
    users: dict[str, list[UserUse]]
    week: dict[Pool, dict[int, tuple[float, float]]]
    """Hour of the week in UTC, from Monday on: GPU seconds free, and known at all."""
    sizes: dict[Pool, int]
    machines: dict[str, dict[str, MachinePoints]] = field(default_factory=dict)
    """By range and host."""
    availability: dict[str, Availability] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    """The newest first, of the last year; at most `MOST_EVENTS`."""
    supply: dict[str, list[SupplyAnswer]] = field(default_factory=dict)
    """By range: in all hosts, and by group."""


def read(connection: sqlite3.Connection, now: datetime, groups: Mapping[str, str] | None = None) -> Past:
    """`groups`: of hosts by name."""
    at = int(now.timestamp())
    pools = _Pools(connection)
    return Past(
        now=at,
        gpus=_gpus(connection, at),
        down_since=dict(
            connection.execute("SELECT name, down_since FROM hosts WHERE down_since IS NOT NULL")
        ),
        ranges={name: _range(connection, pools, name, at) for name in RANGES},
        users={name: _users(connection, at, seconds) for name, seconds in USER_RANGES.items()},
        week=_week(connection, pools, at),
        sizes=_sizes(connection, pools),
        machines={name: series(connection, *RANGES[name], at) for name in MACHINE_RANGES},
        availability=availability(connection, at),
        events=read_events(connection, at - YEAR, MOST_EVENTS),
        supply=_supply(connection, at, groups or {}),
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
    for number, changes in _changes(connection, now).items():
        if known := by_id.get(number):
            known.spans.extend(_spans(changes, crews, _last_slot(now)))
    for number, day in read_days(connection, now, by_id).items():
        by_id[number].day = day
    return found


def _crews(connection: sqlite3.Connection) -> dict[int | None, tuple[str, ...]]:
    names = names_of(connection, "users")
    crews = connection.execute("SELECT id, members FROM crews")
    return {crew: tuple(names[int(member)] for member in members.split()) for crew, members in crews}


def first_slot(now: int) -> int:
    """Of the last day, counted from 1970."""
    return (now - RIBBON_S) // SLOT_S + 1


def _last_slot(now: int) -> int:
    """Counted from the first."""
    return (now - first_slot(now) * SLOT_S + HALF_SLOT) // SLOT_S


def _changes(connection: sqlite3.Connection, now: int) -> dict[int, list[_Change]]:
    """By GPU: the last one up to the beginning of the day, and all after it."""
    nearest = f"(s.at - {first_slot(now) * SLOT_S - HALF_SLOT}) / {SLOT_S}"
    slot = f"min({_last_slot(now)}, max(0, {nearest}))"
    found: dict[int, list[_Change]] = defaultdict(list)
    for query in (
        f"SELECT s.gpu, {slot}, s.state, s.crew FROM latest AS l JOIN spans AS s ON s.gpu = l.gpu"  # noqa: S608
        " AND s.at = (SELECT max(at) FROM spans WHERE gpu = l.gpu AND at <= ?)",
        f"SELECT s.gpu, {slot}, s.state, s.crew FROM spans AS s WHERE at > ? ORDER BY at",  # noqa: S608
    ):
        for row in connection.execute(query, (now - RIBBON_S - SLOT_S,)):
            found[row[0]].append(row)
    return found


def _spans(changes: list[_Change], crews: dict[int | None, tuple[str, ...]], last: int) -> list[Span]:
    """Without those that are too short for a slot. `last`: that of now."""
    ends = [*(slot for _, slot, _, _ in changes[1:]), last]
    return [
        (first, end, state, crews.get(crew, ()))
        for (_, first, state, crew), end in zip(changes, ends, strict=True)
        if first < end and state != MISSED
    ]


class _Pools:
    """The names of a pool by its numbers: made when asked for, since most models are in few hosts."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._hosts: dict[int, str] = dict(connection.execute("SELECT id, name FROM hosts"))
        self._models: dict[int, tuple[str, str]] = {
            number: (one_line(name) or "", one_line(profile) or "")
            for number, name, profile in connection.execute("SELECT * FROM models")
        }

    def __getitem__(self, numbers: tuple[int, int]) -> Pool:
        host, model = numbers
        return Pool(self._hosts[host], *self._models[model])


def _range(
    connection: sqlite3.Connection, pools: _Pools, name: str, now: int
) -> dict[Pool, dict[int, Point]]:
    """Points by their number since 1970."""
    step, count = RANGES[name]
    first = now // step - count + 1
    if step < HOUR:
        query = (
            "SELECT host, model, at / ?, sum(utilization_sum), sum(utilization_n), sum(memory_sum),"
            " sum(memory_total), 1.0 * sum(free) / count(*) FROM pool_runs WHERE at >= ? GROUP BY 3, 1, 2"
        )
        parameters = (step, first * step)
    else:
        unit = "hour" if step < DAY else "day"
        size = HOUR if step < DAY else DAY
        query = (
            f"SELECT host, model, {unit} / ?, sum(utilization_sum), sum(utilization_n), sum(memory_sum),"  # noqa: S608
            " sum(memory_total),"
            " ifnull(max(gpus) * sum(free_s) / nullif(1.0 * sum(free_s + taken_s), 0), 0.0)"
            f" FROM pool_{unit}s WHERE {unit} >= ? GROUP BY 3, 1, 2"
        )
        parameters = (step // size, first * step // size)
    found: dict[tuple[int, int], dict[int, Point]] = defaultdict(dict)
    for row in connection.execute(query, parameters):
        found[row[:2]][row[2]] = row[3:]
    return {pools[key]: points for key, points in found.items()}


def _users(connection: sqlite3.Connection, now: int, seconds: int) -> list[UserUse]:
    return users(connection, period(connection, now - seconds, now), lambda host, _model: host)


def _week(
    connection: sqlite3.Connection, pools: _Pools, now: int
) -> dict[Pool, dict[int, tuple[float, float]]]:
    rows = connection.execute(
        "SELECT host, model, hour, free_s, free_s + taken_s FROM pool_hours WHERE hour >= ? AND hour < ?",
        ((now - WEEKS * 7 * DAY) // HOUR, now // HOUR),
    )
    places: dict[int, int] = {}
    found: dict[Pool, dict[int, tuple[float, float]]] = defaultdict(dict)
    for host, model, hour, free, known in rows:
        if hour not in places:
            there = datetime.fromtimestamp(hour * HOUR, UTC)
            places[hour] = there.weekday() * 24 + there.hour
        pool = found[pools[host, model]]
        before = pool.get(places[hour], (0.0, 0.0))
        pool[places[hour]] = before[0] + free, before[1] + known
    return found


def _sizes(connection: sqlite3.Connection, pools: _Pools) -> dict[Pool, int]:
    rows = connection.execute(
        "SELECT g.host, g.model, count(*) FROM gpus AS g JOIN latest AS l ON l.gpu = g.id WHERE present"
        " GROUP BY 1, 2"
    )
    return {pools[host, model]: count for host, model, count in rows}
