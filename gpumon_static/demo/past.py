"""A past for the demo lab: the runs and events of the last weeks, as if cron had always been there.

The lab is a function of time, so any past run can be computed. The further back, the fewer runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gpumon_static.demo import workload
from gpumon_static.demo.chance import dice
from gpumon_static.demo.lab import DemoHost
from gpumon_static.model import HostReading, Status
from gpumon_static.store import events_file, snapshot
from gpumon_static.store.events import EventMemory
from gpumon_static.store.history import event_log
from gpumon_static.store.history.engine import open_engine
from gpumon_static.store.history.observed import Run
from gpumon_static.store.history.record import add_past
from gpumon_static.store.history.upkeep.closing import make_sums
from gpumon_static.survey.changes import note_changes
from gpumon_static.survey.sightings import sightings

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config

MINUTE, HOUR, DAY = 60, 3600, 86400

STEPS = ((7 * DAY, 120 * MINUTE), (DAY, 60 * MINUTE), (0, 10 * MINUTE))
"""Older than that: a run every so often."""
GPUS_IN_SECONDS = 60
"""With more of them runs are rarer, so that a big lab is up soon as well."""
LONGEST_STEP = 6 * HOUR
PAUSES = ((12 * DAY, 6 * HOUR), (3 * DAY, 2 * HOUR), (9 * HOUR, 25 * MINUTE))
"""How long ago the collector was off, and for how long."""
FAILING_FOR = {Status.REFUSED: 2 * HOUR + 10 * MINUTE, Status.DRIVER: 26 * HOUR}
"""Since when the hosts that fail on purpose have failed."""
FAULTY_FOR = 6 * DAY + 5 * HOUR
"""Since when the GPU that is broken on purpose has been so."""
OFF_EVERY = 13 * DAY
SECONDS_FOR_SUMS = 5.0


def fill(config: Config, hosts: Sequence[DemoHost], now: datetime, days: int) -> int:
    """Add the past runs; return their number. Where there is a history already, nothing is added."""
    end = int(now.timestamp())
    coarser = -(-sum(len(host.gpus) for host in hosts) // GPUS_IN_SECONDS)
    times = [] if config.history_path.exists() else list(_runs(end, days, coarser))
    if not times:
        return 0
    memory, events, runs, readings = EventMemory(), [], [], []
    for at, step in times:
        seen = [_reading(host, at, end) for host in hosts]
        events += note_changes(memory, seen, config)
        runs.append(Run(at, sightings(seen, config.busy, config.groups), step))
        readings += seen
    events_file.save(events_file.path_in(config.paths.data), memory)
    csv = config.paths.data / ".past.csv"
    try:
        snapshot.write(csv, readings)
        with open_engine(config.history_path) as engine:
            add_past(engine, config.history_path, csv, runs, config.history.texts, end)
            event_log.add(engine, config.history_path, events, end - config.history.keep_events * DAY)
            make_sums(engine, config.history_path, SECONDS_FOR_SUMS)
    finally:
        csv.unlink(missing_ok=True)
    return len(runs)


def _runs(end: int, days: int, coarser: int) -> Iterator[tuple[int, int]]:
    """When, and how long after the one before."""
    at = end - days * DAY
    while at <= end - MINUTE:
        ago = end - at
        step = min(LONGEST_STEP, next(step for older, step in STEPS if ago > older) * coarser)
        if not any(since - length < ago <= since for since, length in PAUSES):
            yield at, step
        at += step


def _reading(host: DemoHost, at: int, end: int) -> HostReading:
    time, ago = datetime.fromtimestamp(at, UTC), end - at
    if ago < FAILING_FOR.get(host.fate, 0):
        return workload.reading(host, time)
    if _is_off(host.name, at):
        return HostReading(host.name, time, Status.TIMEOUT, "no answer within 10 s")
    healthy = workload.healthy_reading(host, time)
    if ago < FAULTY_FOR:
        return healthy
    return replace(healthy, gpus=tuple(replace(gpu, faults=()) for gpu in healthy.gpus))


def _is_off(host: str, at: int) -> bool:
    """Each host is off now and then, for some hours: updates, a breaker, a full disk."""
    number = at // OFF_EVERY
    chance = dice(host, "off", number)
    start = number * OFF_EVERY + int(chance.random() * (OFF_EVERY - DAY))
    return start <= at < start + int(chance.uniform(2, 12) * HOUR) and chance.random() < 0.4
