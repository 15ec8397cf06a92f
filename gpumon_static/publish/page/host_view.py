"""One host of the page: its header, its cards or why there are none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gpumon_static.model import HostReading, Machine, Status
from gpumon_static.model.states import State
from gpumon_static.publish.page.cards import build_boxes, build_cards
from gpumon_static.publish.page.records import (
    KIND_OF,
    PARTLY,
    WIDEST,
    Attention,
    Bar,
    Fact,
    HostView,
    Kind,
    LastCard,
    LastCut,
    Meter,
    Moment,
    Notice,
    Room,
)
from gpumon_static.publish.page.words import memory_of, moment, percent, share
from gpumon_static.survey.faults import fault_words
from gpumon_static.survey.offers import against_host, can_paste, load_per_cpu, ram_free_mib
from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.totals import total
from gpumon_static.text import clip, split_name
from gpumon_static.times import duration

if TYPE_CHECKING:
    from gpumon_static.model import Gpu
    from gpumon_static.publish.page.past import PastView
    from gpumon_static.survey.survey import Survey, SurveyedHost

SAME_RUN = timedelta(minutes=5)
"""Readings further apart than this come from different runs, so such a host shows its own time."""

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

STATE_REASONS = {
    "planned": "This host is not in use yet.",
    "maintenance": "This host is being worked on: nothing can be run there.",
    "retired": "This host is no longer in use; its history is kept.",
}
_CANNOT_BE_REACHED = {Status.DNS, Status.UNREACHABLE, Status.REFUSED, Status.TIMEOUT}


@dataclass(frozen=True)
class Frame:
    """What is the same for every host of a page."""

    survey: Survey
    usual_drivers: Mapping[str, str] = field(default_factory=dict)
    past: PastView | None = None


def build_host(host: SurveyedHost, anchor: str, frame: Frame) -> HostView:
    reading, tier, past = host.reading, frame.survey.tier, frame.past
    cards = build_cards(host, anchor, tier, past)
    boxes = build_boxes(host.gpus, anchor, cards)
    last_cards = past.last_cards(host.name) if past and reading and not reading.ok else ()
    last_boxes = past.last_boxes(host.name, last_cards) if past else ()
    name, domain = split_name(host.name)
    # A note is free text and may name users.
    note = host.config.note if tier is Tier.NAMES else None
    return HostView(
        anchor=anchor,
        full_name=host.name,
        name=name,
        domain=domain,
        group=host.config.group,
        note=clip(note, NOTE_LETTERS) if note else None,
        summary=_summary(host),
        software=_software(reading, frame.usual_drivers.get(host.name)),
        machine=_machine(reading.machine) if reading else (),
        meters=_meters(reading.machine) if reading else (),
        room=_room(host, frame.survey.latest),
        faults=tuple(clip(fault, FAULT_LETTERS) for fault in (host.slurm_words, *host.faults) if fault),
        reading_note=clip(reading.note, REASON_LETTERS) if reading and reading.note else None,
        gpu_faults=_gpu_faults(anchor, name, host.gpus),
        read_at=_own_time(reading, frame.survey),
        cards=cards,
        boxes=boxes,
        marks=tuple(_mark(host, gpu) for gpu in host.gpus),
        notice=None if cards else _notice(host, past.down_for(host.name) if past else ""),
        columns=min(len(boxes) or len(last_boxes), WIDEST) or NOTICE_COLUMNS,
        last_cards=last_cards,
        last_boxes=last_boxes,
        unreachable=_unreachable(host, last_boxes),
    )


def _mark(host: SurveyedHost, gpu: Gpu) -> str:
    """Free only if all of it is, as the headline counts; where some slices are, a mark of its own."""
    whole, places = host.state_of(gpu), host.places_of(gpu)
    some = any(place.state is State.FREE for place in places)
    return PARTLY if some and whole is not State.FREE else KIND_OF[whole]


def _summary(host: SurveyedHost) -> str:
    """Of hosts with several GPUs or slices; the card of a single one shows it."""
    sums = total([host])
    return f"{sums.free} of {sums.gpus} free{sums.more_free}" if sums.gpus > 1 or sums.slices else ""


def _software(reading: HostReading | None, usual_driver: str | None) -> tuple[Fact, ...]:
    if reading is None:
        return ()
    driver, cuda = (
        clip(version, VERSION_LETTERS) if version else None
        for version in (reading.driver_version, reading.cuda_version)
    )
    others = f" (others: {clip(usual_driver, VERSION_LETTERS)})" if usual_driver else ""
    return (
        *((Fact("driver", driver + others, is_odd=bool(others)),) if driver else ()),
        *((Fact("CUDA", cuda),) if cuda else ()),
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
    return Meter(
        label,
        Bar(filled, memory_of(used_mib, total_mib, is_card=False)),
        is_full=(filled or 0) >= FULL_PERCENT,
    )


def _room(host: SurveyedHost, latest: datetime | None) -> Room:
    reading, port = host.reading, host.config.port
    machine = reading.machine if reading else Machine()
    disks = ((disk.mount, disk.used_mib, disk.total_mib) for disk in machine.disks)
    return Room(
        ssh_port=port if port != SSH_PORT else None,
        load_per_cpu=load_per_cpu(machine.load_1m, machine.cpu_count),
        ram_free_mib=ram_free_mib(machine.ram_total_mib, machine.ram_used_mib),
        against=against_host(disks, host.faults),
        behind_s=int(latest.timestamp()) - int(reading.fetched_at.timestamp()) if reading and latest else 0,
        slurm=_slurm(host),
    )


def _slurm(host: SurveyedHost) -> tuple[str, str] | None:
    """What the options of srun are made of."""
    node = host.reading.node if host.reading else None
    if host.config.run != "slurm" or node is None or not can_paste(node.node):
        return None
    return f"gpu:{node.kind}" if can_paste(node.kind) else "gpu", node.node or ""


def _unreachable(host: SurveyedHost, last: Iterable[LastCard | LastCut]) -> tuple[str, ...]:
    """The models of its GPUs as it described them last; without that, as many as the config has."""
    if not host.has_failed or host.state:
        return ()
    return tuple(card.model for card in last) or ("",) * (host.config.gpus or 0)


def _gpu_faults(anchor: str, host: str, gpus: Iterable[Gpu]) -> tuple[Attention, ...]:
    """A line for each fault of a GPU: node03 GPU 5: ECC errors."""
    found = ((gpu, word) for gpu in gpus for word in fault_words(gpu))
    return tuple(Attention(anchor, host, f"GPU {gpu.index}: {word}") for gpu, word in found)


def _notice(host: SurveyedHost, failing_for: str = "") -> Notice:
    reading = host.reading
    if host.state:
        return Notice(Kind.WAITING, host.state_words, "", STATE_REASONS[host.state])
    if reading is None:
        return Notice(Kind.WAITING, "not fetched yet", "", "The next fetch will ask this host.")
    if reading.ok:
        return Notice(Kind.FAILED, "no GPUs", Status.NO_GPUS.value, "The host answered, and listed no GPU.")
    word = "down" if reading.status in _CANNOT_BE_REACHED else "no data"
    word = f"{word} {failing_for}".rstrip()
    reason = clip(reading.error or "No reason was given.", REASON_LETTERS)
    return Notice(Kind.FAILED, word, reading.status.value, reason)


def _own_time(reading: HostReading | None, survey: Survey) -> Moment | None:
    latest = survey.latest
    if reading is None or latest is None or abs(latest - reading.fetched_at) <= SAME_RUN:
        return None
    return moment(reading.fetched_at, survey.made_at, survey.stale_after_s)
