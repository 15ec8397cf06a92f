"""The lab at one moment of the past: the last reading of each host then, made again from its rows.

The rows go through the reader of load_data.csv, so that everything after it works on them as on the last run.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpumon_static.errors import GpumonError
from gpumon_static.model import HostReading
from gpumon_static.store import cells, snapshot
from gpumon_static.store.columns import COLUMNS
from gpumon_static.store.history.columns import COLUMN_TYPES, OF_HOSTS
from gpumon_static.store.history.engine import filled, parquet
from gpumon_static.store.history.layout import DAY
from gpumon_static.store.history.reader import Period, Reader, ask
from gpumon_static.text import Say
from gpumon_static.times import utc_text_of

LONGEST_S = DAY
"""A reading that is older is too old, however rare runs were."""
_TIME_TEXT = "strftime({0}, '%Y-%m-%dT%H:%M:%SZ')"
_TURNED_BACK = {"elapsed_s": "started_at", "uptime_s": "booted_at"}


@dataclass(frozen=True)
class LabThen:
    readings: list[HostReading]
    interval_s: int
    """The usual time between two runs, then."""


def lab_then(folder: Path, moment: int, reach_s: Callable[[int], int], say: Say | None = None) -> LabThen:
    """`reach_s`: how old a reading may be, where runs are so far apart. Raises `GpumonError`."""
    return ask(folder, lambda reader: _lab_then(reader, moment, reach_s), say)


def _lab_then(reader: Reader, moment: int, reach_s: Callable[[int], int]) -> LabThen:
    rows = f"({reader.rows(Period(moment - LONGEST_S, moment))})"
    last = reader.engine.rows(
        "SELECT host, epoch(max(fetched_at))::BIGINT, coalesce(arg_max(interval_s, fetched_at), 0)"
        f" FROM {rows} WHERE level = 3 AND fetched_at <= to_timestamp({moment}) GROUP BY host"
    )
    chosen = {host: (at, every) for host, at, every in last if moment - at <= reach_s(every)}
    if not chosen:
        raise GpumonError(_no_run(reader, moment))
    oldest = min(at for at, _ in chosen.values())
    given = {"hosts": list(chosen), "times": [at for at, _ in chosen.values()]}
    near = f"(SELECT * FROM {rows} WHERE fetched_at >= to_timestamp({oldest}))"
    found = reader.engine.rows(filled("questions/moment", rows=near, columns=_columns()), given)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([cells.to_text(value) for value in row] for row in found)
    readings = snapshot.parse(text.getvalue(), reader.folder)
    return LabThen(readings, max(every for _, every in chosen.values()))


def _columns() -> str:
    return ", ".join(f'{_value(name)} AS "{name}"' for name in COLUMNS)


def _value(name: str) -> str:
    """In SQL: the cell of a column of the CSV, from the rows of the history."""
    source = f'"{_TURNED_BACK.get(name, name)}"'
    if _TURNED_BACK.get(name, name) in OF_HOSTS:
        source = f"max({source}) OVER (PARTITION BY host)"
    if name in _TURNED_BACK:
        return f"(epoch(fetched_at) - epoch({source}))::BIGINT"
    return _TIME_TEXT.format(source) if COLUMN_TYPES[name] == "TIMESTAMPTZ" else source


def _no_run(reader: Reader, moment: int) -> str:
    when = utc_text_of(moment)
    runs = _runs_around(reader, moment)
    if not runs:
        return f"no run of {when} is in the history, and none of the days beside it"
    nearest = utc_text_of(min(runs, key=lambda run: abs(run - moment)))
    return (
        f"no run of {when} or shortly before is in the history;"
        f" the nearest one is of {nearest}: --at {nearest}"
    )


def _runs_around(reader: Reader, moment: int) -> list[int]:
    """The last run before and the first one after, from the days that are nearest."""
    starts = [*reader.listing.days]
    before = [start for start in starts if start <= moment][-2:]
    after = [start for start in starts if start > moment][:1]
    days = [reader.listing.days[start] for start in (*before, *after)]
    paths = [file.path for day in days for file in day.files() if file.path not in reader.left_out]
    if not paths:
        return []
    found = reader.engine.row(
        f"SELECT epoch(max(run_at) FILTER (epoch(run_at) <= {moment}))::BIGINT,"
        f" epoch(min(run_at) FILTER (epoch(run_at) > {moment}))::BIGINT FROM {parquet(paths)}"
    )
    return [at for at in found if at is not None]
