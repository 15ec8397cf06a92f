"""`data/history.db`: what every run adds to it.

How time is counted: a sample stands for the time until the next one of that GPU, if that came as usual:
within one and a half times the usual interval. If it did not, a run was missed: the sample stands for one
interval, and the rest is unknown, neither idle nor used. The usual interval is `site.interval`, or the
median of the last runs where that is longer. What has been counted once is never counted again.
"""

from __future__ import annotations

import sqlite3
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from gpumon_static.store.events import Event
from gpumon_static.store.history import repair
from gpumon_static.store.history.database import DamagedHistory, HistoryError, put_aside, reading, writing
from gpumon_static.store.history.event_log import add_events
from gpumon_static.store.history.ledger import Ledger
from gpumon_static.store.history.names import Names
from gpumon_static.store.history.observed import HostSighting
from gpumon_static.store.history.repair import Dropped
from gpumon_static.store.history.rollups import DAY, prune
from gpumon_static.store.history.supply_count import SupplyNaming
from gpumon_static.store.memory import no_search_for_cycles
from gpumon_static.text import Say
from gpumon_static.times import LAST_TIME

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config

ShortModel = Callable[[str], str]

LAST_RUNS = 20
"""So many say how often runs come."""
SURE_RUNS = 100
SURE_AFTER_S = 7 * DAY
"""So long after a pause in the runs, which a clock that is ahead looks like, nothing is taken for old."""


def record(
    config: Config,
    seen: Sequence[HostSighting],
    now: datetime,
    say: Say,
    *,
    drops_ahead: bool = False,
    short_model: ShortModel = str,
    events: Sequence[Event] = (),
) -> None:
    """Adds a run. It never raises: the CSV is written, and a run without its history is still a run.

    `drops_ahead`: what was recorded ahead of this run is wrong (store/clock.py).
    `short_model`: models that it gives the same name are one in the supply.
    `events`: the last ones; those that the history has are not added again.
    """
    if not config.history.enabled:
        return
    try:
        try:
            if drops_ahead:
                _drop_ahead(config, now, say)
            _record(config, seen, now, short_model, events)
        except DamagedHistory as error:
            aside = put_aside(config.history_path, now)
            say(f"history: {error}; the file is now {aside.name}, and a new one begins")
            _record(config, seen, now, short_model, events)
    except HistoryError as error:
        say(f"history: {error}; this run is not in it")
    except Exception as error:
        # A mistake of ours must not cost the run, whose CSV is already written.
        say(f"history: unexpected {type(error).__name__}: {error}; this run is not in it")


def newest_runs(config: Config, most: int) -> list[datetime]:
    """The last runs of the history, if there is one that can be read."""
    if not config.history.enabled:
        return []
    try:
        with reading(config.history_path) as connection:
            newest = connection.execute(
                "SELECT min(at, ?) FROM runs WHERE at > 0 ORDER BY at DESC LIMIT ?", (LAST_TIME, most)
            )
            return [datetime.fromtimestamp(at, UTC) for (at,) in newest]
    except HistoryError:
        return []


def drop_after(config: Config, at: datetime, now: datetime) -> Dropped | None:
    """Take what was recorded after that time out of the history, of which a copy is kept."""
    with reading(config.history_path) as connection:
        interval_s = usual_interval(connection, config.site.interval)
    return repair.drop_after(config.history_path, int(at.timestamp()), now, interval_s)


def _drop_ahead(config: Config, now: datetime, say: Say) -> None:
    if dropped := drop_after(config, now, now):
        say(f"history: {dropped.words}; they were ahead of the clock")


def _record(
    config: Config,
    seen: Sequence[HostSighting],
    now: datetime,
    short_model: ShortModel,
    events: Sequence[Event],
) -> None:
    with no_search_for_cycles(), writing(config.history_path) as connection:
        add(connection, config, seen, int(now.timestamp()), short_model, events)


def add(
    connection: sqlite3.Connection,
    config: Config,
    seen: Sequence[HostSighting],
    now: int,
    short_model: ShortModel = str,
    events: Sequence[Event] = (),
) -> None:
    """Inside a transaction of the caller's. The same run a second time changes nothing."""
    # A clock that was put back during this run, or before one that asks only some hosts.
    seen = [host for host in seen if host.at <= now]
    at = max((host.at for host in seen), default=None)
    last_run = connection.execute("SELECT max(at) FROM runs").fetchone()[0]
    if at is None or (last_run is not None and at <= last_run):
        return
    interval_s = usual_interval(connection, config.site.interval)
    naming = SupplyNaming(config.groups, short_model)
    ledger = Ledger(connection, Names(connection), interval_s, naming=naming)
    _follow_renamed_hosts(ledger, seen, {host.name for host in config.hosts})
    add_run(ledger, at, seen, last_run or 0)
    ledger.save()
    add_events(connection, ledger.names.host, events, now - config.history.keep_events * DAY)
    _prune(connection, config)


def add_run(ledger: Ledger, at: int, seen: Sequence[HostSighting], last_run: int = 0) -> None:
    """`last_run`: what is not newer, as after `--only`, was seen in an earlier run."""
    fresh = (gpu.uuid for host in seen if host.at > last_run for gpu in host.gpus or ())
    shared = {uuid for uuid, number in Counter(fresh).items() if uuid and number > 1}
    ledger.next_run(at, shared)
    for host in seen:
        if host.gpus is None:
            ledger.add_failure(host.host, host.at)
        else:
            ledger.add_host(host.host, host.at, host.gpus, host.machine)
    ledger.close_run(at)


def _prune(connection: sqlite3.Connection, config: Config) -> None:
    """By the time of a run some hours ago, and not in the week after a jump: a wrong clock costs no past."""
    runs = [at for (at,) in connection.execute("SELECT at FROM runs ORDER BY at DESC")]
    long = max(DAY, 3 * config.site.interval)
    jumped_to = next((later for later, earlier in pairwise(runs) if later - earlier > long), None)
    if jumped_to is not None and runs[0] - jumped_to < SURE_AFTER_S:
        return
    newest = connection.execute("SELECT at FROM runs ORDER BY at DESC LIMIT 1 OFFSET ?", (SURE_RUNS,))
    if row := newest.fetchone():
        prune_as_configured(connection, config, row[0])


def prune_as_configured(connection: sqlite3.Connection, config: Config, at: int) -> None:
    keep = config.history
    prune(
        connection,
        at,
        raw_days=keep.keep_raw,
        hours_days=keep.keep_hours,
        days_days=keep.keep_days,
        events_days=keep.keep_events,
    )


def usual_interval(connection: sqlite3.Connection, configured: int) -> int:
    newest = connection.execute("SELECT at FROM runs ORDER BY at DESC LIMIT ?", (LAST_RUNS + 1,))
    gaps = [later - earlier for later, earlier in pairwise(at for (at,) in newest)]
    # A few runs by hand say nothing about cron.
    return max(configured, int(statistics.median(gaps))) if len(gaps) >= LAST_RUNS // 2 else configured


def _follow_renamed_hosts(ledger: Ledger, seen: Iterable[HostSighting], configured: set[str]) -> None:
    """A new host with all the GPUs of one that the config no longer has, is that one."""
    kept = {host.host for host in seen} | configured
    for host in seen:
        uuids = {gpu.uuid for gpu in host.gpus or () if gpu.uuid and gpu.slice is None}
        if uuids and not ledger.names.knows_host(host.host):
            before = ledger.host_of_all(uuids)
            if before is not None and before not in kept:
                ledger.names.rename_host(before, host.host)
