"""Free or busy: the one place that decides it, for the page, the terminal and the exports."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from gpumon_static.config import BusyConfig
from gpumon_static.model import Gpu, MigDevice, Process


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
    return _state(gpu.utilization, held, gpu.processes, gpu.processes_known, busy)


def slice_state(mig: MigDevice, gpu: Gpu, busy: BusyConfig) -> State:
    """nvidia-smi gives no utilization of a slice, so a taken slice is never called idle."""
    siblings = [s for s in gpu.slices if s is not mig and s.gpu_instance == mig.gpu_instance]
    shared = tuple(p for s in siblings for p in s.processes) if mig.gpu_instance is not None else ()
    held = _holds_memory(mig.memory_used_mib, mig.memory_total_mib, mig.processes, busy, elsewhere=shared)
    return _state(None, held, mig.processes, gpu.processes_known, busy)


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
