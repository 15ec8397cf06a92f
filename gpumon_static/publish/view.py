"""Readings, config and the time to a `Page`: every decision about what is shown is made here.

Cards are built in cards.py, their tooltips in tooltips.py, single words and numbers in words.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gpumon_static.model import HostReading, Machine, Status
from gpumon_static.publish import health
from gpumon_static.publish.cards import build_cards
from gpumon_static.publish.history_view import build_history
from gpumon_static.publish.page import (
    WIDEST,
    Attention,
    Bar,
    Fact,
    HostView,
    Kind,
    Meter,
    Moment,
    Notice,
    Page,
    Room,
)
from gpumon_static.publish.past import PastView, namer
from gpumon_static.publish.people import build_people
from gpumon_static.publish.privacy import Tier, veil
from gpumon_static.publish.shown_names import logins_of, with_shown_names, without_command_lines
from gpumon_static.publish.summary import build_headline, build_models, build_tallies
from gpumon_static.publish.words import (
    clip,
    duration,
    memory_of,
    moment,
    natural_key,
    percent,
    share,
    split_name,
)
from gpumon_static.state import State, gpu_state

if TYPE_CHECKING:
    from gpumon_static.config import BusyConfig, Config, HostConfig, PageConfig
    from gpumon_static.store.timelines import Past

GRACE = timedelta(minutes=1)
"""What a run may take until its data is on the page, before it counts as missed."""
SAME_RUN = timedelta(minutes=5)
"""Readings further apart than this come from different runs, so the older host says its own time."""

MOST_ATTENTION = 8
REASON_LETTERS = 300
NOTE_LETTERS = 160
FAULT_LETTERS = 160
SHORT_FAULT_LETTERS = 60
VERSION_LETTERS = 24
NOTICE_COLUMNS = 2
FULL_PERCENT = 90
SSH_PORT = 22
MOST_DISKS = 6
MOUNT_LETTERS = 24
LEAST_SWAP_MIB = 64
"""Every machine swaps a little."""

_CANNOT_BE_REACHED = {Status.DNS, Status.UNREACHABLE, Status.REFUSED, Status.TIMEOUT}


def build_page(
    readings: Sequence[HostReading],
    config: Config,
    now: datetime,
    spec: PageConfig | None = None,
    key: bytes = b"",
    past: Past | None = None,
) -> Page:
    """`spec`: which of the config's pages, index.html by default; `key`: for pseudonyms."""
    spec = spec or config.pages[0]
    tier = Tier(spec.users or config.site.users)
    told = health.without(readings, config.site.ignore_faults)
    told = with_shown_names(told, config.users) if tier is Tier.NAMES else told
    if not config.site.show_command_lines:
        told = without_command_lines(told)
    names = (*config.users, *config.users.values())
    read = {reading.host: reading for reading in veil(told, tier, key, names)}
    chosen = (host for host in config.hosts if not spec.groups or host.group in spec.groups)
    hosts = sorted(chosen, key=lambda host: natural_key(host.name))
    shown = [read[host.name] for host in hosts if host.name in read]
    latest = max((reading.fetched_at for reading in shown), default=None)
    stale_after = timedelta(seconds=2 * config.site.interval) + GRACE
    ignored = config.site.ignore_faults
    drivers = health.usual_drivers(hosts, read, ignored)
    history = PastView(past, namer(tier, key, config.users), config.history.idle_after) if past else None
    frame = _Frame(config.busy, tier, latest, stale_after, now, ignored, drivers, history)
    anchors = _anchors(host.name for host in hosts)
    views = [_host(host, read.get(host.name), anchors[host.name], frame) for host in hosts]
    headline = build_headline(shown, len(hosts), config.busy)
    attention = _attention(views)
    title = spec.title or config.site.title
    data_time = moment(latest, now, stale_after) if latest else None
    return Page(
        title=title,
        tab_title=f"{headline.number} {headline.text} – {title}".lstrip(),
        headline=headline,
        data_time=data_time,
        models=build_models(shown, config.busy),
        tallies=build_tallies(shown, config.busy),
        attention=attention[:MOST_ATTENTION],
        more_attention=attention[MOST_ATTENTION:],
        hosts=tuple(views),
        people=None if tier is Tier.COUNTS else build_people(shown),
        tells_names=tier is not Tier.COUNTS,
        logins=logins_of(config.users) if tier is Tier.NAMES else {},
        footer=config.site.footer,
        made_at=moment(now, now, stale_after),
        is_stale=data_time is not None and data_time.is_old,
        refresh_s=config.site.refresh,
        interval_s=config.site.interval,
        stale_after_s=int(stale_after.total_seconds()),
        history=build_history(history, views, everything=not spec.groups) if history else None,
    )


@dataclass(frozen=True)
class _Frame:
    """What is the same for every host of a page."""

    busy: BusyConfig
    tier: Tier
    latest: datetime | None
    stale_after: timedelta
    now: datetime
    ignored: tuple[str, ...] = ()
    usual_drivers: Mapping[str, str] = field(default_factory=dict)
    past: PastView | None = None


def _host(host: HostConfig, reading: HostReading | None, anchor: str, frame: _Frame) -> HostView:
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


def _attention(views: Iterable[HostView]) -> tuple[Attention, ...]:
    """Hosts that failed first, then the faults of those that answered."""
    views = list(views)
    failed = [
        Attention(view.anchor, view.name, f"{view.notice.word} · {view.notice.status}")
        for view in views
        if view.notice and view.notice.kind is Kind.FAILED
    ]
    faulty = [
        Attention(view.anchor, view.name, clip(fault, SHORT_FAULT_LETTERS))
        for view in views
        for fault in view.faults
    ]
    on_gpus = [entry for view in views for entry in view.gpu_faults]
    return (*failed, *faulty, *on_gpus)


def _own_time(reading: HostReading | None, frame: _Frame) -> Moment | None:
    if reading is None or frame.latest is None or frame.latest - reading.fetched_at <= SAME_RUN:
        return None
    return moment(reading.fetched_at, frame.now, frame.stale_after)


def _anchors(names: Iterable[str]) -> dict[str, str]:
    """The place of each host on the page, as a link can name it: the same from one run to the next.

    Without a colon, which the ids of its cards have.
    """
    anchors: dict[str, str] = {}
    for name in names:
        anchor = "host-" + re.sub(r"[^A-Za-z0-9._-]", "-", name)
        while anchor in anchors:
            anchor += "_"
        anchors[anchor] = name
    return {name: anchor for anchor, name in anchors.items()}
