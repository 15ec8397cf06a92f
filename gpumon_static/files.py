"""Write a file so that nobody ever sees half of it."""

from __future__ import annotations

import gzip
import os
import secrets
import stat
import time
from contextlib import suppress
from pathlib import Path

from gpumon_static.errors import GpumonError

LEFTOVER_AGE = 3600.0


def write_for_web(path: Path, text: str) -> None:
    """The file, and packed beside it, for a web server that has no need to pack it again and again."""
    write_atomic(path, text)
    write_atomic(path.with_name(f"{path.name}.gz"), gzip.compress(text.encode(), compresslevel=6, mtime=0))


def write_atomic(path: Path, content: str | bytes) -> None:
    """A temporary file beside the target, flushed to the disk, then put in its place in one step."""
    data = content.encode() if isinstance(content, str) else content
    try:
        # Ours to write, whatever the umask; a directory that is there keeps its mode.
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        temporary = path.parent / f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
        try:
            # Made by os.open, so that a new file is readable as the umask allows.
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                if path.exists():
                    os.fchmod(handle, stat.S_IMODE(path.stat().st_mode))
                os.fsync(handle)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)
        _clear_leftovers(path)
    except OSError as error:
        raise GpumonError(f"cannot write {path}: {error.strerror or error}") from error


def _clear_leftovers(path: Path) -> None:
    """What a killed run left here, long after any run that could still be at work on it."""
    for leftover in path.parent.glob(f".{path.name}.*.tmp"):
        with suppress(FileNotFoundError):
            if time.time() - leftover.stat().st_mtime > LEFTOVER_AGE:
                leftover.unlink()


def _sync_directory(directory: Path) -> None:
    """The rename itself outlives a power cut only once the directory is on the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
