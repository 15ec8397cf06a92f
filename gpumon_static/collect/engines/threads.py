"""Threads: exactly one reading per host, always, in the order of the hosts.

A thread per host, at most `workers` of them at work. Nothing here waits for a thread: one that is over
its limit is left behind, its host is `timeout`, and its place is given to the next host.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from queue import Empty, SimpleQueue

from gpumon_static.collect import gate
from gpumon_static.collect.engines.limits import NO_THREAD, in_use, own_limit, room
from gpumon_static.collect.patience import Patience, past_its_limits
from gpumon_static.collect.readers import Note, ReaderFactory, nobody
from gpumon_static.config.settings import FetchConfig, HostConfig
from gpumon_static.model import HostReading, Status
from gpumon_static.text import Say
from gpumon_static.times import Clock

Read = Callable[[HostConfig], HostReading]

MOST_REFUSALS = 2
"""Of a host that no other is asked beside."""
LOOK_S = 1.0
"""How often the limits of the hosts, which may change on the way, are looked at, beside when one comes."""


def ask(
    factory: ReaderFactory,
    config: FetchConfig,
    *,
    on_reading: Callable[[HostReading], None] = lambda _: None,
    on_note: Note = nobody,
    say: Say = lambda _: None,
) -> list[HostReading]:
    """The readings of the factory's hosts, in their order."""
    with factory.open(note=on_note) as read:
        found = room(factory.hosts, min(config.workers, len(factory.hosts)), in_use())
        if found.line:
            say(found.line)
        return fan_out(
            factory.hosts,
            read,
            workers=found.workers,
            deadline=config.deadline,
            clock=factory.clock,
            patience=read.patience,
            on_reading=on_reading,
        )


@dataclass(frozen=True)
class _Running:
    host: HostConfig
    started: float
    patience: Patience

    @property
    def limit(self) -> float:
        return self.started + self.patience(self.host)


@dataclass(frozen=True)
class _Refused:
    """A host that was not asked, because of a limit of ours."""

    host: HostConfig
    limit: str


def fan_out(
    hosts: Sequence[HostConfig],
    read: Read,
    *,
    workers: int,
    deadline: float,
    whole_deadline: float | None = None,
    clock: Clock,
    patience: Patience = past_its_limits,
    on_start: Callable[[HostConfig], None] = lambda _: None,
    on_reading: Callable[[HostReading], None] = lambda _: None,
) -> list[HostReading]:
    """Read all hosts. `whole_deadline`: that of the run, for messages; `deadline` is what is left of it."""
    run = _FanOut(hosts, read, workers, deadline, whole_deadline or deadline, clock, patience)
    run.on_start, run.on_reading = on_start, on_reading
    return run.readings()


class _FanOut:
    on_start: Callable[[HostConfig], None]
    on_reading: Callable[[HostReading], None]

    def __init__(
        self,
        hosts: Sequence[HostConfig],
        read: Read,
        workers: int,
        deadline: float,
        whole_deadline: float,
        clock: Clock,
        patience: Patience,
    ) -> None:
        self._hosts = hosts
        self._read = read
        self._workers = workers
        self._whole_deadline = whole_deadline
        self._clock = clock
        self._patience = patience
        self._end = time.monotonic() + deadline
        self._waiting = deque(hosts)
        self._running: dict[str, _Running] = {}
        self._done: dict[str, HostReading] = {}
        self._refusals: Counter[str] = Counter()
        self._answers: SimpleQueue[HostReading | _Refused] = SimpleQueue()

    def readings(self) -> list[HostReading]:
        look_at = 0.0
        while len(self._done) < len(self._hosts):
            self._start_waiting()
            now = time.monotonic()
            # An answer that has come counts, however late it is taken.
            if now >= look_at and self._answers.empty():
                self._end_late(now)
                look_at = min([now + LOOK_S, self._end, *(r.limit for r in self._running.values())])
            with suppress(Empty):
                self._take(self._answers.get(timeout=max(0.0, look_at - time.monotonic())))
        return [self._done[host.name] for host in self._hosts]

    def _start_waiting(self) -> None:
        while self._waiting and len(self._running) < self._workers and time.monotonic() < self._end:
            host = self._waiting.popleft()
            try:
                threading.Thread(target=self._answer, args=(host,), daemon=True).start()
            except (RuntimeError, MemoryError):
                self._refuse(_Refused(host, NO_THREAD))
                break
            self._running[host.name] = _Running(host, time.monotonic(), self._patience)
            self.on_start(host)

    def _answer(self, host: HostConfig) -> None:
        limits: list[str] = []

        def read() -> HostReading:
            try:
                return self._read(host)
            except Exception as error:
                if limit := own_limit(error):
                    limits.append(limit)
                raise

        reading = gate.answer(host.name, read, self._clock)
        self._answers.put(_Refused(host, limits[0]) if limits else reading)

    def _take(self, answer: HostReading | _Refused) -> None:
        if isinstance(answer, HostReading):
            self._finish(answer)
        elif self._running.pop(answer.host.name, None):
            self._refuse(answer)

    def _refuse(self, refused: _Refused) -> None:
        """As many at once as the system allows: this one again, when another has ended."""
        name = refused.host.name
        self._workers = max(1, len(self._running))
        self._refusals[name] += not self._running
        if self._refusals[name] < MOST_REFUSALS:
            self._waiting.appendleft(refused.host)
            return
        message = f"not asked: {refused.limit}"
        self._done[name] = gate.failure(name, self._clock(), Status.ERROR, message)
        self.on_reading(self._done[name])

    def _finish(self, reading: HostReading) -> None:
        # A thread that was given up may still answer: the first reading counts.
        if self._running.pop(reading.host, None):
            self._done[reading.host] = reading
            self.on_reading(reading)

    def _end_late(self, now: float) -> None:
        deadline = self._whole_deadline if now >= self._end else None
        if deadline is not None:
            self._running.update({h.name: _Running(h, now, self._patience) for h in self._waiting})
            self._waiting.clear()
        for late in [r for r in self._running.values() if now >= min(r.limit, self._end)]:
            self._finish(_late(late, now, deadline, self._clock()))


def _late(late: _Running, now: float, deadline: float | None, at: datetime) -> HostReading:
    spent = round(now - late.started, 3)
    if deadline is not None and not spent:
        reason = f"not asked: the run's deadline of {deadline:g} s came first"
    elif deadline is not None:
        reason = f"not finished when the run's deadline of {deadline:g} s came"
    else:
        reason = f"gave up: the reader hung, no answer {spent:.0f} s after the start"
    return gate.failure(late.host.name, at, Status.TIMEOUT, reason, spent)
