"""What a reading may hold: the range of each number, the length of each text, the size of each list.

A number out of its range is not known; a GPU, slice or process whose own number is out of range, or is there
twice, is left out (the first one counts), and so is what is more than a list may hold. What was left out is
told in `HostReading.note`. collect/gate.py applies this to what hosts send, store/ to what older files hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace
from operator import is_
from typing import Any, NamedTuple, TypeVar

from gpumon_static.model import Disk, Fault, Gpu, HostReading, Machine, MigDevice, Process
from gpumon_static.text import count, one_line

N = TypeVar("N", int, float)
T = TypeVar("T")
R = TypeVar("R", HostReading, Machine, Disk, Gpu, MigDevice, Process, Fault)


class Range(NamedTuple):
    least: float
    most: float
    word: str
    unit: str = ""

    def takes(self, value: float) -> bool:
        """False for what is not a number or endless, too."""
        return self.least <= value <= self.most

    def known(self, value: N | None) -> N | None:
        """The value, or None where it is out of range."""
        return value if value is not None and self.takes(value) else None


CENTURY_S = 100 * 366 * 86400
GPU_MIB = 2**30
"""A pebibyte: no GPU and no process on it has so much memory."""

PERCENT = Range(0, 100, "utilization", "%")
MEMORY = Range(0, GPU_MIB, "GPU memory", "MiB")
TEMPERATURE = Range(-50, 200, "temperature", "°C")
POWER = Range(0, 20_000, "power", "W")
LOAD = Range(0, 1_000_000, "load")
RAM = Range(0, 2**34, "RAM", "MiB")
SWAP = RAM._replace(word="swap")
DISK = Range(0, 2**44, "disk", "MiB")
INDEX = Range(0, 1023, "index")
PID = Range(1, 2**32 - 1, "PID")

NUMBERS: dict[type, dict[str, Range]] = {
    HostReading: {"fetch_seconds": Range(0, CENTURY_S, "fetch time", "s")},
    Machine: {
        "cpu_count": Range(1, 65_536, "CPU count"),
        "load_1m": LOAD,
        "load_5m": LOAD,
        "load_15m": LOAD,
        "ram_total_mib": RAM,
        "ram_used_mib": RAM,
        "cpu_utilization": Range(0, 100, "CPU utilization", "%"),
        "swap_total_mib": SWAP,
        "swap_used_mib": SWAP,
        "uptime_s": Range(0, CENTURY_S, "uptime", "s"),
    },
    Disk: {"used_mib": DISK, "total_mib": DISK},
    Gpu: {
        "utilization": PERCENT,
        "memory_used_mib": MEMORY,
        "memory_total_mib": MEMORY,
        "temperature_c": TEMPERATURE,
        # NVML: "may exceed 100% in certain cases".
        "fan_percent": Range(0, 200, "fan", "%"),
        "power_w": POWER,
        "power_limit_w": POWER,
    },
    MigDevice: {
        "gpu_instance": Range(0, 1023, "GPU instance"),
        "compute_instance": Range(0, 1023, "compute instance"),
        "memory_used_mib": MEMORY,
        "memory_total_mib": MEMORY,
    },
    Process: {
        "memory_mib": MEMORY,
        "uid": Range(0, 2**32 - 1, "uid"),
        "elapsed_s": Range(0, CENTURY_S, "run time", "s"),
    },
    Fault: {},
}

TEXTS: dict[type, dict[str, int]] = {
    HostReading: {"error": 400, "driver_version": 48, "cuda_version": 48, "warning": 200, "note": 300},
    Machine: {},
    Disk: {"mount": 80},
    Gpu: {"uuid": 96, "name": 96, "bus_id": 48},
    MigDevice: {"uuid": 96, "profile": 48},
    Process: {"type": 8, "name": 200, "user": 64, "state": 16, "job": 96, "command_line": 200},
    Fault: {"detail": 200},
}
"""Characters. A longer text is cut, and ends in an ellipsis."""

# Far above what real hosts have (16 GPUs, 7 slices each, 48 MPS clients per GPU), and still a small page.
MOST_GPUS = 128
MOST_SLICES = 512
MOST_SLICES_PER_GPU = 32
MOST_PROCESSES = 1024
MOST_PROCESSES_PER_GPU = 512
MOST_FAULTS = 24
MOST_DISKS = 16
MOST_EXAMPLES = 3

_RULE = re.compile(r"[a-z][a-z0-9-]{0,39}")
_PLURALS = {"process": "processes"}
_AS_IT_IS = {"uuid"}
"""Scripts and shells are given it: a text that is not clean, too long or has a blank in it is not known."""


def bounded(reading: HostReading) -> HostReading:
    """The reading within its bounds; the very same one where it was already."""
    return _Bounds().reading(reading)


class _Bounds:
    """One reading's way through the bounds: how much its lists may still take, and what was left out."""

    def __init__(self) -> None:
        self._slices = MOST_SLICES
        self._processes = MOST_PROCESSES
        self._processes_of_gpu = MOST_PROCESSES_PER_GPU
        self._out_of_range: list[str] = []
        self._left_out: Counter[str] = Counter()

    def reading(self, given: HostReading) -> HostReading:
        gpus = _each(self._chosen(given.gpus, _gpu_key, MOST_GPUS, "GPU"), self._gpu)
        machine = self._machine(given.machine)
        bounded = self._record(given)
        if gpus is not given.gpus or machine is not given.machine:
            bounded = replace(bounded, gpus=gpus, machine=machine)
        if told := self._told():
            both = "; ".join(filter(None, (told, bounded.note)))
            bounded = replace(bounded, note=one_line(both, TEXTS[HostReading]["note"]))
        return bounded

    def _gpu(self, given: Gpu) -> Gpu:
        self._processes_of_gpu = MOST_PROCESSES_PER_GPU
        processes = self._processes_within(given.processes)
        slices = self._chosen(given.slices, _slice_key, min(MOST_SLICES_PER_GPU, self._slices), "slice")
        self._slices -= len(slices)
        slices = _each(slices, self._slice)
        faults = _each(self._chosen(given.faults, _fault_key, MOST_FAULTS, "fault"), self._record)
        gpu = self._record(given)
        if slices is given.slices and processes is given.processes and faults is given.faults:
            return gpu
        return replace(gpu, slices=slices, processes=processes, faults=faults)

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

    def _record(self, given: R) -> R:
        """The record with its own numbers and texts within their bounds."""
        changes: dict[str, Any] = {}
        kind = type(given)
        for name, bounds in NUMBERS[kind].items():
            value = getattr(given, name)
            if value is not None and not bounds.least <= value <= bounds.most:
                changes[name] = None
                self._out_of_range.append(f"{bounds.word} {_short(value)} {bounds.unit}".rstrip())
        for name, longest in TEXTS[kind].items():
            text = getattr(given, name)
            if text is None:
                continue
            clean = one_line(text, longest)
            if name in _AS_IT_IS and (clean != text or " " in text):
                changes[name] = None
                self._out_of_range.append(name.upper())
            elif clean != text:
                changes[name] = clean
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

    def _told(self) -> str:
        parts = []
        if self._out_of_range:
            examples = list(dict.fromkeys(self._out_of_range))[:MOST_EXAMPLES]
            parts.append(f"{count(len(self._out_of_range), 'value')} out of range ({', '.join(examples)})")
        if self._left_out:
            counted = (count(number, word, _PLURALS.get(word)) for word, number in self._left_out.items())
            parts.append(f"left out: {', '.join(counted)}")
        return "; ".join(parts)


def _each(given: tuple[T, ...], change: Callable[[T], T]) -> tuple[T, ...]:
    return _unless_same(tuple(map(change, given)), given)


def _unless_same(made: tuple[T, ...], given: tuple[T, ...]) -> tuple[T, ...]:
    """The given tuple itself where the same things are in it: most readings pass as they are."""
    return given if len(made) == len(given) and all(map(is_, made, given)) else made


def _gpu_key(gpu: Gpu) -> int | None:
    """CSV and page know a GPU by its index."""
    return gpu.index if INDEX.takes(gpu.index) else None


def _slice_key(mig: MigDevice) -> int | None:
    return mig.index if INDEX.takes(mig.index) else None


def _process_key(process: Process) -> tuple[int, str | None] | None:
    """A process may be listed once for each of its types."""
    return (process.pid, process.type) if PID.takes(process.pid) else None


def _disk_key(disk: Disk) -> str | None:
    return disk.mount or None


def _fault_key(fault: Fault) -> str | None:
    """Events and cells know a fault by its rule, which has the form of ours."""
    return fault.rule if _RULE.fullmatch(fault.rule) else None


def _short(value: float) -> str:
    try:
        return f"{float(value):.6g}"
    except OverflowError:
        return "with over 308 digits"
