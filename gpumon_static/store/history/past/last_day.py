"""The last day of every GPU: in which states it was, in slots of a quarter of an hour, and means by the hour.

There are millions of these numbers at 80,000 GPUs. They are kept as small as they are.
"""

from __future__ import annotations

import sqlite3
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping

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
_SLOT, _STATE = 40, 32
"""A change is one whole number: from which slot on, to which state, and below with which crew."""
_CREW = (1 << _STATE) - 1


class Spans:
    """The times in one state of a GPU: the first slot of each, the one after the last, state and users."""

    __slots__ = ("_changes", "_crews", "_last")

    def __init__(self, changes: array[int], last: int, crews: Mapping[int, Users]) -> None:
        self._changes = changes
        self._last = last
        self._crews = crews

    def __iter__(self) -> Iterator[tuple[int, int, int, Users]]:
        """To the nearest slot, and without those that are too short for one."""
        slots = [change >> _SLOT for change in self._changes]
        both = zip(self._changes, slots, [*slots[1:], self._last], strict=True)
        known = self._crews.get
        return iter([
            (first, end, state, known(change & _CREW, ()))
            for change, first, end in both
            if first < end and (state := change >> _STATE & 0xFF) != MISSED
        ])  # fmt: skip


NO_SPANS = Spans(array("Q"), 0, {})


def first_slot(now: int) -> int:
    """Of the last day, counted from 1970."""
    return (now - DAY) // SLOT_S + 1


def read_spans(
    connection: sqlite3.Connection, now: int, crews: Mapping[int, Users]
) -> Iterator[tuple[int, Spans]]:
    """By the number of the GPU."""
    last = _last_slot(now)
    return ((gpu, Spans(changes, last, crews)) for gpu, changes in _changes(connection, now).items())


def _last_slot(now: int) -> int:
    """Counted from the first."""
    return (now - first_slot(now) * SLOT_S + HALF_SLOT) // SLOT_S


def _changes(connection: sqlite3.Connection, now: int) -> dict[int, array[int]]:
    """By GPU: the last one up to the beginning of the day, and all after it."""
    nearest = f"(s.at - {first_slot(now) * SLOT_S - HALF_SLOT}) / {SLOT_S}"
    slot = f"min({_last_slot(now)}, max(0, {nearest}))"
    packed = f"({slot} << {_SLOT}) + ((s.state & 255) << {_STATE}) + (ifnull(s.crew, 0) & {_CREW})"
    found: dict[int, array[int]] = defaultdict(lambda: array("Q"))
    for query in (
        f"SELECT s.gpu, {packed} FROM latest AS l JOIN spans AS s ON s.gpu = l.gpu"  # noqa: S608
        " AND s.at = (SELECT max(at) FROM spans WHERE gpu = l.gpu AND at <= ?)",
        f"SELECT s.gpu, {packed} FROM spans AS s WHERE at > ? ORDER BY at",  # noqa: S608
    ):
        for gpu, change in connection.execute(query, (now - DAY - SLOT_S,)):
            found[gpu].append(change)
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
    least = f"{bounds.least} * {number}" if bounds.least else "0"
    in_range = f"{total} BETWEEN {least} AND {bounds.most} * {number}"
    mean = f"CAST((2 * {total} + {number}) / (2 * {number}) AS INTEGER)"
    return f"CASE WHEN {number} > 0 AND {in_range} THEN {mean} ELSE {unknown} END"


def _memory_percent() -> str:
    in_range = f"memory_sum BETWEEN 0 AND {MEMORY.most} * memory_n AND memory_total > 0"
    percent = "CAST(min(100, 100 * memory_sum / (memory_n * memory_total)) AS INTEGER)"
    return f"CASE WHEN memory_n > 0 AND {in_range} THEN {percent} ELSE {NO_BYTE} END"
