"""Worker processes, and the watch over them: no host can cost more than its own reading.

Each worker has a share of the hosts and reports each step. One that dies, hangs or takes too
long over an answer is ended. The hosts it had not come to, or was waiting for, are asked again by another
worker. The one whose answer it was reading (or, where none was, all it was asking) gets a second try in a
worker of its own, and then a status.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import TracebackType

from gpumon_static.collect import gate
from gpumon_static.collect.engines.channel import Channel
from gpumon_static.collect.engines.messages import (
    BEAT_S,
    Asking,
    BadConfig,
    Beat,
    Limited,
    Noted,
    Parsing,
    Task,
    WantsSecret,
)
from gpumon_static.collect.engines.shards import deal
from gpumon_static.collect.readers import Note, ReaderFactory, nobody
from gpumon_static.collect.ssh.passwords import NoSecret, Secrets
from gpumon_static.config.settings import FetchConfig, HostConfig
from gpumon_static.errors import ConfigError
from gpumon_static.model import HostReading, Status
from gpumon_static.system.programs import Programs, kill_with_descendants
from gpumon_static.text import Say
from gpumon_static.times import utc_now

ENVIRONMENT = {"MALLOC_ARENA_MAX": "1"}
"""Each thread reserves 64 MB of address space otherwise, which is bounded."""
WORKER = "gpumon_static.collect.engines.worker"
NO_SIGN_S = 20.0
"""A worker that has sent nothing for this long hangs."""
MIN_NO_SIGN_S = 3 * BEAT_S
PARSING_S = 10.0
"""Time limit to read one answer; a second is a lot."""
MOST_START_S = 10.0
GRACE_S = 1.0
"""For the readings that the workers themselves give up at the deadline."""
SHUTDOWN_S = 0.5
MOST_NEVER_BEGAN = 3
"""Workers that end before they ask a host."""
MOST_ALONE = 8
"""Workers for second tries, beside the others."""


class CannotStart(Exception):
    """Not one worker can be started."""


class Unwanted(Exception):
    """Nobody waits for the readings any more."""


@dataclass(eq=False)
class _Worker:
    hosts: dict[str, HostConfig]
    process: subprocess.Popen[bytes]
    channel: Channel
    heard: float
    has_begun: bool = False
    """It has asked a host."""
    asking: set[str] = field(default_factory=set)
    parsing: str | None = None
    parsing_since: float = 0.0


def ask(
    factory: ReaderFactory,
    config: FetchConfig,
    processes: int,
    on_reading: Callable[[HostReading], None],
    *,
    seconds: float | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
    on_note: Note = nobody,
    say: Say = lambda _: None,
) -> list[HostReading]:
    """`seconds`: what is left of the deadline; `is_wanted`: asked now and then, else raises `Unwanted`."""
    with _Watch(factory, config, processes, on_reading, seconds) as watch:
        watch.on_note, watch.say = on_note, say
        return watch.run(is_wanted)


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Start a process that Ctrl-C, which reaches the whole group, does not interrupt while it imports."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Watch:
    on_note: Note
    say: Say

    def __init__(
        self,
        factory: ReaderFactory,
        config: FetchConfig,
        processes: int,
        on_reading: Callable[[HostReading], None],
        seconds: float | None,
    ) -> None:
        self._factory = factory
        self._config = config
        self._processes = processes
        self._on_reading = on_reading
        self._started = time.monotonic()
        self._end = self._started + (config.deadline if seconds is None else seconds)
        # Who waits for what is left of a deadline does not wait for the start of a process as well.
        self._has_asked = seconds is not None
        self._queue: deque[Sequence[HostConfig]] = deque(deal(factory.hosts, processes))
        self._workers: set[_Worker] = set()
        self._finished: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._strikes: dict[str, int] = {}
        self._never_began = 0
        self._is_limited = False
        self._done: dict[str, HostReading] = {}
        self._programs = Programs()
        self._secrets = Secrets(self._programs)

    def __enter__(self) -> _Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._programs.end_all()
        started = [*self._workers, *self._finished]
        for one in started:
            # A worker whose channel is closed ends what it has started, then exits.
            one.channel.close()
        end = time.monotonic() + SHUTDOWN_S
        for one in started:
            try:
                one.process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                kill_with_descendants(one.process)
        self._selector.close()

    def run(self, is_wanted: Callable[[], bool]) -> list[HostReading]:
        while len(self._done) < len(self._factory.hosts):
            if not is_wanted():
                raise Unwanted
            now = time.monotonic()
            if now >= self._end + GRACE_S:
                self._give_up()
                break
            self._start_queued()
            for key, _ in self._selector.select(min(1.0, self._end + GRACE_S - now)):
                self._hear(key.data)
            self._end_hung()
        return [self._done[host.name] for host in self._factory.hosts]

    def _start_queued(self) -> None:
        limit = self._processes + MOST_ALONE if self._strikes else self._processes
        while self._queue and len(self._workers) < limit:
            hosts = self._queue.popleft()
            try:
                self._start(hosts)
            except (OSError, RuntimeError) as error:
                if not self._workers and not self._done:
                    raise CannotStart from error
                if not self._workers:
                    for host in hosts:
                        self._fail(host, Status.ERROR, f"not asked: cannot start a process: {error}")
                    continue
                self._queue.appendleft(hosts)
                break

    def _start(self, hosts: Sequence[HostConfig]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                # -P: nothing is imported from the directory in which it is started.
                words = [sys.executable, "-P", "-m", WORKER, str(theirs.fileno())]
                nothing, passed = subprocess.DEVNULL, [theirs.fileno()]
                with _without_ctrl_c():
                    process = subprocess.Popen(
                        words, stdin=nothing, pass_fds=passed, env=os.environ | ENVIRONMENT
                    )
            except BaseException:
                ours.close()
                raise
        threads = -(-self._config.workers // self._processes)
        factory = replace(self._factory, hosts=tuple(hosts), clock=utc_now)
        left = max(0.1, self._end - time.monotonic())
        limits = self._config.deadline, self._config.worker_memory
        task = Task(factory, threads, self._processes, left, *limits)
        started = _Worker({h.name: h for h in hosts}, process, Channel(ours), time.monotonic())
        self._workers.add(started)
        self._selector.register(ours, selectors.EVENT_READ, started)
        # In a thread: a worker that does not read it must not delay the others.
        self._in_thread(lambda: started.channel.send(task))

    def _hear(self, one: _Worker) -> None:
        try:
            for message in one.channel.messages():
                one.heard = time.monotonic()
                self._take(one, message)
        except EOFError:
            if one.hosts:
                self._kill_and_requeue(one, "died")
            else:
                self._part_with(one)

    def _start_clock(self) -> None:
        """Start the deadline at the first question: the start of Python does not count."""
        if not self._has_asked:
            self._has_asked = True
            self._end += min(MOST_START_S, time.monotonic() - self._started)

    def _take(self, one: _Worker, message: object) -> None:
        if isinstance(message, HostReading):
            one.asking.discard(message.host)
            one.parsing = None if one.parsing == message.host else one.parsing
            if one.hosts.pop(message.host, None):
                self._finish(replace(message, fetched_at=self._factory.clock()))
        elif isinstance(message, Asking):
            one.has_begun = True
            one.asking.add(message.host)
            self._start_clock()
        elif isinstance(message, Parsing):
            one.parsing, one.parsing_since = message.host, one.heard
        elif isinstance(message, Noted):
            self.on_note(message.host, message.what)
        elif isinstance(message, Limited):
            if not self._is_limited:
                self._is_limited = True
                self.say(message.line)
        elif isinstance(message, WantsSecret):
            self._in_thread(lambda: self._send_secret(one.channel, message))
        elif isinstance(message, BadConfig):
            raise ConfigError(self._factory.config_path, list(message.problems))
        else:
            assert isinstance(message, Beat)

    def _send_secret(self, channel: Channel, wanted: WantsSecret) -> None:
        """As bytes: a secret is in no pickle, no file and no list of arguments."""
        number = wanted.number.to_bytes(4)
        try:
            answer = b"+" + self._secrets.output_of(wanted.command).encode(errors="surrogateescape")
        except NoSecret as error:
            answer = b"-" + str(error).encode()
        channel.send_bytes(number + answer)

    def _end_hung(self) -> None:
        now, quarter = time.monotonic(), self._config.deadline / 4
        no_sign_s = max(MIN_NO_SIGN_S, min(NO_SIGN_S, quarter))
        for one in list(self._workers):
            reads_too_long = one.parsing and now - one.parsing_since > min(PARSING_S, quarter)
            if reads_too_long or now - one.heard > no_sign_s:
                self._kill_and_requeue(one, "hung")

    def _part_with(self, one: _Worker) -> None:
        """It has read all its hosts, and ends."""
        self._selector.unregister(one.channel.sock)
        self._workers.remove(one)
        self._finished.append(one)

    def _kill_and_requeue(self, one: _Worker, how: str) -> None:
        """End a worker; its hosts go to others."""
        self._selector.unregister(one.channel.sock)
        self._workers.remove(one)
        kill_with_descendants(one.process)
        one.channel.close()
        suspects = {one.parsing} if one.parsing in one.hosts else one.asking & one.hosts.keys()
        unaffected = [host for name, host in one.hosts.items() if name not in suspects]
        self._never_began += not one.has_begun
        if self._never_began >= MOST_NEVER_BEGAN:
            self._cannot_start(unaffected)
        elif unaffected:
            self._queue.append(unaffected)
        for name in suspects:
            host = one.hosts[name or ""]
            self._strikes[host.name] = self._strikes.get(host.name, 0) + 1
            if self._strikes[host.name] == 1:
                self._queue.append([host])
            elif one.parsing == host.name:
                self._fail(host, Status.BAD_OUTPUT, f"gave up: the reader {how} on its answer, twice")
            else:
                self._fail(host, Status.ERROR, f"gave up: the reader {how} while asking it, twice")

    def _cannot_start(self, hosts: Sequence[HostConfig]) -> None:
        """Workers end before they begin: others would too."""
        if not self._done:
            raise CannotStart
        for host in hosts:
            self._fail(host, Status.ERROR, "not asked: a process to ask it ends at once")

    def _give_up(self) -> None:
        message = f"the run's deadline of {self._config.deadline:g} s came first"
        for host in self._factory.hosts:
            if host.name not in self._done:
                self._fail(host, Status.TIMEOUT, f"not finished: {message}")

    def _fail(self, host: HostConfig, status: Status, message: str) -> None:
        self._finish(gate.failure(host.name, self._factory.clock(), status, message))

    def _finish(self, reading: HostReading) -> None:
        self._done[reading.host] = reading
        self._on_reading(reading)

    def _in_thread(self, talk: Callable[[], None]) -> None:
        def quietly() -> None:
            # A worker that is gone is noticed elsewhere.
            with suppress(OSError):
                talk()

        try:
            threading.Thread(target=quietly, daemon=True).start()
        except RuntimeError:
            # No thread can be started: the others wait for this one then.
            quietly()
