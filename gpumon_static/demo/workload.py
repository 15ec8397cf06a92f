"""Host and time to the reading it would give: pure, and fast enough to make up a month of history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from math import sin, sqrt
from typing import Any, NamedTuple

from gpumon_static.demo.jobs import DemoJob, Habit, Lane, Slot, daylight, running, utilization
from gpumon_static.demo.lab import SLURM_GROUPS, DemoGpu, DemoHost, DemoSlice
from gpumon_static.demo.slurm import with_slurm
from gpumon_static.model import GONE, Disk, Gpu, HostReading, Machine, MigDevice, Process, Status

DRIVER_FAILURE = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    " Make sure that the latest NVIDIA driver is installed and running."
)
_PROCESSES_PER_GPU = 8
_MOST_SLOTS = 128
_DRIVER_MIB = 4.0
IDLE_MHZ, PCIE_GENERATION, PCIE_LANES = 210, 4, 16
VBIOS = "92.00.25.00.08"
CPU_TICKS = 25
"""Of each core, between two readings of /proc/stat: a quarter of a second."""


class _Share(NamedTuple):
    """What one job does on one GPU or slice."""

    process: Process
    load: float


_Shares = dict[tuple[int, int | None], list[_Share]]


def reading(host: DemoHost, at: datetime) -> HostReading:
    """As a fetch at that time would give it, but for `fetch_seconds` and its words for a failure."""
    if host.fate is Status.OK:
        return healthy_reading(host, at)
    reason = DRIVER_FAILURE if host.fate is Status.DRIVER else "connection refused: no sshd listens there"
    return with_slurm(HostReading(host.name, at, host.fate, reason), host, int(at.timestamp()))


def healthy_reading(host: DemoHost, at: datetime) -> HostReading:
    """The same, as if the host had not failed."""
    seconds = int(at.timestamp())
    shares = _shares(host, seconds)
    reading = HostReading(
        host=host.name,
        fetched_at=at,
        driver_version=host.driver,
        cuda_version=host.cuda,
        gpus=tuple(_gpu(gpu, shares, seconds) for gpu in host.gpus),
        machine=_machine(host, shares, seconds),
    )
    return with_slurm(reading, host, seconds)


def _shares(host: DemoHost, at: int) -> _Shares:
    shares: _Shares = defaultdict(list)
    for lane in host.lanes:
        if lane.habit is Habit.DESKTOP:
            for place in lane.places:
                shares[place.gpu, place.slice] += _desktop(place, at)
        for job in running(lane, at):
            for rank, place in enumerate(job.places):
                mine = shares[place.gpu, place.slice]
                total = _total_mib(host.gpus[place.gpu], place.slice)
                slot = place.gpu * _PROCESSES_PER_GPU + 2 * (place.slice or 0) + len(mine)
                mine.append(_share(job, lane, total, rank, slot, at))
    return shares


def _share(job: DemoJob, lane: Lane, total_mib: int, rank: int, slot: int, at: int) -> _Share:
    load = utilization(job, at, rank)
    # The slot is different for each process of a host at any time, and so is the PID.
    pid = 2000 + job.number * _MOST_SLOTS + slot
    memory_mib = float(int(job.memory * total_mib * (1 - 0.02 * (rank % 3))))
    if lane.habit is Habit.GONE:
        return _Share(Process(pid, "C", job.program.name, memory_mib, state=GONE), 0.0)
    process = Process(
        pid=pid,
        type="C",
        name=job.program.name,
        memory_mib=memory_mib,
        user=job.person.login,
        uid=job.person.uid,
        elapsed_s=at - job.start,
        state="Rl" if load >= 1 else "Sl",
        job=f"slurm:{job.slurm_id}" if lane.group in SLURM_GROUPS else None,
    )
    return _Share(process, load)


def _desktop(place: Slot, at: int) -> list[_Share]:
    up = at % (19 * 24 * 3600) + 600
    xorg_mib = 180.0 + round(60 * daylight(at))
    slot = place.gpu * _PROCESSES_PER_GPU
    return [
        _Share(Process(1500 + slot, "G", "Xorg", xorg_mib, "root", 0, up, "Ssl+"), 1 + daylight(at)),
        _Share(Process(1501 + slot, "G", "gnome-shell", 62.0, "lucas", 1031, up - 300, "Sl"), 1.0),
    ]


def _gpu(gpu: DemoGpu, shares: _Shares, at: int) -> Gpu:
    slices = tuple(_slice(number, s, shares[gpu.index, number]) for number, s in enumerate(gpu.slices))
    whole = shares[gpu.index, None]
    load = _load(gpu, shares)
    is_used = bool(whole or any(s.processes for s in slices))
    power = _power(gpu, load, is_used, at)
    temperature = _temperature(gpu, power)
    used = _DRIVER_MIB + _memory(whole) + sum(s.memory_used_mib or 0 for s in slices)
    return Gpu(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.model.name,
        bus_id=gpu.bus_id,
        utilization=None if slices else float(round(load)),
        memory_used_mib=used,
        memory_total_mib=float(gpu.model.memory_mib),
        temperature_c=temperature,
        temperature_limit_c=float(gpu.model.slow_c),
        fan_percent=_fan(temperature) if gpu.model.has_fan else None,
        power_w=power,
        power_limit_w=float(gpu.model.limit_w),
        mig_mode=bool(slices),
        slices=slices,
        processes=tuple(share.process for share in whole),
        faults=gpu.faults,
        vendor=gpu.model.vendor,
        **_board(gpu, is_used=is_used),
    )


def _board(gpu: DemoGpu, *, is_used: bool) -> dict[str, Any]:
    """What the vendor's tool, or its driver, reports of the board."""
    model = gpu.model
    by_tool = {
        "performance_state": "P8" if not is_used else "P2" if model.has_fan else "P0",
        "clock_sm_max_mhz": float(model.clock_mhz),
    }
    return ({} if model.pci_id else by_tool) | {
        "clock_sm_mhz": float(model.clock_mhz if is_used else IDLE_MHZ),
        "pcie_generation": PCIE_GENERATION if is_used else 1,
        "pcie_generation_max": PCIE_GENERATION,
        "pcie_width": PCIE_LANES,
        "pcie_width_max": PCIE_LANES,
        "vbios": VBIOS,
        "serial": None if model.has_fan else f"165{int(gpu.uuid[4:12], 16):010}",
    }


