"""What pending jobs of Slurm wait for, and what its jobs have and do not use, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from gpumon_static.model import Allocated
from gpumon_static.model.states import State
from gpumon_static.survey.owners import UNKNOWN
from gpumon_static.survey.privacy import Tier
from gpumon_static.text import count, plain
from gpumon_static.times import duration

if TYPE_CHECKING:
    from gpumon_static.store.slurm.slurm_file import ClusterReport
    from gpumon_static.survey.survey import Place, Survey


MOST_NAMED = 5


def idle_lines(survey: Survey) -> Iterator[str]:
    """Allocated and idle now: 3 of 40 allocated GPUs (user3 2, user4 1)."""
    given = [place for host in survey.hosts for place in host.places() if _is_given(place)]
    idle = [place for place in given if place.state is State.HELD]
    if not given:
        return
    owners = Counter(place.gpu.allocation.user or UNKNOWN for place in idle)
    named = [f"{plain(name)} {number}" for name, number in owners.most_common(MOST_NAMED)]
    named += ["..."] if len(owners) > MOST_NAMED else []
    users = f" ({', '.join(named)})" if idle and survey.tier is not Tier.COUNTS else ""
    yield f"Allocated and idle now: {len(idle)} of {count(len(given), 'allocated GPU')}{users}"


def _is_given(place: Place) -> bool:
    return place.mig is None and place.gpu.allocation.allocated is Allocated.YES


def demand_lines(reports: Iterable[ClusterReport], now: datetime) -> Iterator[str]:
    """Slurm on login1: 3 jobs wait for 6 a100, the oldest for 2 h."""
    for report in reports:
        for one in sorted(report.waiting, key=lambda one: -one.gpus):
            what = f"{one.gpus} {plain(one.kind)}" if one.kind else count(one.gpus, "GPU")
            verb = "waits" if one.jobs == 1 else "wait"
            oldest = ""
            if one.oldest_at:
                age = duration((now - one.oldest_at).total_seconds())
                oldest = f", the oldest for {age}" if one.jobs > 1 else f" for {age}"
            yield f"{report.name}: {count(one.jobs, 'job')} {verb} for {what}{oldest}"
