"""A reading within its bounds: made of hosts' answers by collect/gate.py, and of older files by store/.

A number out of its range becomes unknown. A GPU, slice or process whose own number is out of range, or is
listed twice, is left out (the first one counts), and so is what is more than a list may hold.
`HostReading.note` reports what it was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace
from operator import is_
from typing import Any, TypeVar

from gpumon_static.bounds.tables import (
    FIRST_TIME,
    GPU_COUNT,
    LAST_TIME,
    LONGEST_NODE,
    MOST_DISKS,
    MOST_FAULTS,
    MOST_GPUS,
    MOST_JOBS,
    MOST_KINDS,
    MOST_NODES,
    MOST_PROCESSES,
    MOST_PROCESSES_PER_GPU,
    MOST_SLICES,
    MOST_SLICES_PER_GPU,
    NUMBERS,
    TEXTS,
    TIMES,
    WANTED,
)
from gpumon_static.model import (
    Allocation,
    Disk,
    Fault,
    Gpu,
    HostReading,
    JobGpus,
    Machine,
    MigDevice,
    NodeState,
    Process,
    SlurmAnswer,
    SlurmJob,
    SlurmNode,
    Waiting,
)
from gpumon_static.model.facts import INDEX, PID
from gpumon_static.text import DEVICE, count, one_line

MOST_EXAMPLES = 3
_NODE = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{LONGEST_NODE - 1}}}")
_JOB = re.compile(r"[0-9]{1,20}")
_RULE = re.compile(r"[a-z][a-z0-9-]{0,39}")
_PLURALS = {"process": "processes", "node of a job": "nodes of a job"}
_FORMS = {"uuid": DEVICE}
"""Scripts, shells and a button that copies use it: a text that is not of a vendor's form becomes unknown."""

# As they are gone through, for millions of values.
_NUMBERS = {
    kind: [(name, bounds.least, bounds.most, bounds) for name, bounds in ranges.items()]
    for kind, ranges in NUMBERS.items()
}
_TEXTS = {kind: list(texts.items()) for kind, texts in TEXTS.items()}

T = TypeVar("T")
R = TypeVar(
    "R",
    HostReading, Machine, Disk, Gpu, MigDevice, Process, Fault,
    Allocation, NodeState, SlurmAnswer, SlurmNode, SlurmJob, Waiting,
)  # fmt: skip


def bounded(reading: HostReading) -> HostReading:
    """The reading within its bounds; the very same one where it was already."""
    return _Bounds().reading(reading)


