"""What a host reported, as frozen records. Imports nothing of ours.

`None` always means "not known": the host reported `N/A`, or the value was missing. It never means zero.
Texts are single lines without control characters and never empty, and numbers are in the range of their unit:
collect/gate.py ensures that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum


class Status(StrEnum):
    OK = "ok"
    DNS = "dns"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    HOST_KEY = "host-key"
    AUTH = "auth"
    NO_SHELL = "no-shell"
    NO_NVIDIA_SMI = "no-nvidia-smi"
    NO_GPU_TOOL = "no-gpu-tool"
    DRIVER = "driver"
    NO_GPUS = "no-gpus"
    BAD_OUTPUT = "bad-output"
    ERROR = "error"


STATUS_MEANINGS = {
    Status.OK: "the host was read",
    Status.DNS: "its name was not found",
    Status.UNREACHABLE: "there is no route to it",
    Status.REFUSED: "no sshd listens at its port, or it closed the connection before the login",
    Status.TIMEOUT: "no answer in time: connection, login, nvidia-smi, or the deadline of the whole run",
    Status.HOST_KEY: "its host key is unknown or has changed",
    Status.AUTH: "the login was refused",
    Status.NO_SHELL: "it answers, but has no POSIX shell: Windows, or a device",
    Status.NO_NVIDIA_SMI: "it has no nvidia-smi",
    Status.NO_GPU_TOOL: "it has neither nvidia-smi nor a GPU of another vendor with its compute driver",
    Status.DRIVER: "nvidia-smi cannot talk to the driver, or the driver's files cannot be read",
    Status.NO_GPUS: "nvidia-smi, or the compute driver, lists no GPU",
    Status.BAD_OUTPUT: "the answer was cut off, too long, or not what the probe and nvidia-smi print",
    Status.ERROR: "anything else; the `error` line explains it",
}


class _Record:
    """Base of the records that worker processes send. A dataclass with slots pickles ten times slower."""

    __slots__: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[type[_Record], tuple[object, ...]]:
        return type(self), tuple([getattr(self, name) for name in self.__slots__])


GONE = "gone"
"""`Process.state` of a PID that nvidia-smi lists and ps does not."""


@dataclass(frozen=True, slots=True)
class Fault(_Record):
    """Something that is wrong with a GPU: the name of a rule in rules.py, and what was seen."""

    rule: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Process(_Record):
    pid: int
    type: str | None = None
    """nvidia-smi's letters: C compute, G graphics, C+G, M and M+C for MPS."""
    name: str | None = None
    memory_mib: float | None = None
    user: str | None = None
    uid: int | None = None
    elapsed_s: int | None = None
    state: str | None = None
    """The state letters of ps, or `GONE`."""
    job: str | None = None
    """What started it: `slurm:12345`, `docker:3f2a...`, `podman:...`, `pod:...`."""
    command_line: str | None = None
    """Only where the config asks for it."""
    compute_units: int | None = None
    """Of the GPU, in use by it at this moment, where the driver counts them."""

    @property
    def is_graphics_only(self) -> bool:
        return self.type == "G"


@dataclass(frozen=True, slots=True)
class MigDevice(_Record):
    """One slice of a GPU in MIG mode."""

    index: int
    gpu_instance: int | None = None
    compute_instance: int | None = None
    uuid: str | None = None
    profile: str | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    processes: tuple[Process, ...] = ()


class Allocated(StrEnum):
    """Whether Slurm has given a GPU to a job. UNKNOWN: Slurm manages the host, and does not report it."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Allocation(_Record):
    """What Slurm reports of a GPU; all None where no Slurm manages its host."""

    allocated: Allocated | None = None
    job: str | None = None
    """Its id, without the step: `12345`."""
    job_name: str | None = None
    """Only where the config asks for it."""
    user: str | None = None
    started_at: datetime | None = None
    ends_at: datetime | None = None
    """At the latest, from its time limit."""
    partition: str | None = None
    account: str | None = None


NOT_ALLOCATED = Allocation()


@dataclass(frozen=True, slots=True)
class Gpu(_Record):
    index: int
    uuid: str | None = None
    name: str | None = None
    bus_id: str | None = None
    utilization: float | None = None
    """Percent of the time in which a kernel ran."""
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    temperature_c: float | None = None
    fan_percent: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    mig_mode: bool = False
    slices: tuple[MigDevice, ...] = ()
    processes: tuple[Process, ...] = ()
    """Those of the whole GPU; the ones in a slice are in `slices`."""
    processes_known: bool = True
    """False where nvidia-smi gives no list (`N/A`), which is not the same as an empty one."""
    faults: tuple[Fault, ...] = ()
    vendor: str = "nvidia"
    """A name of bounds/vendors.py. Files of release 0.1.0 have none."""
    device: str | None = None
    """The vendor's own number of it, where that is not `index`; of a card in partitions, `0,1,2,3`."""
    memory_shared: bool = False
    """Its memory is the CPU's RAM: what is in use of it is the whole host's."""
    utilization_sticks: bool = False
    """Its utilization may stay at 100 % while a process that does nothing holds it."""
    allocation: Allocation = NOT_ALLOCATED
    temperature_limit_c: float | None = None
    """Where it slows down."""

    @property
    def all_processes(self) -> tuple[Process, ...]:
        if not self.slices:
            return self.processes
        return self.processes + tuple(p for s in self.slices for p in s.processes)

    def with_processes(self, change: Callable[[Process], Process]) -> Gpu:
        """The same GPU, with each process of it and of its slices changed."""
        if not self.processes and not self.slices:
            return self
        return replace(
            self,
            processes=tuple(map(change, self.processes)),
            slices=tuple(replace(s, processes=tuple(map(change, s.processes))) for s in self.slices),
        )


