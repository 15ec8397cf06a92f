"""`SHA256SUMS` of the closed files, as `sha256sum -c` reads it: each is compared about once a day.

A file whose content is wrong on a second reading is left out from then on; it stays where it is. An error of
the disk is never taken for damage.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gpumon_static.errors import GpumonError
from gpumon_static.store.history.engine import open_engine
from gpumon_static.store.history.layout import DAY, HistoryFile, Listing
from gpumon_static.store.history.notes import FolderNotes
from gpumon_static.store.history.reader import Reader, can_be_read
from gpumon_static.system.files import write_atomic
from gpumon_static.text import Say

FILE = "SHA256SUMS"
LEAST_BYTES = 32 << 20
"""That one run compares."""
RUNS_A_DAY = 200
MOST_BYTES = 16 << 20
_CHUNK = 1 << 20


def read(folder: Path) -> dict[str, str]:
    """The checksum by name; none where the file cannot be read."""
    try:
        with (folder / FILE).open("rb") as file:
            lines = file.read(MOST_BYTES).decode("ascii", "replace").splitlines()
    except OSError:
        return {}
    pairs = (line.split("  ", 1) for line in lines)
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2 and len(pair[0]) == 64}


def digest(path: Path) -> str:
    """Raises `OSError`."""
    found = hashlib.sha256()
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def is_right(path: Path, expected: str) -> bool:
    """Read twice before it is called damaged."""
    return digest(path) == expected or digest(path) == expected


def keep(folder: Path, listing: Listing, notes: FolderNotes, now: int, say: Say) -> FolderNotes:
    """Add what is new, compare some of what is there; return the notes of it."""
    before = read(folder)
    files = {str(file.path.relative_to(folder)): file for file in listing.closed_files()}
    sums = {name: before[name] for name in files if name in before}
    checked = {name: notes.checked[name] for name in files if name in notes.checked}
    try:
        for name, file in files.items():
            if name not in sums:
                sums[name] = digest(file.path)
                checked[name] = (now, True)
        for name in _due(files, checked, now):
            checked[name] = (now, is_right(files[name].path, sums[name]))
            if not checked[name][1]:
                say(f"history: {name} is damaged and left out; restore it from a backup")
    except OSError as error:
        say(f"history: cannot read {error.filename}: {error.strerror}")
    if sums != before:
        _write(folder, sums, say)
    return replace(notes, checked=checked)


def forget(folder: Path, path: Path) -> None:
    """Of a file that was written again: the next run adds the new one."""
    sums = read(folder)
    if sums.pop(str(path.relative_to(folder)), None):
        _write(folder, sums, lambda _: None)


def _due(files: Mapping[str, HistoryFile], checked: Mapping[str, tuple[int, bool]], now: int) -> list[str]:
    """Those that were not compared for the longest time, of more than a day."""
    room = max(LEAST_BYTES, sum(file.size for file in files.values()) // RUNS_A_DAY)
    found = []
    for name in sorted(checked, key=lambda name: checked[name][0]):
        if checked[name][0] > now - DAY or room <= 0:
            break
        room -= files[name].size
        found.append(name)
    return found


def damaged(folder: Path, listing: Listing) -> list[str]:
    """All closed files whose content is wrong, by reading all of them. Raises `OSError`."""
    sums = read(folder)
    return [
        name
        for file in listing.closed_files()
        if (name := str(file.path.relative_to(folder))) in sums and not is_right(file.path, sums[name])
    ]


def damaged_files(folder: Path) -> list[str]:
    """All that readers leave out, or should. Raises `OSError` and `HistoryError`."""
    with open_engine(folder) as engine:
        reader = Reader.open(engine, folder)
        bad = reader.left_out | {file.path for file in reader.files if not can_be_read(engine, file.path)}
    names = {str(path.relative_to(folder)) for path in bad}
    return sorted(names.union(damaged(folder, reader.listing)))


def _write(folder: Path, sums: Mapping[str, str], say: Say) -> None:
    text = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
    try:
        write_atomic(folder / FILE, text, private=True)
    except GpumonError as error:
        say(f"history: {error}")
