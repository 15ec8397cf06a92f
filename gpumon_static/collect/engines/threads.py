"""Threads: exactly one reading per host, always, in the order of the hosts.

A thread per host, at most `workers` of them at work. Nothing here waits for a thread: one that is over
its limit is left behind, its host is `timeout`, and its place is given to the next host.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from queue import Empty, SimpleQueue

from gpumon_static.collect import gate
from gpumon_static.collect.patience import Patience, past_its_limits
from gpumon_static.collect.readers import ReaderFactory
from gpumon_static.config.settings import FetchConfig, HostConfig
from gpumon_static.model import HostReading, Status
from gpumon_static.times import Clock

Read = Callable[[HostConfig], HostReading]


def ask(
    factory: ReaderFactory,
    config: FetchConfig,
    *,
    on_reading: Callable[[HostReading], None] = lambda _: None,
) -> list[HostReading]:
    """The readings of the factory's hosts, in their order."""
    with factory.open() as read:
        return fan_out(
            factory.hosts,
            read,
            workers=config.workers,
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
    waiting = deque(hosts)
    running: dict[str, _Running] = {}
    done: dict[str, HostReading] = {}
    answers: SimpleQueue[HostReading] = SimpleQueue()
    started = time.monotonic()
    end = started + deadline

    def finish(reading: HostReading) -> None:
        # A thread that was given up may still answer: the first reading counts.
        if running.pop(reading.host, None):
            done[reading.host] = reading
            on_reading(reading)

    while len(done) < len(hosts):
        while waiting and len(running) < workers and time.monotonic() < end:
            host = waiting.popleft()
            try:
                threading.Thread(target=_answer, args=(host, read, clock, answers), daemon=True).start()
            except (RuntimeError, MemoryError) as error:
                if running:
                    # As many as the system allows: the next one when another has ended.
                    waiting.appendleft(host)
                    workers = len(running)
                    break
                answers.put(gate.failure(host.name, clock(), Status.ERROR, f"cannot start a thread: {error}"))
            running[host.name] = _Running(host, time.monotonic(), patience)
            on_start(host)
        until = min([end, *(r.limit for r in running.values())])
        try:
            finish(answers.get(timeout=max(0.0, until - time.monotonic())))
        except Empty:
            now = time.monotonic()
            if now >= end:
                running.update({h.name: _Running(h, now, patience) for h in waiting})
                waiting.clear()
            for late in [r for r in running.values() if now >= min(r.limit, end)]:
                finish(_late(late, now, (whole_deadline or deadline) if now >= end else None, clock()))
    return [done[host.name] for host in hosts]


def _answer(host: HostConfig, read: Read, clock: Clock, answers: SimpleQueue[HostReading]) -> None:
    answers.put(gate.answer(host.name, lambda: read(host), clock))


def _late(late: _Running, now: float, deadline: float | None, at: datetime) -> HostReading:
    spent = round(now - late.started, 3)
    if deadline is not None and not spent:
        reason = f"not asked: the run's deadline of {deadline:g} s came first"
    elif deadline is not None:
        reason = f"not finished when the run's deadline of {deadline:g} s came"
    else:
        reason = f"gave up: the reader hung, no answer {spent:.0f} s after the start"
    return gate.failure(late.host.name, at, Status.TIMEOUT, reason, spent)
