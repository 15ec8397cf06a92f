"""What changed in the Dask cluster from one run to the next: a worker that is gone, one that is back."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta

from gpumon_static.config.settings import Config
from gpumon_static.store.events import WORKER_DOWN, WORKER_UP, Event, EventMemory, Watched
from gpumon_static.text import one_line

THERE = ""
GONE = "is gone"
MOST_WORKERS = 100
MOST_LETTERS = 100
FORGOTTEN_AFTER = timedelta(days=7)
"""A worker that does not come back was taken away."""


def note_workers(memory: EventMemory, found: Mapping[str, str], config: Config, now: datetime) -> list[Event]:
    """Add what one run has seen of the cluster; return the new events.

    `found`: the scheduler first, then the workers that it has, each with why it could not be used.
    """
    if config.fetch.engine != "dask":
        memory.workers.clear()
    if not found:
        return []
    is_lost = next(iter(found.values())) != THERE
    seen = {one_line(name, MOST_LETTERS) or "": why for name, why in found.items()}
    # Without the scheduler nothing is known of its workers.
    seen |= {} if is_lost else {name: GONE for name in memory.workers if name not in seen}
    events = []
    for name, why in list(seen.items())[:MOST_WORKERS]:
        event = _see(memory, name, why, config.notify.samples, now)
        events += [event] if event else []
    memory.workers = {
        name: watched
        for name, watched in memory.workers.items()
        if watched.state == THERE or now - watched.since < FORGOTTEN_AFTER
    }
    memory.events += events
    return events


def _see(memory: EventMemory, name: str, why: str, needed: int, now: datetime) -> Event | None:
    """A worker that could not be used from the first run on is reported by that run, and is no change."""
    watched = memory.workers.setdefault(name, Watched(why, now))
    if why:
        # Does not answer, then is gone: one outage, with its latest reason.
        watched.state = watched.state and why
        watched.next = watched.next and why
    left = watched.see(why, now, needed)
    if left is None:
        return None
    kind = WORKER_DOWN if why else WORKER_UP
    key = str(uuid.uuid5(uuid.UUID(memory.feed_id), f"{kind} {name} {now.isoformat()}"))
    lasted = None if why else (watched.since - left).total_seconds()
    return Event(key, kind, name, None, now, watched.since, lasted_s=lasted, error=why or None)


def lost_workers(memory: EventMemory) -> tuple[tuple[str, str], ...]:
    """Those that are not there now, with the reason."""
    return tuple((name, watched.state) for name, watched in memory.workers.items() if watched.state != THERE)
