"""What the history keeps beside the readings: the state of each GPU and slice, and who held it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gpumon_static.model import Gpu
from gpumon_static.model.states import State
from gpumon_static.store import cells
from gpumon_static.store.history.observed import NOBODY, GpuSighting, HostSighting
from gpumon_static.survey.names import short_model
from gpumon_static.survey.state import gpu_state, is_allocated_only
from gpumon_static.survey.survey import Place, places_of

if TYPE_CHECKING:
    from gpumon_static.config.settings import BusyConfig
    from gpumon_static.model import Disk, HostReading, Process


def sightings(
    readings: Iterable[HostReading], busy: BusyConfig, groups: Mapping[str, str] | None = None
) -> list[HostSighting]:
    """`groups`: of hosts by name; without one it is empty."""
    return [
        HostSighting(
            reading.host,
            int(reading.fetched_at.timestamp()),
            (groups or {}).get(reading.host, ""),
            list(_gpus(reading, busy)) if reading.ok else None,
            cells.to_text(tuple(map(_rounded, reading.machine.disks))),
            max(filter(None, map(_percent_full, reading.machine.disks)), default=None),
        )
        for reading in readings
    ]


def _gpus(reading: HostReading, busy: BusyConfig) -> Iterator[GpuSighting]:
    """A card that is cut into slices comes whole, without users, and then slice by slice with theirs."""
    for gpu in reading.gpus:
        state, model = gpu_state(gpu, busy), short_model(gpu.name)
        if gpu.slices:
            yield GpuSighting(gpu.index, None, state, state, True, 0.0, False, model, ())
        for place in places_of(reading, gpu, busy, state):
            yield GpuSighting(
                number=gpu.index,
                slice=place.mig.index if place.mig else None,
                state=place.state,
                gpu_state=state,
                is_cut=False,
                share=_share(place, gpu),
                is_offered=place.is_offered,
                model=model,
                users=_holders(place) if place.state.is_taken else (),
            )


def _holders(place: Place) -> tuple[str, ...]:
    """The users of its processes; without any, the owner of the Slurm job that has it."""
    if place.mig is None and is_allocated_only(place.gpu):
        return (place.gpu.allocation.user or NOBODY,)
    return _users(place.processes)


def bare_state(busy: BusyConfig, utilization: float, used_mib: float, total_mib: float) -> State:
    """Of a GPU of which no more than this is known."""
    gpu = Gpu(0, utilization=utilization, memory_used_mib=used_mib, memory_total_mib=total_mib)
    return gpu_state(gpu, busy)


def _share(place: Place, gpu: Gpu) -> float:
    """Of the card: by memory where that is known. Compute instances of one GPU instance share its memory."""
    if place.cut is None:
        return 1.0
    if not place.cut.mig.memory_total_mib or not gpu.memory_total_mib:
        return round(1 / len(gpu.slices), 6)
    part = min(1.0, place.cut.mig.memory_total_mib / gpu.memory_total_mib)
    return round(part / len(place.cut.instance.slices), 6)


def _users(processes: Iterable[Process]) -> tuple[str, ...]:
    names = {_user(process) for process in processes if not process.is_graphics_only}
    return tuple(sorted(names)) or (NOBODY,)


def _user(process: Process) -> str:
    if process.user:
        return process.user
    return NOBODY if process.uid is None else f"uid {process.uid}"


def _percent_full(disk: Disk) -> int | None:
    if disk.used_mib is None or not disk.total_mib:
        return None
    return round(100 * min(1.0, disk.used_mib / disk.total_mib))


def _rounded(disk: Disk) -> Disk:
    """Its use in whole percents: to the MiB it differs in every run."""
    percent = _percent_full(disk)
    if percent is None or disk.total_mib is None:
        return disk
    return replace(disk, used_mib=float(round(disk.total_mib * percent / 100)))
