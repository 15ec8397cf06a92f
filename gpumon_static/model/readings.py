"""What a host reported, as frozen records. facts.py has how their fields are declared.

`None` always means "not known": the host reported `N/A`, or the value was missing. It never means zero.
Texts are single lines without control characters and never empty, and numbers are in the range of their unit:
collect/gate.py ensures that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from gpumon_static.model.facts import (
    CENTURY_S,
    CLOCK,
    DISK,
    INDEX,
    LANES,
    LOAD,
    MEMORY,
    PCIE,
    PERCENT,
    PID,
    POWER,
    RAM,
    SWAP,
    TEMPERATURE,
    BaseRecord,
    Range,
    fact,
)
from gpumon_static.model.slurm import SlurmAnswer

MIB = 2**20
"""Bytes."""


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


GONE = "gone"
"""`Process.state` of a PID that nvidia-smi lists and ps does not."""


@dataclass(frozen=True, slots=True)
class Fault(BaseRecord):
    """Something that is wrong with a GPU: the name of a rule in rules.py, and what was seen."""

    rule: str = fact(MISSING, "name of the health rule")
    detail: str | None = fact(None, "what was seen", longest=120, only_names=True)


@dataclass(frozen=True, slots=True)
class Process(BaseRecord):
    pid: int = fact(MISSING, "process id", PID, csv=("pid", 19))
    type: str | None = fact(
        None,
        "letters of nvidia-smi: `C` compute, `G` graphics, `C+G` both, `M` and `M+C` MPS",
        longest=8,
        csv=("process_type", 20),
    )
    name: str | None = fact(
        None, "name of the program, without directory and arguments", longest=200, csv=("process_name", 21)
    )
    memory_mib: float | None = fact(None, "GPU memory of the process", MEMORY, csv=("process_memory_mib", 22))
    user: str | None = fact(
        None, "login of the owner, or what the page shows for it", longest=64, csv=("user", 23)
    )
    uid: int | None = fact(
        None, "numeric user id of the owner", Range(0, 2**32 - 1, "uid"), csv=("uid", 26), only_names=True
    )
    elapsed_s: int | None = fact(
        None, "time since the process started", Range(0, CENTURY_S, "run time", "s"), csv=("elapsed_s", 24)
    )
    state: str | None = fact(
        None,
        "state letters of ps, or `gone` for a process that has ended",
        longest=16,
        csv=("process_state", 27),
    )
    job: str | None = fact(
        None,
        "what started it: `slurm:8841`, `docker:3f2a90c3e7d5`, `podman:...`, `pod:...`",
        longest=96,
        csv=("job", 25),
        only_names=True,
    )
    command_line: str | None = fact(
        None,
        "with arguments; only with `fetch.command_lines`",
        longest=200,
        csv=("command_line", 45),
        in_json=False,
        only_names=True,
    )
    compute_units: int | None = fact(
        None,
        "compute units that it uses at this moment, where they are counted",
        Range(0, 1_000_000, "compute units"),
        csv=("compute_units", 56),
        in_json=False,
    )

    @property
    def is_graphics_only(self) -> bool:
        return self.type == "G"


@dataclass(frozen=True, slots=True)
class MigDevice(BaseRecord):
    """One slice of a GPU in MIG mode."""

    index: int = fact(MISSING, "index of the slice on its GPU", INDEX, csv=("mig_device", 18))
    gpu_instance: int | None = fact(
        None, "its GPU instance", Range(0, 1023, "GPU instance"), csv=("mig_gpu_instance", 33)
    )
    compute_instance: int | None = fact(
        None, "its compute instance", Range(0, 1023, "compute instance"), csv=("mig_compute_instance", 34)
    )
    uuid: str | None = fact(
        None, "UUID of the slice, which `CUDA_VISIBLE_DEVICES` takes", longest=96, csv=("mig_uuid", 31)
    )
    profile: str | None = fact(
        None, "profile of the slice, e.g. `3g.40gb`", longest=48, csv=("mig_profile", 32)
    )
    memory_used_mib: float | None = fact(
        None,
        "memory in use of the MIG slice",
        MEMORY,
        csv=("mig_memory_used_mib", 35),
        gauge=("gpumon_slice_memory_used_bytes", MIB),
    )
    memory_total_mib: float | None = fact(
        None,
        "memory of the MIG slice",
        MEMORY,
        csv=("mig_memory_total_mib", 36),
        gauge=("gpumon_slice_memory_total_bytes", MIB),
    )
    processes: tuple[Process, ...] = ()


class Allocated(StrEnum):
    """Whether Slurm has given a GPU to a job. UNKNOWN: Slurm manages the host, and does not report it."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Allocation(BaseRecord):
    """What Slurm reports of a GPU; all None where no Slurm manages its host."""

    allocated: Allocated | None = fact(
        None,
        "whether a job has the GPU: `yes`, `no`, `unknown`; empty: no Slurm",
        csv=("slurm_allocated", 62),
    )
    job: str | None = fact(
        None, "id of that job, without the step", longest=24, csv=("slurm_job", 63), only_names=True
    )
    job_name: str | None = fact(
        None, "its name; only with `slurm.job_names`", longest=96, csv=("slurm_job_name", 64), only_names=True
    )
    user: str | None = fact(
        None, "login of its owner, or what the page shows for it", longest=64, csv=("slurm_user", 65)
    )
    started_at: datetime | None = fact(None, "when it started; UTC, ISO 8601", csv=("slurm_started_at", 66))
    ends_at: datetime | None = fact(
        None, "when it ends at the latest, by its time limit; UTC", csv=("slurm_ends_at", 67)
    )
    partition: str | None = fact(
        None, "its partition", longest=64, csv=("slurm_partition", 71), only_names=True
    )
    account: str | None = fact(None, "its account", longest=64, csv=("slurm_account", 72), only_names=True)


