"""The hosts around the GPUs: CPU, RAM, fullest disk and load, and when the hosts answered."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from math import nan
from typing import NamedTuple

from gpumon_static.store.history.engine import filled
from gpumon_static.store.history.layout import DAY
from gpumon_static.store.history.reader import Period, Reader

DAYS = 30
"""Over which availability is asked."""
MACHINE_WIDTH = 4
"""CPU, RAM, fullest disk, load."""


class Availability(NamedTuple):
    """Of the last 30 days."""

    up_s: int
    down_s: int
    asked_s: int
    """Since the host was first asked, in these days."""

    @property
    def share(self) -> float | None:
        """The part of the known time in which the host answered."""
        known = self.up_s + self.down_s
        return self.up_s / known if known else None

    @property
    def coverage(self) -> float:
        return min(1.0, (self.up_s + self.down_s) / self.asked_s) if self.asked_s > 0 else 0.0


def availability(reader: Reader, now: int, newest: int) -> dict[str, Availability]:
    """By host: the last 30 UTC days, of which today is one."""
    asked = Period((now // DAY - DAYS + 1) * DAY, max(now, newest))
    query = filled("questions/availability", hosts=reader.sums("hosts", asked))
    return {
        host: Availability(up, down, now - max(first, asked.since))
        for host, up, down, first in reader.engine.rows(query)
    }


def heartbeat(reader: Reader, now: int, newest: int) -> dict[str, str]:
    """By host a letter for each of the last 30 UTC days; a space where nothing is known.

    0 where it always answered, else 1 to 9 by how much of the known time it did not.
    """
    first = now // DAY - DAYS + 1
    asked = Period(first * DAY, max(now, newest))
    days: dict[str, list[str]] = {}
    for host, day, up, down in reader.engine.rows(
        filled("questions/heartbeat", hosts=reader.sums("hosts", asked))
    ):
        if up + down > 0 and 0 <= day - first < DAYS:
            days.setdefault(host, [" "] * DAYS)[day - first] = str(-(-9 * down // (up + down)))
    return {host: "".join(letters) for host, letters in days.items()}


class MachinePast(NamedTuple):
    first: int = 0
    """The number of the first point since 1970. A history may be younger than its range."""
    hosts: Mapping[str, array[float]] = {}
    """Mean CPU, RAM and fullest disk in percent and load, point by point; NaN is not known."""


def series(reader: Reader, step: int, count: int, now: int, newest: int) -> MachinePast:
    """`count` points of `step` seconds each, up to now."""
    first, last = now // step - count + 1, now // step
    asked = Period(first * step, max(now, newest))
    sums = reader.sums("hosts", asked, is_exact=False)
    rows = reader.engine.rows(filled("questions/machine_series", hosts=sums, step=str(step)))
    first = max(first, min((points[0] for _, points, *_ in rows), default=first))
    length = MACHINE_WIDTH * (last - first + 1)
    unknown = array("f", [nan]) * length
    found: dict[str, array[float]] = {}
    for host, points, *means in rows:
        values = found[host] = unknown[:]
        for number, of_kind in enumerate(means):
            for point, value in zip(points, of_kind, strict=True):
                place = MACHINE_WIDTH * (point - first) + number
                if value is not None and 0 <= place < length:
                    values[place] = value
    return MachinePast(first, found)
