"""Which file holds what, by its name alone: a reader lists the folder once and never waits.

    2026-11-15.parquet            a day that is over
    2026-11-15.other.parquet      rows of the same day from elsewhere: another collector, an import
    2026-11-17/11.parquet         an hour that is over
    2026-11-17/12-05-03.parquet   a run
    last.parquet                  how each GPU and host stood in the last run
    events/2026-11.parquet        events of a month
    before/supply.parquet         sums of versions before 0.2 that cannot be made again from rows
    sums/users/2026-11-15.1f2e3d4c.parquet    made from the day, and again whenever it is missing

A file replaces those whose name it begins: a day its hours, an hour its runs. Times are UTC.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

HOUR, DAY = 3600, 86400
LATE = 1.5
"""Times the usual interval: a run that comes later than that was missed; as stands_for of sql/macros.sql."""
SUFFIX = ".parquet"
LAST_FILE = f"last{SUFFIX}"
SUMS, EVENTS, BEFORE = "sums", "events", "before"
_DAY = re.compile(r"(\d{4}-\d\d-\d\d)(?:\.([\w-]{1,64}))?\.parquet", re.ASCII)
_FOLDER = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_HOUR = re.compile(r"([01]\d|2[0-3])\.parquet", re.ASCII)
_RUN = re.compile(r"([01]\d|2[0-3])-([0-5]\d)-([0-5]\d)\.parquet", re.ASCII)


class HistoryFile(NamedTuple):
    path: Path
    start: int
    """The first second that it may hold runs of, since 1970."""
    end: int
    """The first second after it; of a run the second after it."""
    size: int
    changed_at: int = 0
    """When it was last written, in seconds."""

    @property
    def is_run(self) -> bool:
        return self.end - self.start == 1


@dataclass
class DayFiles:
    start: int
    whole: HistoryFile | None = None
    others: list[HistoryFile] = field(default_factory=list)
    hours: dict[int, HistoryFile] = field(default_factory=dict)
    """By their start."""
    runs: list[HistoryFile] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + DAY

    @property
    def is_closed(self) -> bool:
        """No run of the collector's own will be added to it."""
        return self.whole is not None or not (self.hours or self.runs)

    def files(self) -> Iterator[HistoryFile]:
        """Those that count: what another one replaces is left out."""
        yield from self.others
        if self.whole:
            yield self.whole
            return
        yield from self.hours.values()
        yield from self.open_runs()

    def open_runs(self) -> list[HistoryFile]:
        if self.whole:
            return []
        return [run for run in self.runs if run.start // HOUR * HOUR not in self.hours]

    def replaced(self) -> Iterator[HistoryFile]:
        if self.whole:
            yield from self.hours.values()
            yield from self.runs
        else:
            yield from (run for run in self.runs if run.start // HOUR * HOUR in self.hours)


@dataclass
class Listing:
    folder: Path
    days: dict[int, DayFiles] = field(default_factory=dict)
    """By their start, the oldest first."""

    @property
    def newest_run(self) -> int | None:
        """By the names of runs; what was merged into hours and days ends before."""
        return max((run.start for day in self.days.values() for run in day.runs), default=None)

    def closed_files(self) -> Iterator[HistoryFile]:
        """Days and hours: what has a checksum."""
        for day in self.days.values():
            yield from (file for file in day.files() if not file.is_run)

    def files(self) -> Iterator[HistoryFile]:
        for day in self.days.values():
            yield from day.files()


def read_listing(folder: Path) -> Listing:
    """Raises `OSError`; a folder that is not there has no files."""
    days: dict[int, DayFiles] = {}

    def day_of(name: str) -> DayFiles | None:
        start = day_start(name)
        return None if start is None else days.setdefault(start, DayFiles(start))

    for entry in _entries(folder):
        if found := _DAY.fullmatch(entry.name):
            day = day_of(found[1])
            if day and (file := _file(entry, day.start, day.end)):
                if found[2] is None:
                    day.whole = file
                else:
                    day.others.append(file)
        elif _FOLDER.fullmatch(entry.name) and (day := day_of(entry.name)):
            _read_day(Path(entry.path), day)
    kept = {start: days[start] for start in sorted(days) if any(days[start].files())}
    return Listing(folder, kept)


def _read_day(folder: Path, day: DayFiles) -> None:
    for entry in _entries(folder):
        if found := _HOUR.fullmatch(entry.name):
            start = day.start + int(found[1]) * HOUR
            if file := _file(entry, start, start + HOUR):
                day.hours[start] = file
        elif found := _RUN.fullmatch(entry.name):
            hour, minute, second = map(int, found.groups())
            start = day.start + hour * HOUR + minute * 60 + second
            if file := _file(entry, start, start + 1):
                day.runs.append(file)
    day.runs.sort(key=lambda run: run.start)
    day.hours = dict(sorted(day.hours.items()))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _file(entry: os.DirEntry[str], start: int, end: int) -> HistoryFile | None:
    """None for what is no file: a directory, a FIFO; and for one that was removed meanwhile."""
    try:
        if not entry.is_file():
            return None
        found = entry.stat()
        return HistoryFile(Path(entry.path), start, end, found.st_size, int(found.st_mtime))
    except OSError:
        return None


def day_start(name: str) -> int | None:
    """`2026-11-17` to seconds; None where no calendar has it."""
    try:
        day = date.fromisoformat(name)
        return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
    except ValueError:
        return None


def day_name(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"


def day_path(folder: Path, at: int, label: str | None = None) -> Path:
    return folder / f"{day_name(at)}{'.' + label if label else ''}{SUFFIX}"


def hour_path(folder: Path, at: int) -> Path:
    return folder / day_name(at) / f"{datetime.fromtimestamp(at, UTC):%H}{SUFFIX}"


def run_path(folder: Path, at: int) -> Path:
    return folder / day_name(at) / f"{datetime.fromtimestamp(at, UTC):%H-%M-%S}{SUFFIX}"


def sums_path(folder: Path, kind: str, sources: list[HistoryFile], recipe: str) -> Path:
    """Of a closed day or hour. Another source, or another way to sum up, is another name."""
    made_from = "\n".join([recipe, *sorted(f"{f.path.name} {f.size} {f.changed_at}" for f in sources)])
    digest = hashlib.blake2s(made_from.encode(), digest_size=4).hexdigest()
    first = sources[0]
    name = day_name(first.start)
    if first.end - first.start == HOUR:
        name += f"T{datetime.fromtimestamp(first.start, UTC):%H}"
    return folder / SUMS / kind / f"{name}.{digest}{SUFFIX}"


def events_path(folder: Path, at: int) -> Path:
    return folder / EVENTS / f"{datetime.fromtimestamp(at, UTC):%Y-%m}{SUFFIX}"


def in_order(days: Mapping[int, DayFiles]) -> list[DayFiles]:
    return [days[start] for start in sorted(days)]
