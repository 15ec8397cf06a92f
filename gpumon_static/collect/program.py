"""Programs that we start: bounded in time and in bytes, and never left behind."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gpumon_static.collect import probe
from gpumon_static.collect.trace import Trace

MOST_ERRORS = 64 * 1024
LOOK_EVERY = 0.25
"""Seconds. A program that ends may leave its pipes to a child, such as ssh's ControlMaster."""


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
    """Those of one run. What a thread that hangs has started is ended too, when the run is."""

    def __init__(self) -> None:
        self._running: dict[int, subprocess.Popen[bytes]] = {}
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
                _kill(process)
        with process:
            pass

    def end_all(self) -> None:
        with self._lock:
            self._over = True
            for process in self._running.values():
                _kill(process)

    def run(self, arguments: list[str], stdin: bytes, seconds: float, trace: Trace) -> Finished:
        """Raises `Late`, `HostError` for too many bytes, `OSError` where it cannot be started."""
        pipe = subprocess.PIPE
        process = self.start(arguments, stdin=pipe, stdout=pipe, stderr=pipe)
        try:
            return _exchange(process, stdin, time.monotonic() + seconds, trace)
        finally:
            self.end(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    # The whole group: a hung nvidia-smi is a grandchild.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _exchange(process: subprocess.Popen[bytes], stdin: bytes, end: float, trace: Trace) -> Finished:
    assert process.stdin
    assert process.stdout
    assert process.stderr
    with suppress(BrokenPipeError):
        process.stdin.write(stdin)
        process.stdin.close()
    output, errors = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, output)
        selector.register(process.stderr, selectors.EVENT_READ, errors)
        while selector.get_map():
            left = end - time.monotonic()
            if left <= 0:
                raise Late(bytes(errors))
            ready = selector.select(min(left, LOOK_EVERY))
            if not ready and process.poll() is not None:
                break
            for key, _ in ready:
                _read(selector, key)
            del errors[MOST_ERRORS:]
            trace.received(output)
            if len(output) > probe.MOST_BYTES:
                raise probe.too_much()
            if probe.is_complete(output):
                return Finished(bytes(output), bytes(errors), None)
    return Finished(bytes(output), bytes(errors), _exit_status(process, end, errors))


def _read(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    chunk = os.read(key.fd, 65536)
    if not chunk:
        selector.unregister(key.fileobj)
    key.data.extend(chunk)


def _exit_status(process: subprocess.Popen[bytes], end: float, errors: bytearray) -> int:
    try:
        return process.wait(max(0.1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise Late(bytes(errors)) from None
