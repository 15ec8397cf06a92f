"""What one Slurm reports of its cluster, as frozen records. Of a single GPU or host: readings.py."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from datetime import datetime

from gpumon_static.model.facts import BaseRecord, Range, fact


@dataclass(frozen=True, slots=True)
class SlurmNode(BaseRecord):
    """A node with GPUs, as `scontrol show node` prints it."""

    name: str
    host_name: str | None = fact(None, longest=255)
    state: str | None = fact(None, longest=96)
    reason: str | None = fact(None, longest=200)
    takes_jobs: bool | None = None
    kind: str | None = fact(None, longest=48)
    """As in `NodeState`."""
    gpus_used: int | None = fact(None, within=Range(0, 1024, "GPUs in use"))
    used: tuple[int, ...] | None = None
    """Slurm's numbers of the GPUs that jobs have; None where it does not report them."""
    is_shared: bool = False
    """Parts of GPUs (shards, MPS) are in use: which GPUs these are of is not known."""


@dataclass(frozen=True, slots=True)
class JobGpus(BaseRecord):
    """The GPUs of a job on one node."""

    node: str
    count: int
    """Whole ones: none where it has parts only."""
    indexes: tuple[int, ...] = ()
    """Slurm's numbers; empty where it does not report them."""
    parts: tuple[int, ...] = ()
    """Slurm's numbers of GPUs of which it has parts (shards, MPS) that other jobs may share."""


@dataclass(frozen=True, slots=True)
class SlurmJob(BaseRecord):
    """A job that holds GPUs."""

    id: str
    user: str | None = fact(None, longest=64)
    name: str | None = fact(None, longest=96)
    started_at: datetime | None = None
    ends_at: datetime | None = None
    gpus: tuple[JobGpus, ...] = ()
    partition: str | None = fact(None, longest=64)
    account: str | None = fact(None, longest=64)


@dataclass(frozen=True, slots=True)
class Waiting(BaseRecord):
    """Jobs that wait for GPUs of one kind."""

    kind: str | None = fact(MISSING, "Slurm's name of the GPUs; null: any", longest=48)
    gpus: int = fact(MISSING, "GPUs that are waited for")
    jobs: int = fact(MISSING, "jobs that wait")
    oldest_at: datetime | None = fact(None, "when the oldest of them was submitted, UTC")


@dataclass(frozen=True, slots=True)
class SlurmAnswer(BaseRecord):
    """What one Slurm reports of its whole cluster."""

    version: str | None = fact(None, longest=48)
    nodes: tuple[SlurmNode, ...] = ()
    """Those with GPUs."""
    jobs: tuple[SlurmJob, ...] = ()
    waiting: tuple[Waiting, ...] = ()
