"""The readings of a run within its budget: many hosts that each send the most they may are too much together.

A run within the budget stays as it is. Above it the largest hosts are cut, all to the same size: first to
fewer processes, then to fewer faults and shorter texts. GPUs and their states stay, and users as far as there
is room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from gpumon_static.bounds.tables import TEXTS
from gpumon_static.model import Gpu, HostReading, Process
from gpumon_static.text import count, one_line

OF_A_RUN, OF_A_HOST = 10_000_000, 50_000
"""Bytes of load_data.csv. A host with 8 GPUs has 3,000 of them, and 100,000 with 48 MPS clients on each."""
MOST_FAULTS = 1
"""Of a GPU, where it has no details either."""
MOST_MODELS = 4
"""Of a host; those of other GPUs become unknown. Each model has its own row in many tables."""
SHORT_TEXT = 40
HOST_CELLS, GPU_CELLS, PROCESS_CELLS = 150, 200, 60
"""What the numbers of a record take in a row, beside its texts."""


@dataclass(frozen=True)
class CutRun:
    readings: list[HostReading]
    line: str | None = None
    """What was left out, for the user who runs fetch."""


def within_budget(readings: Sequence[HostReading]) -> CutRun:
    sizes = [_size(reading) for reading in readings]
    budget = OF_A_RUN + OF_A_HOST * len(readings)
    if sum(sizes) <= budget:
        return CutRun(list(readings))
    most = _share(sizes, budget)
    cut = [_cut(r, most) if size > most else r for r, size in zip(readings, sizes, strict=True)]
    hosts = count(sum(size > most for size in sizes), "host")
    left_out = sum(map(_processes, readings)) - sum(map(_processes, cut))
    line = (
        f"load_data.csv would have {sum(sizes) / 1e6:.0f} MB, and a run may have {budget / 1e6:.0f} MB:"
        f" {hosts} cut to {most // 1000} kB each, {count(left_out, 'process', 'processes')} left out"
    )
    return CutRun(cut, line)


def _share(sizes: Iterable[int], budget: int) -> int:
    """The size to which those that are larger are cut, so that all fit."""
    left = budget
    ordered = sorted(sizes)
    for position, size in enumerate(ordered):
        share = left // (len(ordered) - position)
        if size > share:
            return share
        left -= size
    return left


def _processes(reading: HostReading) -> int:
    return sum(len(gpu.all_processes) for gpu in reading.gpus)


def _size(reading: HostReading) -> int:
    """About as many bytes as its rows will have: each has the cells of the host and of the GPU again."""
    host = _host_size(reading)
    return host + sum(
        max(1, len(gpu.all_processes), len(gpu.slices)) * (host + _gpu_size(gpu))
        + sum(map(_process_size, gpu.all_processes))
        for gpu in reading.gpus
    )


def _host_size(reading: HostReading) -> int:
    return HOST_CELLS + _letters(reading.host, reading.error, reading.warning, reading.note)


def _gpu_size(gpu: Gpu) -> int:
    faults = sum(len(fault.rule) + len(fault.detail or "") + 4 for fault in gpu.faults)
    return GPU_CELLS + faults + _letters(gpu.uuid, gpu.name, gpu.bus_id, gpu.device)


def _process_size(process: Process) -> int:
    texts = (process.name, process.user, process.job, process.command_line)
    return PROCESS_CELLS + _letters(*texts)


def _letters(*texts: str | None) -> int:
    return sum(len(text) for text in texts if text)


def _cut(reading: HostReading, most: int) -> HostReading:
    bare = replace(reading, gpus=tuple(map(_without_processes, reading.gpus)))
    has_details = _size(bare) <= most
    if not has_details:
        reading, bare = _shortened(reading), _shortened(bare)
    chosen = _chosen(reading, bare, most - _size(bare) if has_details else 0)
    gpus = tuple(_with(gpu, whole, chosen) for gpu, whole in zip(bare.gpus, reading.gpus, strict=True))
    left_out = count(_processes(reading) - len(chosen), "process", "processes")
    details = "" if has_details else " and details of faults"
    words = f"{left_out}{details} left out: the run was too large"
    note = one_line("; ".join(filter(None, (words, bare.note))), TEXTS[HostReading]["note"])
    return replace(bare, gpus=gpus, note=note)


def _without_processes(gpu: Gpu) -> Gpu:
    return replace(gpu, processes=(), slices=tuple(replace(mig, processes=()) for mig in gpu.slices))


def _shortened(reading: HostReading) -> HostReading:
    """Without details of faults and command lines; the texts that stand in many rows are cut."""
    warning, note = (one_line(text, SHORT_TEXT) for text in (reading.warning, reading.note))
    models = list(dict.fromkeys(gpu.name for gpu in reading.gpus))[:MOST_MODELS]
    gpus = tuple(_shortened_gpu(gpu, models).with_processes(_shortened_process) for gpu in reading.gpus)
    return replace(reading, warning=warning, note=note, gpus=gpus)


def _shortened_gpu(gpu: Gpu, models: Sequence[str | None]) -> Gpu:
    faults = tuple(replace(fault, detail=None) for fault in gpu.faults[:MOST_FAULTS])
    return replace(gpu, name=one_line(gpu.name, SHORT_TEXT) if gpu.name in models else None, faults=faults)


def _shortened_process(process: Process) -> Process:
    return replace(process, name=one_line(process.name, SHORT_TEXT), command_line=None)


def _chosen(reading: HostReading, bare: HostReading, room: int) -> set[int]:
    """The processes that stay, by identity: the first of each GPU and slice always, which its state needs."""
    host, chosen = _host_size(bare), set[int]()
    places = [
        (_gpu_size(gpu), processes)
        for gpu, whole in zip(bare.gpus, reading.gpus, strict=True)
        for processes in (whole.processes, *(mig.processes for mig in whole.slices))
    ]
    ranked = ([(size, process) for process in _by_rank(processes)] for size, processes in places)
    for rank, layer in enumerate(zip_longest(*ranked)):
        for size, process in filter(None, layer):
            cost = _process_size(process) + (host + size if rank else 0)
            if rank and cost > room:
                return chosen
            room -= cost
            chosen.add(id(process))
    return chosen


def _by_rank(processes: Sequence[Process]) -> Iterator[Process]:
    """One of each user first, and of those the largest."""
    ordered = sorted(processes, key=lambda process: (process.is_graphics_only, -(process.memory_mib or 0)))
    first: dict[str | None, Process] = {}
    for process in ordered:
        first.setdefault(process.user, process)
    firsts = {id(process) for process in first.values()}
    return chain(first.values(), (process for process in ordered if id(process) not in firsts))


def _with(gpu: Gpu, whole: Gpu, chosen: set[int]) -> Gpu:
    def kept(processes: Iterable[Process]) -> tuple[Process, ...]:
        return tuple(process for process in processes if id(process) in chosen)

    slices = tuple(
        replace(mig, processes=kept(before.processes))
        for mig, before in zip(gpu.slices, whole.slices, strict=True)
    )
    return replace(gpu, processes=kept(whole.processes), slices=slices)
