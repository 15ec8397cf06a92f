"""Free or busy: the one place that decides it, for the page, the terminal and the exports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gpumon_static.config.settings import BusyConfig
from gpumon_static.model import GONE, Allocated, Gpu, MigDevice, Process
from gpumon_static.model.rules import is_unusable
from gpumon_static.model.states import State

LEAST_GHOST_MIB = 256
"""MiB. Drivers reserve less than this, which does not count."""
STUCK_PERCENT = 99
"""A utilization that sticks does so here."""
NOT_RUNNING = ("T", "t", "Z", "X", GONE)
"""States of ps in which a process cannot have its GPU compute: stopped, or ended."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A GPU instance: its slices (compute instances) share one memory, and each reports all of it."""

    slices: tuple[MigDevice, ...]
    process_mib: float
    """What all their processes hold, as far as it is known."""
    is_accounted: bool
    """Of each process it is known."""


class Slice(NamedTuple):
    """A slice with the GPU instance that it is in."""

    mig: MigDevice
    instance: Instance

    def beside(self) -> Iterator[MigDevice]:
        return (other for other in self.instance.slices if other is not self.mig)


def slices_of(gpu: Gpu) -> list[Slice]:
    """The slices in their order. One whose GPU instance is not known has its own."""
    if not gpu.slices:
        return []
    keys = [
        (mig.gpu_instance, 0) if mig.gpu_instance is not None else (None, place)
        for place, mig in enumerate(gpu.slices)
    ]
    sharing: dict[tuple[int | None, int], list[MigDevice]] = {}
    for key, mig in zip(keys, gpu.slices, strict=True):
        sharing.setdefault(key, []).append(mig)
    instances = {key: _instance(slices) for key, slices in sharing.items()}
    return [Slice(mig, instances[key]) for key, mig in zip(keys, gpu.slices, strict=True)]


def _instance(slices: list[MigDevice]) -> Instance:
    held = [process.memory_mib for mig in slices for process in mig.processes]
    return Instance(tuple(slices), sum(mib or 0 for mib in held), None not in held)


def gpu_state(gpu: Gpu, busy: BusyConfig) -> State:
    if gpu.slices:
        return _of_slices([slice_state(cut, gpu, busy) for cut in slices_of(gpu)])
    utilization = 0.0 if _is_stuck(gpu) else gpu.utilization
    if gpu.memory_shared:
        # RAM in use is mostly the host's own. A GPU that reports nothing else is unknown, not free.
        is_known = gpu.processes_known and utilization is not None
        state = _state(utilization, None, gpu.processes, is_known, busy)
        return _if_usable(_if_not_allocated(state, gpu), gpu)
    held = _holds_memory(gpu.memory_used_mib, gpu.memory_total_mib, gpu.processes, busy)
    state = _state(utilization, held, gpu.processes, gpu.processes_known, busy)
    return _if_usable(_if_not_allocated(state, gpu), gpu)


def slice_state(cut: Slice, gpu: Gpu, busy: BusyConfig) -> State:
    """nvidia-smi gives no utilization of a slice, so a taken slice is never called idle."""
    mig = cut.mig
    elsewhere = cut.instance.process_mib - sum(process.memory_mib or 0 for process in mig.processes)
    held = _holds_memory(mig.memory_used_mib, mig.memory_total_mib, mig.processes, busy, elsewhere)
    state = _state(None, held, mig.processes, gpu.processes_known, busy)
    return _if_usable(_if_not_allocated(state, gpu), gpu)


def _is_stuck(gpu: Gpu) -> bool:
    """At 100 % while none of the processes on it can be computing."""
    at_work = [process for process in gpu.processes if not process.is_graphics_only]
    if not gpu.utilization_sticks or not at_work or (gpu.utilization or 0) < STUCK_PERCENT:
        return False
    return all(map(is_at_rest, at_work))


def is_at_rest(process: Process) -> bool:
    """Whether it is stopped, ended, or on no compute unit."""
    return process.compute_units == 0 or (process.state or "").startswith(NOT_RUNNING)


def ghost_mib(gpu: Gpu, cut: Slice | None, busy: BusyConfig) -> float | None:
    """Memory in use that no process accounts for; None where that is not known, or negligible."""
    if (gpu.slices and cut is None) or gpu.memory_shared:
        return None
    shown = cut.mig if cut else gpu
    used, total = shown.memory_used_mib, shown.memory_total_mib
    if used is None or not total or not gpu.processes_known:
        return None
    if cut:
        held, is_accounted = cut.instance.process_mib, cut.instance.is_accounted
    else:
        held = sum(process.memory_mib or 0 for process in gpu.processes)
        is_accounted = all(process.memory_mib is not None for process in gpu.processes)
    rest = used - held
    return rest if is_accounted and rest > max(LEAST_GHOST_MIB, total * busy.memory / 100) else None


def gone_mib(processes: Iterable[Process]) -> float | None:
    """What the driver still counts for processes that have ended."""
    return sum(p.memory_mib or 0 for p in processes if p.state == GONE) or None


def _if_not_allocated(state: State, gpu: Gpu) -> State:
    """Held instead of free for a GPU that Slurm has given to a job, unknown where it does not report that."""
    if gpu.allocation.allocated is Allocated.YES and not gpu.slices:
        # One that reports nothing of itself is not called idle.
        is_dark = state is State.UNKNOWN and gpu.utilization is None
        return state if state.is_taken else State.BUSY if is_dark else State.HELD
    is_hidden = gpu.allocation.allocated is Allocated.UNKNOWN
    return State.UNKNOWN if state is State.FREE and is_hidden else state


def is_allocated_only(gpu: Gpu) -> bool:
    """Whether a job has it, with no process on it yet, or any more."""
    if gpu.allocation.allocated is not Allocated.YES:
        return False
    return all(process.is_graphics_only for process in gpu.all_processes)


def _if_usable(state: State, gpu: Gpu) -> State:
    """Unknown instead of free for a GPU that is lost, needs a reset, or is in MIG mode without a slice."""
    cannot_run = is_unusable(gpu.faults) or (gpu.mig_mode and not gpu.slices)
    return State.UNKNOWN if state is State.FREE and cannot_run else state


def _of_slices(states: list[State]) -> State:
    """The whole card is free only if all of it is."""
    for state in (State.BUSY, State.HELD, State.UNKNOWN):
        if state in states:
            return state
    return State.FREE


def _state(
    utilization: float | None,
    holds_memory: bool | None,
    processes: Iterable[Process],
    processes_known: bool,
    busy: BusyConfig,
) -> State:
    working = utilization is not None and utilization >= busy.utilization
    held = holds_memory or any(not p.is_graphics_only for p in processes)
    if working or (held and utilization is None):
        return State.BUSY
    if held:
        return State.HELD
    # Utilization of 0 % alone does not mean free: memory or the list of processes must be known.
    return State.UNKNOWN if holds_memory is None and not processes_known else State.FREE


def _holds_memory(
    used_mib: float | None,
    total_mib: float | None,
    processes: Iterable[Process],
    busy: BusyConfig,
    elsewhere_mib: float = 0,
) -> bool | None:
    """Whether more than a desktop's own memory is in use; None where nvidia-smi does not report it."""
    if used_mib is None or not total_mib:
        return None
    desktop = sum(p.memory_mib or 0 for p in processes if p.is_graphics_only)
    return used_mib - desktop - elsewhere_mib > total_mib * busy.memory / 100
