"""GPU time that Slurm had given to jobs, by their owners: how much, and how much of it was not used.

A sample stands for the time until the next one of that GPU, as everywhere (record.py). `allocated_last` has
the GPUs that were given to a job in their last sample.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from gpumon_static.store.history.rollups import ALLOCATED_ROLLUP, SumRow, add_rows, by_hours, stands_until


class _Given(NamedTuple):
    gpu: int
    at: int
    user: int
    is_idle: int


class AllocatedTime(NamedTuple):
    allocated_s: float
    idle_s: float


class AllocatedCount:
    """What one run adds."""

    def __init__(self, connection: sqlite3.Connection, interval_s: int) -> None:
        self._connection = connection
        self._interval_s = interval_s
        rows = connection.execute("SELECT gpu, at, user, is_idle FROM allocated_last")
        self._last = {row[0]: _Given(*row) for row in rows}
        self._touched: dict[int, _Given | None] = {}
        self._rows: dict[tuple[int, int, int], SumRow] = {}

    def add(self, gpu: int, at: int, user: int | None, *, is_idle: bool = False) -> None:
        """`user`: its owner's number; None where it is not known to be given to a job."""
        before = self._touched.get(gpu, self._last.get(gpu))
        if before is None and user is None:
            return
        if before and at > before.at:
            end = stands_until(before.at, at, self._interval_s)
            for hour, seconds in by_hours(before.at, end):
                row = self._rows.setdefault((hour, before.user, gpu), [hour, before.user, gpu, 0.0, 0.0])
                row[3] += seconds
                row[4] += seconds * before.is_idle
        self._touched[gpu] = None if user is None else _Given(gpu, at, user, int(is_idle))

    def save(self) -> None:
        run = self._connection.executemany
        gone = [(gpu,) for gpu, given in self._touched.items() if given is None]
        run("DELETE FROM allocated_last WHERE gpu = ?", gone)
        run(
            "INSERT OR REPLACE INTO allocated_last VALUES (?, ?, ?, ?)",
            [given for given in self._touched.values() if given],
        )
        add_rows(self._connection, ALLOCATED_ROLLUP, list(self._rows.values()))


def is_known(connection: sqlite3.Connection) -> bool:
    """False for a history that no run of this version has added to yet."""
    query = "SELECT count(*) FROM sqlite_schema WHERE name = 'allocated_days'"
    return bool(connection.execute(query).fetchone()[0])


def summed(
    rows: Iterator[tuple[str, str | None, float, float]],
) -> dict[tuple[str, str | None], AllocatedTime]:
    """Rows of user, part, seconds and idle seconds, added up by user and part."""
    sums: dict[tuple[str, str | None], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for user, part, allocated, idle in rows:
        sums[user, part][0] += allocated
        sums[user, part][1] += idle
    return {key: AllocatedTime(*total) for key, total in sums.items()}
