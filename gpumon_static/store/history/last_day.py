"""The means of each hour of the last day, of every GPU: a byte or two each, since there are millions."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon_static.bounds.tables import MEMORY, PERCENT, POWER, TEMPERATURE, Range
from gpumon_static.store.history.rollups import HOUR

HOURS = 24
NO_BYTE = 255
"""In the place of what is not known: more than any percentage and any temperature."""
NO_WATTS = 65_535


def _no_bytes() -> bytearray:
    return bytearray([NO_BYTE]) * HOURS


def _no_watts() -> array[int]:
    return array("H", [NO_WATTS]) * HOURS


@dataclass(slots=True)
class LastDay:
    """One GPU's, the oldest hour first."""

    utilization: bytearray = field(default_factory=_no_bytes)
    memory: bytearray = field(default_factory=_no_bytes)
    """In percent of all it has."""
    temperature: bytearray = field(default_factory=_no_bytes)
    """In degrees; frost is 0."""
    power: array[int] = field(default_factory=_no_watts)


def first_hour(now: int) -> int:
    """Of the last day, counted from 1970."""
    return now // HOUR - HOURS + 1


def read_days(connection: sqlite3.Connection, now: int, gpus: Mapping[int, object]) -> dict[int, LastDay]:
    """By the number of the GPU, for those of `gpus` of which something is known."""
    first = first_hour(now)
    rows = connection.execute(
        f"SELECT u.gpu, hour - ?, {_mean('utilization', PERCENT)}, {_memory_percent()},"  # noqa: S608 (our own)
        f" max(0, {_mean('temperature', TEMPERATURE)}), {_mean('power', POWER, NO_WATTS)}"
        " FROM gpu_hours AS u JOIN latest AS l ON l.gpu = u.gpu WHERE hour BETWEEN ? AND ?",
        (first, first, first + HOURS - 1),
    )
    found: dict[int, LastDay] = {}
    for gpu, place, utilization, memory, temperature, power in rows:
        day = found.get(gpu)
        if day is None:
            if gpu not in gpus:
                continue
            day = found[gpu] = LastDay()
        day.utilization[place] = utilization
        day.memory[place] = memory
        day.temperature[place] = temperature
        day.power[place] = power
    return found


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
