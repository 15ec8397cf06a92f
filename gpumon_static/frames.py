"""The data as pandas DataFrames, for notebooks: the last run, and the history of all runs.

    from gpumon_static import frames
    frames.gpu_hours(by=["user", "model"], since="30d")

Times are in UTC with their zone, units are part of the columns' names, and what is not known is missing
(`<NA>`), never 0. `config` is the path of a config file; without it the usual places are tried.
`since` and `until` are times (`datetime`, `2026-11-01`) or how long ago (`30d`); without them all runs count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from gpumon_static.config import file as config_file
from gpumon_static.config.settings import Config
from gpumon_static.errors import UsageError
from gpumon_static.model import Allocated, Status
from gpumon_static.store import cells
from gpumon_static.store import snapshot as snapshot_file
from gpumon_static.store.columns import BY_NAME, COLUMNS
from gpumon_static.store.history.reader import Period
from gpumon_static.store.history.views import asking
from gpumon_static.store.history.views.asking import ALL_TIME, Answer, Question
from gpumon_static.times import parse_duration, utc_now

__all__ = ["Moment", "gpu_hours", "holdings", "jobs", "runs", "snapshot", "sql"]

Moment = datetime | str | None
"""A time, `2026-11-01`, `2026-11-01T09:30`, or how long ago: `30d`. Without a zone it is local time."""

PARTS = {"user": '"user"', "host": "host", "group": "host_group", "model": "coalesce(gpu_name, '')"}
"""What GPU hours can be listed by, in SQL."""
_TIME, _TEXT, _WHOLE, _NUMBER, _FLAG = "datetime64[us, UTC]", "string", "Int64", "Float64", "boolean"
_OF_CELLS: dict[Callable[[str], Any] | type, str] = {
    cells.whole: _WHOLE,
    cells.finite: _NUMBER,
    cells.flag: _FLAG,
    cells.moment: _TIME,
    Status: _TEXT,
    Allocated: _TEXT,
}
_UNITS = {"gpu_utilization": "gpu_utilization_percent", "cpu_utilization": "cpu_utilization_percent"}
"""Columns of load_data.csv whose names have no unit."""


def snapshot(config: str | Path | None = None) -> pd.DataFrame:
    """The last run, as load_data.csv has it: one row for each process, or GPU or host without one."""
    readings = snapshot_file.read(_config(config).csv_path)
    cells_of = zip(*snapshot_file.to_rows(readings), strict=True)
    columns = dict(zip(COLUMNS, cells_of, strict=True)) if readings else dict.fromkeys(COLUMNS, ())
    return pd.DataFrame({_UNITS.get(name, name): _of_cells(name, found) for name, found in columns.items()})


def runs(since: Moment = None, until: Moment = None, config: str | Path | None = None) -> pd.DataFrame:
    """Each GPU and slice of each run, with the seconds that it stands for: the view `gpu_runs`."""
    return sql("FROM gpu_runs ORDER BY fetched_at, host, gpu_index, mig_device", since, until, config)


def gpu_hours(
    by: str | Iterable[str] = "user",
    since: Moment = None,
    until: Moment = None,
    config: str | Path | None = None,
) -> pd.DataFrame:
    """GPU hours, their efficiency and energy, by `user`, `host`, `group`, `model` or several of them.

    The numbers of `gpumon-static history users`: what several users hold is split evenly among them.
    """
    names = [by] if isinstance(by, str) else list(by)
    if not names or set(names) - set(PARTS):
        raise UsageError(f"by={by!r}: choose from {', '.join(PARTS)}")
    parts = ", ".join(f'{PARTS[name]} AS "{name}"' for name in names)
    folder = _config(config).history_path
    return asking.hours(folder, parts, _period(since, until), _frame)


def holdings(since: Moment = None, until: Moment = None, config: str | Path | None = None) -> pd.DataFrame:
    """Who held which GPU or slice from when to when: the view `holdings`."""
    return sql('FROM holdings ORDER BY held_from, host, gpu_index, mig_device, "user"', since, until, config)


def jobs(since: Moment = None, until: Moment = None, config: str | Path | None = None) -> pd.DataFrame:
    """Jobs, finished ones too: the view `jobs`."""
    return sql("FROM jobs ORDER BY first_seen, job", since, until, config)


def sql(
    question: str, since: Moment = None, until: Moment = None, config: str | Path | None = None
) -> pd.DataFrame:
    """The answer to a question in SQL, as `gpumon-static history sql` gives it."""
    folder = _config(config).history_path
    return asking.answer(folder, Question(question, _period(since, until)), _frame)


def _config(path: str | Path | None) -> Config:
    return config_file.load(config_file.find(Path(path) if path is not None else None))


def _period(since: Moment, until: Moment) -> Period:
    period = Period(_seconds(since, ALL_TIME.since), _seconds(until, ALL_TIME.until))
    if period.since >= period.until:
        raise UsageError("since must be before until")
    return period


def _seconds(moment: Moment, otherwise: int) -> int:
    if moment is None:
        return otherwise
    if isinstance(moment, datetime):
        return int(moment.astimezone(UTC).timestamp())
    try:
        return int(utc_now().timestamp()) - parse_duration(moment)
    except ValueError as error:
        try:
            return int(datetime.fromisoformat(moment).astimezone().timestamp())
        except (ValueError, OverflowError):
            raise UsageError(f"{error}, nor a date such as 2025-11-14") from None


def _of_cells(name: str, found: Sequence[str]) -> pd.Series[Any]:
    convert = BY_NAME[name].convert
    kind = _OF_CELLS.get(convert, _TEXT)
    # Faults and disks stay the text that they are in the file.
    read = cells.text if kind == _TEXT else convert
    values = [read(cell) if cell else None for cell in found]
    return pd.Series(values, dtype=kind)


def _frame(answer: Answer) -> pd.DataFrame:
    found: Mapping[str, Any] = answer.cursor.fetchnumpy()
    kinds = {column.name: column.type for column in answer.columns}
    return pd.DataFrame({name: _series(values, kinds[name]) for name, values in found.items()})


def _series(values: Any, kind: str) -> pd.Series[Any]:
    """A column of DuckDB with the type that it has there; a masked value is missing."""
    if kind.endswith("[]"):
        return pd.Series([None if one is None else list(one) for one in values.tolist()], dtype="object")
    if kind.startswith("TIMESTAMP"):
        times = pd.Series(values.filled(pd.NaT.to_numpy()) if hasattr(values, "filled") else values)
        return times.dt.tz_localize("UTC") if "TIME ZONE" in kind else times
    dtype = _DTYPES.get(kind)
    listed = values.tolist() if dtype in (None, _TEXT) else pd.array(values, dtype=dtype)
    return pd.Series(listed, dtype=dtype)


_DTYPES = {
    "VARCHAR": _TEXT,
    "BOOLEAN": _FLAG,
    "DOUBLE": _NUMBER,
    "FLOAT": _NUMBER,
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UBIGINT", "UINTEGER"), _WHOLE),
}
