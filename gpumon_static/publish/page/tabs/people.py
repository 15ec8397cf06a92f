"""Who holds what: the users' table, and nothing of it on a page that only counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpumon_static.publish.page.records import People, Person
from gpumon_static.publish.page.words import memory
from gpumon_static.survey.jobs import listed
from gpumon_static.survey.owners import Owner, by_owner
from gpumon_static.text import split_name

if TYPE_CHECKING:
    from gpumon_static.model import HostReading, Process

MOST_HOSTS = 8
"""Named in one row; the rest is counted."""
MOST_PEOPLE = 200
"""Rows of the table; the browser has the others, and without JavaScript gpus.json."""
MOST_LISTED = 1000
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


def build_people(readings: Iterable[HostReading]) -> People:
    """Most GPUs first. A GPU or slice that two users share counts for both, and once in the total."""
    held: dict[Owner, _Held] = {}
    total = _Held()
    for host, index, processes in _taken(readings):
        total.add(host, index, processes)
        for who, theirs in by_owner(processes):
            held.setdefault(who, _Held()).add(host, index, theirs)
    rows = [_row(name, is_name, one) for (name, is_name), one in held.items()]
    rows.sort(key=lambda row: (-row.gpus, -row.memory_mib, row.name))
    count = sum(who.is_somebody for who in held)
    return People(
        rows=tuple(rows),
        total=_row("Total", False, total),
        count=count,
        first=tuple(rows[:MOST_PEOPLE]),
        rest=tuple(rows[MOST_PEOPLE:MOST_LISTED]),
    )


def _taken(readings: Iterable[HostReading]) -> Iterable[tuple[str, str, list[Process]]]:
    """Host, index and processes of each card with a compute process."""
    for reading in readings:
        if not reading.ok:
            continue
        for gpu in reading.gpus:
            shown = [(str(gpu.index), gpu.processes)]
            shown += [(f"{gpu.index}:{s.index}", s.processes) for s in gpu.slices]
            for index, processes in shown:
                working = [p for p in processes if not p.is_graphics_only]
                if working:
                    yield reading.host, index, working


def _row(name: str, is_name: bool, held: _Held) -> Person:
    places = _places(held.cards)
    named, more = places[:MOST_HOSTS], max(0, len(places) - MOST_HOSTS)
    words = [f"{short}: {gpus}" for _, short, gpus in named] + ([f"+ {more} more"] if more else [])
    return Person(
        name=name,
        is_name=is_name,
        gpus=len(held.cards),
        memory=memory(held.memory_mib),
        memory_mib=held.memory_mib,
        processes=held.processes,
        where="; ".join(words),
        places=named,
        more_hosts=more,
    )


def _places(cards: Iterable[tuple[str, str]]) -> tuple[tuple[str, str, str], ...]:
    by_host: dict[str, list[str]] = {}
    for host, index in cards:
        by_host.setdefault(host, []).append(index)
    return tuple((host, split_name(host)[0], listed(indexes)) for host, indexes in by_host.items())
