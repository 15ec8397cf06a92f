"""The last day of every GPU: in which states it was, in slots of a quarter of an hour, and means by the hour.

There are millions of these numbers at 80,000 GPUs. They are kept as small as they are.
"""

from __future__ import annotations

import sqlite3
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from gpumon_static.bounds.tables import MEMORY, PERCENT, POWER, TEMPERATURE, Range
from gpumon_static.store.history.observed import MISSED
from gpumon_static.store.history.rollups import DAY, HOUR

SLOT_S = 15 * 60
HALF_SLOT = SLOT_S // 2
HOURS = 24
NO_BYTE = 255
"""In the place of what is not known: more than any percentage and any temperature."""
NO_WATTS = 65_535


Users = tuple[str, ...]
_Change = tuple[int, int, int, int | None]
"""Of which GPU, from which slot on, to which state, with which crew."""


class Spans:
    """The times in one state of a GPU: the first slot of each, the one after the last, state and users."""

    __slots__ = ("_parts",)

    def __init__(self, *parts: object) -> None:
        # One after the other, since a tuple for each would take three times the memory.
        self._parts: tuple[Any, ...] = parts

    def __iter__(self) -> Iterator[tuple[int, int, int, Users]]:
        return zip(*(self._parts[number::4] for number in range(4)), strict=True)


def first_slot(now: int) -> int:
    """Of the last day, counted from 1970."""
    return (now - DAY) // SLOT_S + 1


def read_spans(
    connection: sqlite3.Connection, now: int, crews: Mapping[int | None, Users]
) -> Iterator[tuple[int, Spans]]:
    """By the number of the GPU; to the nearest slot, and without those that are too short for one."""
    last = _last_slot(now)
    for gpu, changes in _changes(connection, now).items():
        ends = [*(slot for _, slot, _, _ in changes[1:]), last]
        parts: list[object] = []
        for (_, first, state, crew), end in zip(changes, ends, strict=True):
            if first < end and state != MISSED:
                parts += (first, end, state, crews.get(crew, ()))
        yield gpu, Spans(*parts)


def _last_slot(now: int) -> int:
    """Counted from the first."""
    return (now - first_slot(now) * SLOT_S + HALF_SLOT) // SLOT_S


def _changes(connection: sqlite3.Connection, now: int) -> dict[int, list[_Change]]:
    """By GPU: the last one up to the beginning of the day, and all after it."""
    nearest = f"(s.at - {first_slot(now) * SLOT_S - HALF_SLOT}) / {SLOT_S}"
    slot = f"min({_last_slot(now)}, max(0, {nearest}))"
    found: dict[int, list[_Change]] = defaultdict(list)
    for query in (
        f"SELECT s.gpu, {slot}, s.state, s.crew FROM latest AS l JOIN spans AS s ON s.gpu = l.gpu"  # noqa: S608
        " AND s.at = (SELECT max(at) FROM spans WHERE gpu = l.gpu AND at <= ?)",
        f"SELECT s.gpu, {slot}, s.state, s.crew FROM spans AS s WHERE at > ? ORDER BY at",  # noqa: S608
    ):
        for row in connection.execute(query, (now - DAY - SLOT_S,)):
            found[row[0]].append(row)
    return found


class LastDay:
    """The hours of one GPU, the oldest first; `NO_BYTE` and `NO_WATTS` where there was no run.

    An hour is one whole number with a byte or two for each mean, as the database packs it: half the time of
    a number for each.
    """

    __slots__ = ("_hours",)

    def __init__(self, hours: array[int]) -> None:
        self._hours = hours

    @property
    def utilization(self) -> bytes:
        return self._bytes(0)

    @property
    def memory(self) -> bytes:
        """In percent of all it has."""
        return self._bytes(1)

    @property
    def temperature(self) -> bytes:
        """In degrees; frost is 0."""
        return self._bytes(2)

    @property
    def power(self) -> list[int]:
        return [hour >> 24 for hour in self._hours]

    def _bytes(self, number: int) -> bytes:
        place = number if sys.byteorder == "little" else self._hours.itemsize - 1 - number
        return self._hours.tobytes()[place :: self._hours.itemsize]


_NO_HOURS = array("Q", [NO_BYTE + (NO_BYTE << 8) + (NO_BYTE << 16) + (NO_WATTS << 24)]) * HOURS


def first_hour(now: int) -> int:
    """Of the last day, counted from 1970."""
    return now // HOUR - HOURS + 1


def read_days(connection: sqlite3.Connection, now: int, gpus: Mapping[int, object]) -> dict[int, LastDay]:
    """By the number of the GPU, for those of `gpus` of which something is known."""
    first = first_hour(now)
    rows = connection.execute(
        f"SELECT u.gpu, hour - ?, {_mean('utilization', PERCENT)} + ({_memory_percent()} << 8)"  # noqa: S608 (our own)
        f" + (max(0, {_mean('temperature', TEMPERATURE)}) << 16) + ({_mean('power', POWER, NO_WATTS)} << 24)"
        " FROM gpu_hours AS u JOIN latest AS l ON l.gpu = u.gpu WHERE hour BETWEEN ? AND ?",
        (first, first, first + HOURS - 1),
    )
    found: dict[int, array[int]] = {}
    for gpu, place, packed in rows:
        hours = found.get(gpu)
        if hours is None:
            if gpu not in gpus:
                continue
            hours = found[gpu] = _NO_HOURS[:]
        hours[place] = packed
    return {gpu: LastDay(hours) for gpu, hours in found.items()}


def _mean(name: str, bounds: Range, unknown: int = NO_BYTE) -> str:
    """In SQL and in whole numbers, since there are many. Older databases have some that are out of range."""
    total, number = f"{name}_sum", f"{name}_n"
    in_range = f"{total} BETWEEN {bounds.least} * {number} AND {bounds.most} * {number}"
    mean = f"CAST((2 * {total} + {number}) / (2 * {number}) AS INTEGER)"
    return f"CASE WHEN {number} > 0 AND {in_range} THEN {mean} ELSE {unknown} END"


def _memory_percent() -> str:
    in_range = f"memory_sum BETWEEN 0 AND {MEMORY.most} * memory_n AND memory_total > 0"
    percent = "CAST(min(100, 100 * memory_sum / (memory_n * memory_total)) AS INTEGER)"
    return f"CASE WHEN memory_n > 0 AND {in_range} THEN {percent} ELSE {NO_BYTE} END"
