"""Readings as the history keeps them: the state of each GPU and slice, who held it, what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpumon_static.model import Allocated, Gpu
from gpumon_static.store.history.observed import (
    BUSY,
    FREE,
    HELD,
    NOBODY,
    UNKNOWN,
    HostSighting,
    MachineValues,
    Observed,
    Values,
)
from gpumon_static.survey.names import short_model
from gpumon_static.survey.state import Slice, State, gpu_state, is_allocated_only, slice_state, slices_of

if TYPE_CHECKING:
    from gpumon_static.config.settings import BusyConfig
    from gpumon_static.model import HostReading, Machine, Process

CODES = {State.FREE: FREE, State.BUSY: BUSY, State.HELD: HELD, State.UNKNOWN: UNKNOWN}


def sightings(readings: Iterable[HostReading], busy: BusyConfig) -> list[HostSighting]:
    return [
        HostSighting(
            reading.host,
            int(reading.fetched_at.timestamp()),
            list(observed(reading, busy)) if reading.ok else None,
            machine_values(reading.machine),
        )
        for reading in readings
    ]


def machine_values(machine: Machine) -> MachineValues:
    filled = [
        percent for disk in machine.disks if (percent := _percent(disk.used_mib, disk.total_mib)) is not None
    ]
    return MachineValues(
        cpu=_whole_number(machine.cpu_utilization),
        ram=_percent(machine.ram_used_mib, machine.ram_total_mib),
        disk=max(filled, default=None),
        load=None if machine.load_1m is None else round(10 * machine.load_1m),
    )


def _percent(part: float | None, whole: float | None) -> int | None:
    return None if part is None or not whole else round(100 * min(1.0, part / whole))


def model_name(name: str) -> str:
    """What the page calls a model; the history has an empty name for one that is not known."""
    return short_model(name or None)


def observed(reading: HostReading, busy: BusyConfig) -> Iterator[Observed]:
    """A card that is cut into slices comes whole, without users, and then slice by slice with theirs."""
    for gpu in reading.gpus:
        yield _whole(gpu, busy)
        for cut in slices_of(gpu):
            yield _slice(cut, gpu, busy)


def _whole(gpu: Gpu, busy: BusyConfig) -> Observed:
    state = gpu_state(gpu, busy)
    # A job may have one slice of a card: what of the card is allocated is not known.
    given = Allocated.UNKNOWN if gpu.slices else gpu.allocation.allocated
    return Observed(
        uuid=gpu.uuid,
        position=gpu.index,
        slice=None,
        model=gpu.name or "",
        profile="",
        weight=0.0 if gpu.slices else 1.0,
        state=CODES[state],
        users=_holders(gpu) if state.is_taken and not gpu.slices else (),
        values=Values(
            _whole_number(gpu.utilization),
            _whole_number(gpu.memory_used_mib),
            _whole_number(gpu.temperature_c),
            _whole_number(gpu.power_w),
        ),
        memory_total=_whole_number(gpu.memory_total_mib),
        allocated_to=_owner(gpu) if given is Allocated.YES else None,
        is_told=given in (Allocated.YES, Allocated.NO),
    )


def _owner(gpu: Gpu) -> str:
    """Of the Slurm job that has it."""
    return gpu.allocation.user or NOBODY


def _holders(gpu: Gpu) -> tuple[str, ...]:
    """The users of its processes; without any, the owner of the Slurm job that has it."""
    return (_owner(gpu),) if is_allocated_only(gpu) else _users(gpu.processes)


def _slice(cut: Slice, gpu: Gpu, busy: BusyConfig) -> Observed:
    mig, state = cut.mig, slice_state(cut, gpu, busy)
    return Observed(
        uuid=mig.uuid,
        position=gpu.index,
        slice=mig.index,
        model=gpu.name or "",
        profile=mig.profile or "MIG",
        weight=_share(cut, gpu),
        state=CODES[state],
        users=_users(mig.processes) if state.is_taken else (),
        values=Values(memory=_whole_number(mig.memory_used_mib)),
        memory_total=_whole_number(mig.memory_total_mib),
    )


def bare_state(busy: BusyConfig, utilization: float, used_mib: float, total_mib: float) -> int:
    """Of a GPU of which no more than this is known."""
    gpu = Gpu(0, utilization=utilization, memory_used_mib=used_mib, memory_total_mib=total_mib)
    return CODES[gpu_state(gpu, busy)]


def _share(cut: Slice, gpu: Gpu) -> float:
    """Of the card: by memory where that is known. Compute instances of one GPU instance share its memory."""
    if not cut.mig.memory_total_mib or not gpu.memory_total_mib:
        return 1 / len(gpu.slices)
    return min(1.0, cut.mig.memory_total_mib / gpu.memory_total_mib) / len(cut.instance.slices)


def _users(processes: Iterable[Process]) -> tuple[str, ...]:
    names = {_user(process) for process in processes if not process.is_graphics_only}
    return tuple(sorted(names)) or (NOBODY,)


def _user(process: Process) -> str:
    if process.user:
        return process.user
    return NOBODY if process.uid is None else f"uid {process.uid}"


def _whole_number(value: float | None) -> int | None:
    return None if value is None else round(value)
