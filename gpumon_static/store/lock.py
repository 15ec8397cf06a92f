"""One fetch at a time: a `flock` that ends with its process, however that ends.

A user who can open the file can hold the lock: only its owner may. Its content is for the error message.

Where the file system has no `flock` (NFS without its lock server: ENOLCK), held.py does without.
"""

from __future__ import annotations

import errno
import fcntl
import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from gpumon_static.errors import AlreadyRunning, GpumonError
from gpumon_static.store import held
from gpumon_static.system.command import Command
from gpumon_static.system.files import NotAFile, open_private, owner_of
from gpumon_static.text import Say

MOST_BYTES = 200
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
"""What file systems without `flock` answer."""
WITHOUT = b"without flock\n"
"""The content of the file where locks are missing and a line has reported it."""


@contextmanager
def only_one(path: Path, now: datetime, say: Say = lambda _: None) -> Iterator[None]:
    """`say`: takes the line that the file system has no locks; once, not with every run."""
    try:
        descriptor = open_private(path, os.O_RDWR)
    except NotAFile as error:
        raise GpumonError(f"the lock {path} is not a file: remove it") from error
    except OSError as error:
        raise _cannot(path, error) from error
    try:
        with _held(descriptor, path, now, say):
            yield
    finally:
        os.close(descriptor)


def has_locks(descriptor: int) -> bool:
    """Whether the file system of an open file has `flock`."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in NO_LOCKS
    return True


@contextmanager
def _held(descriptor: int, path: Path, now: datetime, say: Say) -> Iterator[None]:
    started = now.astimezone(UTC).isoformat(timespec="seconds")
    try:
        before = os.pread(descriptor, MOST_BYTES, 0)
        is_locked = _locked(descriptor, before, now)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} {started}\n".encode() if is_locked else WITHOUT)
    except OSError as error:
        raise _cannot(path, error) from error
    if is_locked:
        yield
        return
    instead = path.with_name(f"{path.name}.held")
    if before != WITHOUT:
        say(f"{path.parent}: the file system has no locks (flock): {instead.name} is used instead")
    try:
        other = held.take(instead, started, now)
    except OSError as error:
        raise _cannot(instead, error) from error
    if other is not None:
        raise AlreadyRunning(_describe_holder(other, now))
    try:
        yield
    finally:
        held.give_back(instead)


def _locked(descriptor: int, before: bytes, now: datetime) -> bool:
    """False where the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AlreadyRunning(_describe_holder(before, now)) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return False
    return True


def _cannot(path: Path, error: OSError) -> GpumonError:
    message, user, owner = f"cannot lock {path}: {error.strerror}", getpass.getuser(), owner_of(path.parent)
    if isinstance(error, PermissionError) and owner != user:
        give = Command.of("chown", "-R", f"{user}:", path.parent).by("root")
        theirs = "" if owner == "root" else f" run this as {owner}, or"
        message += f"; {path.parent} belongs to {owner}:{theirs} {give.who}: {give}"
    return GpumonError(message)


def _describe_holder(content: bytes, now: datetime) -> str:
    try:
        pid, started = content.decode("ascii").split()
        since = datetime.fromisoformat(started).astimezone()
        seconds = max(0, round((now - since).total_seconds()))
        process = int(pid)
    except (ValueError, OverflowError, OSError):
        return "another fetch is running"
    return f"another fetch is running since {since:%H:%M:%S %Z} ({seconds} s, process {process}); exiting"
