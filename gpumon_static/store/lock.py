"""One fetch at a time: a `flock` that ends with its process, however that ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from gpumon_static.errors import AlreadyRunning, GpumonError


@contextmanager
def only_one(path: Path, now: datetime) -> Iterator[None]:
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise GpumonError(f"cannot open the lock {path}: {error.strerror}") from error
    with os.fdopen(descriptor, "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(_said_by_the_other(file.read(), now)) from None
        file.truncate()
        file.write(f"{os.getpid()} {now.astimezone(UTC).isoformat(timespec='seconds')}\n")
        file.flush()
        yield


def _said_by_the_other(content: str, now: datetime) -> str:
    try:
        pid, started = content.split()
        since = datetime.fromisoformat(started)
    except ValueError:
        return "another fetch is running"
    seconds = max(0, round((now - since).total_seconds()))
    return (
        f"another fetch is running since {since.astimezone():%H:%M:%S} ({seconds} s, process {pid}); exiting"
    )
