"""Run programs, bounded in time and in bytes, and never leave one running."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_ERRORS = 64 * 1024
LOOK_EVERY = 0.25
"""Seconds. A program that ends may leave its pipes to a child, such as ssh's ControlMaster."""

Enough = Callable[[bytearray], bool]
"""Called each time that more output has come: whether the answer is complete. May raise."""


@dataclass(frozen=True)
class Finished:
    output: bytes
    errors: bytes
    exit_status: int | None
    """None where the answer was complete before the program ended."""


class Late(TimeoutError):
    def __init__(self, errors: bytes) -> None:
        self.errors = errors
        super().__init__()


class Programs:
    """The programs of one run. Those that a hung thread has started are ended too, with the run."""

    def __init__(self) -> None:
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._have_families: set[int] = set()
        self._lock = threading.Lock()
        self._over = False

    def start(self, arguments: list[str], **pipes: Any) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._over:
                raise InterruptedError(None, "the run is over")
            process = subprocess.Popen(arguments, start_new_session=True, **pipes)
            self._running[process.pid] = process
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            if self._running.pop(process.pid, None):
                self._kill(process)
        with process:
            pass

    def end_all(self) -> None:
        with self._lock:
            self._over = True
            for process in self._running.values():
                self._kill(process)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        if process.pid in self._have_families and process.poll() is None:
            kill_with_descendants(process)
        else:
            _kill(process)

    def run(
        self,
        arguments: list[str],
        stdin: bytes = b"",
        *,
        seconds: float,
        enough: Enough = lambda _: False,
        spare_children: bool = False,
        has_family: bool = False,
        **options: Any,
    ) -> Finished:
        """Raises `Late`, what `enough` raises, and `OSError` where it cannot be started.

        `has_family`: it starts others in sessions of their own, which are to end with it.
        `spare_children`: what a program that ended well has left running, such as a mailer, goes on.
        """
        pipe = subprocess.PIPE
        process = self.start(arguments, **{"stdin": pipe, "stdout": pipe, "stderr": pipe} | options)
        if has_family:
            self._have_families.add(process.pid)
        finished = None
        try:
            finished = _exchange(process, stdin, time.monotonic() + seconds, enough)
            return finished
        finally:
            if spare_children and finished is not None:
                self._forget(process)
            else:
                self.end(process)

    def _forget(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._running.pop(process.pid, None)
        with process:
            pass


def kill_with_descendants(process: subprocess.Popen[bytes]) -> None:
    """End a program, and what it has started in sessions of their own, which outlive it otherwise."""
    started = _descendants(process.pid)
    with suppress(ProcessLookupError, PermissionError):
        process.kill()
    for pid in started:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def _descendants(root: int) -> list[int]:
    """The descendants of a process, from /proc; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The name in brackets may hold anything; what follows the last one is in order.
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def _kill(process: subprocess.Popen[bytes]) -> None:
    # The whole group: a hung nvidia-smi is a grandchild.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _exchange(process: subprocess.Popen[bytes], stdin: bytes, end: float, enough: Enough) -> Finished:
    output, errors = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        if process.stdin:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE, memoryview(stdin))
        for stream, received in ((process.stdout, output), (process.stderr, errors)):
            if stream:
                selector.register(stream, selectors.EVENT_READ, received)
        while selector.get_map():
            left = end - time.monotonic()
            if left <= 0:
                raise Late(bytes(errors))
            # Asked before the pipes are: all that a program which has ended wrote is in them by then.
            has_ended = process.poll() is not None
            ready = selector.select(0 if has_ended else min(left, LOOK_EVERY))
            if has_ended and not any(key.events & selectors.EVENT_READ for key, _ in ready):
                break
            for key, _ in ready:
                _transfer(selector, key)
            del errors[MOST_ERRORS:]
            if enough(output):
                return Finished(bytes(output), bytes(errors), None)
    return Finished(bytes(output), bytes(errors), _exit_status(process, end, errors))


def _transfer(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    if key.events & selectors.EVENT_READ:
        chunk = os.read(key.fd, 65536)
        if not chunk:
            selector.unregister(key.fileobj)
        key.data.extend(chunk)
        return
    try:
        rest = key.data[os.write(key.fd, key.data) :] if key.data else key.data
    except BrokenPipeError:
        rest = memoryview(b"")
    if rest:
        selector.modify(key.fileobj, selectors.EVENT_WRITE, rest)
    else:
        selector.unregister(key.fileobj)
        key.fileobj.close()  # type: ignore[union-attr]


def _exit_status(process: subprocess.Popen[bytes], end: float, errors: bytearray) -> int:
    try:
        return process.wait(max(0.1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise Late(bytes(errors)) from None
