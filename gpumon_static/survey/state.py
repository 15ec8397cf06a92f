"""Free or busy: the one place that decides it, for the page, the terminal and the exports."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from gpumon_static.config.settings import BusyConfig
from gpumon_static.model import GONE, Gpu, MigDevice, Process
from gpumon_static.rules import is_unusable

LEAST_GHOST_MIB = 256
"""What drivers keep for themselves is less, and no sign of anything."""


class State(StrEnum):
    FREE = "free"
    BUSY = "busy"
    HELD = "held idle"
    """Taken, by memory or a process, but not computing at this moment."""
    UNKNOWN = "unknown"

    @property
    def is_taken(self) -> bool:
        return self in (State.BUSY, State.HELD)


def gpu_state(gpu: Gpu, busy: BusyConfig) -> State:
    if gpu.slices:
        return _of_slices([slice_state(s, gpu, busy) for s in gpu.slices])
    held = _holds_memory(gpu.memory_used_mib, gpu.memory_total_mib, gpu.processes, busy)
    return _if_usable(_state(gpu.utilization, held, gpu.processes, gpu.processes_known, busy), gpu)


def slice_state(mig: MigDevice, gpu: Gpu, busy: BusyConfig) -> State:
    """nvidia-smi gives no utilization of a slice, so a taken slice is never called idle."""
    shared = _processes_beside(mig, gpu)
    held = _holds_memory(mig.memory_used_mib, mig.memory_total_mib, mig.processes, busy, elsewhere=shared)
    return _if_usable(_state(None, held, mig.processes, gpu.processes_known, busy), gpu)


def slices_beside(mig: MigDevice, gpu: Gpu) -> list[MigDevice]:
    """Other compute instances of the same GPU instance: they share one memory, and each reports all of it."""
    if mig.gpu_instance is None:
        return []
    return [s for s in gpu.slices if s is not mig and s.gpu_instance == mig.gpu_instance]


def sliced_memory_mib(gpu: Gpu) -> tuple[float, float]:
    """Used and total of all slices together, what is shared counted once."""
    first = [
        s for i, s in enumerate(gpu.slices) if not any(s in slices_beside(o, gpu) for o in gpu.slices[:i])
    ]
    return sum(s.memory_used_mib or 0 for s in first), sum(s.memory_total_mib or 0 for s in first)


def ghost_mib(gpu: Gpu, mig: MigDevice | None, busy: BusyConfig) -> float | None:
    """Memory in use that no process accounts for; None where that cannot be told, or is nothing to tell."""
    used, total = (mig or gpu).memory_used_mib, (mig or gpu).memory_total_mib
    if (gpu.slices and mig is None) or used is None or not total or not gpu.processes_known:
        return None
    processes = mig.processes + _processes_beside(mig, gpu) if mig else gpu.processes
    if any(process.memory_mib is None for process in processes):
        return None
    rest = used - sum(process.memory_mib or 0 for process in processes)
    return rest if rest > max(LEAST_GHOST_MIB, total * busy.memory / 100) else None


def gone_mib(processes: Iterable[Process]) -> float | None:
    """What the driver still counts for processes that have ended."""
    return sum(p.memory_mib or 0 for p in processes if p.state == GONE) or None


def _processes_beside(mig: MigDevice, gpu: Gpu) -> tuple[Process, ...]:
    return tuple(process for beside in slices_beside(mig, gpu) for process in beside.processes)


def _if_usable(state: State, gpu: Gpu) -> State:
    """Nobody can run on a GPU that is lost, wants a reset, or is in MIG mode without a slice."""
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
    # An idle moment proves nothing: free takes a look at the memory or at the list of processes.
    return State.UNKNOWN if holds_memory is None and not processes_known else State.FREE


def _holds_memory(
    used_mib: float | None,
    total_mib: float | None,
    processes: Iterable[Process],
    busy: BusyConfig,
    *,
    elsewhere: Iterable[Process] = (),
) -> bool | None:
    """Whether more than a desktop's own memory is in use; None where nvidia-smi does not say."""
    if used_mib is None or not total_mib:
        return None
    desktop = sum(p.memory_mib or 0 for p in processes if p.is_graphics_only)
    others = sum(p.memory_mib or 0 for p in elsewhere)
    return used_mib - desktop - others > total_mib * busy.memory / 100
