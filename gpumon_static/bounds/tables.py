"""What a reading may hold: the range of each number, the length of each text, the size of each list.

gate.py applies these tables to what hosts send, and store/ to what older files and databases hold.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

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

N = TypeVar("N", int, float)


class Range(NamedTuple):
    least: float
    most: float
    word: str
    unit: str = ""

    def takes(self, value: float) -> bool:
        """Whether the value is in range; false for NaN and infinity, too."""
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
    HostReading: {
        "fetch_seconds": Range(0, CENTURY_S, "fetch time", "s"),
        "probe_version": Range(0, 999_999_999, "probe version"),
        "clock_offset_s": Range(-CENTURY_S, CENTURY_S, "clock", "s"),
    },
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
        "temperature_limit_c": TEMPERATURE,
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
        "compute_units": Range(0, 1_000_000, "compute units"),
    },
    Fault: {},
    Allocation: {},
    NodeState: {},
    SlurmAnswer: {},
    SlurmNode: {"gpus_used": Range(0, 1024, "GPUs in use")},
    SlurmJob: {},
    JobGpus: {},
    Waiting: {},
}

TEXTS: dict[type, dict[str, int]] = {
    # An error may end in the command that fixes it, with a host key in it.
    HostReading: {"error": 2000, "driver_version": 48, "cuda_version": 48, "warning": 200, "note": 300},
    Machine: {},
    Disk: {"mount": 64},
    Gpu: {"uuid": 96, "name": 96, "bus_id": 48, "vendor": 16, "device": 300},
    MigDevice: {"uuid": 96, "profile": 48},
    Process: {"type": 8, "name": 200, "user": 64, "state": 16, "job": 96, "command_line": 200},
    Fault: {"detail": 120},
    Allocation: {"job": 24, "job_name": 96, "user": 64, "partition": 64, "account": 64},
    NodeState: {"node": 64, "state": 96, "reason": 200, "kind": 48},
    SlurmAnswer: {"version": 48},
    SlurmNode: {"host_name": 255, "state": 96, "reason": 200, "kind": 48},
    SlurmJob: {"user": 64, "name": 96, "partition": 64, "account": 64},
    JobGpus: {},
    Waiting: {"kind": 48},
}
"""Characters. A longer text is cut, and ends in an ellipsis."""

TIMES: dict[type, tuple[str, ...]] = {
    Allocation: ("started_at", "ends_at"),
    SlurmJob: ("started_at", "ends_at"),
    Waiting: ("oldest_at",),
}
"""Times that a host sends. One that is not between these two is not known: no zone moves it out of range."""
FIRST_TIME, LAST_TIME = datetime(1980, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)

# Far above what real hosts have (16 GPUs, 7 slices each, 48 MPS clients per GPU), and still a small page.
MOST_GPUS = 128
MOST_SLICES = 256
MOST_SLICES_PER_GPU = 32
MOST_PROCESSES = 1024
MOST_PROCESSES_PER_GPU = 512
MOST_FAULTS = 24
MOST_DISKS = 16
MOST_NODES = 20_000
MOST_JOBS = 50_000
"""Jobs with GPUs, of one cluster."""
MOST_KINDS = 64
LONGEST_NODE = 64
GPU_COUNT = Range(0, 1024, "GPUs")
WANTED = Range(0, 10_000_000, "GPUs waited for")
