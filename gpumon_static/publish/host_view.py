"""One host of the page: its header, its cards or why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gpumon_static.model import HostReading, Machine, Status
from gpumon_static.publish import health
from gpumon_static.publish.cards import build_cards
from gpumon_static.publish.page import WIDEST, Bar, Fact, HostView, Kind, Meter, Moment, Notice, Room
from gpumon_static.publish.privacy import Tier
from gpumon_static.publish.words import clip, duration, memory_of, moment, percent, share, split_name
from gpumon_static.state import State, gpu_state

if TYPE_CHECKING:
    from gpumon_static.config import BusyConfig, HostConfig
    from gpumon_static.publish.past import PastView

SAME_RUN = timedelta(minutes=5)
"""Readings further apart than this come from different runs, so the older host says its own time."""

REASON_LETTERS = 300
NOTE_LETTERS = 160
FAULT_LETTERS = 160
VERSION_LETTERS = 24
NOTICE_COLUMNS = 2
FULL_PERCENT = 90
SSH_PORT = 22
MOST_DISKS = 6
MOUNT_LETTERS = 24
LEAST_SWAP_MIB = 64
"""Every machine swaps a little."""

_CANNOT_BE_REACHED = {Status.DNS, Status.UNREACHABLE, Status.REFUSED, Status.TIMEOUT}


@dataclass(frozen=True)
class Frame:
    """What is the same for every host of a page."""

    busy: BusyConfig
    tier: Tier
    latest: datetime | None
    stale_after: timedelta
    now: datetime
    ignored: tuple[str, ...] = ()
    usual_drivers: Mapping[str, str] = field(default_factory=dict)
    past: PastView | None = None


def build_host(host: HostConfig, reading: HostReading | None, anchor: str, frame: Frame) -> HostView:
    gpus = reading.gpus if reading and reading.ok else ()
    cards = build_cards(host.name, anchor, gpus, frame.busy, frame.tier)
    past = frame.past
    last_cards = past.last_cards(host.name) if past and reading and not reading.ok else ()
    name, domain = split_name(host.name)
    # A note is free text and may name people.
    note = host.note if frame.tier is Tier.NAMES else None
    return HostView(
        anchor=anchor,
        full_name=host.name,
        name=name,
        domain=domain,
        group=host.group,
        note=clip(note, NOTE_LETTERS) if note else None,
        summary=_summary(reading, frame.busy),
        software=_software(reading, frame.usual_drivers.get(host.name)),
        machine=_machine(reading.machine) if reading else (),
        meters=_meters(reading.machine) if reading else (),
        room=_room(host, reading.machine if reading else Machine()),
        faults=_faults(host, reading, frame.ignored),
        gpu_faults=health.gpu_attention(anchor, name, gpus),
        read_at=_own_time(reading, frame),
        cards=past.dressed(host.name, cards) if past else cards,
        notice=None if cards else _notice(reading, past.down_for(host.name) if past else ""),
        columns=min(len(cards) or len(last_cards), WIDEST) or NOTICE_COLUMNS,
        last_cards=last_cards,
    )


def _summary(reading: HostReading | None, busy: BusyConfig) -> str:
    """Of hosts with several GPUs; the card of a single one says it all."""
    if reading is None or not reading.ok or len(reading.gpus) < 2:
        return ""
    free = sum(gpu_state(gpu, busy) is State.FREE for gpu in reading.gpus)
    return f"{free} of {len(reading.gpus)} free"


def _software(reading: HostReading | None, usual_driver: str | None) -> tuple[str, ...]:
    if reading is None:
        return ()
    driver, cuda = (
        clip(version, VERSION_LETTERS) if version else None
        for version in (reading.driver_version, reading.cuda_version)
    )
    others = f" (others: {clip(usual_driver, VERSION_LETTERS)})" if usual_driver else ""
    return tuple(
        filter(None, (f"driver {driver}{others}" if driver else None, f"CUDA {cuda}" if cuda else None))
    )


def _machine(machine: Machine) -> tuple[Fact, ...]:
    facts = []
    if machine.cpu_count is not None:
        facts.append(Fact("CPUs", str(machine.cpu_count)))
    if machine.load_1m is not None:
        facts.append(Fact("load", f"{machine.load_1m:.1f}"))
    if machine.uptime_s is not None:
        facts.append(Fact("up", duration(machine.uptime_s)))
    return tuple(facts)


def _meters(machine: Machine) -> tuple[Meter, ...]:
    meters = []
    if machine.cpu_utilization is not None:
        busy = machine.cpu_utilization
        meters.append(Meter("CPU", Bar(share(busy, 100), percent(busy))))
    if machine.ram_total_mib is not None:
        meters.append(_memory_meter("RAM", machine.ram_used_mib, machine.ram_total_mib))
    if machine.swap_used_mib and machine.swap_used_mib >= LEAST_SWAP_MIB:
        meters.append(_memory_meter("swap", machine.swap_used_mib, machine.swap_total_mib))
    for disk in machine.disks[:MOST_DISKS]:
        filled = share(disk.used_mib, disk.total_mib)
        label = clip(disk.mount, MOUNT_LETTERS) + (" (HDD)" if disk.spins else "")
        meters.append(Meter(label, Bar(filled, percent(filled)), is_full=(filled or 0) >= FULL_PERCENT))
    return tuple(meters)


def _memory_meter(label: str, used_mib: float | None, total_mib: float | None) -> Meter:
    filled = share(used_mib, total_mib)
    return Meter(label, Bar(filled, memory_of(used_mib, total_mib)), is_full=(filled or 0) >= FULL_PERCENT)


def _room(host: HostConfig, machine: Machine) -> Room:
    load, cpus = machine.load_1m, machine.cpu_count
    used, total = machine.ram_used_mib, machine.ram_total_mib
    return Room(
        ssh_port=host.port if host.port != SSH_PORT else None,
        load_per_cpu=load / cpus if load is not None and cpus else None,
        ram_free_mib=total - used if total is not None and used is not None else None,
        disk_free_percent=min(_free_percents(machine), default=None),
    )


def _free_percents(machine: Machine) -> list[float]:
    filled = (share(disk.used_mib, disk.total_mib) for disk in machine.disks)
    return [100.0 - percent for percent in filled if percent is not None]


def _faults(host: HostConfig, reading: HostReading | None, ignored: tuple[str, ...]) -> tuple[str, ...]:
    if reading is None or not reading.ok:
        return ()
    return tuple(clip(fault, FAULT_LETTERS) for fault in health.host_faults(host, reading, ignored))


def _notice(reading: HostReading | None, failing_for: str = "") -> Notice:
    if reading is None:
        return Notice(Kind.WAITING, "not fetched yet", "", "The next fetch will ask this host.")
    if reading.ok:
        return Notice(Kind.FAILED, "no GPUs", Status.NO_GPUS.value, "The host answered, and listed no GPU.")
    word = "down" if reading.status in _CANNOT_BE_REACHED else "no data"
    word = f"{word} {failing_for}".rstrip()
    reason = clip(reading.error or "No reason was given.", REASON_LETTERS)
    return Notice(Kind.FAILED, word, reading.status.value, reason)


def _own_time(reading: HostReading | None, frame: Frame) -> Moment | None:
    if reading is None or frame.latest is None or frame.latest - reading.fetched_at <= SAME_RUN:
        return None
    return moment(reading.fetched_at, frame.now, frame.stale_after)
