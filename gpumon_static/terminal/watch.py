"""The hosts of `top`, and its Slurm: a thread for each, which keeps its connection and reads at every tick.

A host that fails is asked again later and later, up to a minute apart, and never ends the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from gpumon_static.collect import gate
from gpumon_static.collect.readers import ReaderFactory, Readers
from gpumon_static.collect.session import Session
from gpumon_static.config.settings import HostConfig
from gpumon_static.model import HostReading
from gpumon_static.times import Clock

LONGEST_PAUSE = 60.0
SLURM_EVERY = 30.0
"""Seconds between two questions to a Slurm: its controller has all of the cluster to answer for."""
CLOSING_S = 1.0
"""Seconds in which the threads may close what they have open."""


class Watch:
    def __init__(
        self, config_path: Path, hosts: Sequence[HostConfig], workers: int, interval: float, clock: Clock
    ) -> None:
        """`hosts`: those of Slurm too. `workers`: how many connect at once.

        Raises `ConfigError` where a key file cannot be used.
        """
        self._turn = threading.Semaphore(workers)
        self._shared = ReaderFactory(config_path, tuple(hosts), clock).open()
        self._interval = interval
        self._clock = clock
        self._answers: SimpleQueue[HostReading] = SimpleQueue()
        self._made_anew: dict[str, Readers] = {}
        """By host: its session has closed the one before."""
        self._stop = threading.Event()
        self._going = threading.Event()
        self._going.set()
        self._threads = [
            threading.Thread(target=self._keep_reading, args=(config_path, h), daemon=True) for h in hosts
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Programs of ours are ended; a thread that hangs on a host is left behind."""
        self._stop.set()
        self._going.set()
        for used in (self._shared, *self._made_anew.values()):
            used.__exit__(None, None, None)
        end = time.monotonic() + CLOSING_S
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, end - time.monotonic()))

    def pause(self, paused: bool) -> None:
        if paused:
            self._going.clear()
        else:
            self._going.set()

    def news(self) -> Iterator[HostReading]:
        """The readings since the last call."""
        with suppress(Empty):
            while True:
                yield self._answers.get_nowait()

    def _keep_reading(self, config_path: Path, host: HostConfig) -> None:
        def anew() -> Readers:
            made = ReaderFactory(config_path, (host,), self._clock).open()
            self._made_anew[host.name] = made
            return made

        session = Session(host, self._shared, anew, self._turn)
        usual = max(self._interval, SLURM_EVERY) if host.asks_slurm else self._interval
        failures = 0
        while not self._stop.is_set():
            started = time.monotonic()
            reading = gate.answer(host.name, session.read, self._clock)
            self._answers.put(reading)
            failures = 0 if reading.ok else failures + 1
            pause = max(usual, min(LONGEST_PAUSE, usual * 2.0 ** min(failures, 16)))
            self._stop.wait(max(0.1, pause - (time.monotonic() - started)))
            self._going.wait()
        session.close()
