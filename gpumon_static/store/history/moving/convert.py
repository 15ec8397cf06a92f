"""`history.db` of versions before 0.2 becomes files: by the first `fetch`, and by `history convert`.

The files are made in a folder beside and moved when all are there; then the database is renamed. Interrupted
anywhere, all of it starts again and ends the same.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gpumon_static.store.events import Event
from gpumon_static.store.history import event_log
from gpumon_static.store.history.converting import rows, source, tables
from gpumon_static.store.history.converting.source import check_database, is_database
from gpumon_static.store.history.converting.tables import OldNames
from gpumon_static.store.history.engine import HistoryError, errors_of, open_engine, sql
from gpumon_static.store.history.layout import BEFORE, DAY, EVENTS, LAST_FILE, SUFFIX, read_listing
from gpumon_static.store.history.notes import FILE as NOTES_FILE
from gpumon_static.store.history.notes import MOST_RUNS, FolderNotes
from gpumon_static.system.files import make_directory, sync_directory
from gpumon_static.text import Say, count

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config

__all__ = ["OldNames", "check_database", "convert", "convert_if_needed", "is_database", "kept_path"]

KEPT = ".before-parquet"
"""After the name of the database, once its files are there."""
_BESIDE = ".history.converting"
_TABLES = "tables"


@dataclass(frozen=True, slots=True)
class Converted:
    days: int
    kept: Path
    """What the database is called now."""

    @property
    def words(self) -> str:
        return f"history.db converted to files: {count(self.days, 'day')}; it is now {self.kept.name}"


def convert(database: Path, folder: Path, naming: OldNames | None = None, oldest: int = 0) -> int:
    """The files of a database into a folder that has none; return of how many days. It is only read.

    `oldest`: what was before is left out. Raises `HistoryError`.
    """
    make_directory(folder, private=True)
    with source.reading(database) as connection, open_engine(folder) as engine:
        engine.do(sql("sql/macros"))
        tables.load(engine, connection, folder / _TABLES, naming or OldNames())
        days = rows.write_rows(engine, folder, oldest)
        rows.write_before(engine, folder, oldest)
        rows.write_last(engine, folder)
        event_log.add(engine, folder, _events(connection), oldest)
    shutil.rmtree(folder / _TABLES)
    return days


def convert_if_needed(config: Config, now: datetime, say: Say, naming: OldNames | None = None) -> None:
    """It never raises: where it fails, one line has the reason, and runs are recorded all the same."""
    database = config.old_history_path
    if not database.exists():
        return
    try:
        converted = convert_own(config, now, naming)
    except HistoryError as error:
        say(f"history: {error}; it is not converted to files, and left as it is")
    except Exception as error:
        # A mistake of ours must not keep new runs out of the history.
        say(f"history: cannot convert {database}: unexpected {type(error).__name__}: {error}")
    else:
        say(f"history: {converted.words}")


def convert_own(config: Config, now: datetime, naming: OldNames | None = None) -> Converted:
    """The database of the config, with fetch's lock held. Raises `HistoryError`."""
    database, folder = config.old_history_path, config.history_path
    with errors_of(database):
        if kept_path(database).exists():
            days = _merge(config, now, naming)
        else:
            days = _convert_beside(config, now, naming)
        kept = _rename(database)
        shutil.rmtree(folder.with_name(_BESIDE), ignore_errors=True)
    return Converted(days, kept)


def kept_path(database: Path) -> Path:
    return database.with_name(database.name + KEPT)


def _convert_beside(config: Config, now: datetime, naming: OldNames | None) -> int:
    folder = config.history_path
    beside = folder.with_name(_BESIDE)
    shutil.rmtree(beside, ignore_errors=True)
    oldest = int(now.timestamp()) - config.history.keep * DAY
    try:
        days = convert(config.old_history_path, beside, naming, oldest)
        _move(beside, folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return days


def _merge(config: Config, now: datetime, naming: OldNames | None) -> int:
    """One was converted before: this is another one, which may have some of the same time."""
    from gpumon_static.store.history.moving import merging

    before = len(read_listing(config.history_path).days)
    merging.merge(config, config.old_history_path, now, naming)
    return len(read_listing(config.history_path).days) - before


def _move(beside: Path, folder: Path) -> None:
    """What new runs have written meanwhile stays: days have names of their own, the rest is added."""
    for place in (folder, folder / BEFORE, folder / EVENTS):
        make_directory(place, private=True)
    for path in sorted(beside.glob(f"*.{rows.LABEL}{SUFFIX}")):
        path.replace(folder / path.name)
    for path in sorted((beside / BEFORE).glob(f"*{SUFFIX}")):
        path.replace(folder / BEFORE / path.name)
    with open_engine(folder) as engine:
        found = event_log.read(engine, beside, 0, 1_000_000)
        event_log.add(engine, folder, found, 0)
    if not (folder / LAST_FILE).exists() and (beside / LAST_FILE).exists():
        (beside / LAST_FILE).replace(folder / LAST_FILE)
    if (beside / NOTES_FILE).exists():
        notes = FolderNotes.read(folder)
        runs = sorted({*FolderNotes.read(beside).runs, *notes.runs})
        replace(notes, runs=tuple(runs[-MOST_RUNS:])).write(folder)
    for place in (folder / BEFORE, folder):
        sync_directory(place)


def _rename(database: Path) -> Path:
    """With its log, where that could not be brought into it."""
    source.checkpoint(database)
    kept = kept_path(database)
    number = 2
    while kept.exists():
        kept = database.with_name(f"{kept_path(database).name}-{number}")
        number += 1
    database.replace(kept)
    for suffix in ("-wal", "-shm"):
        log = database.with_name(database.name + suffix)
        if log.exists():
            log.replace(kept.with_name(kept.name + suffix))
    sync_directory(database.parent)
    return kept


def _events(connection: sqlite3.Connection) -> Iterator[Event]:
    """Those that can be read."""
    if "events" not in source.names_of_tables(connection):
        return
    for row in connection.execute(
        "SELECT events.id, at, kind, name, told FROM events JOIN hosts ON hosts.id = host ORDER BY at"
    ):
        if event := event_log.event_of_row(*row):
            yield event
