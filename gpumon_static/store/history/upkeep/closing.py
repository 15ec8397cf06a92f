"""What a run does for the folder after it was added: close hours and days, sum up, check, prune.

A file is written beside, then renamed, and replaces those whose name it begins. What is replaced is removed
an hour later, so that no reader loses a file that it has just listed. All of it can be interrupted anywhere:
the next run finds what is left to do by the names of the files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from gpumon_static.store.history.engine import QUICK, SPILL, Engine, filled, parquet, quoted
from gpumon_static.store.history.layout import (
    DAY,
    HOUR,
    LATE,
    SUMS,
    DayFiles,
    HistoryFile,
    Listing,
    day_path,
    hour_path,
    read_listing,
    run_path,
)
from gpumon_static.store.history.notes import FolderNotes
from gpumon_static.store.history.reader import (
    SUM_KINDS,
    Reader,
    Unit,
    can_be_read,
    is_sound,
    is_whole,
    recipe,
    skipped_if_damaged,
)
from gpumon_static.store.history.upkeep import checksums, pseudonymizing
from gpumon_static.store.history.upkeep.bounding import IN_ORDER, bound_day, bound_hour
from gpumon_static.text import Say

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config

READERS_NEED_S = HOUR
SURE_AFTER_S = 7 * DAY
"""So long after a pause in the runs, which a clock that is ahead looks like, nothing is taken for old."""
SECONDS_FOR_SUMS = 20.0
"""For sums that are missing of the past: the rest is made by the next runs."""


def tidy(
    engine: Engine, config: Config, notes: FolderNotes, now: int, interval_s: int, say: Say
) -> FolderNotes:
    """Return the notes with what was done."""
    folder = config.history_path
    listing = read_listing(folder)
    if close_hours(engine, listing, now, interval_s, say) or close_days(engine, listing, now):
        listing = read_listing(folder)
    if close_days(engine, listing, now):
        listing = read_listing(folder)
    if not _has_just_jumped(listing, now, interval_s):
        pseudonymizing.pseudonymize(engine, config, listing, now)
        _prune(config, listing, now)
    make_sums(engine, folder, SECONDS_FOR_SUMS)
    _remove_replaced(listing)
    return checksums.keep(folder, read_listing(folder), notes, now, say)


def close_hours(engine: Engine, listing: Listing, now: int, interval_s: int, say: Say) -> bool:
    """Hours whose last run has been followed by another, or was the last for long enough."""
    closed = False
    for day in listing.days.values():
        if day.whole:
            continue
        for hour in sorted({run.start // HOUR * HOUR for run in day.runs}):
            if hour + HOUR + LATE * interval_s > now:
                continue
            # All of a run is read only where its hour cannot be closed otherwise.
            for is_usable in (_is_ours, is_sound):
                with skipped_if_damaged():
                    closed |= _close_hour(engine, listing, day, hour, interval_s, is_usable, say)
                    break
    return closed


def _is_ours(engine: Engine, file: HistoryFile) -> bool:
    return can_be_read(engine, file.path)


def runs_of(engine: Engine, path: Path) -> set[str]:
    """The names of the runs that an hour was made of."""
    found = engine.rows(
        f"SELECT decode(value) FROM parquet_kv_metadata({quoted(path)}) WHERE decode(key) = 'runs'"
    )
    return set(found[0][0].split()) if found else set()


def _close_hour(
    engine: Engine,
    listing: Listing,
    day: DayFiles,
    hour: int,
    interval_s: int,
    is_usable: Callable[[Engine, HistoryFile], bool],
    say: Say,
) -> bool:
    """It may have been closed before without some of its runs, which another collector wrote."""
    before = day.hours.get(hour)
    known = runs_of(engine, before.path) if before else set()
    new = [run for run in day.runs if run.start // HOUR * HOUR == hour and run.path.stem not in known]
    # A run that is damaged can never be read: its hour is closed without it.
    runs = [run for run in new if is_usable(engine, run)]
    if not runs:
        return False
    sources = [run.path for run in runs] + ([before.path] if before else [])
    names = {run.path.stem for run in runs} | known
    end = hour + HOUR
    reach = max(2 * HOUR, int(LATE * interval_s))
    near = [file for file in listing.files() if end <= file.start <= end + reach]
    following = [file.path for file in near if is_usable(engine, file)]
    rows = f"(SELECT * REPLACE (NULL AS seconds, NULL AS run_seconds) FROM {parquet([*sources, *following])})"
    within = f"epoch(run_at) >= {hour} AND epoch(run_at) < {end}"
    counted = filled("sql/seconds", rows=rows, newest=str(listing.newest_run or "NULL"))
    engine.do(f"CREATE OR REPLACE TEMP TABLE closing AS SELECT * FROM ({counted}) WHERE {within}")
    for host in bound_hour(engine, "closing", listing.folder):
        say(f"history: {host} sent more in an hour than a host may add: its processes are left out there")
    engine.write(
        f"SELECT * FROM closing ORDER BY {IN_ORDER}",
        hour_path(listing.folder, hour),
        notes={"runs": " ".join(sorted(names))},
    )
    engine.do("DROP TABLE closing")
    if before:
        checksums.forget(listing.folder, before.path)
    return True


def reopen(engine: Engine, folder: Path, at: int) -> None:
    """Make single runs again of an hour or a day that a clock ahead has closed too early."""
    for path in (hour_path(folder, at), day_path(folder, at)):
        if not path.exists():
            continue
        rows = f"SELECT * REPLACE (NULL AS seconds, NULL AS run_seconds) FROM {parquet([path])}"
        for (run_at,) in engine.rows(f"SELECT DISTINCT epoch(run_at)::BIGINT FROM {parquet([path])}"):
            engine.write(f"{rows} WHERE epoch(run_at) = {run_at}", run_path(folder, run_at), QUICK)
        path.unlink()
        checksums.forget(folder, path)


def close_days(engine: Engine, listing: Listing, now: int) -> bool:
    """Days that have been over for a day: until then the page asks for their hours."""
    closed = False
    for day in listing.days.values():
        if day.is_closed or day.end + DAY > now or _readable(engine, day.open_runs()):
            continue
        hours = [hour.path for hour in day.hours.values()]
        # Each hour is sorted: one after the other packs nearly as well, and can be searched by time.
        # A day with a damaged hour stays open, so that the hour can be restored.
        with skipped_if_damaged():
            engine.write(bound_day(engine, parquet(hours)), day_path(listing.folder, day.start))
            closed = True
    return closed


def _readable(engine: Engine, runs: Iterable[HistoryFile]) -> bool:
    return any(_is_ours(engine, run) for run in runs)


def make_sums(engine: Engine, folder: Path, seconds: float) -> None:
    """Sums that are missing, the newest first, for so long."""
    reader = Reader.open(engine, folder)
    units = [unit for unit in reversed(reader.units()) if unit.has_sums]
    wanted: dict[Path, None] = {}
    until = time.monotonic() + seconds
    for unit in units:
        for kind in SUM_KINDS:
            if grain := unit.grain(kind):
                path = reader.path_of_sums(kind, unit)
                wanted[path] = None
                if not is_whole(path) and time.monotonic() < until:
                    with skipped_if_damaged():
                        make_sum(engine, unit, kind, grain, path)
    for path in (folder / SUMS).glob("*/*.parquet"):
        if path not in wanted and _is_unused(path):
            with suppress(OSError):
                path.unlink()


def make_sum(engine: Engine, unit: Unit, kind: str, grain: int, path: Path) -> None:
    rows = parquet(file.path for file in unit.files)
    engine.write(recipe(kind, rows, grain), path)


def count_seconds(engine: Engine, table: str) -> None:
    """The seconds that each row of a table stands for."""
    engine.do(f"CREATE OR REPLACE TEMP TABLE counted AS {filled('sql/seconds', rows=table, newest='NULL')}")
    engine.do(f"DROP TABLE {table}; ALTER TABLE counted RENAME TO {table}")


def _has_just_jumped(listing: Listing, now: int, interval_s: int) -> bool:
    long = max(DAY, 3 * interval_s)
    days = [*listing.days]
    jumps = (later for earlier, later in pairwise(days) if later - earlier - DAY > long)
    return any(now - jumped_to < SURE_AFTER_S for jumped_to in jumps)


def _prune(config: Config, listing: Listing, now: int) -> None:
    oldest = now - config.history.keep * DAY
    for day in listing.days.values():
        if day.end <= oldest:
            _unlink(file.path for file in (*day.files(), *day.replaced()))
            with suppress(OSError):
                (listing.folder / day_path(listing.folder, day.start).stem).rmdir()


def _remove_replaced(listing: Listing) -> None:
    """What other files have replaced for an hour; and what killed runs left."""
    for day in listing.days.values():
        for file in day.replaced():
            by = day.whole or day.hours.get(file.start // HOUR * HOUR)
            if by and _is_unused(by.path):
                _unlink([file.path])
        if day.whole:
            with suppress(OSError):
                (listing.folder / day.whole.path.stem).rmdir()
    for folder in (listing.folder, *listing.folder.glob("*/"), *(listing.folder / SUMS).glob("*/")):
        _unlink(path for path in folder.glob(".*.tmp") if _is_unused(path))
    _unlink(path for path in (listing.folder / SPILL).glob("*") if _is_unused(path))


def _is_unused(path: Path) -> bool:
    """No reader that began before it was written still needs what it replaced."""
    try:
        return time.time() - path.stat().st_mtime > READERS_NEED_S
    except OSError:
        return False


def _unlink(paths: Iterable[Path]) -> None:
    for path in list(paths):
        with suppress(OSError):
            path.unlink()


def write_past(engine: Engine, folder: Path, now: int, interval_s: int) -> None:
    """The rows of `new_rows`, whose seconds are counted, as days, hours and runs."""
    for (hour,) in engine.rows(
        f"SELECT DISTINCT epoch(run_at)::BIGINT // {HOUR} * {HOUR} FROM new_rows ORDER BY 1"
    ):
        day = hour // DAY * DAY
        if day + 2 * DAY <= now:
            path, start, end = day_path(folder, day), day, day + DAY
        else:
            path, start, end = hour_path(folder, hour), hour, hour + HOUR
        if path.exists():
            continue
        chosen = f"FROM new_rows WHERE epoch(run_at) >= {start} AND epoch(run_at) < {end}"
        runs = [at for (at,) in engine.rows(f"SELECT DISTINCT epoch(run_at)::BIGINT {chosen}")]
        if end + LATE * interval_s > now:
            for at in runs:
                open_rows = "SELECT * REPLACE (NULL AS seconds, NULL AS run_seconds) FROM new_rows"
                engine.write(f"{open_rows} WHERE epoch(run_at) = {at}", run_path(folder, at), QUICK)
            continue
        names = " ".join(sorted(run_path(folder, at).stem for at in runs))
        engine.write(f"SELECT * {chosen} ORDER BY {IN_ORDER}", path, notes={"runs": names})
