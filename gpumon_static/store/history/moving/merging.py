"""Another collector's history is added to ours, and no time is counted twice.

Of each hour and host the account that knows more of it counts; where both know as much, ours. So a second
time changes nothing. What is added is a file of its own for each day, beside ours.
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
from gpumon_static.store.history.engine import Engine, filled, open_engine, parquet, written_beside
from gpumon_static.store.history.layout import BEFORE, LAST_FILE, SUFFIX, DayFiles, day_path
from gpumon_static.store.history.moving import copies
from gpumon_static.store.history.reader import Period, Reader
from gpumon_static.store.history.upkeep import checksums
from gpumon_static.text import count

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config

YEAR = 366 * 86400
_FULLER = "fuller ON epoch(r.run_at)::BIGINT // 3600 = hour AND r.host = fuller.host"
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
            label = "from-" + hashlib.blake2s(str(other.resolve()).encode(), digest_size=4).hexdigest()
            taken: set[tuple[int, str]] = set()
            for day in theirs.listing.days.values():
                taken |= _merge_day(engine, folder, theirs, day, label)
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
    own = ours.listing.days.get(day.start)
    engine.do(
        f"CREATE OR REPLACE TEMP TABLE our_rows AS {_rows(ours, own) if own else 'SELECT * FROM no_rows'}"
    )
    engine.do(filled("sql/fuller"))
    taken = {(hour, host) for hour, host in engine.rows("SELECT hour, host FROM fuller")}
    if not taken:
        return set()
    path = day_path(folder, day.start, label)
    before = f"{_kept(path)} UNION ALL BY NAME " if path.exists() else ""
    listed = ", ".join(f'"{name}"' for name in COLUMN_TYPES)
    added = f"SELECT r.* FROM their_rows AS r SEMI JOIN {_FULLER}"
    in_order = f"SELECT {listed} FROM ({before}{added}) ORDER BY run_at, host, gpu_index, mig_device, pid"
    with ExitStack() as renames:
        # All files are written before one is replaced: a full disk changes nothing. Theirs is renamed last:
        # after a kill another merge adds what is missing.
        engine.pack(in_order, renames.enter_context(written_beside(path)))
        for file in own.files() if own else ():
            if file.path != path:
                _without_taken(engine, folder, file.path, renames)
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


def _kept(path: Path) -> str:
    """What of a file of ours theirs does not know better."""
    return f"SELECT r.* FROM {parquet([path])} AS r ANTI JOIN {_FULLER}"


def _without_taken(engine: Engine, folder: Path, path: Path, renames: ExitStack) -> None:
    """Write a file of ours again without the hours that theirs knows better."""
    kept = _kept(path)
    rows, left = engine.row(f"SELECT (SELECT count(*) FROM {parquet([path])}), count(*) FROM ({kept})")
    if left == rows:
        return
    if left:
        engine.pack(kept, renames.enter_context(written_beside(path)))
    else:
        renames.callback(path.unlink)
    checksums.forget(folder, path)
