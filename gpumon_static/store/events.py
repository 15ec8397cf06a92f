"""The records of `data/events.json`: the state of each host and GPU, and the events for the feed.

survey/changes.py decides what an event is; events_file.py reads and writes the file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

WORKER_DOWN, WORKER_UP = "worker-down", "worker-up"
TAKEN = "taken"
"""A GPU in use."""


@dataclass
class Watched:
    """A state, and the one that may follow it."""

    state: str
    since: datetime
    next: str | None = None
    next_since: datetime | None = None
    seen: int = 0
    seen_at: datetime | None = None
    """Of a GPU in use: when its state was last known."""
    place: str | None = None
    """Of a GPU in use: its bus id, or its index where there is none."""

    def leave_out(self, state: str, at: datetime, longest: timedelta, usual: timedelta) -> None:
        """Do not count the time before this sample, if it was not seen for longer than `longest`."""
        if self.seen_at is not None and at - self.seen_at > longest:
            missed = at - self.seen_at - usual
            if state != self.next:
                self.since += missed
            elif state == TAKEN and self.next_since:
                self.next_since += missed
        self.seen_at = at

    def see(self, state: str, at: datetime, needed: int) -> datetime | None:
        """Since when it was in the state that ends with this sample; None: no state ends."""
        if state == self.state:
            self.next, self.next_since, self.seen = None, None, 0
            return None
        if state != self.next:
            self.next, self.next_since, self.seen = state, at, 0
        self.seen += 1
        if self.seen < needed:
            return None
        left = self.since
        self.state, self.since = state, self.next_since or at
        self.next, self.next_since, self.seen = None, None, 0
        return left


@dataclass
class HostMemory:
    read_at: datetime
    host: Watched
    uses: dict[str, Watched] = field(default_factory=dict)
    """By UUID, or by place where there is none; those that are free and were so before are left out."""
    faults: dict[str, Watched] = field(default_factory=dict)
    """By GPU and rule, such as `3 ecc-errors`; those that are not there are left out."""
    faulty: dict[str, str] = field(default_factory=dict)
    """The UUIDs of the GPUs in `faults`, by index: another GPU may have that index later."""
    idle: dict[str, Watched] = field(default_factory=dict)
    """By Slurm job and GPU, such as `12345 3`: those that the job does not use."""


@dataclass(frozen=True)
class EventGpu:
    index: int | None
    """None for a fault of the whole host."""
    name: str | None = None
    uuid: str | None = None
    rules: tuple[str, ...] = ()
    detail: str | None = None


@dataclass(frozen=True)
class Event:
    id: str
    type: str
    """One of config.EVENT_TYPES."""
    host: str
    """Of an event about Dask its name there, such as `Dask worker b`, which no host can have."""
    group: str | None
    at: datetime
    """When it counted: the time of the fetch."""
    since: datetime
    """When it was first seen."""
    lasted_s: float | None = None
    """How long the state before it was: a host's time down, a GPU's time in use."""
    status: str | None = None
    error: str | None = None
    gpus: tuple[EventGpu, ...] = ()
    job: str | None = None
    """Of Slurm."""
    user: str | None = None
    """Its owner."""

    @property
    def is_of_worker(self) -> bool:
        """About Dask, and so about all hosts."""
        return self.type in (WORKER_DOWN, WORKER_UP)


@dataclass
class EventMemory:
    feed_id: str = ""
    hosts: dict[str, HostMemory] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    workers: dict[str, Watched] = field(default_factory=dict)
    """The scheduler and the workers of Dask, as `Dask worker b`."""
    doubted: list[datetime] = field(default_factory=list)
    """The last runs, as far as their clock was not believed: see store/clock.py."""

    @property
    def newest(self) -> datetime | None:
        """The time of the last run that is in it."""
        return max((kept.read_at for kept in self.hosts.values()), default=None)

    def rewind(self, at: datetime) -> None:
        """Move times that a clock ahead has written back to `at`."""
        self.rewind_hosts(at)
        self.events = [replace(e, at=min(e.at, at), since=min(e.since, at)) for e in self.events]

    def rewind_hosts(self, at: datetime) -> None:
        """The same, without the events, whose times were right."""
        self._move_hosts(lambda time: min(time, at))

    def date_hosts(self, earliest: datetime, at: datetime) -> None:
        """Move times of a clock that had no date to `at`: nothing has lasted since 1970."""
        self._move_hosts(lambda time: at if time < earliest else time)

    def _move_hosts(self, move: Callable[[datetime], datetime]) -> None:
        all_watched = list(self.workers.values())
        for kept in self.hosts.values():
            kept.read_at = move(kept.read_at)
            all_watched += [kept.host, *kept.uses.values(), *kept.faults.values(), *kept.idle.values()]
        for watched in all_watched:
            watched.since = move(watched.since)
            watched.next_since = watched.next_since and move(watched.next_since)
            watched.seen_at = watched.seen_at and move(watched.seen_at)
