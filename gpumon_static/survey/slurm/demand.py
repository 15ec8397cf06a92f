"""What pending jobs of Slurm wait for, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from gpumon_static.text import count, plain
from gpumon_static.times import duration

if TYPE_CHECKING:
    from gpumon_static.store.slurm.slurm_file import ClusterReport


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
