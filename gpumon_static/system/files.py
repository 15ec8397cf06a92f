"""Write files in one step, so that half of one is never seen; open files only, and never wait for one.

What stands in the place of a file of ours may be a pipe, which keeps its reader waiting, or a link to itself.
"""

from __future__ import annotations

import errno
import hashlib
import os
import pwd
import secrets
import stat
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from gpumon_static.errors import GpumonError

LEFTOVER_AGE = 3600.0
NOT_FOR_OTHERS = "it is for the user who runs fetch, and for the group that paths.data_group names"
CHUNK = 256 * 1024
GZIP = 31
"""What zlib calls the format of .gz files."""
FOR_READERS, FOR_PROGRAMS = 8, 3
"""How hard to pack: pages more, and what programs fetch in a fraction of the time."""
PRIVATE_BITS = 0o640
"""The most that a private file may have: its group reads it where the config sets one."""

Content = str | bytes | Iterable[str]
"""Of a file; of a large one in pieces."""


def owner_of(path: Path) -> str:
    """The user whose file it is; of one that does not exist, the directory's in which it will be."""
    for there in (path, *path.absolute().parents):
        with suppress(OSError):
            owner = there.stat().st_uid
            try:
                return pwd.getpwuid(owner).pw_name
            except KeyError:
                return str(owner)
    return "root"


class NotAFile(OSError):
    """A pipe, a directory, a device or a link to itself in the place of a file."""


def open_file(path: Path) -> BinaryIO:
    """Open a file of ours to read it; raises `NotAFile` for anything else, without waiting for it."""
    return os.fdopen(_opened(path, os.O_RDONLY), "rb")


def read_file(path: Path, most: int = -1) -> bytes:
    """The content, up to so many bytes. Raises as `open_file`."""
    with open_file(path) as file:
        return file.read(most)


