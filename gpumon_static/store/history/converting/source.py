"""The database: whether it is one of ours, whole, and of a version that is known."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from gpumon_static.store.history.engine import DamagedFile, HistoryError

TABLES = {"runs", "gpus", "samples", "latest"}
"""A file with these is a history, of whatever version."""
NEWEST_VERSION = 6
"""The last one that was written; 0.1.0 wrote 1."""
WAIT_S = 20.0


def is_database(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with closing(_connect(path)) as connection:
            return names_of_tables(connection) >= TABLES
    except (sqlite3.Error, OSError):
        return False


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """One view of it, with what its log has. Raises `HistoryError` where it is damaged or none of ours."""
    try:
        if not path.is_file():
            raise HistoryError(f"{path} is not a file")
        with closing(_connect(path)) as connection:
            _check(path, connection)
            connection.execute("BEGIN")
            yield connection
    except sqlite3.Error as error:
        kind = (
            DamagedFile if _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) else HistoryError
        )
        raise kind(f"cannot read {path}: {error}") from error


def check_database(path: Path) -> None:
    """Raises `HistoryError` where it cannot be converted."""
    with reading(path):
        pass


def checkpoint(path: Path) -> None:
    """Bring what the log has into the file, as far as that can be done now."""
    try:
        with closing(sqlite3.connect(path, timeout=WAIT_S)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error:
        return


def names_of_tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def _connect(path: Path) -> sqlite3.Connection:
    """Where the directory is not ours to write to, WAL's own files cannot be made: read the file as it is."""
    uri = path.absolute().as_uri()
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        connection = sqlite3.connect(f"{uri}?{mode}", uri=True, timeout=WAIT_S, isolation_level=None)
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.Error as error:
            connection.close()
            if _code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
            problem = error
        else:
            # What older versions took from hosts may be no valid UTF-8.
            connection.text_factory = lambda text: text.decode("utf-8", "replace")
            return connection
    raise problem


def _check(path: Path, connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > NEWEST_VERSION:
        raise HistoryError(
            f"{path} was written by a newer gpumon-static (version {version} of it, this one knows"
            f" {NEWEST_VERSION})"
        )
    if not names_of_tables(connection) >= TABLES:
        raise HistoryError(f"{path} is a database, but not a history of gpumon-static")
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise DamagedFile(f"{path} is damaged: {' '.join(found.split())[:200]}")


def _code(error: sqlite3.Error) -> int | None:
    """The kind of error; the other bits of SQLite's number are details."""
    number = getattr(error, "sqlite_errorcode", None)
    return None if number is None else number & 0xFF
