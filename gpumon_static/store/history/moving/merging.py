"""Another collector's history is added to ours, and no time is counted twice.

Of each hour and host the account that knows more of it counts; where both know as much, ours. What the other
one has in its gaps is added, and what stands beside a seam is counted anew. A second time changes nothing.
What is added is a file of its own for each day, beside ours.
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gpumon_static.store.history import event_log
from gpumon_static.store.history.columns import COLUMN_TYPES
from gpumon_static.store.history.converting.tables import OldNames
from gpumon_static.store.history.engine import Engine, open_engine, parquet, sql, written_beside
from gpumon_static.store.history.layout import (
    BEFORE,
    DAY,
    LAST_FILE,
    SUFFIX,
    DayFiles,
    day_path,
    read_listing,
)
from gpumon_static.store.history.moving import copies
from gpumon_static.store.history.reader import Period, Reader
from gpumon_static.store.history.upkeep import checksums
from gpumon_static.text import count

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config

YEAR = 366 * 86400
_IS_FULLER = '(host, epoch(run_at)::BIGINT // 3600) IN (SELECT host, "hour" FROM fuller)'
_FILLS = "(host, fetched_at) IN (SELECT host, fetched_at FROM filling WHERE {})"
_ADDED = "from-"
"""How the labels of files begin that were added."""
_FOR_EVER = 1 << 40


@dataclass(frozen=True, slots=True)
class Merged:
    hours: int
    """Hours of a host that were taken over."""
    hosts: int

    @property
    def words(self) -> str:
        if not self.hours:
            return "nothing to add: this history knows as much of every hour"
        return f"{count(self.hours, 'hour')} of {count(self.hosts, 'host')} added"


def merge(config: Config, other: Path, now: datetime, naming: OldNames | None = None) -> Merged:
    """Add another history, which is only read. Raises `HistoryError` where it is none, or damaged."""
    folder = config.history_path
    with copies.unpacked(other, folder, naming) as new:
        copies.check(new)
        with open_engine(folder) as engine:
            theirs = Reader.open(engine, new)
            theirs.asked_at = int(now.timestamp())
            label = _ADDED + hashlib.blake2s(str(other.resolve()).encode(), digest_size=4).hexdigest()
            taken: set[tuple[int, str]] = set()
            for day in theirs.listing.days.values():
                taken |= _merge_day(engine, folder, theirs, day, label)
            # All days of theirs: an earlier merge may have ended before this.
            _count_seams(engine, folder, set(theirs.listing.days), theirs.asked_at)
            _add_before(engine, folder, new, taken)
            events = event_log.read(engine, new, int(now.timestamp()) - YEAR, 100_000)
            event_log.add_missing(engine, folder, events)
    if taken:
        (folder / LAST_FILE).unlink(missing_ok=True)
    return Merged(len(taken), len({host for _, host in taken}))


def _merge_day(
    engine: Engine, folder: Path, theirs: Reader, day: DayFiles, label: str
) -> set[tuple[int, str]]:
    """The hours of hosts that were taken from one day of theirs."""
    engine.do(f"CREATE OR REPLACE TEMP TABLE their_rows AS {_rows(theirs, day)}")
    ours = Reader.open(engine, folder)
    ours.asked_at = theirs.asked_at
    own = ours.listing.days.get(day.start)
    engine.do(
        f"CREATE OR REPLACE TEMP TABLE our_rows AS {_rows(ours, own) if own else 'SELECT * FROM no_rows'}"
    )
    engine.do(sql("sql/fuller"))
    added = f"FROM their_rows WHERE {_IS_FULLER} OR {_FILLS.format('is_theirs')}"
    hours = engine.rows(f"SELECT DISTINCT epoch(run_at)::BIGINT // 3600, host {added}")
    taken = {(hour, host) for hour, host in hours}
    if not taken:
        return set()
    path = day_path(folder, day.start, label)
    before = f"{_kept(path)} UNION ALL BY NAME " if path.exists() else ""
    listed = ", ".join(f'"{name}"' for name in COLUMN_TYPES)
    rows = (
        f"SELECT {listed} FROM ({before}SELECT * {added}) ORDER BY run_at, host, gpu_index, mig_device, pid"
    )
    with ExitStack() as renames:
        # All files are written before one is replaced: a full disk changes nothing. Theirs is renamed last:
        # after a kill another merge adds what is missing.
        engine.pack(rows, renames.enter_context(written_beside(path)))
        for file in own.files() if own else ():
            if file.path != path:
                _without_dropped(engine, folder, file.path, renames)
        checksums.forget(folder, path)
    return taken


def _add_before(engine: Engine, folder: Path, new: Path, taken: set[tuple[int, str]]) -> None:
    """Their sums from before 0.2: supply of hours of which we have none, jobs of hours that were taken."""
    supply = Reader.open(engine, folder).sums("supply", Period(0, _FOR_EVER))
    hours = [(hour * 3600, host) for hour, host in taken]
    chosen = {
        "supply": f"t NOT IN (SELECT t // 3600 * 3600 FROM {supply})",
        "users": "list_contains($hours, {t: t, host: host})",
    }
    given = {"users": {"hours": [{"t": t, "host": host} for t, host in hours]}}
    for kind, condition in chosen.items():
        theirs, ours = (place / BEFORE / f"{kind}{SUFFIX}" for place in (new, folder))
        if not theirs.exists():
            continue
        added = f"CREATE OR REPLACE TEMP TABLE added AS SELECT * FROM {parquet([theirs])} WHERE {condition}"
        engine.do(added, given.get(kind))
        if engine.value("SELECT count(*) FROM added"):
            before = f"SELECT * FROM {parquet([ours])} UNION ALL BY NAME " if ours.exists() else ""
            engine.write(f"{before}SELECT * FROM added", ours)


def _rows(reader: Reader, day: DayFiles) -> str:
    return (
        reader.rows(Period(day.start - 1, day.end + 86400))
        + f" AND epoch(run_at) >= {day.start} AND epoch(run_at) < {day.end}"
    )


def _count_seams(engine: Engine, folder: Path, days: set[int], now: int) -> None:
    """Rewrite the files of readings before and after a seam with the time that these stand for."""
    near = {day + offset for day in days for offset in (-DAY, 0, DAY)}
    listed = read_listing(folder).days
    files = [file.path for start in near if (day := listed.get(start)) for file in day.files()]
    if not days or not files:
        return
    given = {"paths": [str(path) for path in files], "label": f".{_ADDED}", "now": now}
    for statement in sql("sql/seams").split(";"):
        used = {name: value for name, value in given.items() if f"${name}" in statement}
        engine.do(statement, used)
    for path in files:
        rows = f"{parquet([path])} AS r LEFT JOIN new_seconds AS n ON"
        rows += " n.host = r.host AND n.fetched_at = r.fetched_at AND n.before IS NOT DISTINCT FROM r.seconds"
        rows += " LEFT JOIN new_run_seconds AS u USING (run_at)"
        changed = "n.seconds IS DISTINCT FROM r.seconds AND n.seconds IS NOT NULL"
        changed += " OR u.run_seconds IS DISTINCT FROM r.run_seconds AND u.run_seconds IS NOT NULL"
        if engine.value(f"SELECT count(*) FROM {rows} WHERE {changed}"):
            values = "coalesce(n.seconds, r.seconds) AS seconds, coalesce(u.run_seconds, r.run_seconds)"
            engine.write(f"SELECT r.* REPLACE ({values} AS run_seconds) FROM {rows}", path)
            checksums.forget(folder, path)


def _kept(path: Path) -> str:
    """The rows of a file of ours without the readings that theirs replaces."""
    return f"SELECT * FROM {parquet([path])} WHERE NOT {_IS_FULLER} OR {_FILLS.format('NOT is_theirs')}"


def _without_dropped(engine: Engine, folder: Path, path: Path, renames: ExitStack) -> None:
    kept = _kept(path)
    rows, left = engine.row(f"SELECT (SELECT count(*) FROM {parquet([path])}), count(*) FROM ({kept})")
    if left == rows:
        return
    if left:
        engine.pack(kept, renames.enter_context(written_beside(path)))
    else:
        renames.callback(path.unlink)
    checksums.forget(folder, path)
