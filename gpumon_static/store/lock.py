"""One fetch at a time: a `flock` that ends with its process, however that ends.

A user who can open the file can hold the lock: only its owner may. Its content is for the error message.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from gpumon_static.errors import AlreadyRunning, GpumonError
from gpumon_static.files import open_private

MOST_BYTES = 200


@contextmanager
def only_one(path: Path, now: datetime) -> Iterator[None]:
    try:
        descriptor = open_private(path, os.O_RDWR | os.O_NONBLOCK)
    except OSError as error:
        raise GpumonError(f"cannot open the lock {path}: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise GpumonError(f"the lock {path} is not a file: remove it")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(_said_by_the_other(os.read(descriptor, MOST_BYTES), now)) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} {now.astimezone(UTC).isoformat(timespec='seconds')}\n".encode())
        yield
    finally:
        os.close(descriptor)


def _said_by_the_other(content: bytes, now: datetime) -> str:
    try:
        pid, started = content.decode("ascii").split()
        since = datetime.fromisoformat(started).astimezone()
        seconds = max(0, round((now - since).total_seconds()))
        process = int(pid)
    except (ValueError, OverflowError, OSError):
        return "another fetch is running"
    return f"another fetch is running since {since:%H:%M:%S %Z} ({seconds} s, process {process}); exiting"
