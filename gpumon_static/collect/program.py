"""Run a program with the probe on its stdin: bounded in time and in bytes, and never left behind."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass

from gpumon_static.collect import probe


@dataclass(frozen=True)
class Finished:
    output: bytes
    errors: bytes
    exit_status: int | None
    """None where the answer was complete before the program ended."""


def run(arguments: list[str], stdin: bytes, seconds: float) -> Finished:
    """Raises `TimeoutError`, `HostError` for too many bytes, `OSError` where it cannot be started."""
    process = subprocess.Popen(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        try:
            return _exchange(process, stdin, time.monotonic() + seconds)
        finally:
            # The whole group: a hung nvidia-smi is a grandchild.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _exchange(process: subprocess.Popen[bytes], stdin: bytes, end: float) -> Finished:
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
            ready = selector.select(left) if left > 0 else []
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    selector.unregister(key.fileobj)
                key.data.extend(chunk)
            if len(output) > probe.MOST_BYTES:
                raise probe.too_much()
            del errors[4096:]
            if probe.is_complete(output):
                return Finished(bytes(output), bytes(errors), None)
    return Finished(bytes(output), bytes(errors), process.wait(max(0.1, end - time.monotonic())))
