"""What is known of hosts and GPUs, as records: readings.py, slurm.py, declared field by field with facts.py.

states.py has the states of a GPU, rules.py the faults with their words. Goes out: records that
every room takes. Nothing here reads, decides or prints, and nothing imports a room.
"""

from gpumon_static.model.readings import (
    GONE,
    MIB,
    NO_NODE,
    NOT_ALLOCATED,
    STATUS_MEANINGS,
    Allocated,
    Allocation,
    Disk,
    Fault,
    Gpu,
    HostReading,
    Machine,
    MigDevice,
    NodeState,
    Process,
    Status,
)
from gpumon_static.model.slurm import JobGpus, SlurmAnswer, SlurmJob, SlurmNode, Waiting

__all__ = [
    "GONE",
    "MIB",
    "NOT_ALLOCATED",
    "NO_NODE",
    "STATUS_MEANINGS",
    "Allocated",
    "Allocation",
    "Disk",
    "Fault",
    "Gpu",
    "HostReading",
    "JobGpus",
    "Machine",
    "MigDevice",
    "NodeState",
    "Process",
    "SlurmAnswer",
    "SlurmJob",
    "SlurmNode",
    "Status",
    "Waiting",
]