@dataclass(frozen=True, slots=True)
class Disk(_Record):
    mount: str
    used_mib: float | None = None
    total_mib: float | None = None
    spins: bool | None = None


@dataclass(frozen=True, slots=True)
class Machine(_Record):
    """The host around the GPUs: CPU, RAM, disks."""

    cpu_count: int | None = None
    load_1m: float | None = None
    load_5m: float | None = None
    load_15m: float | None = None
    ram_total_mib: float | None = None
    ram_used_mib: float | None = None
    cpu_utilization: float | None = None
    """Percent of all cores, while the host was asked."""
    swap_total_mib: float | None = None
    swap_used_mib: float | None = None
    uptime_s: int | None = None
    disks: tuple[Disk, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeState(_Record):
    """What Slurm reports of a host; all None where no Slurm manages it."""

    node: str | None = None
    """Slurm's name of the host."""
    state: str | None = None
    """`IDLE+DRAIN`, as Slurm writes it."""
    reason: str | None = None
    takes_jobs: bool | None = None
    kind: str | None = None
    """Slurm's name of its GPUs, where all are of one kind."""


NO_NODE = NodeState()


@dataclass(frozen=True, slots=True)
class SlurmNode(_Record):
    """A node with GPUs, as `scontrol show node` prints it."""

    name: str
    host_name: str | None = None
    state: str | None = None
    reason: str | None = None
    takes_jobs: bool | None = None
    kind: str | None = None
    """As in `NodeState`."""
    gpus_used: int | None = None
    used: tuple[int, ...] | None = None
    """Slurm's numbers of the GPUs that jobs have; None where it does not report them."""
    is_shared: bool = False
    """Parts of GPUs (shards, MPS) are in use: which GPUs these are of is not known."""


@dataclass(frozen=True, slots=True)
class JobGpus(_Record):
    """The GPUs of a job on one node."""

    node: str
    count: int
    """Whole ones: none where it has parts only."""
    indexes: tuple[int, ...] = ()
    """Slurm's numbers; empty where it does not report them."""
    parts: tuple[int, ...] = ()
    """Slurm's numbers of GPUs of which it has parts (shards, MPS) that other jobs may share."""


@dataclass(frozen=True, slots=True)
class SlurmJob(_Record):
    """A job that holds GPUs."""

    id: str
    user: str | None = None
    name: str | None = None
    started_at: datetime | None = None
    ends_at: datetime | None = None
    gpus: tuple[JobGpus, ...] = ()
    partition: str | None = None
    account: str | None = None


@dataclass(frozen=True, slots=True)
class Waiting(_Record):
    """Jobs that wait for GPUs of one kind."""

    kind: str | None
    """Slurm's name of it; None for any."""
    gpus: int
    jobs: int
    oldest_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SlurmAnswer(_Record):
    """What one Slurm reports of its whole cluster."""

    version: str | None = None
    nodes: tuple[SlurmNode, ...] = ()
    """Those with GPUs."""
    jobs: tuple[SlurmJob, ...] = ()
    waiting: tuple[Waiting, ...] = ()


@dataclass(frozen=True, slots=True)
class HostReading(_Record):
    """Exactly one per configured host and run, whether it answered or not."""

    host: str
    fetched_at: datetime
    status: Status = Status.OK
    error: str | None = None
    fetch_seconds: float | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    gpus: tuple[Gpu, ...] = ()
    machine: Machine = field(default_factory=Machine)
    warning: str | None = None
    """What nvidia-smi printed beside good data, such as a corrupt infoROM."""
    note: str | None = None
    """How the reading was made, where that is unusual, and what the gate left out of it. Not a fault."""
    node: NodeState = NO_NODE
    slurm: SlurmAnswer | None = None
    """Only of a host that was asked for its Slurm, and for nothing else."""
    probe_version: int | None = None
    """Of the script that ran there, which may be an installed one."""
    clock_offset_s: int | None = None
    """Its clock less ours when its answer was there: positive is ahead."""

    @property
    def ok(self) -> bool:
        return self.status is Status.OK

    def with_processes(self, change: Callable[[Process], Process]) -> HostReading:
        return replace(self, gpus=tuple(gpu.with_processes(change) for gpu in self.gpus))
