"""Two histories become one: another collector's is added to ours, and no time is counted twice.

Of each hour and GPU the account that knows more of it counts, with its users and its samples; where both know
as much, ours. So a second time changes nothing. Days are summed up anew as far as all their hours are kept;
of older days the fuller one counts in the same way. `KINDS`, `ADDED`, `NEWEST` and `OTHERS` have
every table once.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpumon_static.store.history.database import reading, writing
from gpumon_static.store.history.moving.copies import backup, check, name_before
from gpumon_static.store.history.moving.merged_names import MergedNames
from gpumon_static.store.history.observed import MISSED
from gpumon_static.store.history.record import usual_interval
from gpumon_static.store.history.rollups import (
    ALLOCATED_ROLLUP,
    DAY,
    GPU_ROLLUP,
    HOUR,
    MACHINE_ROLLUP,
    POOL_ROLLUP,
    SLURM_SUPPLY_ROLLUP,
    SUPPLY_ROLLUP,
    USER_ROLLUP,
    Rollup,
    stands_until,
    sum_up_days,
)
from gpumon_static.text import count

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config


class Chosen(NamedTuple):
    """A rollup whose rows are chosen by how much they know, and what goes with each."""

    rollup: Rollup
    known: str
    """Seconds of which the state is known: more of them is fuller."""
    along: tuple[Rollup, ...] = ()
    """Others by the same keys and more."""
    samples: tuple[str, ...] = ()
    """Tables with single samples: their time is `at`."""


KINDS = (
    Chosen(GPU_ROLLUP, "free_s + busy_s + held_s", (USER_ROLLUP, ALLOCATED_ROLLUP), ("samples",)),
    Chosen(POOL_ROLLUP, "free_s + taken_s", (), ("pool_runs",)),
    Chosen(SUPPLY_ROLLUP, "free_s + busy_s + held_s", (SLURM_SUPPLY_ROLLUP,)),
    Chosen(MACHINE_ROLLUP, "up_s", (), ("machine_runs",)),
)
SAME_EVENT_S = 900
"""Two collectors see a host go down at times so far apart at most."""
ADDED = {
    "runs": "",
    "events": "WHERE NOT EXISTS (SELECT 1 FROM events AS ours WHERE ours.host = theirs.host"  # noqa: S608
    f" AND ours.kind = theirs.kind AND abs(ours.at - theirs.at) <= {SAME_EVENT_S})",
}
"""Tables whose rows are added where we have none with the same key; with a condition, where one is needed."""
NEWEST = {"latest": "gpu", "machine_last": "host", "allocated_last": "gpu"}
"""Tables of how things stand: of each of these the later row counts."""
OTHERS = (
    *("hosts", "models", "users", "crews", "gpus", "host_groups", "supply_models"),
    *("spans", "supply_last"),
)
"""Names, and what is made anew: handled one by one."""


@dataclass(frozen=True, slots=True)
class Merged:
    hours: int
    """GPU hours (rows) that were taken over."""
    gpus: int
    copy: Path | None

    @property
    def words(self) -> str:
        if not self.hours:
            return "nothing to add: this history knows as much of every hour"
        taken = f"{count(self.hours, 'hour')} of {count(self.gpus, 'GPU')}"
        before = f"; the history as it was is in {self.copy}" if self.copy else ""
        return f"{taken} added{before}"


def merge(config: Config, other: Path, now: datetime) -> Merged:
    """Add another history, which is only read. Raises `HistoryError` where it is none, or damaged."""
    path = config.history_path
    check(other)
    own = path.with_name(f".{path.name}.merge")
    try:
        # A copy, which may be brought up to date.
        backup(other, own)
        with writing(own):
            pass
        copy = name_before(path, now) if path.exists() else None
        if copy:
            backup(path, copy)
        with reading(own) as source, writing(path) as connection:
            hours, gpus = _merge(connection, source, config.site.interval)
    finally:
        for suffix in ("", "-wal", "-shm"):
            own.with_name(own.name + suffix).unlink(missing_ok=True)
    if copy and not hours:
        copy.unlink()
    return Merged(hours, gpus, copy)


def _merge(connection: sqlite3.Connection, source: sqlite3.Connection, interval: int) -> tuple[int, int]:
    """Return how many hours were taken, of how many GPUs."""
    interval_s = max(usual_interval(connection, interval), usual_interval(source, interval))
    tables = _Tables(connection, source)
    hours: set[tuple[int, ...]] = set()
    for kind in KINDS:
        rollups = (kind.rollup, *kind.along)
        whole = [max(_first_whole_day(each, rollup) for each in (connection, source)) for rollup in rollups]
        taken = tables.take(kind, "hour")
        tables.take(kind, "day")
        for rollup, day in zip(rollups, whole, strict=True) if taken else ():
            sum_up_days(connection, rollup, day)
        hours |= taken if kind.rollup is GPU_ROLLUP else set()
    for table, only in ADDED.items():
        rows = f"SELECT * FROM {tables.load(table)} AS theirs {only}"  # noqa: S608
        connection.execute(f"INSERT OR IGNORE INTO main.{table} {rows}")
    gpus = {gpu for _, gpu in hours}
    tables.stand()
    _rebuild_spans(connection, gpus, interval_s)
    return len(hours), len(gpus)


def _first_whole_day(connection: sqlite3.Connection, rollup: Rollup) -> int:
    """From here on all hours are kept that the days are sums of."""
    (hour,) = connection.execute(f"SELECT min(hour) FROM {rollup.name}_hours").fetchone()  # noqa: S608
    days = connection.execute(f"SELECT min(day), max(day) FROM {rollup.name}_days").fetchone()  # noqa: S608
    if days[0] is None:
        return 0
    if hour is None:
        return int(days[1]) + 1
    day = hour * HOUR // DAY
    return int(day if day <= days[0] else day + 1)


class _Tables:
    """Their tables, with our numbers for hosts, GPUs and users, beside ours."""

    def __init__(self, connection: sqlite3.Connection, source: sqlite3.Connection) -> None:
        self._connection = connection
        self._source = source
        self._names = MergedNames(connection, source)

    def load(self, table: str) -> str:
        """The name of a temporary table with their rows."""
        run = self._connection.execute
        columns = [column for _, column, *_ in run(f"PRAGMA table_info({table})")]
        run(f"DROP TABLE IF EXISTS temp.their_{table}")
        run(f"CREATE TEMP TABLE their_{table} AS SELECT * FROM main.{table} WHERE 0")  # noqa: S608
        rows = self._names.mapped(table, columns, self._source.execute(f"SELECT * FROM {table}"))  # noqa: S608
        marks = ", ".join("?" for _ in columns)
        self._connection.executemany(f"INSERT INTO temp.their_{table} VALUES ({marks})", rows)  # noqa: S608
        return f"temp.their_{table}"

    def take(self, kind: Chosen, unit: str) -> set[tuple[int, ...]]:
        """Take the rows that know more than ours, with what goes with them; return their keys."""
        table, keys = f"{kind.rollup.name}_{unit}s", ", ".join((unit, *kind.rollup.keys))
        total = " + ".join(name for name in kind.rollup.sums if name.endswith("_s"))
        run = self._connection.execute
        run("DROP TABLE IF EXISTS temp.taken")
        run(
            f"CREATE TEMP TABLE taken AS SELECT {keys} FROM (SELECT {keys}, {kind.known} AS known,"  # noqa: S608
            f" {total} AS total FROM {self.load(table)}) LEFT JOIN (SELECT {keys}, {kind.known} AS our_known,"
            f" {total} AS our_total FROM main.{table}) USING ({keys})"
            " WHERE our_known IS NULL OR (known, total) > (our_known, our_total)"
        )
        run(f"CREATE UNIQUE INDEX temp.taken_keys ON taken ({keys})")
        self._replace(table, keys)
        for rollup in kind.along:
            self._replace(f"{rollup.name}_{unit}s", keys)
        for samples in kind.samples if unit == "hour" else ():
            self._replace(samples, keys.replace("hour", f"at / {HOUR}"))
        return set(run("SELECT * FROM temp.taken"))

    def _replace(self, table: str, keys: str) -> None:
        theirs = self.load(table)
        run = self._connection.execute
        run(f"DELETE FROM main.{table} WHERE ({keys}) IN temp.taken")  # noqa: S608
        run(f"INSERT INTO main.{table} SELECT * FROM {theirs} WHERE ({keys}) IN temp.taken")  # noqa: S608

    def stand(self) -> None:
        """How each GPU and host stood last: the one that saw it later."""
        run = self._connection.execute
        for table, key in NEWEST.items():
            theirs = self.load(table)
            ours = f"SELECT {key} FROM {theirs} AS t JOIN main.{table} AS o USING ({key}) WHERE o.at >= t.at"  # noqa: S608
            run(f"DELETE FROM {theirs} WHERE {key} IN ({ours})")  # noqa: S608
            run(f"INSERT OR REPLACE INTO main.{table} SELECT * FROM {theirs}")  # noqa: S608
        self._names.move_gpus({gpu for (gpu,) in run("SELECT gpu FROM temp.their_latest")})
        self._names.merge_hosts()
        if run("SELECT 1 FROM main.supply_last").fetchone() is None:
            run(f"INSERT INTO main.supply_last SELECT * FROM {self.load('supply_last')}")  # noqa: S608


def _rebuild_spans(connection: sqlite3.Connection, gpus: set[int], interval_s: int) -> None:
    """Where state or users of these GPUs change, from their samples: as the ledger notes it run by run."""
    spans: list[tuple[int, int, int, int | None]] = []
    last: dict[int, tuple[int, int, int | None]] = {}
    for at, gpu, state, crew in connection.execute("SELECT at, gpu, state, crew FROM samples ORDER BY at"):
        if gpu not in gpus:
            continue
        before_at, before, before_crew = last.get(gpu, (at, MISSED, None))
        end = stands_until(before_at, at, interval_s)
        if end < at and before != MISSED:
            spans.append((gpu, end, MISSED, None))
            before, before_crew = MISSED, None
        if (state, crew) != (before, before_crew):
            spans.append((gpu, at, state, crew))
        last[gpu] = at, state, crew
    connection.executemany("DELETE FROM spans WHERE gpu = ?", [(gpu,) for gpu in last])
    connection.executemany("INSERT INTO spans VALUES (?, ?, ?, ?)", spans)
