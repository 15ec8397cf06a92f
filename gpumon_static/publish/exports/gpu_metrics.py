"""The samples of `metrics.prom` that are about GPUs and their slices."""

from __future__ import annotations

from collections.abc import Iterator

from gpumon_static.model import Allocated, Gpu
from gpumon_static.rules import marked
from gpumon_static.survey.names import short_model
from gpumon_static.survey.survey import STATES, Place, SurveyedHost

MIB = 1024 * 1024

GPU_FAMILIES = {
    "gpumon_gpu_info": "UUID, full name and bus id of the GPU; the value is always 1.",
    "gpumon_gpu_state": "1 for the state the GPU is in (free, busy, held, unknown), 0 for the others.",
    "gpumon_gpu_usable": "1 if one can run on the GPU now.",
    "gpumon_gpu_utilization_ratio": "Share of the time in which a kernel ran.",
    "gpumon_gpu_memory_used_bytes": "GPU memory in use.",
    "gpumon_gpu_memory_total_bytes": "GPU memory.",
    "gpumon_gpu_temperature_celsius": "Temperature of the GPU.",
    "gpumon_gpu_fan_speed_ratio": "Fan speed, of its maximum.",
    "gpumon_gpu_power_watts": "Power draw.",
    "gpumon_gpu_power_limit_watts": "Power limit.",
    "gpumon_gpu_processes": "Processes on the GPU and its slices.",
    "gpumon_gpu_fault": "1 for each fault that the GPU has, by rule.",
    "gpumon_gpu_allocated": "1 if Slurm has given the GPU to a job, 0 if not.",
    "gpumon_gpu_job_end_timestamp_seconds": "When that job ends at the latest.",
    "gpumon_gpu_faults": "How many faults the GPU has.",
}
SLICE_FAMILIES = {
    "gpumon_slice_state": "1 for the state that the MIG slice is in, 0 for the others.",
    "gpumon_slice_memory_used_bytes": "Memory in use of the MIG slice.",
    "gpumon_slice_memory_total_bytes": "Memory of the MIG slice.",
}

Sample = tuple[str, dict[str, str], float | None]


def gpu_samples(host: SurveyedHost) -> Iterator[Sample]:
    for gpu in host.gpus:
        labels = {"host": host.name, "gpu": str(gpu.index), "model": short_model(gpu.name)}
        yield from _of_gpu(host, gpu, labels)
        for place in host.places_of(gpu):
            if place.mig:
                yield from _of_slice(place, labels)


def _of_gpu(host: SurveyedHost, gpu: Gpu, labels: dict[str, str]) -> Iterator[Sample]:
    about = {"uuid": gpu.uuid or "", "name": gpu.name or "", "bus_id": gpu.bus_id or ""}
    yield "gpumon_gpu_info", labels | about, 1
    state = host.state_of(gpu)
    for other, word in STATES.items():
        yield "gpumon_gpu_state", labels | {"state": word}, float(other is state)
    places = list(host.places_of(gpu))
    yield "gpumon_gpu_usable", labels, float(any(place.is_usable for place in places))
    yield "gpumon_gpu_utilization_ratio", labels, _times(gpu.utilization, 0.01)
    yield "gpumon_gpu_memory_used_bytes", labels, _times(gpu.memory_used_mib, MIB)
    yield "gpumon_gpu_memory_total_bytes", labels, _times(gpu.memory_total_mib, MIB)
    yield "gpumon_gpu_temperature_celsius", labels, gpu.temperature_c
    yield "gpumon_gpu_fan_speed_ratio", labels, _times(gpu.fan_percent, 0.01)
    yield "gpumon_gpu_power_watts", labels, gpu.power_w
    yield "gpumon_gpu_power_limit_watts", labels, gpu.power_limit_w
    yield "gpumon_gpu_processes", labels, len(gpu.all_processes) if gpu.processes_known else None
    given = gpu.allocation
    if given.allocated in (Allocated.YES, Allocated.NO):
        yield "gpumon_gpu_allocated", labels, float(given.allocated is Allocated.YES)
    yield "gpumon_gpu_job_end_timestamp_seconds", labels, given.ends_at.timestamp() if given.ends_at else None
    rules = dict.fromkeys(fault.rule for fault in marked(gpu.faults))
    for rule in rules:
        yield "gpumon_gpu_fault", labels | {"rule": rule}, 1
    yield "gpumon_gpu_faults", labels, len(rules)


def _of_slice(place: Place, labels: dict[str, str]) -> Iterator[Sample]:
    assert place.mig
    labels = labels | {"slice": str(place.mig.index), "profile": place.mig.profile or ""}
    for other, word in STATES.items():
        yield "gpumon_slice_state", labels | {"state": word}, float(other is place.state)
    yield "gpumon_slice_memory_used_bytes", labels, _times(place.memory_used_mib, MIB)
    yield "gpumon_slice_memory_total_bytes", labels, _times(place.memory_total_mib, MIB)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
