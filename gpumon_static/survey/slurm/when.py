"""When can I run? The latest time at which enough GPUs of a host are free, by the limits of Slurm jobs.

The same GPUs as in offers.py, and those whose job ends. Others may wait for them too: Slurm decides who gets
them, and jobs may end early. It is the latest time for the GPUs, and no promise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any

from gpumon_static.survey.offers import IsWanted, Offered, Wanted, by_vendor, matcher, offered_places
from gpumon_static.text import has_free_gb, plain
from gpumon_static.times import by_minute, parse_utc

MOST_NAMES = 3
NO_QUEUE = "if nobody in the queue is before you"
"""Slurm decides who gets GPUs that become free."""


@dataclass(frozen=True)
class Estimate:
    """One host on which there will be enough."""

    host: str
    at: datetime | None
    """None: now."""
    count: int
    models: tuple[str, ...]
    users: tuple[str, ...]
    """Whose jobs end; empty where that is not shown."""
    jobs: int

    def words(self, now: datetime) -> str:
        """2 x A100 80G on vision-01 by 16:10 at the latest, `NO_QUEUE` (the job of user3 ends)."""
        model = self.models[0] if len(self.models) == 1 else "GPU"
        what = f"{self.count} x {model} on {self.host}"
        if self.at is None:
            return f"{what} now"
        return f"{what} by {clock_time(self.at, now)} at the latest, {NO_QUEUE} ({self._why()})"

    def _why(self) -> str:
        job, verb = ("job", "ends") if self.jobs == 1 else ("jobs", "end")
        if not self.users:
            return f"{'a' if self.jobs == 1 else self.jobs} {job} {verb}"
        listed = ", ".join(map(plain, self.users[:MOST_NAMES]))
        more = f" and {len(self.users) - MOST_NAMES} more" if len(self.users) > MOST_NAMES else ""
        return f"the {job} of {listed}{more} {verb}"


def clock_time(at: datetime, now: datetime, zone: tzinfo | None = None) -> str:
    """By when: 16:10, or Tue 16:10, or 3 Dec 16:10. `zone`: by default that of this machine."""
    there, here = by_minute(at).astimezone(zone), now.astimezone(zone)
    if there.date() == here.date():
        return f"{there:%H:%M}"
    if there - here < timedelta(days=6):
        return f"{there:%a %H:%M}"
    return f"{there.day} {there:%b %H:%M}"


def estimates(document: Mapping[str, Any], wanted: Wanted, now: datetime) -> list[Estimate]:
    """The earliest first; hosts on which no end is known are left out."""
    listed = [
        (host, list(offered_places(host["gpus"])))
        for host in document["hosts"]
        if _may_run(host) and wanted.is_on(host)
    ]
    is_wanted = matcher(wanted, (place.model for _, places in listed for place in places))
    found = (_estimate(host, wanted, is_wanted, now) for host, _ in listed)
    known = [estimate for estimate in found if estimate]
    return sorted(known, key=lambda one: (one.at is not None, one.at or now))


def _may_run(host: Mapping[str, Any]) -> bool:
    return host["status"] == "ok" and (host.get("slurm") or {}).get("takes_jobs") is not False


@dataclass(frozen=True)
class _Soon:
    """A GPU, and from when on it is free."""

    place: Offered
    at: datetime | None
    job: str
    user: str | None


def _estimate(host: Mapping[str, Any], wanted: Wanted, is_wanted: IsWanted, now: datetime) -> Estimate | None:
    soon = {one.place: one for one in _soon(host["gpus"], wanted, now) if is_wanted(one.place)}
    each = (
        sorted(
            (soon[place] for place in places),
            key=lambda one: (one.at is not None, one.at or now, one.place.total_mib or 0),
        )[: wanted.count]
        for places in by_vendor(soon)
        if len(places) >= wanted.count
    )
    fitting = min(each, key=lambda ones: (ones[-1].at is not None, ones[-1].at or now), default=None)
    if fitting is None:
        return None
    ending = [one for one in fitting if one.at]
    return Estimate(
        host=plain(host["name"]),
        at=max((one.at for one in ending if one.at), default=None),
        count=wanted.count,
        models=tuple(dict.fromkeys(one.place.model for one in fitting)),
        users=tuple(dict.fromkeys(one.user for one in ending if one.user)),
        jobs=len({one.job for one in ending}),
    )


def _soon(gpus: Iterable[Mapping[str, Any]], wanted: Wanted, now: datetime) -> Iterator[_Soon]:
    for gpu in gpus:
        if gpu["slices"]:
            continue
        (place,) = offered_places([gpu])
        enough = place.free_mib if place.is_offered else place.total_mib
        if not has_free_gb(enough, place.total_mib, wanted.memory_gb):
            continue
        given = gpu.get("slurm") or {}
        is_well = not any(fault["severity"] == "fault" for fault in gpu["faults"])
        if place.is_offered:
            yield _Soon(place, None, "", None)
        elif is_well and given.get("ends_at"):
            ends_at = parse_utc(given["ends_at"])
            job = given.get("job") or f"{given.get('user')} {given['ends_at']}"
            yield _Soon(place, max(ends_at, now), job, given.get("user"))
