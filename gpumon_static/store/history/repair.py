"""Drop what a clock that was ahead has recorded, and go on as if it had never been. A copy is kept.

Sums are kept by the hour, so whole hours go: from that of the first run after the given time on.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from gpumon_static.store.history.database import reading, writing
from gpumon_static.store.history.ledger import Latest, read_latest, write_latest
from gpumon_static.store.history.moving.copies import backup, name_before
from gpumon_static.store.history.observed import DOWN, MISSED, TAKEN
from gpumon_static.store.history.rollups import DAY, HOUR, forget_from
from gpumon_static.text import count
from gpumon_static.times import LAST_TIME, utc_text_of


class _Span(NamedTuple):
    at: int
    state: int
    crew: int | None


class _Sample(NamedTuple):
    at: int
    state: int
    crew: int | None
    utilization: int | None
    memory: int | None
    temperature: int | None
    power: int | None


@dataclass(frozen=True, slots=True)
class Dropped:
    runs: int
    since: int
    """From here on there is nothing any more."""
    copy: Path

    @property
    def words(self) -> str:
        since = utc_text_of(self.since)
        return f"{count(self.runs, 'run')} from {since} on dropped; {self.copy.name} has them still"


def drop_after(path: Path, at: int, now: datetime, interval_s: int) -> Dropped | None:
    """None: nothing was recorded after that time. `interval_s`: what a sample stands for at most."""
    with reading(path) as connection:
        hour = _first_hour_after(connection, at)
    if hour is None:
        return None
    copy = name_before(path, now)
    backup(path, copy)
    with writing(path) as connection:
        (runs,) = connection.execute("SELECT count(*) FROM runs WHERE at >= ?", (hour * HOUR,)).fetchone()
        forget_from(connection, hour)
        _rewind(connection, hour * HOUR, interval_s)
    return Dropped(runs, min(hour * HOUR, LAST_TIME), copy)


def _first_hour_after(connection: sqlite3.Connection, at: int) -> int | None:
    """Single runs are kept for a week only; what is older is kept by the hour, and then by the day."""
    (run,) = connection.execute("SELECT min(at) FROM runs WHERE at > ?", (at,)).fetchone()
    (hour,) = connection.execute("SELECT min(hour) FROM gpu_hours WHERE hour > ?", (at // HOUR,)).fetchone()
    (day,) = connection.execute("SELECT min(day) FROM gpu_days WHERE day > ?", (at // DAY,)).fetchone()
    first = min((found for found in (run and run // HOUR, hour) if found is not None), default=None)
    if day is not None and (first is None or (day + 1) * 24 <= first):
        return int(day * 24)
    return first


def _rewind(connection: sqlite3.Connection, cut: int, interval_s: int) -> None:
    """Each GPU's running account as its last sample before the cut left it."""
    last, known = _last_samples(connection, cut), _last_samples(connection, cut, f"AND state != {DOWN}")
    spans: dict[int, list[_Span]] = defaultdict(list)
    for gpu, at, state, crew in connection.execute("SELECT gpu, at, state, crew FROM spans ORDER BY at DESC"):
        spans[gpu].append(_Span(at, state, crew))
    for row in read_latest(connection).values():
        if row.at < cut:
            continue
        if row.gpu not in last:
            _forget_gpu(connection, row, cut)
            continue
        sample = last[row.gpu]
        _restore(row, sample, known.get(row.gpu, sample), spans[row.gpu], interval_s)
        # What the first run after the cut made of the time before it.
        connection.execute("DELETE FROM spans WHERE gpu = ? AND at > ?", (row.gpu, sample.at))
        write_latest(connection, [row])
    (newest,) = connection.execute("SELECT max(at) FROM runs").fetchone()
    connection.execute("UPDATE hosts SET answered_at = ? WHERE answered_at >= ?", (newest, cut))
    connection.execute("UPDATE hosts SET down_since = NULL WHERE down_since >= ?", (cut,))


def _restore(row: Latest, last: _Sample, known: _Sample, spans: Sequence[_Span], interval_s: int) -> None:
    """`known`: the last one with an answer. What has been counted after the last one stays counted."""
    row.at, row.state, row.crew, row.utilization = last.at, last.state, last.crew, last.utilization
    row.memory, row.temperature, row.power = last.memory, last.temperature, last.power
    row.counted_to = min(row.counted_to, last.at + interval_s)
    row.known_at, row.known_state, row.known_crew = known.at, known.state, known.crew
    before = [span for span in spans if span.at <= known.at]
    if row.since > known.at:
        row.since = _start(before, known.at, lambda span: span.state == known.state)
    row.taken_since = None
    if known.state in TAKEN:
        row.taken_since = _start(before, known.at, lambda s: s.state in TAKEN and s.crew == known.crew)


def _last_samples(connection: sqlite3.Connection, cut: int, only: str = "") -> dict[int, _Sample]:
    # Of the rows of a group, SQLite takes the other columns from the one that has the maximum.
    rows = connection.execute(
        "SELECT gpu, max(at), state, crew, utilization, memory, temperature, power FROM samples"  # noqa: S608
        f" WHERE at < ? {only} GROUP BY gpu",
        (cut,),
    )
    return {gpu: _Sample(*values) for gpu, *values in rows}


def _start(spans: Sequence[_Span], at: int, matches: Callable[[_Span], bool]) -> int:
    """The beginning of the last spans that match, from the newest back."""
    for span in spans:
        if not matches(span):
            break
        at = span.at
    return at


def _forget_gpu(connection: sqlite3.Connection, row: Latest, cut: int) -> None:
    """Seen after the cut only, or so long before it that its samples are gone."""
    (first_at,) = connection.execute("SELECT first_at FROM gpus WHERE id = ?", (row.gpu,)).fetchone()
    if first_at >= cut:
        connection.execute("DELETE FROM latest WHERE gpu = ?", (row.gpu,))
        connection.execute("DELETE FROM gpus WHERE id = ?", (row.gpu,))
        return
    row.present, row.state, row.known_state, row.crew, row.known_crew = 0, MISSED, MISSED, None, None
    row.at = row.counted_to = row.known_at = row.since = first_at
    row.taken_since = None
    write_latest(connection, [row])
