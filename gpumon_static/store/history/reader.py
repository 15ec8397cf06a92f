"""The files of a period: sums of whole hours and days where there are some, clipped rows elsewhere.

A reader lists the folder once. A file that cannot be read is left out with a line; everything else counts.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NamedTuple, TypeVar

from gpumon_static.store.history.columns import COLUMN_TYPES, COUNTED, REQUIRED
from gpumon_static.store.history.engine import (
    DamagedFile,
    Engine,
    HistoryError,
    filled,
    open_engine,
    parquet,
    quoted,
    sql,
)
from gpumon_static.store.history.layout import (
    BEFORE,
    DAY,
    HOUR,
    LAST_FILE,
    LATE,
    SUFFIX,
    SUMS,
    DayFiles,
    HistoryFile,
    Listing,
    read_listing,
    sums_path,
)
from gpumon_static.store.history.notes import FolderNotes
from gpumon_static.system.files import NOT_FOR_OTHERS

T = TypeVar("T")

LOOK_BACK_S = 2 * HOUR
"""A reading from before the period may reach so far into it."""
_numbers = count()
_WIDENED = {("INTEGER", "BIGINT")}
"""Types of a column in files of older versions, and ours."""
_MAGIC = b"PAR1"
_SHORTEST = 12
_SLOT = 900
_NEVER = 1 << 40
_REACHES = "epoch(fetched_at) + coalesce(seconds, 0)"
_REACHES_OF_RUNS = "epoch(run_at) + coalesce(run_seconds, 0)"
"""Until when a row counts: a question about whole runs needs all rows of each."""
_WRONG_VALUES = (TypeError, ValueError, OverflowError, LookupError)
"""What our code raises where a file has values that we never write."""


@dataclass(frozen=True, slots=True)
class SumKind:
    """A kind of sums, and the seconds that one of its rows covers; 0: there are none of it."""

    in_days: int
    in_hours: int


SUM_KINDS = {
    "users": SumKind(HOUR, HOUR),
    "gpus": SumKind(DAY, HOUR),
    "gpus_by_hour": SumKind(0, HOUR),
    "pools": SumKind(HOUR, _SLOT),
    "pools_by_day": SumKind(DAY, _SLOT),
    "hosts": SumKind(HOUR, _SLOT),
    "supply": SumKind(HOUR, HOUR),
    "spells": SumKind(DAY, HOUR),
}
_SAME_RECIPE = {"pools_by_day": "pools", "gpus_by_hour": "gpus"}
"""Days are summed up twice, for charts of weeks and of years; hours once."""
WORTH_SUMS = 64 << 10
"""Bytes of an hour: of a smaller one the rows are read as quickly as its sums."""
SMALL_BYTES = 16 << 20
"""Of open files: up to here their rows are read once, and kept in memory."""


@dataclass(frozen=True, slots=True)
class Period:
    """From when to when, to the second; `until` is not later than the last run."""

    since: int
    until: int


class Unit(NamedTuple):
    """Files that are summed up together: a closed day, a closed hour; or files without sums."""

    start: int
    end: int
    files: tuple[HistoryFile, ...]
    has_sums: bool
    is_open: bool = False
    """Runs that no hour has yet, and hours too small for sums: their rows are read once."""

    @property
    def is_hour(self) -> bool:
        return self.end - self.start == HOUR

    def grain(self, kind: str) -> int:
        of = SUM_KINDS[kind]
        return of.in_hours if self.is_hour else of.in_days


class _Region(NamedTuple):
    unit: Unit
    low: int
    high: int


@dataclass
class Reader:
    engine: Engine
    folder: Path
    listing: Listing
    left_out: set[Path] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    """A line for each file that is left out."""
    uses_sums: bool = True
    asked_at: int | None = None
    """The last reading counts as one after which a run was missed, where that is so by then."""
    _made: set[str] = field(default_factory=set)
    """Kinds of sums of open runs that are tables."""
    _newest: int | None = None
    _open: str = field(default_factory=lambda: f"open_{next(_numbers)}")
    """Of its tables: an engine may have several readers."""

    @classmethod
    def open(cls, engine: Engine, folder: Path, left_out: Iterable[Path] = ()) -> Reader:
        reader = cls(engine, folder, read_listing(folder), set(left_out))
        checked = FolderNotes.read(folder).checked
        for file in reader.listing.files():
            name = str(file.path.relative_to(folder))
            if not checked.get(name, (0, True))[1] or not is_whole(file.path):
                reader.left_out.add(file.path)
        reader.problems = [
            f"{path.relative_to(folder)} is damaged: left out" for path in sorted(reader.left_out)
        ]
        return reader

    @property
    def files(self) -> list[HistoryFile]:
        return [file for file in self.listing.files() if file.path not in self.left_out]

    def newest_run(self) -> int | None:
        """By last.parquet; by the names of files where that is not there."""
        if self._newest is None:
            path = self.folder / LAST_FILE
            if can_be_read(self.engine, path, ("run_at",)):
                self._newest = self.engine.value(f"SELECT max(run_at) FROM {parquet([path])}")
            if self._newest is None:
                self._newest = self.listing.newest_run
        return self._newest

    def until(self, now: int) -> int:
        """Where a period up to now ends: at the last run, unless the next one is overdue."""
        newest = self.newest_run()
        self.asked_at = now
        if newest is None or newest > now:
            return now
        return newest if now - newest <= LATE * self.interval_s() else now

    def interval_s(self) -> int:
        """The usual time between two runs, by the last file; 0 where there is none."""
        last = max(self.files, key=lambda file: file.end, default=None)
        if last is None:
            return 0
        return self.engine.value(f"SELECT max(interval_s) FROM {parquet([last.path])}") or 0

    def oldest(self) -> int | None:
        return min(self.listing.days, default=None)

    def is_younger(self, since: int) -> bool:
        """Whether nothing is older than that: then a longer period has the same in it."""
        oldest = min((file.start for file in self.listing.files()), default=since)
        return oldest >= since

    def units(self) -> list[Unit]:
        found: list[Unit] = []
        for day in self.listing.days.values():
            found += self._units_of(day)
        if files := self._open_files():
            end = max(file.end for file in files)
            found.append(Unit(files[0].start, end, tuple(files), has_sums=False, is_open=True))
        return found

    def _open_files(self) -> list[HistoryFile]:
        days = (day for day in self.listing.days.values() if not day.is_closed)
        files = (file for day in days for file in (*day.open_runs(), *day.hours.values()))
        found = (file for file in files if file.size < WORTH_SUMS or file.is_run)
        return sorted((file for file in found if file.path not in self.left_out), key=lambda file: file.start)

    def _units_of(self, day: DayFiles) -> Iterator[Unit]:
        def kept(files: Iterable[HistoryFile]) -> tuple[HistoryFile, ...]:
            return tuple(file for file in files if file.path not in self.left_out)

        if day.is_closed:
            if files := kept(day.files()):
                yield Unit(day.start, day.end, files, has_sums=True)
            return
        if others := kept(day.others):
            yield Unit(day.start, day.end, others, has_sums=False)
        for file in kept(day.hours.values()):
            if file.size >= WORTH_SUMS:
                yield Unit(file.start, file.end, (file,), has_sums=True)

    def rows(self, period: Period, columns: Iterable[str] = COLUMN_TYPES) -> str:
        """The rows of a period as a table, their seconds clipped to it."""
        regions = [
            _Region(unit, period.since - LOOK_BACK_S, period.until + 1)
            for unit in self.units()
            if unit.end > period.since - LOOK_BACK_S and unit.start <= period.until
        ]
        return self._clipped(regions, period, columns)

    def gpu_runs(self, period: Period) -> str:
        return filled("sql/gpu_runs", rows=f"({self.rows(period, COUNTED)})")

    def sums(self, kind: str, period: Period, *, is_exact: bool = True) -> str:
        """The sums of a period as a table.

        `is_exact`: with the part of readings that reach into it; a chart counts them where they begin.
        """
        newest = self.newest_run() or period.until
        look_back = LOOK_BACK_S if is_exact else 0
        # At the end of the history no reading reaches out of the period.
        end = period.until - look_back if period.until < newest else newest + DAY
        whole: list[Path] = []
        parts: list[str] = []
        regions: list[_Region] = []
        for unit in self.units():
            if unit.end <= period.since - look_back or unit.start > max(period.until, period.since):
                continue
            if unit.is_open and unit.start >= period.since and end > newest:
                parts.append(f"SELECT * FROM {self._open_sums(kind)}")
                continue
            path = self.sums_of(kind, unit) if unit.has_sums else None
            grain = unit.grain(kind)
            low = max(unit.start, -(-period.since // grain) * grain) if path else unit.end
            high = min(unit.end, end // grain * grain) if path else unit.end
            if path is None or low >= high:
                regions.append(_Region(unit, period.since - look_back, period.until + 1))
                continue
            if (low, high) == (unit.start, unit.end):
                whole.append(path)
            else:
                parts.append(f"SELECT * FROM {parquet([path])} WHERE t >= {low} AND t < {high}")
            regions.append(_Region(unit, max(unit.start, period.since - look_back), low))
            regions.append(_Region(unit, high, min(unit.end, period.until + 1)))
        if whole:
            parts.insert(0, f"SELECT * FROM {parquet(whole)}")
        regions = [region for region in regions if region.low < region.high]
        # A chart counts readings whole.
        clip = period if is_exact else Period(0, _NEVER)
        reaches = _REACHES_OF_RUNS if kind == "supply" else _REACHES
        if regions or not parts:
            parts.append(
                recipe(kind, f"({self._clipped(regions, clip, COUNTED, reaches)})", finest_grain(kind))
            )
        parts += self._before(kind, period)
        return "(" + " UNION ALL BY NAME ".join(f"({part})" for part in parts) + ")"

    def _before(self, kind: str, period: Period) -> list[str]:
        """Sums of versions before 0.2 that no row has: whole hours."""
        path = self.folder / BEFORE / f"{kind}{SUFFIX}"
        if not can_be_read(self.engine, path, ("t",)):
            return []
        since = period.since // HOUR * HOUR
        return [f"SELECT * FROM {parquet([path])} WHERE t >= {since} AND t < {period.until}"]

    def _open_sums(self, kind: str) -> str:
        """The sums of open files, made once."""
        if kind not in self._made:
            made = recipe(kind, self._open_rows(COUNTED), finest_grain(kind))
            self.engine.do(f"CREATE TEMP TABLE {self._open}_{kind} AS {made}")
            self._made.add(kind)
        return f"{self._open}_{kind}"

    def path_of_sums(self, kind: str, unit: Unit) -> Path:
        own = _SAME_RECIPE.get(kind, kind) if unit.is_hour else kind
        return sums_path(self.folder, own, list(unit.files), recipe_text(kind))

    def sums_of(self, kind: str, unit: Unit) -> Path | None:
        """The file with the sums of a unit, where it was made."""
        path = self.path_of_sums(kind, unit)
        return path if self.uses_sums and unit.grain(kind) and path.exists() else None

    def _clipped(
        self, regions: Sequence[_Region], period: Period, columns: Iterable[str], reaches: str = _REACHES
    ) -> str:
        self._make_views()
        listed = ", ".join(f'"{name}"' for name in columns)
        parts = []
        for region in regions:
            within = f"run_at >= to_timestamp({region.low}) AND run_at < to_timestamp({region.high})"
            if region.unit.is_open:
                table = self._open_rows(columns)
            else:
                table = parquet(file.path for file in region.unit.files)
            if columns is not COUNTED:
                # A file of an older version lacks the columns that were added since; it has all of COUNTED.
                table = f"(FROM {table} UNION ALL BY NAME FROM no_rows)"
            parts.append(f"SELECT {listed} FROM {table} WHERE {within}")
        rows = " UNION ALL BY NAME ".join(f"({part})" for part in parts or [f"SELECT {listed} FROM no_rows"])
        limits = {"since": str(period.since), "until": str(period.until)}
        return filled("sql/clipped", rows=f"({rows})", reaches=reaches, **limits)

    def _make_views(self) -> None:
        """Of no rows, and of all rows of open files: once."""
        if "views" in self._made:
            return
        self._made.add("views")
        listed = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in COLUMN_TYPES.items())
        self.engine.do(f"CREATE OR REPLACE TEMP VIEW no_rows AS SELECT {listed} WHERE false")
        files = self._open_files()
        rows = "SELECT * FROM no_rows"
        if files:
            newest = str(self.asked_at or "NULL")
            rows = filled("sql/seconds", rows=parquet(file.path for file in files), newest=newest)
        self.engine.do(f"CREATE TEMP VIEW {self._open} AS {rows}")

    def _open_rows(self, columns: Iterable[str]) -> str:
        """The rows of open files; those that are counted are read once, if they are few."""
        self._make_views()
        if columns is not COUNTED or sum(file.size for file in self._open_files()) > SMALL_BYTES:
            return self._open
        if "rows" not in self._made:
            listed = ", ".join(f'"{name}"' for name in COUNTED)
            self.engine.do(f"CREATE TEMP TABLE {self._open}_rows AS SELECT {listed} FROM {self._open}")
            self._made.add("rows")
        return f"{self._open}_rows"


def finest_grain(kind: str) -> int:
    of = SUM_KINDS[kind]
    return min(filter(None, (of.in_hours, of.in_days)))


def recipe(kind: str, rows: str, grain: int) -> str:
    """The sums of some rows."""
    text = recipe_text(kind)
    runs = sql("sql/gpu_runs").replace("{rows}", rows)
    return text.replace("{gpu_runs}", runs).replace("{rows}", rows).replace("{grain}", str(grain))


def recipe_text(kind: str) -> str:
    return sql(f"sums/{_SAME_RECIPE.get(kind, kind)}")


def can_be_read(engine: Engine, path: Path, required: Iterable[str] = REQUIRED) -> bool:
    """Whether a file is a whole Parquet file with these columns."""
    if not is_whole(path):
        return False
    try:
        names = {name for (name,) in engine.rows(f"SELECT name FROM parquet_schema({quoted(path)})")}
    except Exception as error:
        if isinstance(error, OSError):
            raise
        return False
    return set(required) <= names


def is_whole(path: Path) -> bool:
    """A regular file that begins and ends as Parquet does: one that was cut off does not."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size < _SHORTEST or file.read(4) != _MAGIC:
            return False
        file.seek(-4, os.SEEK_END)
        return file.read(4) == _MAGIC


