"""The events of the last year. `events.json` has the last 200 only; what it has is added with every run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from gpumon_static.store.events import Event
from gpumon_static.store.events_file import event_document, event_of
from gpumon_static.store.history.consistency import ODD
from gpumon_static.store.history.questions import has_table
from gpumon_static.times import utc_text_of

MOST_PER_HOST = 5000
"""A host that goes up and down all year fills no disk."""
_COLUMNS = ("id", "at", "type", "host")
"""Those that the table has; the rest of an event is JSON."""


def add_events(
    connection: sqlite3.Connection, host_id: Callable[[str], int], events: Iterable[Event], oldest: int
) -> None:
    """Those that are new, and not older than that time. An event has the same id for ever."""
    rows = []
    for event in events:
        at = int(event.at.timestamp())
        if at >= oldest:
            document = event_document(event)
            rest = {name: value for name, value in document.items() if name not in _COLUMNS}
            rows.append((event.id, at, event.type, host_id(event.host), json.dumps(rest, ensure_ascii=False)))
    connection.executemany("INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?)", rows)
    for host in {row[3] for row in rows}:
        connection.execute(
            "DELETE FROM events WHERE host = ? AND at < (SELECT at FROM events WHERE host = ?"
            " ORDER BY at DESC LIMIT 1 OFFSET ?)",
            (host, host, MOST_PER_HOST),
        )


def read_events(connection: sqlite3.Connection, since: int, most: int) -> list[Event]:
    """The newest first. One that cannot be read is left out."""
    if not has_table(connection, "events"):
        return []
    rows = connection.execute(
        "SELECT events.id, at, kind, name, told FROM events JOIN hosts ON hosts.id = host WHERE at >= ?"
        " ORDER BY at DESC, events.id LIMIT ?",
        (since, most),
    )
    return [event for row in rows if (event := _event(*row))]


def _event(number: Any, at: int, kind: Any, host: Any, told: Any) -> Event | None:
    try:
        from_json = json.loads(told)
        return event_of({**from_json, "id": number, "at": utc_text_of(at), "type": kind, "host": host})
    except (*ODD, RecursionError, OSError):  # the last of a time that no calendar has
        return None
