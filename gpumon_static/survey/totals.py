"""Sums over hosts. Utilization is the mean over GPUs, not over hosts: one with eight counts eight times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpumon_static.survey.state import State
from gpumon_static.survey.survey import SurveyedHost
from gpumon_static.text import count


@dataclass(frozen=True)
class Totals:
    gpus: int
    states: Mapping[State, int]
    """Whole GPUs; one that is cut into slices is free when all of them are."""
    slices: int
    slices_free: int
    utilization: float | None
    used_mib: float | None
    total_mib: float | None
    power_w: float | None

    @property
    def free(self) -> int:
        return self.states[State.FREE]

    @property
    def more_free(self) -> str:
        """+ 98 slices: what is free beside whole GPUs, for the end of a count of those."""
        return f" + {count(self.slices_free, 'slice')}" if self.slices_free else ""


def total(hosts: Sequence[SurveyedHost]) -> Totals:
    gpus = [gpu for host in hosts for gpu in host.gpus]
    cut = [place for host in hosts for place in host.places() if place.cut]
    both = [
        (gpu.memory_used_mib, gpu.memory_total_mib)
        for gpu in gpus
        if gpu.memory_used_mib is not None and gpu.memory_total_mib is not None
    ]
    utilizations = [gpu.utilization for gpu in gpus if gpu.utilization is not None]
    return Totals(
        gpus=len(gpus),
        states=Counter(state for host in hosts for state in host.states),
        slices=len(cut),
        slices_free=sum(place.state is State.FREE for place in cut),
        utilization=sum(utilizations) / len(utilizations) if utilizations else None,
        used_mib=_sum(used for used, _ in both),
        total_mib=_sum(whole for _, whole in both),
        power_w=_sum(gpu.power_w for gpu in gpus if gpu.power_w is not None),
    )


def _sum(values: Iterable[float]) -> float | None:
    known = list(values)
    return sum(known) if known else None
