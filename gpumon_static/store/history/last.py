"""`last.parquet`: how each GPU and host stood in the last run, and since when.

For "free for 3 h", the last cards of hosts that do not answer, and which GPU is which. Where it is missing,
damaged or behind, it is made again from the runs: the same SQL takes one run or many.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gpumon_static.store.history.engine import (
    QUICK,
    DamagedFile,
    Engine,
    as_history_error,
    filled,
    parquet,
    sql,
)
from gpumon_static.store.history.layout import DAY, HOUR, LAST_FILE, LATE, HistoryFile, read_listing
from gpumon_static.store.history.notes import FolderNotes
from gpumon_static.store.history.reader import Reader, can_be_read

BRIDGE_S = HOUR
"""What is seen in the same state before and after a pause of this length was so all the time."""
REPLAYED_S = 31 * DAY
"""How far back the state is made again from the runs."""
FORGOTTEN_S = 400 * DAY
_AS_SEEN = (
    "gpu_index gpu_uuid gpu_name gpu_bus_id model mig_profile host_group share memory_total state held_by"
    " utilization memory_used"
).split()
_NEWER = ", ".join(f"CASE WHEN n.is_seen THEN n.{name} ELSE l.{name} END AS {name}" for name in _AS_SEEN)


@dataclass(frozen=True)
class Last:
    run_at: int | None = None
    read_at: dict[str, int] = field(default_factory=dict)
    """By host: when it was last asked."""


def open_last(engine: Engine, folder: Path, notes: FolderNotes) -> Last:
    """The table `last_state`, as the newest run left it."""
    path = folder / LAST_FILE
    engine.do(sql("sql/no_last_state"))
    if can_be_read(engine, path, ("host", "card", "since", "run_at")):
        _load(engine, path)
    run_at = engine.value("SELECT max(run_at) FROM last_state")
    newest = max(notes.runs, default=None)
    listed = read_listing(folder)
    newest = max(filter(None, (newest, listed.newest_run)), default=None)
    if newest is None and listed.days:
        newest = max(listed.days) + DAY
    if newest is not None and (run_at is None or run_at < newest):
        _catch_up(engine, folder, run_at, newest)
        run_at = engine.value("SELECT max(run_at) FROM last_state")
    rows = engine.rows("SELECT host, known_at FROM last_state WHERE card = ''")
    return Last(run_at, dict(rows))


def _load(engine: Engine, path: Path) -> None:
    """Where its columns are none of ours: nothing, as if it were not there."""
    import duckdb

    try:
        engine.do(f"INSERT INTO last_state BY NAME SELECT * FROM {parquet([path])}")
    except duckdb.Error as error:
        if not isinstance(as_history_error(error, path), DamagedFile):
            raise


def advance(engine: Engine, folder: Path, run_at: int, interval_s: int) -> None:
    """`last.parquet` after the runs of `new_rows`."""
    is_one_run = engine.value("SELECT min(run_at) = max(run_at) FROM new_rows")
    fold(engine, run_at, interval_s, is_one_run=is_one_run)
    engine.write("SELECT * FROM last_state", folder / LAST_FILE, QUICK)


def fold(engine: Engine, run_at: int, interval_s: int, *, is_one_run: bool = False) -> None:
    """Bring `last_state` to where the runs of `new_rows` and `new_gpus` leave it.

    One run is joined with the state before, in a quarter of the time that many take.
    """
    bridge_s = int(max(BRIDGE_S, LATE * interval_s))
    late_s = int(LATE * interval_s)
    given = {"run_at": run_at, "bridge_s": bridge_s, "late_s": late_s, "oldest": run_at - FORGOTTEN_S}
    after = filled("sql/next_state", values=_NEWER) if is_one_run else sql("sql/last_state")
    engine.do(f"CREATE OR REPLACE TEMP TABLE new_last AS {after}", given)
    engine.do("DROP TABLE last_state; ALTER TABLE new_last RENAME TO last_state")
    if not is_one_run:
        engine.do(sql("sql/gone"))


def _catch_up(engine: Engine, folder: Path, run_at: int | None, newest: int) -> None:
    """Runs that a crash kept out of the file; all of the last month where it is lost."""
    since = max(newest - REPLAYED_S, (run_at or 0) + 1)
    reader = Reader.open(engine, folder)
    files: list[HistoryFile] = [file for file in reader.files if file.end > since]
    if not files:
        return
    rows = f"SELECT * FROM {parquet(file.path for file in files)} WHERE epoch(run_at) >= {since}"
    engine.do(f"CREATE OR REPLACE TEMP TABLE new_rows AS {rows}")
    at, interval_s = engine.row("SELECT epoch(max(run_at))::BIGINT, max(interval_s) FROM new_rows")
    if at is not None:
        engine.do(f"CREATE OR REPLACE TEMP TABLE new_gpus AS {filled('sql/gpu_runs', rows='new_rows')}")
        fold(engine, at, interval_s or HOUR)
