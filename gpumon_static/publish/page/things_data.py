"""What the browser opens hosts, users, jobs and events from: one JSON block, read by assets/things.js.

    {"jobs": [[address, is an id, users, program, [[host, card, ...], ...], %, MiB, since s,
               [[host, unused card, ...], ...], ends by s, partition, account], ...],
     "given": [[user, GPUs, used, jobs, efficiency %], ...],                    by Slurm, now
     "usage": [[user, [[GPU h, idle h, efficiency %], ...]], ...],             24 h, 7 d, 30 d
     "used": {host: [[user, GPU h, idle h], ...]},                             30 d, most first
     "kinds": ["host-down", ...], "events": [[at s, kind, host, what], ...],   newest first
     "up": {host: [%, known %]},
     "machine": {"step": {"24h": 900, ...}, "first": {...}, "count": {...},
                 "hosts": {host: [top, [CPU, RAM, DISK, LOAD], ...]}}}         24 h, 7 d, 30 d

Hosts are places in the page's list of hosts. Series are letters as in past_data.py; `top` is the scale of the
load. With many hosts their points are further apart, so that all series together stay within `MOST_LETTERS`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import isnan, nan
from typing import TYPE_CHECKING, Any

from gpumon_static.publish.page.data import ESCAPES
from gpumon_static.publish.page.past_data import Series, letters
from gpumon_static.publish.page.tabs.health import title_of
from gpumon_static.publish.page.tooltips import ends_seconds
from gpumon_static.store.history.machines import MACHINE_WIDTH, MachinePast
from gpumon_static.store.history.past.pools import Grid
from gpumon_static.store.history.past.timelines import MACHINE_RANGES
from gpumon_static.survey.privacy import Tier

if TYPE_CHECKING:
    from gpumon_static.publish.page.past import PastView
    from gpumon_static.publish.page.records import UsageRow
    from gpumon_static.store.events import Event
    from gpumon_static.survey.jobs import Job, JobPlace
    from gpumon_static.survey.survey import Survey

HOUR = 3600
MOST_LETTERS = 100_000
MOST_JOBS = 1500
MOST_USERS_OF_A_HOST = 6
COARSER = (1, 2, 4, 6, 8, 12, 16, 24)
"""Points that become one."""
LEAST_POINTS = 4
"""Of a range; fewer are no chart."""


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
        "jobs": [_job(job, places) for job in jobs[:MOST_JOBS]],
        "given": _given(survey) if survey.tier is not Tier.COUNTS else [],
        "usage": [[row.name, row.ranges] for row in usage],
        "used": _used(of_hosts, places) if of_hosts and of_hosts.who else {},
        "kinds": kinds,
        "events": [
            [int(e.at.timestamp()), kinds.index(e.type), places[e.host], title_of(e, survey.tier)]
            for e in events
        ],
        "up": _availability(of_hosts, places) if of_hosts else {},
        "machine": _machines(of_hosts, places) if of_hosts else None,
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(ESCAPES)


def _job(job: Job, places: dict[str, int]) -> list[Any]:
    return [
        job.address,
        int(job.id is not None),
        job.users,
        job.program,
        _by_host(job.places, places),
        None if job.utilization is None else round(job.utilization),
        None if job.memory_mib is None else round(job.memory_mib),
        None if job.since is None else int(job.since.timestamp()),
        _by_host(job.unused, places),
        ends_seconds(job.ends_at),
        job.partition,
        job.account,
    ]


def _by_host(listed: Iterable[JobPlace], places: dict[str, int]) -> list[list[Any]]:
    cards: dict[str, list[str]] = defaultdict(list)
    for host, gpu in listed:
        cards[host].append(gpu)
    return [[places[host], *there] for host, there in cards.items()]


def _given(survey: Survey) -> list[list[Any]]:
    return [
        [who.name, of.gpus, of.used, of.jobs, None if of.efficiency is None else round(of.efficiency)]
        for who, of in survey.given.items()
        if who.is_somebody
    ]


def _used(past: PastView, places: dict[str, int]) -> dict[int, list[list[Any]]]:
    found: dict[int, list[list[Any]]] = defaultdict(list)
    for use in past.past.users.get("30d", ()):
        place = places.get(use.part or "")
        if place is not None and past.who and len(found[place]) < MOST_USERS_OF_A_HOST:
            found[place].append(
                [past.who(use.user), round(use.total_s / HOUR, 1), round(use.held_s / HOUR, 1)]
            )
    return found


def _availability(past: PastView, places: dict[str, int]) -> dict[int, list[float | None]]:
    return {
        places[host]: [
            None if found.share is None else int(1000 * found.share) / 10,
            round(100 * found.coverage),
        ]
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


def _machine(ranges: list[list[Series]]) -> list[Any]:
    loads = [load for *_, series in ranges for load in series if load is not None]
    top = max(1.0, *loads) if loads else 1.0
    tops = (100, 100, 100, top)
    return [round(top, 1), *([*map(letters, series, tops)] for series in ranges)]


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
