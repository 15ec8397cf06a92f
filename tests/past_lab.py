"""A lab with a past: hundreds of runs, written together when something is asked of them, and its page."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from gpumon_static.config.settings import PageConfig
from gpumon_static.model import Gpu, HostReading
from gpumon_static.publish.page.records import Page
from gpumon_static.publish.page.view import build_page
from gpumon_static.store import snapshot
from gpumon_static.store.events import Event
from gpumon_static.store.history import event_log, past
from gpumon_static.store.history.engine import open_engine
from gpumon_static.store.history.observed import Run
from gpumon_static.store.history.reader import Reader
from gpumon_static.store.history.record import add_past, usual_interval
from gpumon_static.store.history.upkeep.closing import make_sums
from gpumon_static.survey.sightings import sightings
from tests.builders import gpu, process
from tests.history_lab import START, HistoryLab, moment

T = TypeVar("T")

NINE = moment(START)


def held_gpu(index: int = 0, *users: str) -> Gpu:
    """Memory in use, no work."""
    holders = tuple(process(100 + n, user=user, memory_mib=1000.0) for n, user in enumerate(users))
    return gpu(index, memory_used_mib=40000.0, utilization=0.0, processes=holders)


class PastLab(HistoryLab):
    """Runs at minutes after nine. `add` writes one run at once; do not mix them."""

    start = START

    def __init__(self, data: Path, *hosts: str, **more: Any) -> None:
        super().__init__(data, *hosts, **more)
        self._runs: list[tuple[int, list[HostReading]]] = []
        self._written = 0

    def run(self, minute: float, *readings: HostReading) -> None:
        at = self.start + round(60 * minute)
        self._runs.append((at, [replace(reading, fetched_at=moment(at)) for reading in readings]))

    def run_dated(self, readings: Sequence[HostReading]) -> None:
        at = max(reading.fetched_at for reading in readings)
        self._runs.append((int(at.timestamp()), list(readings)))

    def runs(self, minutes: Iterable[float], *readings: HostReading) -> None:
        for minute in minutes:
            self.run(minute, *readings)

    def ask(self, question: Callable[[Reader], T]) -> T:
        self.write()
        return super().ask(question)

    def write(self, events: Sequence[Event] = ()) -> None:
        """All runs so far, as if nothing had been written before."""
        if self._written == len(self._runs):
            return
        folder, csv, now = self.config.history_path, self.config.paths.data / "past.csv", self._runs[-1][0]
        shutil.rmtree(folder, ignore_errors=True)
        snapshot.write(csv, [reading for _, readings in self._runs for reading in readings])
        with open_engine(folder) as engine:
            add_past(engine, folder, csv, self._observed(), self.config.history.texts, now)
            event_log.add(engine, folder, events, 0)
            make_sums(engine, folder, 60.0)
        self._written = len(self._runs)

    def _observed(self) -> Sequence[Run]:
        times = [at for at, _ in self._runs]
        return [
            Run(
                at,
                sightings(readings, self.config.busy, self.config.groups),
                usual_interval(times[:number], self.config.site.interval),
            )
            for number, (at, readings) in enumerate(self._runs)
        ]

    def past_at(self, minute: float) -> past.Past:
        return self.past(self.start + round(60 * minute))

    def page(self, minute: float, *readings: HostReading, **spec: Any) -> Page:
        now = self.at(minute)
        timed = [replace(reading, fetched_at=now) for reading in readings]
        page = PageConfig("index.html", **spec)
        return build_page(timed, self.config, now, page, b"k" * 32, self.past_at(minute))

    def at(self, minute: float) -> datetime:
        return moment(self.start) + timedelta(minutes=minute)