def _slice(number: int, demo: DemoSlice, shares: list[_Share]) -> MigDevice:
    return MigDevice(
        index=number,
        gpu_instance=demo.gpu_instance,
        compute_instance=0,
        uuid=demo.uuid,
        profile=demo.profile.name,
        memory_used_mib=12 + _memory(shares),
        memory_total_mib=float(demo.profile.memory_mib),
        processes=tuple(share.process for share in shares),
    )


def _total_mib(gpu: DemoGpu, number: int | None) -> int:
    return gpu.model.memory_mib if number is None else gpu.slices[number].profile.memory_mib


def _memory(shares: Iterable[_Share]) -> float:
    return sum(share.process.memory_mib or 0 for share in shares)


def _load(gpu: DemoGpu, shares: _Shares) -> float:
    """Percent of the whole GPU; each slice counts by its part of the memory."""
    load = sum(share.load for share in shares[gpu.index, None])
    for number, mig in enumerate(gpu.slices):
        part = mig.profile.memory_mib / gpu.model.memory_mib
        load += part * sum(share.load for share in shares[gpu.index, number])
    return min(100.0, load)


def _power(gpu: DemoGpu, load: float, is_taken: bool, at: int) -> float:
    model = gpu.model
    idle = model.idle_w * (1.35 if is_taken else 1) * (1 + 0.03 * sin(at / 400 + gpu.index))
    return round(min(model.limit_w * 0.995, idle + (model.limit_w - idle) * 0.93 * load / 100), 2)


def _temperature(gpu: DemoGpu, power_w: float) -> float:
    # In a full chassis the ones in the middle are the warmest.
    warmer = (0, 2, 3, 1)[gpu.index % 4]
    span = gpu.model.full_c - gpu.model.idle_c
    return float(round(gpu.model.idle_c + warmer + span * sqrt(power_w / gpu.model.limit_w)))


def _fan(temperature_c: float) -> float:
    return float(min(100, max(30, round(30 + 1.7 * (temperature_c - 50)))))


def _machine(host: DemoHost, shares: _Shares, at: int) -> Machine:
    everything = [share for some in shares.values() for share in some]
    work = sum(share.load for share in everything) / 100
    load = min(host.cpus * 0.9, 0.3 + 3.2 * work)
    total_mib = host.ram_gib * 1024.0
    used_gib = 6 + host.ram_gib * min(0.8, 0.05 * work + 0.02 * len(everything))
    ticks = CPU_TICKS * host.cpus
    return Machine(
        cpu_count=host.cpus,
        load_1m=round(load * (1 + 0.1 * sin(at / 60)), 2),
        load_5m=round(load * (1 + 0.05 * sin(at / 300)), 2),
        load_15m=round(load, 2),
        ram_total_mib=total_mib,
        ram_used_mib=float(round(used_gib * 1024)),
        cpu_utilization=round(100 * busy_ticks(host.cpus, load) / ticks, 1),
        swap_total_mib=8192.0,
        swap_used_mib=0.0,
        uptime_s=at % (83 * 24 * 3600) + 7000,
        disks=_disks(host, at),
    )


def busy_ticks(cpus: int, load: float) -> int:
    return round(CPU_TICKS * min(cpus, load))


def _disks(host: DemoHost, at: int) -> tuple[Disk, ...]:
    """The second one fills up over a month, until it is cleaned up."""
    month = 30 * 86400
    filled = 0.55 + 0.42 * ((at + 86400 * len(host.name) * host.cpus) % month) / month
    size_mib = host.ram_gib * 8 * 1024
    return (
        Disk("/", 61234.0, 467850.0, False),
        Disk("/data", float(int(size_mib * filled)), float(size_mib), True),
    )
