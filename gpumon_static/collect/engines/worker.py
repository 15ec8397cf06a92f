"""A worker process: asks its share of the hosts with threads, and reports each step to the run.

It ends with the run, however that ends: when the channel closes, what it has started is ended first. Answers
are read one at a time, so that of a worker that hangs or dies it is known whose answer it was reading.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from gpumon_static.collect.engines.channel import Channel
from gpumon_static.collect.engines.limits import STACK_BYTES, in_use, room
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
from gpumon_static.collect.engines.threads import fan_out
from gpumon_static.collect.once import Once
from gpumon_static.collect.readers import Readers
from gpumon_static.collect.ssh.passwords import NoSecret
from gpumon_static.collect.ssh.target import SecretCommand
from gpumon_static.config.settings import HostConfig
from gpumon_static.errors import ConfigError

TURN_S = 0.05
MANY_OBJECTS = 50_000


class _Worker:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._readers: Readers | None = None
        self._waiting: dict[int, tuple[threading.Event, list[bytes]]] = {}
        self._parsing = threading.Lock()
        self.output_of = Once(self._ask_for_secret)
        """Passwords and passphrases are asked for by the run, once for all its workers."""

    def work(self, task: Task) -> None:
        try:
            readers = task.factory.open(secrets=self, note=self._note)
        except ConfigError as error:
            self._channel.send(BadConfig(tuple(error.problems)))
            return
        with readers:
            self._readers = readers
            wanted = min(task.threads, len(task.factory.hosts))
            found = room(task.factory.hosts, wanted, in_use(), task.processes)
            if found.line:
                self._channel.send(Limited(found.line))
            fan_out(
                task.factory.hosts,
                lambda host: readers(host, to_parse=self._turn_to_parse(host)),
                workers=found.workers,
                deadline=task.deadline,
                whole_deadline=task.whole_deadline,
                clock=readers.clock,
                patience=readers.patience,
                on_start=lambda host: self._channel.send(Asking(host.name)),
                on_reading=self._channel.send,
            )

    def listen(self) -> None:
        """Receive the run's replies; when the run is gone, end everything."""
        with suppress(EOFError, OSError):
            while True:
                reply = self._channel.receive_bytes()
                event, received = self._waiting[int.from_bytes(reply[:4])]
                received.append(reply[4:])
                event.set()
        if self._readers:
            self._readers.programs.end_all()
        os._exit(1)

    def beat(self) -> None:
        with suppress(OSError):
            while True:
                self._channel.send(Beat())
                time.sleep(BEAT_S)

    @contextmanager
    def _turn_to_parse(self, host: HostConfig) -> Iterator[None]:
        with self._parsing:
            self._channel.send(Parsing(host.name))
            yield

    def _note(self, host: str, what: object) -> None:
        self._channel.send(Noted(host, what))

    def _ask_for_secret(self, command: SecretCommand) -> str:
        number, event, received = len(self._waiting), threading.Event(), list[bytes]()
        self._waiting[number] = event, received
        self._channel.send(WantsSecret(number, command))
        event.wait()
        is_secret, text = received[0][:1] == b"+", received[0][1:].decode(errors="surrogateescape")
        if not is_secret:
            raise NoSecret(text)
        return text


def main(descriptor: int) -> NoReturn:
    # Ctrl-C reaches the whole group; the run decides when its workers end. It was blocked until now.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.stack_size(STACK_BYTES)
    # Of many threads that wait for their turn, each wakes up once in this time.
    sys.setswitchinterval(TURN_S)
    # Nearly all that is made here is dropped at once, and to look for the rest takes a tenth of the time.
    gc.freeze()
    gc.set_threshold(MANY_OBJECTS)
    channel = Channel(socket.socket(fileno=descriptor))
    try:
        task: Task = channel.receive()
        _bound_memory(task.memory_mib * 1024**2)
        worker = _Worker(channel)
        for talk in (worker.listen, worker.beat):
            threading.Thread(target=talk, daemon=True).start()
        worker.work(task)
    except (EOFError, OSError):
        # The run is gone.
        os._exit(1)
    except Exception as error:
        # The run asks these hosts again elsewhere; only this line has the reason.
        os.write(2, f"gpumon-static: a worker failed: {type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os._exit(0)


def _bound_memory(wanted: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    bound = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_AS, (bound, most))


if __name__ == "__main__":
    main(int(sys.argv[1]))
