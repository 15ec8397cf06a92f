"""The events of the last year, a file for each month. `events.json` has the last 200 only."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpumon_static.store.events import Event
from gpumon_static.store.events_file import event_document, event_of
from gpumon_static.store.history.engine import Engine, parquet
from gpumon_static.store.history.layout import EVENTS, events_path
from gpumon_static.store.history.reader import can_be_read, can_be_unpacked
from gpumon_static.times import utc_text_of

MOST_PER_DAY = 50
"""Events of one host: one that goes up and down all day fills no disk."""
MOST_BYTES = 2000
"""Of one event; a longer one is kept without its GPUs, and with the beginning of its error."""
MOST_LETTERS = 300
_COLUMNS = ("id", "at", "type", "host")
"""Those that the file has; the rest of an event is JSON."""
_NO_EVENTS = "SELECT '' AS id, 0::BIGINT AS t, '' AS type, '' AS host, '' AS document WHERE false"


def add(engine: Engine, folder: Path, events: Iterable[Event], oldest: int) -> None:
    """Those that are new, and not older than that time. An event has the same id for ever."""
    by_month: dict[Path, list[tuple[str, int, str, str, str]]] = defaultdict(list)
    for event in events:
        at = int(event.at.timestamp())
        if at >= oldest and (row := _row(event, at)):
            by_month[events_path(folder, at)].append(row)
    for path, rows in by_month.items():
        _add(engine, path, rows)
    for path in (folder / EVENTS).glob("????-??.parquet"):
        if path.name < events_path(folder, oldest).name:
            path.unlink(missing_ok=True)


def _row(event: Event, at: int) -> tuple[str, int, str, str, str] | None:
    rest = {name: value for name, value in event_document(event).items() if name not in _COLUMNS}
    text = json.dumps(rest, ensure_ascii=False)
    if len(text.encode()) > MOST_BYTES:
        short = {"gpus": []} | ({"error": rest["error"][:MOST_LETTERS]} if "error" in rest else {})
        text = json.dumps(rest | short, ensure_ascii=False)
    return (event.id, at, event.type, event.host, text)


def _add(engine: Engine, path: Path, rows: list[tuple[str, int, str, str, str]]) -> None:
    before = _table([path]) if _is_usable(engine, path) else f"({_NO_EVENTS})"
    known = {number for (number,) in engine.rows(f"SELECT id FROM {before}")}
    new = [row for row in rows if row[0] not in known]
    if not new:
        return
    engine.do(f"CREATE OR REPLACE TEMP TABLE new_events AS {_NO_EVENTS}")
    engine.connection.executemany("INSERT INTO new_events VALUES (?, ?, ?, ?, ?)", new)
    both = f"SELECT * FROM {before} UNION ALL BY NAME SELECT * FROM new_events"
    bounded = f"QUALIFY row_number() OVER (PARTITION BY host, t // 86400 ORDER BY t DESC) <= {MOST_PER_DAY}"
    engine.write(f"SELECT * FROM ({both}) {bounded} ORDER BY t", path)


def _is_usable(engine: Engine, path: Path) -> bool:
    """They have no checksums, and are small: all of it is read."""
    return can_be_read(engine, path, ("id", "t", "document")) and can_be_unpacked(engine, path)


def _table(paths: Iterable[Path]) -> str:
    return parquet(paths)


def events_table(engine: Engine, folder: Path) -> str:
    paths = [path for path in sorted((folder / EVENTS).glob("????-??.parquet")) if _is_usable(engine, path)]
    return _table(paths) if paths else f"({_NO_EVENTS})"


def read(
    engine: Engine, folder: Path, since: int, most: int, most_of_a_host: int | None = None
) -> list[Event]:
    """The newest first. One that cannot be read is left out."""
    rows = engine.rows(
        f"SELECT id, t, type, host, document FROM {events_table(engine, folder)} WHERE t >= $since"
        " QUALIFY row_number() OVER (PARTITION BY host ORDER BY t DESC, id) <= $most_of_a_host"
        " ORDER BY t DESC, id LIMIT $most",
        {"since": since, "most": most, "most_of_a_host": most_of_a_host or most},
    )
    return [event for row in rows if (event := event_of_row(*row))]


def event_of_row(number: Any, at: int, kind: Any, host: Any, document: Any) -> Event | None:
    try:
        rest = json.loads(document)
        return event_of({**rest, "id": number, "at": utc_text_of(at), "type": kind, "host": host})
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, OSError):
        return None


SAME_EVENT_S = 900
"""Two collectors see a host go down at times so far apart at most."""


def add_missing(engine: Engine, folder: Path, events: Iterable[Event]) -> None:
    """Events of another collector, without those that ours has, too."""
    known = engine.rows(f"SELECT host, type, t FROM {events_table(engine, folder)}")
    times: dict[tuple[str, str], list[int]] = defaultdict(list)
    for host, kind, t in known:
        times[host, kind].append(t)
    new = [
        event
        for event in events
        if not any(abs(t - int(event.at.timestamp())) <= SAME_EVENT_S for t in times[event.host, event.type])
    ]
    add(engine, folder, new, 0)
