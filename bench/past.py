"""A long past made of one day: its rows and sums again, each day earlier by a day."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpumon_static.store.history.engine import Engine, open_engine, parquet, sql
from gpumon_static.store.history.layout import DAY, LAST_FILE, DayFiles, day_path
from gpumon_static.store.history.reader import SUM_KINDS, Reader, Unit
from gpumon_static.store.history.upkeep.closing import make_sum, make_sums

WHOLE_DAYS = (1, 2, 6, 7, 8, 29, 30, 31)
"""Days ago whose rows are all there: questions read them where a period begins. Of others they read sums."""
TIMES = {"first_at", "last_at", "start", "stop"}


def age(folder: Path, days: int) -> None:
    """Make each day before the last whole one as that was."""
    with open_engine(folder) as engine:
        engine.do(sql("sql/macros"))
        make_sums(engine, folder, 3600)
        reader = Reader.open(engine, folder)
        newest = max(reader.listing.days)
        pattern = [file.path for file in reader.files if newest - DAY <= file.start < newest]
        for back in range(2, days + 1):
            _shifted_day(engine, folder, pattern, newest - back * DAY, (back - 1) * DAY, back in WHOLE_DAYS)
        _shift_sums(engine, folder, newest)
        earlier = f"SELECT * REPLACE (first_at - {days * DAY} AS first_at)"
        engine.do(f"CREATE TEMP TABLE older AS {earlier} FROM {parquet([folder / LAST_FILE])}")
        engine.write("SELECT * FROM older", folder / LAST_FILE)


def _shifted_day(
    engine: Engine, folder: Path, pattern: Iterable[Path], start: int, by: int, is_whole: bool
) -> None:
    earlier = ", ".join(f"{name} - INTERVAL {by} SECOND AS {name}" for name in ("fetched_at", "run_at"))
    rows = f"SELECT * REPLACE ({earlier}) FROM {parquet(pattern)}"
    if not is_whole:
        rows += " WHERE level = 3"
    engine.write(rows, day_path(folder, start))


def _shift_sums(engine: Engine, folder: Path, newest: int) -> None:
    """The sums of the day before the last one, for each day that has only a few of its rows."""
    reader = Reader.open(engine, folder)
    units = {unit.start: unit for unit in reader.units() if unit.has_sums and not unit.is_hour}
    pattern = units[newest - 2 * DAY]
    for kind in SUM_KINDS:
        if grain := pattern.grain(kind):
            make_sum(engine, pattern, kind, grain, reader.path_of_sums(kind, pattern))
    for start, unit in units.items():
        if (newest - start) // DAY not in WHOLE_DAYS:
            _shift_unit(engine, reader, pattern, unit)
    make_sums(engine, folder, 3600)


def _shift_unit(engine: Engine, reader: Reader, pattern: Unit, unit: Unit) -> None:
    for kind in SUM_KINDS:
        if not pattern.grain(kind):
            continue
        source, by = reader.path_of_sums(kind, pattern), pattern.start - unit.start
        names = [name for name, *_ in engine.rows(f"DESCRIBE SELECT * FROM {parquet([source])}")]
        earlier = ", ".join(f'"{name}" - {by} AS "{name}"' for name in names if name in TIMES | {"t"})
        engine.write(
            f"SELECT * REPLACE ({earlier}) FROM {parquet([source])}", reader.path_of_sums(kind, unit)
        )


def size_of(day: DayFiles) -> int:
    return sum(file.size for file in day.files())
