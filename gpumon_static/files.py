"""Write files in one step, so that half of one is never seen; create files for the collector only."""

from __future__ import annotations

import errno
import gzip
import os
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from gpumon_static.errors import GpumonError

LEFTOVER_AGE = 3600.0
NOT_FOR_OTHERS = "it is for the user who runs fetch, and for the group that paths.data_group names"
PRIVATE_BITS = 0o640
"""The most that a private file may have: its group reads it where the config sets one."""


def for_web(files: Mapping[Path, str]) -> dict[Path, bytes]:
    """The files of a site, each with its packed form for the web server beside it.

    The packed file goes first: it is what most browsers get, and must not be the older one of the two.
    """
    both: dict[Path, bytes] = {}
    for path, text in files.items():
        data = text.encode()
        both[_packed(path)] = gzip.compress(data, compresslevel=6, mtime=0)
        both[path] = data
    return both


def write_atomic(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Write one file in one step. `private`: for its owner only, in a directory that is made so too."""
    write_all({path: content.encode() if isinstance(content, str) else content}, private=private)


def write_all(files: Mapping[Path, bytes], *, private: bool = False) -> None:
    """Write each file beside its target and flush it to the disk; then rename them all, in this order.

    A failure before the first rename changes nothing. No temporary file is left, whatever happens.
    """
    staged = {path: _temporary(path) for path in files}
    try:
        for path, data in files.items():
            with _told(path):
                _stage(staged[path], path, data, private)
        _put_in_place(staged)
    finally:
        for temporary in staged.values():
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
    for directory in {path.parent for path in files}:
        with _told(directory):
            _sync_directory(directory)
    for path in files:
        _clear_leftovers(path)


def make_directory(directory: Path, *, private: bool) -> None:
    """Create a directory that its owner can write, whatever the umask; an existing one keeps its mode.

    What root creates in a directory of the collector's is the collector's.
    """
    missing = [path for path in (directory, *directory.absolute().parents) if not path.exists()]
    directory.mkdir(mode=0o700 if private else 0o755, parents=True, exist_ok=True)
    for path in reversed(missing) if os.geteuid() == 0 else ():
        owner = path.absolute().parent.stat()
        if owner.st_uid != 0:
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def open_private(path: Path, flags: int) -> int:
    """Open a file of the collector's, which is made for its owner only. Never through a symbolic link."""
    make_directory(path.parent, private=True)
    handle = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    give_to_owner_of_directory(handle, path)
    return handle


def give_to_owner_of_directory(handle: int, path: Path) -> None:
    """Give a file that root creates to the collector, which could not open it otherwise."""
    owner = path.parent.stat()
    if os.geteuid() == 0 and os.fstat(handle).st_uid == 0 and owner.st_uid != 0:
        os.fchown(handle, owner.st_uid, owner.st_gid)


@contextmanager
def _told(path: Path, more: str = "") -> Iterator[None]:
    """Turn an OSError into the line that the user reads, with the path in it."""
    try:
        yield
    except OSError as error:
        raise GpumonError(f"cannot write {path}: {error.strerror or error}{more}") from error


def _packed(path: Path) -> Path:
    return path.with_name(f"{path.name}.gz")


def _temporary(path: Path) -> Path:
    return path.parent / f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"


def _stage(temporary: Path, path: Path, data: bytes, private: bool) -> None:
    make_directory(path.parent, private=private)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    # Created by os.open, so that a new file of the site is readable as the umask allows.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        if path.exists():
            _make_alike(handle, path.stat(), private)
        else:
            give_to_owner_of_directory(handle, path)
        os.fsync(handle)


def _make_alike(handle: int, before: os.stat_result, private: bool) -> None:
    """Copy the mode of the file that is replaced, and its owner and group where that is allowed."""
    now = os.fstat(handle)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with suppress(PermissionError):
            os.fchown(handle, before.st_uid if os.geteuid() == 0 else -1, before.st_gid)
    os.fchmod(handle, stat.S_IMODE(before.st_mode) & (PRIVATE_BITS if private else 0o7777))


def _put_in_place(staged: Mapping[Path, Path]) -> None:
    done: list[Path] = []
    try:
        for path, temporary in staged.items():
            more = f"; {len(done)} of {len(staged)} files were replaced before it" if done else ""
            with _told(path, more):
                temporary.replace(path)
            done.append(path)
    except BaseException:
        # A packed page whose page was not replaced would be served in its place.
        if done and done[-1].suffix == ".gz":
            done[-1].unlink(missing_ok=True)
        raise


def _clear_leftovers(path: Path) -> None:
    """Remove temporary files of killed runs, long after any run could still use them."""
    for leftover in path.parent.glob(f".{path.name}.*.tmp"):
        with suppress(OSError):
            if time.time() - leftover.stat().st_mtime > LEFTOVER_AGE:
                leftover.unlink()


def _sync_directory(directory: Path) -> None:
    """Flush the directory: only then does the rename survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
