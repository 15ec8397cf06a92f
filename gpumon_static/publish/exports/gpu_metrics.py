"""The samples of `metrics.prom` that are about GPUs and their slices, family by family.

There are dozens per GPU: none of them is kept, and what all families have in common is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from gpumon_static.model import Allocated, Gpu
from gpumon_static.rules import marked
from gpumon_static.survey.names import short_model
from gpumon_static.survey.state import State
from gpumon_static.survey.survey import STATES, Place, SurveyedHost

MIB = 1024 * 1024


class GpuRow(NamedTuple):
    gpu: Gpu
    state: State
    places: tuple[Place, ...]
    labels: str
    """As they stand in every one of its samples."""


class SliceRow(NamedTuple):
    place: Place
    labels: str


Samples = Iterator[tuple[str, float | None]]
"""Labels and value; None where it is not known."""
GpuSamples = Callable[[Iterable[GpuRow]], Samples]
SliceSamples = Callable[[Iterable[SliceRow]], Samples]


def rows(hosts: Iterable[SurveyedHost]) -> tuple[list[GpuRow], list[SliceRow]]:
    gpus, slices = [], []
    for host in hosts:
        for gpu in host.gpus:
            labels = written({"host": host.name, "gpu": str(gpu.index), "model": short_model(gpu.name)})
            places = host.places_of(gpu)
            gpus.append(GpuRow(gpu, host.state_of(gpu), places, labels))
            for place in places:
                if place.mig:
                    own = {"slice": str(place.mig.index), "profile": place.mig.profile or ""}
                    slices.append(SliceRow(place, f"{labels},{written(own)}"))
    return gpus, slices


def written(labels: Mapping[str, str]) -> str:
    """Labels as the format has them, without their braces."""
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _each(value: Callable[[Gpu], float | None]) -> GpuSamples:
    return lambda given: ((row.labels, value(row.gpu)) for row in given)


def _about(given: Iterable[GpuRow]) -> Samples:
    for row in given:
        about = {"uuid": row.gpu.uuid or "", "name": row.gpu.name or "", "bus_id": row.gpu.bus_id or ""}
        yield f"{row.labels},{written(about)}", 1


def _states(given: Iterable[GpuRow]) -> Samples:
    for row in given:
        for other, word in STATES.items():
            yield f'{row.labels},state="{word}"', other is row.state


def _usable(given: Iterable[GpuRow]) -> Samples:
    return ((row.labels, any(place.is_usable for place in row.places)) for row in given)


def _faults(given: Iterable[GpuRow]) -> Samples:
    for row in given:
        for rule in _rules(row.gpu):
            yield f"{row.labels},{written({'rule': rule})}", 1


def _rules(gpu: Gpu) -> dict[str, None]:
    return dict.fromkeys(fault.rule for fault in marked(gpu.faults)) if gpu.faults else {}


def _allocated(gpu: Gpu) -> float | None:
    known = gpu.allocation.allocated in (Allocated.YES, Allocated.NO)
    return float(gpu.allocation.allocated is Allocated.YES) if known else None


def _ends_at(gpu: Gpu) -> float | None:
    return gpu.allocation.ends_at.timestamp() if gpu.allocation.ends_at else None


def _slice_states(given: Iterable[SliceRow]) -> Samples:
    for row in given:
        for other, word in STATES.items():
            yield f'{row.labels},state="{word}"', other is row.place.state


GPU_FAMILIES: dict[str, tuple[str, GpuSamples]] = {
    "gpumon_gpu_info": ("UUID, full name and bus id of the GPU; the value is always 1.", _about),
    "gpumon_gpu_state": (
        "1 for the state the GPU is in (free, busy, held, unknown), 0 for the others.",
        _states,
    ),
    "gpumon_gpu_usable": ("1 if one can run on the GPU now.", _usable),
    "gpumon_gpu_utilization_ratio": (
        "Share of the time in which a kernel ran.",
        _each(lambda gpu: times(gpu.utilization, 0.01)),
    ),
    "gpumon_gpu_memory_used_bytes": (
        "GPU memory in use.",
        _each(lambda gpu: times(gpu.memory_used_mib, MIB)),
    ),
    "gpumon_gpu_memory_total_bytes": ("GPU memory.", _each(lambda gpu: times(gpu.memory_total_mib, MIB))),
    "gpumon_gpu_temperature_celsius": ("Temperature of the GPU.", _each(lambda gpu: gpu.temperature_c)),
    "gpumon_gpu_fan_speed_ratio": (
        "Fan speed, of its maximum.",
        _each(lambda gpu: times(gpu.fan_percent, 0.01)),
    ),
    "gpumon_gpu_power_watts": ("Power draw.", _each(lambda gpu: gpu.power_w)),
    "gpumon_gpu_power_limit_watts": ("Power limit.", _each(lambda gpu: gpu.power_limit_w)),
    "gpumon_gpu_processes": (
        "Processes on the GPU and its slices.",
        _each(lambda gpu: len(gpu.all_processes) if gpu.processes_known else None),
    ),
    "gpumon_gpu_fault": ("1 for each fault that the GPU has, by rule.", _faults),
    "gpumon_gpu_allocated": ("1 if Slurm has given the GPU to a job, 0 if not.", _each(_allocated)),
    "gpumon_gpu_job_end_timestamp_seconds": ("When that job ends at the latest.", _each(_ends_at)),
    "gpumon_gpu_faults": ("How many faults the GPU has.", _each(lambda gpu: len(_rules(gpu)))),
}
SLICE_FAMILIES: dict[str, tuple[str, SliceSamples]] = {
    "gpumon_slice_state": ("1 for the state that the MIG slice is in, 0 for the others.", _slice_states),
    "gpumon_slice_memory_used_bytes": (
        "Memory in use of the MIG slice.",
        lambda given: ((row.labels, times(row.place.memory_used_mib, MIB)) for row in given),
    ),
    "gpumon_slice_memory_total_bytes": (
        "Memory of the MIG slice.",
        lambda given: ((row.labels, times(row.place.memory_total_mib, MIB)) for row in given),
    ),
}
