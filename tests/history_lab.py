"""A lab whose runs go into a history: a test adds readings at a time, and asks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from gpumon_static.config.settings import Config, HistoryConfig, PathsConfig
from gpumon_static.model import HostReading
from gpumon_static.store import snapshot
from gpumon_static.store.events import Event
from gpumon_static.store.history import past, questions, record
from gpumon_static.store.history.reader import Period, Reader, ask
from gpumon_static.store.history.supply import SupplyAnswer, supply
from gpumon_static.survey.sightings import sightings
from tests.builders import config, host_config

T = TypeVar("T")

START = 1763110800
"""14 November 2025, 9:00 UTC: on the hour."""
INTERVAL, HOUR, DAY = 300, 3600, 86400


_made: dict[str, Path] = {}
_room = TemporaryDirectory(prefix="gpumon-labs-")


def moment(at: int) -> datetime:
    return datetime.fromtimestamp(at, UTC)


class HistoryLab:
    def __init__(self, data: Path, *hosts: str, groups: dict[str, str] | None = None, **history: Any) -> None:
        configured = [host_config(name, group=(groups or {}).get(name)) for name in hosts or ("node1",)]
        settings = config(*configured)
        paths = replace(settings.paths, data=data, site=data / "site")
        self.config: Config = replace(settings, paths=paths, history=HistoryConfig(**history))
        self.lines: list[str] = []
        """What was printed."""

    def add(
        self, at: int, *readings: HostReading, now: int | None = None, events: Sequence[Event] = ()
    ) -> None:
        """One run: each reading is dated `at`, unless it has a time of its own."""
        dated = [replace(reading, fetched_at=moment(at)) for reading in readings]
        self.add_dated(dated, now or at, events)

    def add_dated(self, readings: Sequence[HostReading], now: int, events: Sequence[Event] = ()) -> None:
        snapshot.write(self.config.csv_path, readings)
        seen = sightings(readings, self.config.busy, self.config.groups)
        record.record(self.config, seen, moment(now), self.lines.append, events=events)

    def every(self, start: int, end: int, *readings: HostReading, step: int = INTERVAL) -> None:
        """Runs from `start` up to and including `end`."""
        for at in range(start, end + 1, step):
            self.add(at, *readings)

    def made_once(self, what: str, make: Callable[[], None]) -> None:
        """The files that `make` records in an empty folder: made once in this process, then copied. A run costs 70 ms of CPU."""
        data = self.config.paths.data
        key = f"{what} {replace(self.config, paths=PathsConfig(Path(), Path()))}"
        if (kept := _made.get(key)) is None:
            assert not self.config.history_path.exists()
            make()
            assert self.lines == []
            kept = Path(_room.name, str(len(_made)))
            shutil.copytree(data, kept)
            _made[key] = kept
        else:
            shutil.copytree(kept, data, dirs_exist_ok=True)

    def every_once(self, start: int, end: int, *readings: HostReading, step: int = INTERVAL) -> None:
        """What `every` gives in an empty folder."""
        what = f"{start} {end} {readings} {step}"
        self.made_once(what, lambda: self.every(start, end, *readings, step=step))

    def ask(self, question: Callable[[Reader], T]) -> T:
        return ask(self.config.history_path, question, self.lines.append)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a query over `rows`, all rows of the history with their seconds."""
        period = Period(0, 4_000_000_000)
        return self.ask(
            lambda reader: reader.engine.rows(sql.replace("FROM rows", f"FROM ({reader.rows(period)})"))
        )

    def users(self, since: int, until: int, part: str | None = None) -> list[questions.UserUse]:
        return self.ask(lambda reader: questions.users(reader, Period(since, until), part))

    def gpus(self, since: int, until: int) -> list[questions.GpuUse]:
        return self.ask(lambda reader: questions.gpus(reader, Period(since, until)))

    def hosts(self, since: int, until: int) -> list[questions.GpuUse]:
        return self.ask(lambda reader: questions.hosts(reader, Period(since, until)))

    def supply(self, since: int, until: int, *, by_group: bool = False) -> SupplyAnswer:
        return self.ask(lambda reader: supply(reader, Period(since, until), by_group=by_group))

    def past(self, now: int) -> past.Past:
        by_group = any(self.config.groups.values())
        return self.ask(lambda reader: past.read(reader, moment(now), by_group=by_group))