NOT_ALLOCATED = Allocation()


@dataclass(frozen=True, slots=True)
class Gpu(BaseRecord):
    index: int = fact(
        MISSING,
        "index of nvidia-smi, CUDA's with `CUDA_DEVICE_ORDER=PCI_BUS_ID`; GPUs of other vendors are counted"
        " on from there",
        INDEX,
        csv=("gpu_index", 8),
    )
    uuid: str | None = fact(None, "UUID of the GPU", longest=96, csv=("gpu_uuid", 9))
    name: str | None = fact(None, "full name of the GPU", longest=96, csv=("gpu_name", 10))
    bus_id: str | None = fact(None, "PCI bus id", longest=48, csv=("gpu_bus_id", 28))
    utilization: float | None = fact(
        None,
        "share of the time in which a kernel ran",
        PERCENT,
        csv=("gpu_utilization", 11),
        gauge=("gpumon_gpu_utilization_ratio", 0.01),
    )
    memory_used_mib: float | None = fact(
        None,
        "GPU memory in use",
        MEMORY,
        csv=("gpu_memory_used_mib", 12),
        gauge=("gpumon_gpu_memory_used_bytes", MIB),
    )
    memory_total_mib: float | None = fact(
        None,
        "GPU memory",
        MEMORY,
        csv=("gpu_memory_total_mib", 13),
        gauge=("gpumon_gpu_memory_total_bytes", MIB),
    )
    temperature_c: float | None = fact(
        None,
        "temperature of the GPU",
        TEMPERATURE,
        csv=("gpu_temperature_c", 14),
        gauge=("gpumon_gpu_temperature_celsius", 1),
    )
    # NVML: "may exceed 100% in certain cases".
    fan_percent: float | None = fact(
        None,
        "fan speed, of its maximum",
        Range(0, 200, "fan", "%"),
        csv=("gpu_fan_percent", 15),
        gauge=("gpumon_gpu_fan_speed_ratio", 0.01),
    )
    power_w: float | None = fact(
        None, "power draw", POWER, csv=("gpu_power_w", 16), gauge=("gpumon_gpu_power_watts", 1)
    )
    power_limit_w: float | None = fact(
        None, "power limit", POWER, csv=("gpu_power_limit_w", 17), gauge=("gpumon_gpu_power_limit_watts", 1)
    )
    mig_mode: bool = fact(False, "whether MIG is on", csv=("gpu_mig_mode", 29))
    slices: tuple[MigDevice, ...] = ()
    processes: tuple[Process, ...] = ()
    """Those of the whole GPU; the ones in a slice are in `slices`."""
    processes_known: bool = fact(
        True,
        "whether the driver gives a list of processes, which may be empty",
        csv=("gpu_processes_known", 30),
        in_json=False,
    )
    faults: tuple[Fault, ...] = fact(
        (), "`rule: what was seen; rule: ...`; a `;` inside is `\\;`", csv=("gpu_faults", 44)
    )
    vendor: str = fact("nvidia", "`nvidia` or `amd`", longest=16, csv=("gpu_vendor", 52))
    """A name of bounds/vendors.py. Files of release 0.1.0 have none."""
    device: str | None = fact(
        None,
        "what `HIP_VISIBLE_DEVICES` takes, where that is not the index; of a card in partitions, `0,1,2,3`",
        longest=300,
        csv=("gpu_device", 53),
        in_json=False,
    )
    memory_shared: bool = fact(
        False,
        "whether its memory is the CPU's RAM: what is in use of it is the whole host's",
        csv=("gpu_memory_shared", 54),
    )
    utilization_sticks: bool = fact(
        False,
        "whether its utilization may stay at 100 % while a process that does nothing holds it",
        csv=("gpu_utilization_sticks", 55),
        in_json=False,
    )
    allocation: Allocation = NOT_ALLOCATED
    temperature_limit_c: float | None = fact(
        None, "temperature at which it slows down", TEMPERATURE, csv=("gpu_temperature_limit_c", 68)
    )
    clock_sm_mhz: float | None = fact(None, "clock of its processors", CLOCK, csv=("gpu_clock_sm_mhz", 73))
    performance_state: str | None = fact(
        None,
        "NVIDIA's performance state, from `P0`, the fastest, to `P15`",
        longest=8,
        csv=("gpu_performance_state", 74),
    )
    pcie_generation: int | None = fact(
        None,
        "generation of PCIe that its link has now; at rest it may be lower",
        PCIE,
        csv=("gpu_pcie_generation", 75),
    )
    pcie_generation_max: int | None = fact(
        None, "generation that card and host are capable of", PCIE, csv=("gpu_pcie_generation_max", 76)
    )
    serial: str | None = fact(
        None, "serial number of the board", longest=48, csv=("gpu_serial", 77), only_names=True
    )
    clock_sm_max_mhz: float | None = fact(
        None, "highest clock of its processors", CLOCK, csv=("gpu_clock_sm_max_mhz", 78)
    )
    pcie_width: int | None = fact(
        None, "lanes of PCIe that its link has now", LANES, csv=("gpu_pcie_width", 79)
    )
    pcie_width_max: int | None = fact(
        None, "lanes that card and host are capable of", LANES, csv=("gpu_pcie_width_max", 80)
    )
    vbios: str | None = fact(None, "version of its VBIOS", longest=32, csv=("gpu_vbios", 81))

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
class Disk(BaseRecord):
    mount: str = fact(MISSING, "mount point", longest=64)
    used_mib: float | None = fact(
        None, "disk space in use", DISK, gauge=("gpumon_host_filesystem_used_bytes", MIB)
    )
    total_mib: float | None = fact(None, "disk space", DISK, gauge=("gpumon_host_filesystem_size_bytes", MIB))
    spins: bool | None = fact(None, "whether it is a hard disk")


