"""What a reading may hold: the range of each number, the length of each text, the size of each list.

Ranges and lengths are declared with the fields, in model/readings.py.
gate.py applies these tables to what hosts send, and store/ to what older files and databases hold.
"""

from __future__ import annotations

from datetime import UTC, datetime

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
from gpumon_static.model.facts import Range, declared

RECORDS: tuple[type, ...] = (
    HostReading, Machine, Disk, Gpu, MigDevice, Process, Fault, Allocation, NodeState,
    SlurmAnswer, SlurmNode, SlurmJob, JobGpus, Waiting,
)  # fmt: skip

# A number that cannot be unknown identifies its record, and is looked at with its list.
NUMBERS: dict[type, dict[str, Range]] = {
    record: {f.name: f.fact.within for f in declared(record) if f.fact.within and f.can_be_unknown}
    for record in RECORDS
}
TEXTS: dict[type, dict[str, int]] = {
    record: {f.name: f.fact.longest for f in declared(record) if f.fact.longest} for record in RECORDS
}
TIMES: dict[type, tuple[str, ...]] = {
    record: tuple(f.name for f in declared(record) if f.type == "datetime" and f.can_be_unknown)
    for record in RECORDS
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
