"""Rows of the history from the tables of the database: of each day a file, as of another collector.

Single samples become rows of their runs. Hours and days that have only sums become rows with their seconds;
what cannot be counted again from those goes to `before/`, in the form of the sums of its kind (reader.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from gpumon_static.store.history.columns import COLUMN_TYPES
from gpumon_static.store.history.converting.tables import ROLLUPS, bins, first_kept
from gpumon_static.store.history.engine import QUICK, Engine, filled, parquet, sql
from gpumon_static.store.history.layout import BEFORE, DAY, HOUR, LAST_FILE, SUFFIX, day_path
from gpumon_static.store.history.notes import MOST_RUNS, FolderNotes

LABEL = "before"
"""Of the files of days, which stand beside those of new runs: `2026-11-15.before.parquet`."""
MOST_DAYS, MOST_GPU_DAYS = 60, 4000
"""That are made in one go: some hundred thousand rows."""
_USUAL_S = 300
_IN_ORDER = "host, gpu_index NULLS FIRST, mig_device NULLS FIRST, fetched_at, level DESC"


@dataclass(frozen=True)
class _Times:
    first: int
    """From here on, a whole hour, there are samples; before it sums only."""
    last: int
    """The last run."""
    interval_s: int
    first_of_gpus: int
    """The first hour that counts, as the next one: tables.first_kept."""
    first_of_hosts: int


def write_rows(engine: Engine, folder: Path, oldest: int) -> int:
    """Write the files of all days that end after `oldest`; return how many."""
    times = _times(engine)
    engine.do(sql("converting/macros"))
    path = folder / "readings.tmp"
    engine.connection.execute("SET preserve_insertion_order = false")
    readings = filled("converting/readings").replace("$first", str(times.first))
    engine.write(readings, path)
    engine.do(f"CREATE OR REPLACE TEMP VIEW readings AS SELECT * FROM {parquet([path])}")
    engine.do("CREATE OR REPLACE TEMP TABLE hosts_of_runs AS SELECT DISTINCT host_id FROM readings")
    _count_runs(engine, times)
    days = [day for day in _days(engine) if (day + 1) * DAY > oldest]
    at_once = max(1, min(MOST_DAYS, MOST_GPU_DAYS // (engine.value("SELECT count(*) FROM cards") or 1)))
    pieces = [days[start : start + at_once] for start in range(0, len(days), at_once)]
    written = sum(_write_days(engine, folder, piece, times) for piece in pieces)
    path.unlink()
    return written


def write_before(engine: Engine, folder: Path, oldest: int) -> None:
    """Supply, and what Slurm had given to users; nothing of versions that did not count it."""
    when = f'"day" >= {oldest // DAY}'
    last = engine.value("SELECT coalesce(max(t), 0) FROM runs")
    sums = ", ".join(f"sum(s.{name})::BIGINT AS {name}" for name in ROLLUPS["supply"].sums.split())
    supply = filled(
        "converting/supply",
        supply=bins("supply", first_kept(engine, "supply"), when),
        slurm=bins("slurm_supply", first_kept(engine, "slurm_supply"), when),
        last=str(last),
        sums=sums,
    )
    allocated = bins("allocated", first_kept(engine, "allocated"), when)
    given = filled("converting/allocated", allocated=allocated)
    for name, query in (("supply", supply), ("users", given)):
        if engine.value(f"SELECT count(*) FROM ({query})"):
            engine.write(query, folder / BEFORE / f"{name}{SUFFIX}")


def write_last(engine: Engine, folder: Path) -> None:
    runs = [at for (at,) in engine.rows(f"SELECT t FROM runs ORDER BY t DESC LIMIT {MOST_RUNS}")]
    if not runs:
        return
    engine.do(sql("sql/no_last_state"))
    engine.do(sql("converting/last"), {"last": runs[0]})
    engine.write("SELECT * FROM last_state", folder / LAST_FILE, QUICK)
    FolderNotes(tuple(reversed(runs))).write(folder)


def _times(engine: Engine) -> _Times:
    first, last = engine.row("SELECT min(t), max(t) FROM samples")
    earlier = engine.value('SELECT min("hour") * 3600 FROM gpu_hours')
    earliest_day = engine.value('SELECT min("day") * 86400 FROM gpu_days')
    gpus, hosts = first_kept(engine, "gpu", "user"), first_kept(engine, "machine")
    if first is None:
        return _Times(1 << 40, 0, _USUAL_S, gpus, hosts)
    start = first // HOUR * HOUR
    # The hour that retention has cut comes from its sums.
    older = [
        at
        for at, size in ((earlier, HOUR), (earliest_day, DAY))
        if at is not None and at // size < start // size
    ]
    runs = [at for (at,) in engine.rows("SELECT t FROM runs ORDER BY t DESC LIMIT 200")]
    gaps = [later - earlier_run for later, earlier_run in pairwise(runs)]
    interval_s = int(median(gaps)) if gaps else _USUAL_S
    return _Times(start + HOUR if older else start, last, interval_s, gpus, hosts)


def _count_runs(engine: Engine, times: _Times) -> None:
    """The seconds of each run, for the supply; where the database has counted that, no run counts again."""
    is_counted = bool(engine.value("SELECT count(*) FROM supply_days"))
    counted = "SELECT 0::BIGINT AS t, 0::BIGINT AS seconds WHERE false"
    if not is_counted:
        counted = (
            "SELECT t, coalesce(stands_for(t, lead(t) OVER (ORDER BY t),"
            f" {times.interval_s}, NULL), 0)::BIGINT AS seconds FROM runs"
        )
    engine.do(f"CREATE OR REPLACE TEMP TABLE run_times AS {counted}")


def _days(engine: Engine) -> list[int]:
    listed = " UNION ".join(
        [f'SELECT "day" FROM {name}_days' for name in ("gpu", "user", "machine")]
        + [f'SELECT "hour" // 24 FROM {name}_hours' for name in ("gpu", "user", "machine")]
        + ["SELECT run_t // 86400 FROM readings"]
    )
    days = engine.rows(f"SELECT * FROM ({listed}) AS d (n) WHERE n BETWEEN 1 AND 60000 ORDER BY n")
    return [day for (day,) in days]


def _write_days(engine: Engine, folder: Path, days: Sequence[int], times: _Times) -> int:
    """Some days in one go; return of how many of them something is known."""
    engine.do(f"CREATE OR REPLACE TEMP TABLE some_rows AS {_rows_of(days[0], days[-1] + 1, times)}")
    found = engine.rows("SELECT DISTINCT epoch(run_at)::BIGINT // 86400 FROM some_rows ORDER BY 1")
    for (day,) in found:
        within = f"epoch(run_at) >= {day * DAY} AND epoch(run_at) < {(day + 1) * DAY}"
        engine.write(
            f"SELECT * FROM some_rows WHERE {within} ORDER BY {_IN_ORDER}",
            day_path(folder, day * DAY, LABEL),
        )
    return len(found)


def _rows_of(first: int, end: int, times: _Times) -> str:
    """The rows of days from `first` up to `end`."""
    when = f'"day" >= {first} AND "day" < {end}'
    within = {"start": str(first * DAY), "end": str(end * DAY)}
    gpus = bins("gpu", times.first_of_gpus, when)
    of_sums = {"first_hour": str(times.first // HOUR), "gpus": gpus}
    parts = []
    if end * DAY > times.first:
        given = {"first": str(times.first), "interval_s": str(times.interval_s)}
        parts.append(filled("converting/sample_rows", **within))
        parts.append(filled("converting/host_rows", **within, **given))
    if first * DAY < times.first:
        users = bins("user", times.first_of_gpus, when)
        parts.append(filled("converting/gpu_pieces", **of_sums, users=users))
    machines = bins("machine", times.first_of_hosts, when)
    parts.append(filled("converting/host_pieces", **of_sums, machines=machines))
    none = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in COLUMN_TYPES.items())
    rows = " UNION ALL BY NAME ".join(f"({part})" for part in (f"SELECT {none} WHERE false", *parts))
    values = {name: f'"{name}"' for name in COLUMN_TYPES} | {"interval_s": str(times.interval_s)}
    listed = ", ".join(f'{values[name]}::{kind} AS "{name}"' for name, kind in COLUMN_TYPES.items())
    return f"SELECT {listed} FROM ({rows})"
