"""Write a file so that nobody ever sees half of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from gpumon_static.errors import GpumonError


def write_atomic(path: Path, text: str) -> None:
    """A temporary file beside the target, flushed to the disk, then put in its place in one step."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fchmod(file.fileno(), _mode(path))
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink()
            raise
        _sync_directory(path.parent)
    except OSError as error:
        raise GpumonError(f"cannot write {path}: {error.strerror or error}") from error


def _mode(path: Path) -> int:
    """What the file had before; a new one is readable as the umask allows, not as private as mkstemp's."""
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_directory(directory: Path) -> None:
    """The rename itself outlives a power cut only once the directory is on the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