@dataclass(frozen=True, slots=True)
class Machine(BaseRecord):
    """The host around the GPUs: CPU, RAM, disks."""

    cpu_count: int | None = fact(
        None,
        "CPUs of the host",
        Range(1, 65_536, "CPU count"),
        csv=("cpu_count", 38),
        gauge=("gpumon_host_cpus", 1),
    )
    load_1m: float | None = fact(
        None,
        "load average over 1 minute",
        LOAD,
        csv=("load_1m", 39),
        gauge=("gpumon_host_load1", 1),
        decimals=1,
    )
    load_5m: float | None = fact(
        None,
        "load average over 5 minutes",
        LOAD,
        csv=("load_5m", 40),
        gauge=("gpumon_host_load5", 1),
        decimals=1,
    )
    load_15m: float | None = fact(
        None,
        "load average over 15 minutes",
        LOAD,
        csv=("load_15m", 41),
        gauge=("gpumon_host_load15", 1),
        decimals=1,
    )
    ram_total_mib: float | None = fact(
        None, "RAM of the host", RAM, csv=("ram_total_mib", 43), gauge=("gpumon_host_memory_total_bytes", MIB)
    )
    ram_used_mib: float | None = fact(
        None, "RAM in use", RAM, csv=("ram_used_mib", 42), gauge=("gpumon_host_memory_used_bytes", MIB)
    )
    cpu_utilization: float | None = fact(
        None,
        "CPU time in use, of all CPUs, while the host was read",
        Range(0, 100, "CPU utilization", "%"),
        csv=("cpu_utilization", 46),
        gauge=("gpumon_host_cpu_utilization_ratio", 0.01),
    )
    swap_total_mib: float | None = fact(
        None,
        "swap of the host",
        SWAP,
        csv=("swap_total_mib", 48),
        gauge=("gpumon_host_swap_total_bytes", MIB),
    )
    swap_used_mib: float | None = fact(
        None, "swap in use", SWAP, csv=("swap_used_mib", 47), gauge=("gpumon_host_swap_used_bytes", MIB)
    )
    uptime_s: int | None = fact(
        None,
        "time since the host was booted",
        Range(0, CENTURY_S, "uptime", "s"),
        csv=("uptime_s", 49),
        gauge=("gpumon_host_uptime_seconds", 1),
    )
    disks: tuple[Disk, ...] = fact(
        (),
        "`/ 59799/467850 ssd; /data 7340032/9000000 hdd`: MiB used/total; `-` is not known",
        csv=("disks", 50),
    )


