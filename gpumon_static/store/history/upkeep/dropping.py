"""Drop what a clock that was ahead has recorded, and go on as if it had never been; a copy is kept."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gpumon_static.store.history.engine import Engine, open_engine, parquet
from gpumon_static.store.history.layout import LAST_FILE, HistoryFile, read_listing
from gpumon_static.store.history.moving.copies import name_before
from gpumon_static.store.history.notes import FolderNotes
from gpumon_static.store.history.upkeep.checksums import FILE as SUMS_FILE
from gpumon_static.system.files import make_directory
from gpumon_static.text import count
from gpumon_static.times import utc_text_of

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config


@dataclass(frozen=True, slots=True)
class Dropped:
    runs: int
    since: int
    """The first run that was dropped."""
    copy: Path

    @property
    def words(self) -> str:
        since = utc_text_of(self.since)
        return f"{count(self.runs, 'run')} from {since} on dropped; {self.copy.name} has them still"


def drop_after(config: Config, last_right: datetime, now: datetime) -> Dropped | None:
    """None: nothing was recorded after that time."""
    folder, at = config.history_path, int(last_right.timestamp())
    with open_engine(folder) as engine:
        files = [
            file for day in read_listing(folder).days.values() for file in (*day.files(), *day.replaced())
        ]
        ahead = [file for file in files if _has_runs_after(engine, file, at)]
        if not ahead:
            return None
        after = f"FROM {parquet(file.path for file in ahead)} WHERE epoch(run_at) > {at}"
        runs, since = engine.row(f"SELECT count(DISTINCT run_at), epoch(min(run_at))::BIGINT {after}")
        copy = name_before(folder, now)
        make_directory(copy, private=True)
        for file in ahead:
            _drop(engine, folder, copy, file, at)
    (folder / LAST_FILE).unlink(missing_ok=True)
    (folder / SUMS_FILE).unlink(missing_ok=True)
    FolderNotes.read(folder).without_runs_after(at).write(folder)
    return Dropped(runs, since, copy)


def _has_runs_after(engine: Engine, file: HistoryFile, at: int) -> bool:
    if file.end <= at:
        return False
    newest = engine.value(f"SELECT epoch(max(run_at)) FROM {parquet([file.path])}")
    return newest is not None and newest > at


def _drop(engine: Engine, folder: Path, copy: Path, file: HistoryFile, at: int) -> None:
    """Keep a copy; what is left of the file takes its place."""
    kept = copy / file.path.relative_to(folder)
    make_directory(kept.parent, private=True)
    shutil.copy2(file.path, kept)
    rows = f"SELECT * FROM {parquet([kept])} WHERE epoch(run_at) <= {at}"
    if engine.value(f"SELECT count(*) FROM ({rows})"):
        engine.write(rows, file.path)
    else:
        file.path.unlink()
