"""Backups of the history: one tar file, made while it is in use, checked on the way, and put back.

A copy never replaces what is not a history, no damaged file goes into one, and a history is never replaced
without being kept aside.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from gpumon_static.store.history.converting.tables import OldNames
from gpumon_static.store.history.engine import (
    DamagedFile,
    HistoryError,
    errors_of,
    open_engine,
    written_beside,
)
from gpumon_static.store.history.layout import BEFORE, EVENTS, LAST_FILE, Listing, read_listing
from gpumon_static.store.history.moving import convert
from gpumon_static.store.history.notes import FILE as NOTES_FILE
from gpumon_static.store.history.notes import FolderNotes
from gpumon_static.store.history.reader import can_be_read
from gpumon_static.store.history.upkeep import checksums
from gpumon_static.store.history.upkeep.checksums import FILE as SUMS_FILE
from gpumon_static.system.files import make_directory
from gpumon_static.text import count
from gpumon_static.times import utc_text_of

MOST_FILES = 200_000


@dataclass(frozen=True, slots=True)
class Copied:
    path: Path
    size: int
    days: int
    newest: int | None
    """The time of the last run."""

    @property
    def words(self) -> str:
        until = f", the last run at {utc_text_of(self.newest)}" if self.newest is not None else ""
        return f"{self.path}: {self.size / 1e6:.1f} MB, {count(self.days, 'day')}{until}"


def backup(folder: Path, target: Path, keep: int = 1) -> Copied:
    """A whole copy, made while others write. The target appears in one step, or not at all.

    `keep`: how many there may be in all. The one before becomes TARGET.1, that one TARGET.2 and so on.
    """
    if not folder.is_dir():
        raise HistoryError(f"no history yet: {folder} does not exist; `gpumon-static fetch` adds to it")
    places = [target, *(target.with_name(f"{target.name}.{number}") for number in range(1, keep))]
    for place in places:
        if os.path.lexists(place) and not is_backup(place):
            raise HistoryError(f"{place} exists and is not a backup of a history: name another file")
    listing = read_listing(folder)
    with errors_of(target):
        if bad := checksums.damaged(folder, listing):
            listed = ", ".join(bad)
            raise DamagedFile(f"{listed} in {folder} is damaged: restore it or remove it; older backups stay")
        with written_beside(target) as temporary:
            with tarfile.open(temporary, "w") as tar:
                for path in _files(folder, listing):
                    # A run that was merged meanwhile is in its hour.
                    with suppress(FileNotFoundError):
                        tar.add(path, f"history/{path.relative_to(folder)}", recursive=False)
            if target.exists():
                temporary.chmod(target.stat().st_mode & 0o777)
            for newer, older in reversed(list(pairwise(places))):
                if newer.exists():
                    newer.replace(older)
        return _copied(target, folder, target.stat().st_size)


def _files(folder: Path, listing: Listing) -> Iterator[Path]:
    yield from (file.path for file in listing.files())
    for name in (BEFORE, EVENTS):
        yield from sorted((folder / name).glob("*.parquet"))
    yield from (path for name in (LAST_FILE, SUMS_FILE, NOTES_FILE) if (path := folder / name).exists())


def is_backup(path: Path) -> bool:
    """A backup of ours, or one of a version before 0.2."""
    return convert.is_database(path) or bool(_members(path))


def _members(path: Path) -> list[tarfile.TarInfo]:
    """The files of a history in a tar; none where it is not one."""
    try:
        with tarfile.open(path, "r:") as tar:
            first = tar.next()
            return [first] if first and first.name.startswith("history/") else []
    except (tarfile.TarError, OSError, EOFError):
        return []


def name_before(path: Path, now: datetime) -> Path:
    """Where the history as it was is kept. Never a name that is there: it may be the one to restore."""
    stem = f"{path.name}.before-{now:%Y%m%dT%H%M%S}"
    names = (stem, *(f"{stem}-{number}" for number in range(2, 1000)))
    return next(place for name in names if not os.path.lexists(place := path.with_name(name)))


def restore(
    folder: Path, source: Path, now: datetime, naming: OldNames | None = None
) -> tuple[Copied, Path | None]:
    """Put a backup in the place of the history; return it, and where the one before is."""
    if source.resolve() == folder.resolve():
        raise HistoryError(f"{source} is the history itself: name a backup")
    with unpacked(source, folder, naming) as new:
        check(new)
        found = _copied(source, new, _size(source))
        before = name_before(folder, now) if folder.exists() else None
        with errors_of(folder):
            if before:
                folder.rename(before)
            new.rename(folder)
    return found, before


@contextmanager
def unpacked(source: Path, folder: Path, naming: OldNames | None = None) -> Iterator[Path]:
    """A backup, another folder or a history.db as a folder of files beside ours, removed at the end.

    `naming`: for a history.db.
    """
    new = folder.with_name(f".{folder.name}.new")
    with errors_of(source):
        shutil.rmtree(new, ignore_errors=True)
        try:
            make_directory(new, private=True)
            if source.is_dir():
                for path in _files(source, read_listing(source)):
                    place = new / path.relative_to(source)
                    make_directory(place.parent, private=True)
                    shutil.copyfile(path, place)
            elif convert.is_database(source):
                convert.convert(source, new, naming)
            else:
                _unpack(source, new)
            yield new
        finally:
            shutil.rmtree(new, ignore_errors=True)


def _unpack(source: Path, new: Path) -> None:
    try:
        with tarfile.open(source, "r:") as tar:
            for number, member in enumerate(tar):
                if number > MOST_FILES or not member.name.startswith("history/") or not member.isfile():
                    raise HistoryError(f"{source} is not a backup of a history")
                _unpack_file(tar, member, new / member.name.removeprefix("history/"), new)
    except (tarfile.TarError, EOFError) as error:
        raise HistoryError(f"{source} is not a backup of a history: {error}") from error


def _unpack_file(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, folder: Path) -> None:
    """Not by tar.extract: the Python of Debian 12 has no filters, which keep a file within its folder."""
    content = tar.extractfile(member)
    if content is None or not Path(os.path.normpath(target)).is_relative_to(folder):
        raise HistoryError(f"{member.name!r} in the backup is no file of a history")
    make_directory(target.parent, private=True)
    with content, os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        shutil.copyfileobj(content, file)
    os.utime(target, (member.mtime, member.mtime))


def check(folder: Path) -> None:
    """Raises `HistoryError` where the files are no whole history."""
    listing = read_listing(folder)
    if not listing.days:
        raise HistoryError(f"{folder} has no file of a history")
    with open_engine(folder) as engine:
        bad = checksums.damaged(folder, listing)
        bad += [file.path.name for file in listing.files() if not can_be_read(engine, file.path)]
    if bad:
        raise DamagedFile(f"{', '.join(sorted(set(bad)))} is damaged")


def _copied(path: Path, folder: Path, size: int) -> Copied:
    newest = max(FolderNotes.read(folder).runs, default=None)
    return Copied(path, size, len(read_listing(folder).days), newest)


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size
