"""Who holds what: the users' table, and nothing of it on a page that only counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpumon_static.publish.page.records import GivenView, People, Person
from gpumon_static.publish.page.tabs.held_day import HeldDay, held_days
from gpumon_static.publish.page.words import memory, percent, share
from gpumon_static.survey.jobs import listed
from gpumon_static.survey.owners import Owner, by_owner, owner_of_job
from gpumon_static.survey.slurm.given import Given, given_gpus, sum_up
from gpumon_static.survey.state import is_allocated_only
from gpumon_static.text import count, split_name

if TYPE_CHECKING:
    from gpumon_static.model import HostReading, Process
    from gpumon_static.publish.page.past import PastView
    from gpumon_static.publish.page.tabs.contact import Writer

MOST_HOSTS = 8
"""Named in one row; the rest is counted."""
MOST_PEOPLE = 200
"""Rows of the table; the browser has the others, and without JavaScript gpus.json."""
MOST_LISTED = 500
"""Rows that the page has at all."""


@dataclass
class _Held:
    memory_mib: float = 0
    processes: int = 0
    cards: list[tuple[str, str]] = field(default_factory=list)

    def add(self, host: str, index: str, processes: Sequence[Process]) -> None:
        self.memory_mib += sum(p.memory_mib or 0 for p in processes)
        self.processes += len(processes)
        self.cards.append((host, index))


def build_people(
    readings: Sequence[HostReading],
    given: Mapping[Owner, Given],
    past: PastView | None = None,
    write: Writer | None = None,
) -> People:
    """Most GPUs first. A GPU or slice that two users share counts for both, and once in the total."""
    held: dict[Owner, _Held] = {}
    total = _Held()
    for host, index, owners in _taken(readings):
        total.add(host, index, [process for _, theirs in owners for process in theirs])
        for who, theirs in owners:
            held.setdefault(who, _Held()).add(host, index, theirs)
    rows = [_row(who, held.get(who, _Held()), given.get(who)) for who in dict.fromkeys((*held, *given))]
    rows.sort(key=lambda row: (-row.gpus, -row.memory_mib, row.name))
    most = max((row.gpus for row in rows), default=0)
    days = _days(past, rows, readings) if past else {}
    rows = [
        replace(
            row,
            write=write(row.name, "", "") if write and row.is_name else "",
            day=days.get(row.name),
            percent=share(row.gpus, most) or 0,
        )
        for row in rows
    ]
    return People(
        rows=tuple(rows),
        total=_row(Owner("Total", False), total, sum_up(given_gpus(readings)) if given else None),
        count=sum(who.is_somebody for who in {*held, *given}),
        first=tuple(rows[:MOST_PEOPLE]),
        rest=tuple(rows[MOST_PEOPLE:MOST_LISTED]),
    )


def _days(past: PastView, rows: Iterable[Person], readings: Iterable[HostReading]) -> dict[str, HeldDay]:
    named = [row.name for row in rows if row.is_name][:MOST_PEOPLE]
    return held_days(past, named, {reading.host for reading in readings})


def _taken(readings: Iterable[HostReading]) -> Iterable[tuple[str, str, list[tuple[Owner, list[Process]]]]]:
    """Host, index and owners of each card with a compute process, or that a Slurm job has without one."""
    for reading in readings:
        if not reading.ok:
            continue
        for gpu in reading.gpus:
            shown = [(str(gpu.index), gpu.processes)]
            shown += [(f"{gpu.index}:{s.index}", s.processes) for s in gpu.slices]
            for index, processes in shown:
                working = [p for p in processes if not p.is_graphics_only]
                if working:
                    yield reading.host, index, by_owner(working)
            if is_allocated_only(gpu) and not gpu.slices:
                yield reading.host, str(gpu.index), [(owner_of_job(gpu), [])]


def _row(who: Owner, held: _Held, given: Given | None) -> Person:
    places = _places(held.cards)
    named, more = places[:MOST_HOSTS], max(0, len(places) - MOST_HOSTS)
    words = [f"{short}: {gpus}" for _, short, gpus in named] + ([f"+ {more} more"] if more else [])
    return Person(
        name=who.name,
        is_name=who.is_name,
        gpus=len(held.cards),
        memory=memory(held.memory_mib),
        memory_mib=held.memory_mib,
        processes=held.processes,
        where="; ".join(words),
        places=named,
        more_hosts=more,
        given=_given(given) if given else None,
    )


def _given(given: Given) -> GivenView:
    jobs = "" if given.jobs is None else f"in {count(given.jobs, 'job')}"
    return GivenView(given.gpus, jobs, given.used, percent(given.efficiency))


def _places(cards: Iterable[tuple[str, str]]) -> tuple[tuple[str, str, str], ...]:
    by_host: dict[str, list[str]] = {}
    for host, index in cards:
        by_host.setdefault(host, []).append(index)
    return tuple((host, split_name(host)[0], listed(indexes)) for host, indexes in by_host.items())
