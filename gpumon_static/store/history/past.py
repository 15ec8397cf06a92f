"""What the page shows of the history, asked in a handful of queries, whatever the number of GPUs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from gpumon_static.bounds.tables import MOST_GPUS, MOST_SLICES
from gpumon_static.model.states import State
from gpumon_static.store.events import Event
from gpumon_static.store.history import event_log
from gpumon_static.store.history.engine import HistoryError, clean_name, parquet
from gpumon_static.store.history.last_day import NO_SPANS, CardKey, LastDay, Spans, read_days, read_spans
from gpumon_static.store.history.layout import DAY, HOUR, LAST_FILE
from gpumon_static.store.history.machines import (
    Availability,
    MachinePast,
    availability,
    heartbeat,
    series,
)
from gpumon_static.store.history.pools import (
    RANGES,
    Grid,
    Pool,
    RangePast,
    Week,
    grids,
    machine_grids,
    read_range,
    read_sizes,
    read_week,
)
from gpumon_static.store.history.questions import RunCount, UserUse, run_count, users
from gpumon_static.store.history.reader import Period, Reader, can_be_read
from gpumon_static.store.history.supply import SupplyAnswer, supplies

USER_RANGES = {"24h": DAY, "7d": 7 * DAY, "30d": 30 * DAY}
MACHINE_RANGES = ("24h", "7d", "30d")
SUPPLY_DAYS = {"7d": 7, "30d": 30, "90d": 90, "1y": 365}
MOST_GPU_DAYS = 500_000
"""In which who held what idle is looked up for the page: some tenths of a second."""
YEAR = 365 * DAY
MOST_EVENTS = 1000
MOST_EVENTS_OF_A_HOST = 100
"""One that goes up and down all day hides nothing of the others."""


@dataclass(slots=True)
class GpuPast:
    model: str
    profile: str
    state: str
    users: tuple[str, ...]
    known_at: int
    since: int
    taken_since: int | None
    utilization: int | None
    memory: int | None
    memory_total: int | None
    looks: int | None = None
    """Readings that found it in this state with these users, since the first of them."""
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
    heartbeat: dict[str, str] = field(default_factory=dict)
    """By host: its last 30 days."""
    events: list[Event] = field(default_factory=list)
    """The newest first, of the last year; at most `MOST_EVENTS`."""
    supply: dict[str, list[SupplyAnswer]] = field(default_factory=dict)
    """By range: in all hosts, and by group."""
    grids: dict[str, Grid] = field(default_factory=RANGES.copy)
    """By range: that of the pools."""
    machine_grids: dict[str, Grid] = field(default_factory=RANGES.copy)
    runs: dict[str, RunCount] = field(default_factory=dict)
    """By range, of users and of supply."""


def read(reader: Reader, now: datetime, *, by_group: bool = False, idle_after: int = HOUR) -> Past:
    """`by_group`: supply of each group, too. `idle_after`: a GPU held idle for so long could be reclaimed."""
    at = int(now.timestamp())
    newest = reader.newest_run()
    if newest is None or not can_be_read(reader.engine, reader.folder / LAST_FILE, ("host", "card")):
        raise HistoryError("no run is recorded yet")
    until = reader.until(at)
    gpus, down_since, hosts = _gpus(reader, at, newest)
    ranges, of_machines = grids(hosts), machine_grids(hosts)
    return Past(
        now=at,
        gpus=gpus,
        down_since=down_since,
        ranges={name: read_range(reader, grid, at, newest) for name, grid in ranges.items()},
        users=_users(reader, at, until),
        week=read_week(reader, at),
        sizes=read_sizes(reader),
        machines={name: series(reader, *of_machines[name], at, newest) for name in MACHINE_RANGES},
        availability=availability(reader, at, newest),
        heartbeat=heartbeat(reader, at, newest),
        events=event_log.read(reader.engine, reader.folder, at - YEAR, MOST_EVENTS, MOST_EVENTS_OF_A_HOST),
        supply=_supply(reader, at, until, len(gpus), by_group=by_group, idle_after=idle_after),
        grids=ranges,
        machine_grids=of_machines,
        runs={
            name: run_count(reader, Period(at - days * DAY, max(at - days * DAY, until)))
            for name, days in {"24h": 1, **SUPPLY_DAYS}.items()
        },
    )


def _users(reader: Reader, now: int, until: int) -> dict[str, list[UserUse]]:
    found: dict[str, list[UserUse]] = {}
    last_since = until
    for name, seconds in USER_RANGES.items():
        since = now - seconds
        # A history that is younger than the range before has the same in this one.
        if found and reader.is_younger(last_since):
            found[name] = list(found.values())[-1]
        else:
            found[name] = users(reader, Period(since, max(until, since)), "host")
        last_since = since
    return found


def _supply(
    reader: Reader, now: int, until: int, gpus: int, *, by_group: bool, idle_after: int
) -> dict[str, list[SupplyAnswer]]:
    found: dict[str, list[SupplyAnswer]] = {}
    kinds = [False, True] if by_group else [False]
    last_since = until
    for name, days in SUPPLY_DAYS.items():
        asked = Period(now - days * DAY, max(now - days * DAY, until))
        if found and reader.is_younger(last_since):
            length = asked.until - asked.since
            found[name] = [answer._replace(length_s=length) for answer in list(found.values())[-1]]
        else:
            holders_after = idle_after if gpus * days <= MOST_GPU_DAYS else None
            found[name] = supplies(reader, asked, kinds, idle_after=holders_after)
        last_since = asked.since
    return found


def _gpus(reader: Reader, now: int, newest: int) -> tuple[dict[GpuKey, GpuPast], dict[str, int], int]:
    """Every GPU that is thought to be there; since when hosts are down; how many hosts there are."""
    # One that an older version wrote has no `looks`.
    no_looks = "SELECT NULL::BIGINT AS looks WHERE false"
    last = f"(FROM {parquet([reader.folder / LAST_FILE])} UNION ALL BY NAME {no_looks})"
    rows = reader.engine.rows(
        "SELECT host, card, mig_device, gpu_index, coalesce(gpu_name, ''), coalesce(mig_profile, ''), state,"
        " held_by, known_at, since, taken_since, utilization, memory_used, memory_total, looks"
        f" FROM {last} ORDER BY known_at"
    )
    found: dict[GpuKey, GpuPast] = {}
    by_card: dict[CardKey, GpuPast] = {}
    down_since: dict[str, int] = {}
    per_host: Counter[str] = Counter()
    for host, card, slice_, index, model, profile, state, held_by, known_at, since, *rest in rows:
        per_host[host] += 1
        if card == "":
            down_since |= {host: since} if state == State.DOWN else {}
        elif per_host[host] <= MOST_GPUS + MOST_SLICES:
            names = clean_name(model), clean_name(profile)
            users_ = tuple(map(clean_name, held_by or ()))
            gpu = GpuPast(*names, state, users_, known_at, since, *rest)
            key = str(index) if slice_ < 0 else f"{index}:{slice_}"
            found[host, key] = by_card[host, card, slice_] = gpu
    _add_last_day(reader, now, newest, by_card)
    return found, down_since, len(per_host)


def _add_last_day(reader: Reader, now: int, newest: int, by_card: dict[CardKey, GpuPast]) -> None:
    """With what a card did in another host, before it was moved."""
    only = _in_one_host(by_card)
    elsewhere: list[tuple[GpuPast, Spans]] = []
    for key, spans in read_spans(reader, now, reader.until(now)):
        if known := by_card.get(key):
            known.spans = spans
        elif known := only.get(key[1:]):
            elsewhere.append((known, spans))
    moved = {id(gpu) for gpu, before in elsewhere if gpu.spans.follows(before)}
    for gpu, before in elsewhere:
        if id(gpu) in moved:
            gpu.spans = gpu.spans.after(before)
    for key, day in read_days(reader, now, newest):
        known = by_card.get(key) or only.get(key[1:])
        if known and (key in by_card or id(known) in moved):
            known.day = day.joined(known.day)


def _in_one_host(by_card: dict[CardKey, GpuPast]) -> dict[tuple[str, int], GpuPast]:
    """Cards that one host has today: what they did in another before they were moved is their past, too."""
    hosts = Counter((card, slice_) for _, card, slice_ in by_card)
    return {
        (card, slice_): gpu
        for (_, card, slice_), gpu in by_card.items()
        if hosts[card, slice_] == 1 and not card.startswith("#")
    }
