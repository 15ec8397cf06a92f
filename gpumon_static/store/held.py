"""The only one without `flock`: a file that names the process that runs, and that can be made only once.

    {"pid": 4711, "started": "2025-11-14T09:10:00+00:00", "machine": "collector", ...}

That of a process that is gone, as after a kill or a power cut, is taken over.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from gpumon_static.system.files import NotAFile, open_file, open_private, read_file

MOST_BYTES = 2000
ELSEWHERE_S = 3600.0
"""A run of which only the start is known, as that of another machine, counts as over by then."""


@dataclass(frozen=True)
class _Holder:
    pid: int
    started: str
    machine: str
    boot: str
    """Of the system, and of the container: process numbers mean something within it only."""
    ticks: str
    """When the process started, by the system's clock: another one may have its number later."""

    def is_gone(self, now: datetime) -> bool:
        if self.boot == _boot():
            return _ticks(self.pid) != self.ticks
        has_restarted = self.boot.partition(" ")[0] != _boot().partition(" ")[0]
        if self.machine == socket.gethostname() and has_restarted:
            return True
        return _is_long_ago(now, datetime.fromisoformat(self.started).timestamp())


def take(path: Path, started: str, now: datetime) -> bytes | None:
    """Make the file; else the process that has it, and since when. Raises `OSError`."""
    mine = _Holder(os.getpid(), started, socket.gethostname(), _boot(), _ticks(os.getpid()))
    # Whole before it has its name: what a power cut leaves can be read.
    own = path.with_name(f".{path.name}.{mine.machine}-{mine.pid}.tmp")
    with os.fdopen(open_private(own, os.O_WRONLY | os.O_TRUNC), "wb") as file:
        file.write(json.dumps(asdict(mine)).encode())
        file.flush()
        os.fsync(file.fileno())
    try:
        _remove_gone(path, now)
        # A name can be given once, on every file system.
        os.link(own, path)
    except FileExistsError:
        other = _holder(path)
        return f"{other.pid} {other.started}".encode() if other else b""
    finally:
        with suppress(OSError):
            own.unlink()
    return None


def give_back(path: Path) -> None:
    with suppress(OSError):
        mine = _holder(path)
        if mine and (mine.pid, mine.boot) == (os.getpid(), _boot()):
            path.unlink()


def _remove_gone(path: Path, now: datetime) -> None:
    """Remove the file of a process that is gone: by a rename, which only one of several runs can do."""
    found = _holder(path)
    if not (found.is_gone(now) if found else _is_old(path, now)):
        return
    aside = path.with_name(f".{path.name}.gone-{os.getpid()}.tmp")
    with suppress(OSError):
        path.rename(aside)
        if _holder(aside) != found:
            # Another run was faster, and this is its file: it is given back.
            os.link(aside, path)
        aside.unlink()


def _holder(path: Path) -> _Holder | None:
    """None for no file, and for one that is not ours."""
    try:
        found = _Holder(**json.loads(read_file(path, MOST_BYTES)))
        datetime.fromisoformat(found.started).astimezone()
    except (OSError, ValueError, TypeError, AttributeError, OverflowError):
        return None
    return found if all(map(isinstance, asdict(found).values(), (int, str, str, str, str))) else None


def _is_old(path: Path, now: datetime) -> bool:
    """Whether something else than our file has been there for long."""
    try:
        with open_file(path) as file:
            return _is_long_ago(now, os.fstat(file.fileno()).st_mtime)
    except NotAFile:
        return True
    except OSError:
        return False


def _is_long_ago(now: datetime, then: float) -> bool:
    return abs(now.timestamp() - then) > ELSEWHERE_S


def _boot() -> str:
    """Two words: this start of the system, and this container of it."""
    words = ["-", "-"]
    with suppress(OSError):
        words[0] = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        words[1] = str(Path("/proc/self/ns/pid").stat().st_ino)
    return " ".join(words)


def _ticks(pid: int) -> str:
    """Empty where there is no such process."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    return ""
