"""`data/history/notes.json`: what is known of the folder beside its files. It can be made again from them.

{"runs": [1763370303, ...], "checked": {"2026-11-16.parquet": [1763424000, true], ...}}
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpumon_static.errors import GpumonError
from gpumon_static.store.history.engine import HistoryError
from gpumon_static.store.history.layout import read_listing
from gpumon_static.system.files import write_atomic

FILE = "notes.json"
MOST_RUNS = 120
MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class FolderNotes:
    runs: tuple[int, ...] = ()
    """The last ones, the newest last."""
    checked: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """By name: when the checksum of a closed file was last compared, and whether it was right."""
    renamed: tuple[str, ...] = ()
    """Hosts whose rows have their new name: `old new`."""

    @classmethod
    def read(cls, folder: Path) -> FolderNotes:
        """Where there are none, or they cannot be read: the runs by their files."""
        try:
            with (folder / FILE).open("rb") as file:
                given = json.loads(file.read(MOST_BYTES))
            checked = {k: _check(v) for k, v in given["checked"].items()}
            return cls(tuple(map(int, given["runs"])), checked, tuple(map(str, given.get("renamed", ()))))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
            return cls(_runs_of(folder))

    def with_run(self, at: int) -> FolderNotes:
        return replace(self, runs=(*self.runs, at)[-MOST_RUNS:])

    def without_runs_after(self, at: int) -> FolderNotes:
        return replace(self, runs=tuple(run for run in self.runs if run <= at))

    def write(self, folder: Path) -> None:
        renamed = {"renamed": self.renamed} if self.renamed else {}
        text = json.dumps({"runs": self.runs, "checked": self.checked} | renamed)
        try:
            write_atomic(folder / FILE, text + "\n", private=True)
        except GpumonError as error:
            raise HistoryError(str(error)) from error


def _check(given: Any) -> tuple[int, bool]:
    at, is_right = given
    return int(at), bool(is_right)


def _runs_of(folder: Path) -> tuple[int, ...]:
    try:
        listing = read_listing(folder)
    except OSError:
        return ()
    runs = sorted(run.start for day in listing.days.values() for run in day.runs)
    return tuple(runs[-MOST_RUNS:])
