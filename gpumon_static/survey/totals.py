"""Sums over hosts. Utilization is the mean over GPUs, not over hosts: one with eight counts eight times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from gpumon_static.model.states import State
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
    cut = [place for host in hosts if host.is_cut for place in host.places() if place.cut]
    used: list[float] = []
    whole: list[float] = []
    for gpu in gpus:
        if gpu.memory_used_mib is not None and gpu.memory_total_mib is not None:
            used.append(gpu.memory_used_mib)
            whole.append(gpu.memory_total_mib)
    worked = [load for gpu in gpus if (load := gpu.utilization) is not None]
    drawn = [watts for gpu in gpus if (watts := gpu.power_w) is not None]
    return Totals(
        gpus=len(gpus),
        states=Counter(chain.from_iterable([host.states for host in hosts])),
        slices=len(cut),
        slices_free=sum(place.state is State.FREE for place in cut),
        utilization=sum(worked) / len(worked) if worked else None,
        used_mib=sum(used) if used else None,
        total_mib=sum(whole) if whole else None,
        power_w=sum(drawn) if drawn else None,
    )