def ask(folder: Path, question: Callable[[Reader], T], say: Callable[[str], None] | None = None) -> T:
    """Ask a question. Where a file turns out to be damaged, ask again without it."""
    try:
        is_there = folder.is_dir()
    except PermissionError as error:
        raise HistoryError(f"cannot open {folder}: {NOT_FOR_OTHERS}") from error
    if not is_there:
        raise HistoryError(f"no history yet: {folder} does not exist; `gpumon-static fetch` adds to it")
    with open_engine(folder) as engine:
        reader = Reader.open(engine, folder)
        try:
            answer = question(reader)
        except Exception as error:
            if isinstance(error, HistoryError) or not is_damage(error):
                raise
            reader = _without_damage(reader)
            answer = _asked_again(reader, question)
        if say:
            for line in reader.problems:
                say(line)
        return answer


def _without_damage(reader: Reader) -> Reader:
    """The sound files only, and no sums; those that cannot be read are removed, and made again by `fetch`."""
    engine, folder = reader.engine, reader.folder
    bad = {file.path for file in reader.files if not is_sound(engine, file)}
    for path in (folder / SUMS).glob("*/*.parquet"):
        if not can_be_unpacked(engine, path):
            with suppress(OSError):
                path.unlink()
    again = Reader.open(engine, folder, reader.left_out | bad)
    again.uses_sums = False
    return again


