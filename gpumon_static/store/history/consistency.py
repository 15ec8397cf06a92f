"""Whether the rows of a history fit together: asked only when something went wrong that SQLite does not see.

SQLite checks its pages, not what is in them: a number may be a text, and a GPU may name a host that is not
there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from gpumon_static.store.history.observed import MISSED

ODD = (AttributeError, LookupError, TypeError, ValueError, OverflowError, StopIteration)
"""What reading rows that do not fit together raises."""

MOST = 2**53
"""Sums of centuries are less, and what is more cannot be added to."""

_KINDS = {
    "INTEGER": ("integer", "null"),
    "REAL": ("integer", "real", "null"),
    "TEXT": ("text", "null"),
}
"""What SQLite may have stored in a column of that kind."""
_REFERENCES = {
    "host": "hosts",
    "model": "models",
    "gpu": "gpus",
    "user": "users",
    "crew": "crews",
    "counted_as": "models",
}
"""Columns that hold the number of a row elsewhere."""


def problem(connection: sqlite3.Connection) -> str | None:
    """The first thing that does not fit, in a few words; None where all does."""
    try:
        return next(_problems(connection), None)
    except sqlite3.Error as error:
        return str(error)


def _problems(connection: sqlite3.Connection) -> Iterator[str]:
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    for table in tables:
        columns = list(connection.execute(f"PRAGMA table_info({table})"))
        for _, column, kind, *_ in columns:
            if kind in _KINDS:
                yield from _of_another_kind(connection, table, column, kind)
            if kind in ("INTEGER", "REAL"):
                yield from _out_of_range(connection, table, column)
            if column in _REFERENCES:
                yield from _not_there(connection, table, column)
    for (members,) in connection.execute("SELECT members FROM crews"):
        known = {str(number) for (number,) in connection.execute("SELECT id FROM users")}
        if not isinstance(members, str) or not set(members.split()) <= known:
            yield "a row of crews names a user that is not there"


def _of_another_kind(connection: sqlite3.Connection, table: str, column: str, kind: str) -> Iterator[str]:
    right = _KINDS[kind]
    marks = ", ".join("?" for _ in right)
    query = f"SELECT 1 FROM {table} WHERE typeof({column}) NOT IN ({marks}) LIMIT 1"  # noqa: S608 (our own names)
    if connection.execute(query, right).fetchone():
        yield f"in a row of {table}, {column} is not {kind}"


def _out_of_range(connection: sqlite3.Connection, table: str, column: str) -> Iterator[str]:
    least, most = (0, MISSED) if column.endswith("state") else (-MOST, MOST)
    query = f"SELECT 1 FROM {table} WHERE {column} NOT BETWEEN ? AND ? LIMIT 1"  # noqa: S608 (our own names)
    if connection.execute(query, (least, most)).fetchone():
        yield f"in a row of {table}, {column} is out of range"


def _not_there(connection: sqlite3.Connection, table: str, column: str) -> Iterator[str]:
    other = _REFERENCES[column]
    query = (
        f"SELECT 1 FROM {table} WHERE {column} IS NOT NULL"  # noqa: S608 (our own names)
        f" AND {column} NOT IN (SELECT id FROM {other}) LIMIT 1"
    )
    if connection.execute(query).fetchone():
        yield f"a row of {table} names one of {other} that is not there"