class _Bounds:
    """The state while one reading is bounded: how much room its lists have left, and what was left out."""

    def __init__(self) -> None:
        self._slices = MOST_SLICES
        self._processes = MOST_PROCESSES
        self._processes_of_gpu = MOST_PROCESSES_PER_GPU
        self._out_of_range: list[str] = []
        self._left_out: Counter[str] = Counter()

    def reading(self, given: HostReading) -> HostReading:
        gpus = _each(self._chosen(given.gpus, _gpu_key, MOST_GPUS, "GPU"), self._gpu)
        machine = self._machine(given.machine)
        node = self._record(given.node)
        slurm = self._answer(given.slurm) if given.slurm else None
        bounded = self._record(given)
        parts = {"gpus": gpus, "machine": machine, "node": node, "slurm": slurm}
        if any(part is not getattr(given, name) for name, part in parts.items()):
            bounded = replace(bounded, gpus=gpus, machine=machine, node=node, slurm=slurm)
        if left_out := self._left_out_words():
            both = "; ".join(filter(None, (left_out, bounded.note)))
            bounded = replace(bounded, note=one_line(both, TEXTS[HostReading]["note"]))
        return bounded

    def _gpu(self, given: Gpu) -> Gpu:
        self._processes_of_gpu = MOST_PROCESSES_PER_GPU
        processes = self._processes_within(given.processes)
        slices = self._chosen(given.slices, _slice_key, min(MOST_SLICES_PER_GPU, self._slices), "slice")
        self._slices -= len(slices)
        slices = _each(slices, self._slice)
        faults = _each(self._chosen(given.faults, _fault_key, MOST_FAULTS, "fault"), self._record)
        allocation = self._record(given.allocation)
        gpu = self._record(given)
        parts = {"slices": slices, "processes": processes, "faults": faults, "allocation": allocation}
        if all(part is getattr(given, name) for name, part in parts.items()):
            return gpu
        return replace(gpu, slices=slices, processes=processes, faults=faults, allocation=allocation)

    def _slice(self, given: MigDevice) -> MigDevice:
        processes = self._processes_within(given.processes)
        mig = self._record(given)
        return mig if processes is given.processes else replace(mig, processes=processes)

    def _processes_within(self, given: tuple[Process, ...]) -> tuple[Process, ...]:
        room = min(self._processes, self._processes_of_gpu)
        chosen = self._chosen(given, _process_key, room, "process", clean=self._record)
        self._processes -= len(chosen)
        self._processes_of_gpu -= len(chosen)
        return chosen

    def _machine(self, given: Machine) -> Machine:
        disks = self._chosen(given.disks, _disk_key, MOST_DISKS, "disk", clean=self._record)
        machine = self._record(given)
        return machine if disks is given.disks else replace(machine, disks=disks)

    def _answer(self, given: SlurmAnswer) -> SlurmAnswer:
        nodes = _each(self._chosen(given.nodes, _node_key, MOST_NODES, "node"), self._node)
        jobs = _each(self._chosen(given.jobs, _job_key, MOST_JOBS, "job"), self._job)
        waiting = self._chosen(given.waiting, _kind_key, MOST_KINDS, "kind of GPU", clean=self._record)
        answer = self._record(given)
        if nodes is given.nodes and jobs is given.jobs and waiting is given.waiting:
            return answer
        return replace(answer, nodes=nodes, jobs=jobs, waiting=waiting)

    def _node(self, given: SlurmNode) -> SlurmNode:
        node = self._record(given)
        if given.used is None or all(map(INDEX.takes, given.used)):
            return node
        # One number that cannot be: what the others stand for is not known either.
        return replace(node, used=None)

    def _job(self, given: SlurmJob) -> SlurmJob:
        gpus = _each(self._chosen(given.gpus, _gpus_key, MOST_NODES, "node of a job"), _with_indexes)
        job = self._record(given)
        return job if gpus is given.gpus else replace(job, gpus=gpus)

    def _record(self, given: R) -> R:
        """The record with its own numbers and texts within their bounds."""
        changes: dict[str, Any] = {}
        kind = type(given)
        for name, least, most, bounds in _NUMBERS[kind]:
            value = getattr(given, name)
            if value is not None and not least <= value <= most:
                changes[name] = None
                self._out_of_range.append(f"{bounds.word} {_short(value)} {bounds.unit}".rstrip())
        for name, longest in _TEXTS[kind]:
            text = getattr(given, name)
            if text is None:
                continue
            if name in _FORMS:
                if len(text) > longest or not _FORMS[name].fullmatch(text):
                    changes[name] = None
                    self._out_of_range.append(name.upper())
            elif (clean := one_line(text, longest)) != text:
                changes[name] = clean
        for name in TIMES[kind]:
            at = getattr(given, name)
            if at is not None and not FIRST_TIME <= at <= LAST_TIME:
                changes[name] = None
                self._out_of_range.append(f"time {at:%Y}")
        return replace(given, **changes) if changes else given

    def _chosen(
        self,
        given: tuple[T, ...],
        key: Callable[[T], Hashable | None],
        most: int,
        word: str,
        clean: Callable[[T], T] = lambda item: item,
    ) -> tuple[T, ...]:
        """The first ones with a key of their own. `clean`: applied before the key is looked at."""
        if not given:
            return given
        found: dict[Hashable, T] = {}
        for item in map(clean, given):
            if len(found) >= most:
                break
            own = key(item)
            if own is not None:
                found.setdefault(own, item)
        if left_out := len(given) - len(found):
            self._left_out[word] += left_out
        return _unless_same(tuple(found.values()), given)

    def _left_out_words(self) -> str:
        parts = []
        if self._out_of_range:
            examples = list(dict.fromkeys(self._out_of_range))[:MOST_EXAMPLES]
            parts.append(f"{count(len(self._out_of_range), 'value')} out of range ({', '.join(examples)})")
        if self._left_out:
            counted = (count(number, word, _PLURALS.get(word)) for word, number in self._left_out.items())
            parts.append(f"left out: {', '.join(counted)}")
        return "; ".join(parts)


def _each(given: tuple[T, ...], change: Callable[[T], T]) -> tuple[T, ...]:
    return _unless_same(tuple(map(change, given)), given) if given else given


def _unless_same(made: tuple[T, ...], given: tuple[T, ...]) -> tuple[T, ...]:
    """The given tuple itself where the same things are in it: most readings pass as they are."""
    return given if len(made) == len(given) and all(map(is_, made, given)) else made


def _gpu_key(gpu: Gpu) -> int | None:
    """The index: CSV and page identify a GPU by it."""
    return gpu.index if INDEX.takes(gpu.index) else None


def _slice_key(mig: MigDevice) -> int | None:
    return mig.index if INDEX.takes(mig.index) else None


def _process_key(process: Process) -> tuple[int, str | None] | None:
    """PID and type: a process may be listed once for each of its types."""
    return (process.pid, process.type) if PID.takes(process.pid) else None


def _disk_key(disk: Disk) -> str | None:
    return disk.mount or None


def _fault_key(fault: Fault) -> str | None:
    """The rule: events and cells identify a fault by it. It must have the form of our rules."""
    return fault.rule if _RULE.fullmatch(fault.rule) else None


def _node_key(node: SlurmNode) -> str | None:
    return node.name if _NODE.fullmatch(node.name) else None


def _job_key(job: SlurmJob) -> str | None:
    return job.id if _JOB.fullmatch(job.id) else None


def _gpus_key(gpus: JobGpus) -> str | None:
    return gpus.node if _NODE.fullmatch(gpus.node) and GPU_COUNT.takes(gpus.count) else None


def _kind_key(waiting: Waiting) -> Hashable | None:
    is_possible = WANTED.takes(waiting.gpus) and WANTED.takes(waiting.jobs)
    return (waiting.kind,) if is_possible else None


def _with_indexes(gpus: JobGpus) -> JobGpus:
    """Without its numbers where one of them cannot be."""
    return gpus if all(map(INDEX.takes, gpus.indexes + gpus.parts)) else replace(gpus, indexes=(), parts=())


def _short(value: float) -> str:
    try:
        return f"{float(value):.6g}"
    except OverflowError:
        return "with over 308 digits"
