"""Copies of `history.db`: made while it is in use, rotated, and put back.

A copy never replaces what is not a history, and a history is never replaced without a copy of it.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from gpumon_static.store.history import consistency
from gpumon_static.store.history.database import (
    DamagedHistory,
    HistoryError,
    put_aside,
    reading,
    reason,
    writing,
)
from gpumon_static.text import count
from gpumon_static.times import utc_text_of

TABLES = {"runs", "gpus", "samples", "latest"}
"""A file with these is a history, of whatever version."""


@dataclass(frozen=True, slots=True)
class Copied:
    path: Path
    runs: int
    newest: int | None
    """The time of the last run."""

    @property
    def words(self) -> str:
        size = f"{self.path.stat().st_size / 1e6:.1f} MB"
        until = f", the last at {utc_text_of(self.newest)}" if self.newest is not None else ""
        return f"{self.path}: {size}, {count(self.runs, 'run')} one by one{until}"


def backup(path: Path, target: Path, keep: int = 1) -> Copied:
    """A whole copy, made while others write. The target appears in one step, or not at all.

    `keep`: how many there may be in all. The one before becomes TARGET.1, that one TARGET.2 and so on.
    """
    if target.resolve() == path.resolve():
        raise HistoryError(f"{target} is the history itself: name another file")
    places = [target, *(target.with_name(f"{target.name}.{number}") for number in range(1, keep))]
    for place in places:
        if os.path.lexists(place) and not is_history(place):
            raise HistoryError(f"{place} exists and is not a backup of a history: name another file")
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        with _writing_to(target):
            temporary.unlink(missing_ok=True)
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with reading(path) as source:
            found = _summary(target, source)
            with _writing_to(target), closing(sqlite3.connect(temporary)) as copy:
                source.backup(copy)
                # A single file, which can be carried anywhere.
                copy.execute("PRAGMA journal_mode = DELETE")
        with _writing_to(target):
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            for newer, older in reversed(list(pairwise(places))):
                if newer.exists():
                    newer.replace(older)
            temporary.replace(target)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return found


def name_before(path: Path, now: datetime) -> Path:
    """Where the history as it was is kept. Never a file that is there: it may be the one to restore."""
    stem = f"{path.name}.before-{now:%Y%m%dT%H%M%S}"
    names = (stem, *(f"{stem}-{number}" for number in range(2, 1000)))
    return next(place for name in names if not os.path.lexists(place := path.with_name(name)))


def restore(path: Path, source: Path, now: datetime) -> tuple[Copied, Path | None]:
    """Put a backup in the place of the history, in one transaction; return it, and the copy of before."""
    if source.resolve() == path.resolve():
        raise HistoryError(f"{source} is the history itself: name a backup")
    check(source)
    before = _put_away(path, now) if path.exists() else None
    with reading(source) as backup_:
        found = _summary(source, backup_)
        # An empty history of ours, so that owner and mode are right.
        with writing(path):
            pass
        with _writing_to(path), closing(sqlite3.connect(path)) as connection:
            backup_.backup(connection)
    return found, before


def check(path: Path) -> None:
    """Raises `HistoryError` for a file that is not a whole history, and for one of a newer version."""
    if path.exists() and not is_history(path):
        raise HistoryError(f"{path} is not a history of gpumon-static")
    with reading(path) as connection:
        (told,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        problem = told if told != "ok" else consistency.problem(connection)
    if problem:
        raise DamagedHistory(f"{path} is damaged: {problem}")


def is_history(path: Path) -> bool:
    """Of whatever version, a newer one too."""
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            return {name for (name,) in names} >= TABLES
    except sqlite3.Error:
        return False


def _put_away(path: Path, now: datetime) -> Path:
    copy = name_before(path, now)
    try:
        check(path)
        backup(path, copy)
    except HistoryError:
        return put_aside(path, now)
    return copy


def _summary(path: Path, connection: sqlite3.Connection) -> Copied:
    runs, newest = connection.execute("SELECT count(*), max(at) FROM runs").fetchone()
    return Copied(path, runs, newest)


@contextmanager
def _writing_to(target: Path) -> Iterator[None]:
    """Turn an error into the line that the user reads, with the path that could not be written."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise HistoryError(f"cannot write {target}: {reason(error)}") from error
