"""What the browser opens hosts, users, jobs and events from: one JSON block, read by assets/things.js.

    {"columns": ..., "jobs": [JOB, ...], "given": [...], "usage": [...], "events": [...],
     "kinds": ["host-down", ...], "used": {host: [...]}, "up": {host: [...]},
     "machine": {"step": {"24h": 900, ...}, "first": {...}, "count": {...}, "hosts": {host: [...]}}}

Rows are arrays; `columns` has their names, which are the fields of the classes below. Hosts are places in
the page's list of hosts. Series are letters as in past_data.py. With many hosts their points are further
apart, so that all series together stay within `MOST_LETTERS`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import isnan, nan
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumon_static.publish.page.columns import Rows, columns_of
from gpumon_static.publish.page.data import as_json, short_number
from gpumon_static.publish.page.past_data import Series, letters
from gpumon_static.publish.page.tabs.outages import title_of
from gpumon_static.publish.page.tooltips import ends_seconds
from gpumon_static.store.history.machines import MACHINE_WIDTH, MachinePast
from gpumon_static.store.history.past import MACHINE_RANGES
from gpumon_static.store.history.pools import Grid
from gpumon_static.survey.privacy import Tier

if TYPE_CHECKING:
    from gpumon_static.publish.page.past import PastView
    from gpumon_static.publish.page.records import UsageRow
    from gpumon_static.store.events import Event
    from gpumon_static.survey.jobs import Job, JobPlace
    from gpumon_static.survey.survey import Survey

HOUR = 3600
MOST_LETTERS = 100_000
MOST_JOBS = 1000
MOST_USERS_OF_A_HOST = 6
MOST_GPUS_OF_AN_EVENT = 16
COARSER = (1, 2, 4, 6, 8, 12, 16, 24)
"""Points that become one."""
LEAST_POINTS = 4
"""Of a range; fewer are no chart."""


class ThingJob(NamedTuple):
    address: str
    is_id: int
    users: tuple[str, ...]
    program: str | None
    places: list[list[Any]]
    """[host, card, ...]"""
    utilization: int | None
    memory: int | None
    """MiB"""
    since: int | None
    """Seconds since 1970, as `ends`."""
    unused: list[list[Any]]
    ends: int | None
    partition: str | None
    account: str | None


class ThingGiven(NamedTuple):
    """What Slurm has given to a user, now."""

    user: str
    gpus: int
    used: int
    jobs: int | None
    efficiency: int | None


class ThingUsage(NamedTuple):
    user: str
    ranges: tuple[tuple[float, float, int | None], ...]
    """GPU h, of these idle, efficiency %: of 24 h, 7 d and 30 d."""


class ThingUse(NamedTuple):
    """Of a host, in 30 days; most first."""

    user: str | int
    """A number: so many others, together."""
    hours: float
    idle: float


class ThingEvent(NamedTuple):
    """The newest first."""

    at: int
    kind: int
    host: int | None
    """None of an event of the Dask cluster."""
    what: str
    gpus: list[int]


class ThingUp(NamedTuple):
    answered: float | None
    """Percent of the time known."""
    known: int


class ThingMachine(NamedTuple):
    top: float
    """The scale of the load."""
    ranges: list[list[str]]
    """CPU, RAM, disk and load: of 24 h, 7 d and 30 d."""


ROWS: Rows = {
    "job": ThingJob,
    "given": ThingGiven,
    "usage": ThingUsage,
    "use": ThingUse,
    "event": ThingEvent,
    "up": ThingUp,
    "machine": ThingMachine,
}


def things_data(
    survey: Survey,
    jobs: Sequence[Job],
    usage: Iterable[UsageRow],
    events: Sequence[Event],
    past: PastView | None,
    *,
    each: bool = True,
) -> str:
    """`each`: with the past of each host."""
    of_hosts = past if each else None
    places = {host.name: place for place, host in enumerate(survey.hosts)}
    kinds = list(dict.fromkeys(event.type for event in events))
    data: dict[str, Any] = {
        "columns": columns_of(ROWS),
        "jobs": [_job(job, places) for job in jobs[:MOST_JOBS]],
        "given": _given(survey) if survey.tier is not Tier.COUNTS else [],
        "usage": [ThingUsage(row.name, row.ranges) for row in usage],
        "used": _used(of_hosts, places) if of_hosts and of_hosts.who else {},
        "kinds": kinds,
        "events": [
            ThingEvent(
                at=int(e.at.timestamp()),
                kind=kinds.index(e.type),
                host=places.get(e.host),
                what=title_of(e, survey.tier),
                gpus=[gpu.index for gpu in e.gpus[:MOST_GPUS_OF_AN_EVENT] if gpu.index is not None],
            )
            for e in events
        ],
        "up": _availability(of_hosts, places) if of_hosts else {},
        "machine": _machines(of_hosts, places) if of_hosts else None,
    }
    return as_json(data)


def _job(job: Job, places: dict[str, int]) -> ThingJob:
    return ThingJob(
        address=job.address,
        is_id=int(job.id is not None),
        users=job.users,
        program=job.program,
        places=_by_host(job.places, places),
        utilization=short_number(job.utilization),
        memory=short_number(job.memory_mib),
        since=None if job.since is None else int(job.since.timestamp()),
        unused=_by_host(job.unused, places),
        ends=ends_seconds(job.ends_at),
        partition=job.partition,
        account=job.account,
    )


def _by_host(listed: Iterable[JobPlace], places: dict[str, int]) -> list[list[Any]]:
    cards: dict[str, list[str]] = defaultdict(list)
    for host, gpu in listed:
        cards[host].append(gpu)
    return [[places[host], *there] for host, there in cards.items()]


def _given(survey: Survey) -> list[ThingGiven]:
    return [
        ThingGiven(who.name, of.gpus, of.used, of.jobs, short_number(of.efficiency))
        for who, of in survey.given.items()
        if who.is_somebody
    ]


def _used(past: PastView, places: dict[str, int]) -> dict[int, list[ThingUse]]:
    """Most hours first; what is left out is one row more, with a number in the place of a name."""
    sums: dict[int, dict[str, list[float]]] = defaultdict(dict)
    for use in past.past.users.get("30d", ()):
        place = places.get(use.part or "")
        if place is not None and past.who and use.total_s:
            row = sums[place].setdefault(past.who(use.user), [0.0, 0.0])
            row[0], row[1] = row[0] + use.total_s, row[1] + use.held_s
    return {place: _first_users(of_host) for place, of_host in sums.items()}


def _first_users(sums: dict[str, list[float]]) -> list[ThingUse]:
    rows = sorted(sums.items(), key=lambda row: (-row[1][0], row[0]))
    most = MOST_USERS_OF_A_HOST if len(rows) > MOST_USERS_OF_A_HOST + 1 else len(rows)
    rest = rows[most:]
    listed: list[tuple[str | int, float, float]] = [(name, of[0], of[1]) for name, of in rows[:most]]
    if rest:
        listed.append((len(rest), sum(of[0] for _, of in rest), sum(of[1] for _, of in rest)))
    return [ThingUse(name, round(all_s / HOUR, 1), round(held_s / HOUR, 1)) for name, all_s, held_s in listed]


def _availability(past: PastView, places: dict[str, int]) -> dict[int, ThingUp]:
    return {
        places[host]: ThingUp(
            None if found.share is None else int(1000 * found.share) / 10,
            round(100 * found.coverage),
        )
        for host, found in past.past.availability.items()
        if host in places
    }


def _machines(past: PastView, places: dict[str, int]) -> dict[str, Any]:
    ranges = {name: past.past.machines.get(name, MachinePast()) for name in MACHINE_RANGES}
    known = sorted({host for of in ranges.values() for host in of.hosts if host in places})
    most = MOST_LETTERS / (len(MACHINE_RANGES) * MACHINE_WIDTH * max(1, len(known)))
    wider = {name: _wider(past.past.machine_grids[name], max(LEAST_POINTS, most)) for name in MACHINE_RANGES}
    coarse = {name: past.past.machine_grids[name].wider(number) for name, number in wider.items()}
    first = {name: grid.first(past.past.now) for name, grid in coarse.items()}
    return {
        "step": {name: grid.step for name, grid in coarse.items()},
        "first": first,
        "count": {name: grid.points for name, grid in coarse.items()},
        "hosts": {
            places[host]: _machine(
                [_series(of, host, first[name], wider[name]) for name, of in ranges.items()]
            )
            for host in known
        },
    }


def _wider(grid: Grid, most: float) -> int:
    """How many points have to become one, so that there are at most so many."""
    return next((number for number in COARSER if grid.wider(number).points <= most), COARSER[-1])


def _machine(ranges: list[list[Series]]) -> ThingMachine:
    loads = [load for *_, series in ranges for load in series if load is not None]
    top = max(1.0, *loads) if loads else 1.0
    tops = (100, 100, 100, top)
    return ThingMachine(round(top, 1), [[*map(letters, series, tops)] for series in ranges])


def _series(of: MachinePast, host: str, first: int, coarser: int) -> list[Series]:
    """CPU, RAM, disk and load: means over so many points each, from the `first` mean on."""
    points = of.hosts.get(host, ())
    missing = of.first - first * coarser
    found: list[Series] = []
    for number in range(MACHINE_WIDTH):
        values = [*[nan] * missing, *points[max(0, -missing) * MACHINE_WIDTH + number :: MACHINE_WIDTH]]
        found.append([_mean(values[place : place + coarser]) for place in range(0, len(values), coarser)])
    return found


def _mean(values: Sequence[float]) -> float | None:
    mean = sum(values) / len(values)
    if not isnan(mean):
        return mean
    known = [value for value in values if not isnan(value)]
    return sum(known) / len(known) if known else None
