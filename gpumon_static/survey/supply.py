"""Are we short of a model, or is it held idle? Shares of time and a verdict, by the rules in docs/history.md.

Busy, held idle and free are shares of the known GPU time and add up to one. Coverage is the known part of all
the GPU time since the model was first seen in the period. Allocated, and allocated and idle, are shares of
the GPU time that Slurm reported on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from gpumon_static.store.history.supply import ModelSupply, SlurmSums, SupplyAnswer, SupplySums
from gpumon_static.survey.offers import is_model
from gpumon_static.text import natural_key
from gpumon_static.times import duration

if TYPE_CHECKING:
    from datetime import datetime

    from gpumon_static.model import Waiting
    from gpumon_static.store.slurm.slurm_file import ClusterReport

DAY = 86400
LEAST_DAYS = 3.0
LEAST_COVERAGE = 0.5
SHORT = 0.2
"""None free for a fifth of the time: a working day of each week."""
AMPLE = 0.05
AT_ONCE = 0.5
"""Ample is what has 2, 4 and 8 free on one host, where a host has so many, for half of the time."""
HELD_IDLE = 0.1
LEAST_HELD_GPUS = 0.5
MOST = 0.5
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class SupplyVerdict(StrEnum):
    UNSURE = "too little data"
    SHORT = "short"
    HELD = "held idle"
    ENOUGH = "enough"
    AMPLE = "ample"


@dataclass(frozen=True, slots=True)
class SupplyRow:
    """One model, in all hosts or in one group. Shares are from 0 to 1; None is not known."""

    model: str
    group: str | None
    gpus: int
    busy: float | None
    held: float | None
    free: float | None
    coverage: float
    known_days: float
    """Time with at least half of the GPUs known: `none_free` and the next three are shares of it."""
    none_free: float | None
    two_free: float | None
    """On one host, as the next two. None where no host has so many."""
    four_free: float | None
    eight_free: float | None
    worst_hour: int | None
    """Of the week, from Monday on: that with the smallest share free. None: all are alike."""
    busy_change: float | None
    """Against the period before."""
    none_free_change: float | None
    held_days: float
    """GPU days held idle."""
    held_by: tuple[tuple[str, float], ...]
    """Who, and how many days of these; empty where no names are shown."""
    held_users: int
    allocated: float | None = None
    """Of the time that Slurm reported on, as the next; None where it reported on none."""
    allocated_idle: float | None = None
    """Slurm had given the GPU to a job, and it did nothing. A part of what is held idle."""
    allocated_days: float | None = None
    """GPU days."""
    allocated_idle_days: float | None = None
    queue: str = ""
    """What waits for it in Slurm now: 1 job waits for 4 at once, for 5 h."""
    held_long: float | None = None
    """Held idle for `idle_after` or longer at a time, of the known time: this could be reclaimed, the rest of
    `held` are pauses. None: not known."""

    @property
    def held_pauses(self) -> float | None:
        return None if self.held is None or self.held_long is None else max(0.0, self.held - self.held_long)

    @property
    def unknown(self) -> float:
        return 1 - self.coverage

    @property
    def verdict(self) -> SupplyVerdict:
        if self.known_days < LEAST_DAYS or self.coverage < LEAST_COVERAGE or self.none_free is None:
            return SupplyVerdict.UNSURE
        if self.none_free < AMPLE and not self.queue and not self.rare:
            return SupplyVerdict.AMPLE
        if self.reclaimable >= HELD_IDLE and self.held_gpus >= LEAST_HELD_GPUS:
            return SupplyVerdict.HELD
        return SupplyVerdict.SHORT if self.none_free >= SHORT or self.queue else SupplyVerdict.ENOUGH

    @property
    def rare(self) -> str:
        """The smallest number at once that is free for less than half of the time: 4 at once never."""
        sizes = ((2, self.two_free), (4, self.four_free), (8, self.eight_free))
        for size, share in sizes:
            if share is not None and share < AT_ONCE:
                often = f"{100 * share:.0f} % of the time" if share >= 0.005 else "never"
                return f"{size} at once {often}"
        return ""

    @property
    def reclaimable(self) -> float:
        """The share held idle for long; all that is held idle where the lab is too large to know."""
        return (self.held if self.held_long is None else self.held_long) or 0

    @property
    def held_gpus(self) -> float:
        """Mean number of GPUs that are held idle for long."""
        return self.reclaimable * self.gpus

    @property
    def words(self) -> str:
        """The verdict with its reason, and what else speaks for or against it."""
        held = f"{self.held_gpus:.1f} GPUs held idle" if self.held_gpus >= LEAST_HELD_GPUS else ""
        if self.verdict is SupplyVerdict.UNSURE:
            return self._reason
        more = (self.rare, held if self.verdict is not SupplyVerdict.HELD else self.queue)
        return "; ".join(filter(None, (self._reason, *more)))

    @property
    def _reason(self) -> str:
        match self.verdict:
            case SupplyVerdict.UNSURE if self.known_days < LEAST_DAYS:
                return f"too little data: {self.known_days:.1f} days"
            case SupplyVerdict.UNSURE:
                return f"too little data: {100 * self.coverage:.0f} % of the time known"
            case SupplyVerdict.HELD:
                return f"{self.held_gpus:.1f} GPUs are held idle: reclaim before buying"
            case SupplyVerdict.SHORT if self.queue:
                return f"short: {self.queue}"
            case SupplyVerdict.SHORT if (self.none_free or 0) >= MOST:
                return "short: none free most of the time"
            case SupplyVerdict.AMPLE | SupplyVerdict.ENOUGH if (self.none_free or 0) < AMPLE:
                return f"{self.verdict}: some free {100 * (1 - (self.none_free or 0)):.0f} % of the time"
            case verdict:
                return f"{verdict}: none free {100 * (self.none_free or 0):.0f} % of the time"


def supply_rows(answer: SupplyAnswer) -> list[SupplyRow]:
    """By group, the scarcest model first."""
    rows = [_row(model, answer) for model in answer.models]
    return sorted(rows, key=lambda row: (row.group or "", -(row.none_free or 0), natural_key(row.model)))


def with_names(rows: Iterable[SupplyRow], who: Callable[[str], str] | None) -> list[SupplyRow]:
    """`who`: what a login is called; None where no names are shown. Logins with one name are added up."""
    return [replace(row, held_by=_by_name(row.held_by, who) if who else ()) for row in rows]


def _by_name(
    held_by: Iterable[tuple[str, float]], who: Callable[[str], str]
) -> tuple[tuple[str, float], ...]:
    days: dict[str, float] = {}
    for user, held in held_by:
        days[who(user)] = days.get(who(user), 0.0) + held
    return tuple(sorted(days.items(), key=lambda item: (-item[1], item[0])))


def with_queue(
    rows: Iterable[SupplyRow], clusters: Iterable[ClusterReport], now: datetime
) -> list[SupplyRow]:
    """With what waits for each model in Slurm now."""
    waiting = [one for report in clusters for one in report.waiting if one.kind]
    return [replace(row, queue=_queue(row.model, waiting, now)) for row in rows]


def _queue(model: str, waiting: Iterable[Waiting], now: datetime) -> str:
    own = [one for one in waiting if one.kind and is_model(one.kind, (model,))]
    jobs, gpus = sum(one.jobs for one in own), sum(one.gpus for one in own)
    if not jobs:
        return ""
    what = f"1 job waits for {gpus}" if jobs == 1 else f"{jobs} jobs wait for {gpus} in all"
    oldest = min((one.oldest_at for one in own if one.oldest_at), default=None)
    age = (
        f", {'' if jobs == 1 else 'the oldest '}for {duration((now - oldest).total_seconds())}"
        if oldest
        else ""
    )
    return what + (" at once" if jobs == 1 and gpus > 1 else "") + age


def hour_words(hour: int | None) -> str | None:
    """Tue 14 h."""
    return None if hour is None else f"{DAYS[hour // 24]} {hour % 24} h"


def _row(model: ModelSupply, answer: SupplyAnswer) -> SupplyRow:
    sums = model.sums
    busy, none_free = _share(sums.busy_s, sums.known_s), _share(sums.none_s, sums.judged_s)
    before = model.before
    if before and _coverage(before, answer.length_s) < LEAST_COVERAGE:
        before = None
    return SupplyRow(
        model=model.model,
        group=model.group,
        gpus=model.gpus,
        busy=busy,
        held=_share(sums.held_s, sums.known_s),
        free=_share(sums.free_s, sums.known_s),
        coverage=_coverage(sums, answer.asked.until - model.first_at),
        known_days=sums.judged_s / DAY,
        none_free=none_free,
        two_free=_share(sums.two_s, sums.judged_s) if model.host_gpus >= 2 else None,
        four_free=_share(sums.four_s, sums.judged_s) if model.host_gpus >= 4 else None,
        eight_free=_share(sums.eight_s, sums.judged_s) if model.host_gpus >= 8 else None,
        worst_hour=_worst_hour(model),
        busy_change=_change(busy, before and _share(before.busy_s, before.known_s)),
        none_free_change=_change(none_free, before and _share(before.none_s, before.judged_s)),
        held_days=(sums.held_s if model.held_by is None else sum(s for _, s in model.held_by)) / DAY,
        held_by=tuple((user, seconds / DAY) for user, seconds in model.held_by or ()),
        held_users=len(model.held_by or ()),
        held_long=None if model.held_long_s is None else _share(model.held_long_s, sums.known_s),
        **_slurm_shares(model.slurm),
    )


def _slurm_shares(slurm: SlurmSums | None) -> dict[str, Any]:
    if slurm is None:
        return {}
    return {
        "allocated": _share(slurm.allocated_s, slurm.reported_s),
        "allocated_idle": _share(slurm.idle_s, slurm.reported_s),
        "allocated_days": slurm.allocated_s / DAY,
        "allocated_idle_days": slurm.idle_s / DAY,
    }


def _coverage(sums: SupplySums, length_s: int) -> float:
    """The part of the GPUs' time that is known: of the time that runs stand for, and that of all the time."""
    if not sums.gpu_s or length_s <= 0:
        return 0.0
    return min(1.0, sums.known_s / sums.gpu_s * sums.counted_s / length_s)


def _worst_hour(model: ModelSupply) -> int | None:
    free = {hour: spent.free_s / spent.known_s for hour, spent in model.week.items() if spent.known_s}
    if len(set(free.values())) < 2:
        return None
    return min(free, key=lambda hour: (free[hour], hour))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _change(now: float | None, before: float | None) -> float | None:
    return None if now is None or before is None else now - before
