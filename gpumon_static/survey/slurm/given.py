"""What Slurm has given to each user's jobs now, and how much of it is used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gpumon_static.model import Allocated, Gpu
from gpumon_static.survey.owners import Owner, owner_of_job
from gpumon_static.survey.state import is_allocated_only

if TYPE_CHECKING:
    from gpumon_static.model import HostReading


class Given(NamedTuple):
    gpus: int
    used: int
    """Of these: with a process."""
    jobs: int | None
    """None where their ids are not known, or not shown."""
    efficiency: float | None
    """Mean utilization of all these GPUs that report one, in percent."""


def given_to(readings: Iterable[HostReading]) -> dict[Owner, Given]:
    """By owner. A GPU that is cut into slices is left out: a job may have a part of it."""
    found: dict[Owner, list[Gpu]] = defaultdict(list)
    for gpu in given_gpus(readings):
        found[owner_of_job(gpu)].append(gpu)
    return {who: sum_up(gpus) for who, gpus in found.items()}


def given_gpus(readings: Iterable[HostReading]) -> Iterator[Gpu]:
    for reading in readings:
        for gpu in reading.gpus if reading.ok else ():
            if gpu.allocation.allocated is Allocated.YES and not gpu.slices:
                yield gpu


def sum_up(gpus: Iterable[Gpu]) -> Given:
    listed = list(gpus)
    jobs = {gpu.allocation.job for gpu in listed}
    loads = [gpu.utilization for gpu in listed if gpu.utilization is not None]
    return Given(
        gpus=len(listed),
        used=sum(not is_allocated_only(gpu) for gpu in listed),
        jobs=None if None in jobs else len(jobs),
        efficiency=sum(loads) / len(loads) if loads else None,
    )