def _asked_again(reader: Reader, question: Callable[[Reader], T]) -> T:
    try:
        return question(reader)
    except _WRONG_VALUES as error:
        raise DamagedFile(f"{reader.folder}: {type(error).__name__}: {error}") from error


def is_damage(error: Exception) -> bool:
    """A file that cannot be unpacked, or one whose values are none of ours."""
    import duckdb

    from gpumon_static.store.history.engine import as_history_error

    if isinstance(error, _WRONG_VALUES):
        return True
    return isinstance(error, duckdb.Error) and isinstance(as_history_error(error, Path()), DamagedFile)


@contextmanager
def skipped_if_damaged() -> Iterator[None]:
    """A damaged file must not stop what a run does for all the others; readers report it."""
    try:
        yield
    except Exception as error:
        if not is_damage(error):
            raise


def is_sound(engine: Engine, file: HistoryFile) -> bool:
    """Whether all of it can be unpacked, and its columns have the types of ours."""
    if not can_be_read(engine, file.path) or not can_be_unpacked(engine, file.path):
        return False
    kinds = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in COLUMN_TYPES.items())
    ours = _types(engine, f"(SELECT {kinds})")
    types = _types(engine, parquet([file.path])).items()
    return all(ours.get(name, kind) == kind or (kind, ours[name]) in _WIDENED for name, kind in types)


def _types(engine: Engine, table: str) -> dict[str, str]:
    return {name: kind for name, kind, *_ in engine.rows(f"DESCRIBE SELECT * FROM {table}")}


def can_be_unpacked(engine: Engine, path: Path) -> bool:
    import duckdb

    try:
        engine.rows(f"SELECT max(hash(r)) FROM {parquet([path])} AS r")
    except duckdb.Error as error:
        return not is_damage(error)
    return True