@dataclass(frozen=True, slots=True)
class NodeState(BaseRecord):
    """What Slurm reports of a host; all None where no Slurm manages it."""

    node: str | None = fact(
        None,
        "Slurm's name of the host; empty: no Slurm was asked, or knows it",
        longest=64,
        csv=("slurm_node", 57),
    )
    state: str | None = fact(
        None, "state of the node, as Slurm writes it: `MIXED+DRAIN`", longest=96, csv=("slurm_state", 58)
    )
    reason: str | None = fact(
        None, "Slurm's reason for that state", longest=200, csv=("slurm_reason", 59), only_names=True
    )
    takes_jobs: bool | None = fact(
        None, "whether Slurm starts jobs of everybody there", csv=("slurm_takes_jobs", 60)
    )
    kind: str | None = fact(
        None, "Slurm's name of its GPUs, where all are of one kind", longest=48, csv=("slurm_kind", 61)
    )


NO_NODE = NodeState()


@dataclass(frozen=True, slots=True)
class HostReading(BaseRecord):
    """Exactly one per configured host and run, whether it answered or not."""

    host: str = fact(MISSING, "name, as in the config, without user and port", csv=("host", 2), in_json=False)
    fetched_at: datetime = fact(MISSING, "when the host was read; UTC, ISO 8601", csv=("fetched_at", 1))
    status: Status = fact(Status.OK, "`ok`, or why there is no reading", csv=("status", 3))
    # An error may end in the command that fixes it, with a host key in it.
    error: str | None = fact(None, "one line that explains the status", longest=2000, csv=("error", 4))
    fetch_seconds: float | None = fact(
        None,
        "how long reading the host took",
        Range(0, CENTURY_S, "fetch time", "s"),
        csv=("fetch_seconds", 5),
        gauge=("gpumon_host_fetch_duration_seconds", 1),
        decimals=1,
    )
    driver_version: str | None = fact(None, "version of the driver", longest=48, csv=("driver_version", 6))
    cuda_version: str | None = fact(
        None, "highest CUDA version that the driver supports", longest=48, csv=("cuda_version", 7)
    )
    gpus: tuple[Gpu, ...] = ()
    machine: Machine = field(default_factory=Machine)
    warning: str | None = fact(
        None,
        "warning that nvidia-smi printed beside good data, such as a corrupt infoROM",
        longest=200,
        csv=("warning", 37),
        in_json=False,
    )
    note: str | None = fact(
        None,
        "how the reading was made, e.g. what was out of range and left out",
        longest=300,
        csv=("note", 51),
        in_json=False,
        only_names=True,
    )
    node: NodeState = NO_NODE
    slurm: SlurmAnswer | None = None
    """Only of a host that was asked for its Slurm, and for nothing else."""
    probe_version: int | None = fact(
        None,
        "version of the probe that ran there, which may be an installed one",
        Range(0, 999_999_999, "probe version"),
        csv=("probe_version", 69),
    )
    clock_offset_s: int | None = fact(
        None,
        "how far its clock is ahead of the collector's, below 0 behind it",
        Range(-CENTURY_S, CENTURY_S, "clock", "s"),
        csv=("clock_offset_s", 70),
    )

    @property
    def ok(self) -> bool:
        return self.status is Status.OK

    def with_processes(self, change: Callable[[Process], Process]) -> HostReading:
        return replace(self, gpus=tuple(gpu.with_processes(change) for gpu in self.gpus))