def _opened(path: Path, flags: int) -> int:
    try:
        handle = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise NotAFile(error.errno, error.strerror, str(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotAFile(errno.EINVAL, "not a regular file", str(path))
    return handle


def write_for_web(files: Mapping[Path, Content]) -> dict[Path, str]:
    """Put all files of a site in place together; returns the digest of each.

    A text has its packed form for the web server beside it. Bytes, which are the same from one release to the
    next, are written where they differ from what is there.
    The packed file goes first: it is what most browsers get, and must not be the older one of the two.
    """
    return _write(files, private=False, with_packed=True)


def write_atomic(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Write one file in one step. `private`: for its owner only, in a directory that is made so too."""
    write_all({path: content}, private=private)


def write_all(files: Mapping[Path, Content], *, private: bool = False) -> None:
    """Write each file beside its target and flush it to the disk; then rename them all, in this order.

    A failure before the first rename changes nothing. No temporary file is left, whatever happens.
    """
    _write(files, private=private, with_packed=False)


def _write(files: Mapping[Path, Content], *, private: bool, with_packed: bool) -> dict[Path, str]:
    staged: dict[Path, Path] = {}
    digests: dict[Path, str] = {}

    def stage(path: Path, chunks: Iterable[bytes]) -> None:
        with _as_gpumon_error(path):
            digests[path] = _stage(staged[path], path, chunks, private)

    try:
        for path, content in files.items():
            if with_packed and isinstance(content, bytes) and _has(path, content):
                digests[path] = hashlib.sha256(content).hexdigest()
                continue
            packed = _packed(path) if with_packed and not isinstance(content, bytes) else None
            staged |= {target: _temporary(target) for target in (packed, path) if target}
            stage(path, _chunks(content))
            if packed:
                level = FOR_READERS if path.suffix == ".html" else FOR_PROGRAMS
                stage(packed, _gzipped(staged[path], level))
        _put_in_place(staged)
    finally:
        for temporary in staged.values():
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
    for directory in {path.parent for path in files}:
        with _as_gpumon_error(directory):
            sync_directory(directory)
    for path in staged:
        _clear_leftovers(path)
    return digests


def _has(path: Path, content: bytes) -> bool:
    try:
        return read_file(path) == content
    except OSError:
        return False


def _chunks(content: Content) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
    elif isinstance(content, str):
        yield content.encode()
    else:
        pieces, length = [], 0
        for piece in content:
            pieces.append(piece)
            length += len(piece)
            if length > CHUNK:
                yield "".join(pieces).encode()
                pieces, length = [], 0
        yield "".join(pieces).encode()


def _gzipped(path: Path, level: int) -> Iterator[bytes]:
    """The same bytes for the same content: no name and no time in it."""
    packer = zlib.compressobj(level, zlib.DEFLATED, GZIP)
    with open_file(path) as file:
        while chunk := file.read(CHUNK):
            yield packer.compress(chunk)
    yield packer.flush()


def make_directory(directory: Path, *, private: bool) -> None:
    """Create a directory that its owner can write, whatever the umask; an existing one keeps its mode.

    What root creates in a directory of the collector's is the collector's.
    """
    missing = [path for path in (directory, *directory.absolute().parents) if not path.exists()]
    try:
        # One by one: with `parents`, those above would be as the umask has it.
        for path in reversed(missing):
            path.mkdir(mode=0o700 if private else 0o755, exist_ok=True)
        directory.mkdir(exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        blocker = next(path for path in (directory, *directory.absolute().parents) if path.exists())
        raise NotADirectoryError(errno.ENOTDIR, f"{blocker} is not a directory") from None
    for path in reversed(missing) if os.geteuid() == 0 else ():
        owner = path.absolute().parent.stat()
        if owner.st_uid != 0:
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def share_as_directory(handle: int, path: Path) -> None:
    """Let the group read a new file or folder where it, and nobody else, may read the directory around it."""
    around, own = path.parent.stat(), os.fstat(handle)
    if around.st_mode & 0o044 != 0o040:
        return
    with suppress(PermissionError):
        os.fchown(handle, -1, around.st_gid)
        os.fchmod(handle, stat.S_IMODE(own.st_mode) | (0o050 if stat.S_ISDIR(own.st_mode) else 0o040))


def open_private(path: Path, flags: int) -> int:
    """Open a file of the collector's, which is made for its owner only. Never through a symbolic link."""
    make_directory(path.parent, private=True)
    handle = _opened(path, flags | os.O_CREAT | os.O_NOFOLLOW)
    give_to_owner_of_directory(handle, path)
    return handle


def give_to_owner_of_directory(handle: int, path: Path) -> None:
    """Give a file that root creates to the collector, which could not open it otherwise."""
    owner = path.parent.stat()
    if os.geteuid() == 0 and os.fstat(handle).st_uid == 0 and owner.st_uid != 0:
        os.fchown(handle, owner.st_uid, owner.st_gid)


@contextmanager
def _as_gpumon_error(path: Path, more: str = "") -> Iterator[None]:
    """Turn an OSError into the line that the user reads, with the path in it."""
    try:
        yield
    except OSError as error:
        raise GpumonError(f"cannot write {path}: {error.strerror or error}{more}") from error


def _packed(path: Path) -> Path:
    return path.with_name(f"{path.name}.gz")


def _temporary(path: Path) -> Path:
    return path.parent / f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"


def _stage(temporary: Path, path: Path, chunks: Iterable[bytes], private: bool) -> str:
    """Write the file beside its target; returns the digest of what was written."""
    make_directory(path.parent, private=private)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    # Created by os.open, so that a new file of the site is readable as the umask allows.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    digest = hashlib.sha256()
    with os.fdopen(handle, "wb") as file:
        for chunk in chunks:
            file.write(chunk)
            digest.update(chunk)
        file.flush()
        if path.exists():
            _make_alike(handle, path.stat(), private)
        else:
            give_to_owner_of_directory(handle, path)
        os.fsync(handle)
    return digest.hexdigest()


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
            with _as_gpumon_error(path, more):
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


def sync_directory(directory: Path) -> None:
    """Flush the directory: only then does the rename survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
