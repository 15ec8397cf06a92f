"""Readings, config and the time to a `Page`: every decision about what is shown is made here.

Cards are built in cards.py, their tooltips in tooltips.py, single words and numbers in words.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gpumon_static.model import HostReading, Machine, Status
from gpumon_static.publish.cards import build_cards
from gpumon_static.publish.page import (
    WIDEST,
    Attention,
    Fact,
    HostView,
    Kind,
    Moment,
    Notice,
    Page,
)
from gpumon_static.publish.summary import build_headline, build_models, build_tallies
from gpumon_static.publish.words import clip, count, memory_of, moment, natural_key
from gpumon_static.state import State, gpu_state

if TYPE_CHECKING:
    from gpumon_static.config import BusyConfig, Config, HostConfig

OLD_AFTER = timedelta(minutes=15)
SAME_RUN = timedelta(minutes=5)
"""Readings further apart than this come from different runs, so the older host says its own time."""

MOST_ATTENTION = 8
REASON_LETTERS = 300
NOTE_LETTERS = 160
FAULT_LETTERS = 160
SHORT_FAULT_LETTERS = 60
VERSION_LETTERS = 24
NOTICE_COLUMNS = 2

_CANNOT_BE_REACHED = {Status.DNS, Status.UNREACHABLE, Status.REFUSED, Status.TIMEOUT}


def build_page(readings: Sequence[HostReading], config: Config, now: datetime) -> Page:
    read = {reading.host: reading for reading in readings}
    hosts = sorted(config.hosts, key=lambda host: natural_key(host.name))
    shown = [read[host.name] for host in hosts if host.name in read]
    latest = max((reading.fetched_at for reading in shown), default=None)
    anchors = _anchors(host.name for host in hosts)
    views = [_host(host, read.get(host.name), anchors[host.name], config.busy, latest, now) for host in hosts]
    headline = build_headline(shown, len(hosts), config.busy)
    attention = _attention(views)
    return Page(
        title=config.site.title,
        tab_title=f"{headline.number} {headline.text} – {config.site.title}".lstrip(),
        headline=headline,
        data_time=moment(latest, now, OLD_AFTER) if latest else None,
        models=build_models(shown, config.busy),
        tallies=build_tallies(shown, config.busy),
        attention=attention[:MOST_ATTENTION],
        more_attention=attention[MOST_ATTENTION:],
        hosts=tuple(views),
        made_at=moment(now, now, OLD_AFTER),
        refresh_s=config.site.refresh,
        old_after_s=int(OLD_AFTER.total_seconds()),
    )


def _host(
    host: HostConfig,
    reading: HostReading | None,
    anchor: str,
    busy: BusyConfig,
    latest: datetime | None,
    now: datetime,
) -> HostView:
    cards = build_cards(host.name, anchor, reading.gpus, busy) if reading and reading.ok else ()
    name, domain = _split_name(host.name)
    return HostView(
        anchor=anchor,
        name=name,
        domain=domain,
        group=host.group,
        note=clip(host.note, NOTE_LETTERS) if host.note else None,
        summary=_summary(reading, busy),
        software=_software(reading),
        machine=_machine(reading.machine) if reading else (),
        faults=_faults(host, reading),
        read_at=_own_time(reading, latest, now),
        cards=cards,
        notice=None if cards else _notice(reading),
        columns=min(len(cards), WIDEST) or NOTICE_COLUMNS,
    )


def _summary(reading: HostReading | None, busy: BusyConfig) -> str:
    """Of hosts with several GPUs; the card of a single one says it all."""
    if reading is None or not reading.ok or len(reading.gpus) < 2:
        return ""
    free = sum(gpu_state(gpu, busy) is State.FREE for gpu in reading.gpus)
    return f"{free} of {len(reading.gpus)} free"


def _software(reading: HostReading | None) -> tuple[str, ...]:
    if reading is None:
        return ()
    named = (("driver", reading.driver_version), ("CUDA", reading.cuda_version))
    return tuple(f"{name} {clip(version, VERSION_LETTERS)}" for name, version in named if version)


def _machine(machine: Machine) -> tuple[Fact, ...]:
    facts = []
    if machine.cpu_count is not None:
        facts.append(Fact("CPUs", str(machine.cpu_count)))
    if machine.load_1m is not None:
        facts.append(Fact("load", f"{machine.load_1m:.1f}"))
    if machine.ram_total_mib is not None:
        facts.append(Fact("RAM", str(memory_of(machine.ram_used_mib, machine.ram_total_mib))))
    return tuple(facts)


def _faults(host: HostConfig, reading: HostReading | None) -> tuple[str, ...]:
    if reading is None or not reading.ok:
        return ()
    faults = []
    if host.gpus is not None and len(reading.gpus) < host.gpus:
        faults.append(f"{host.gpus - len(reading.gpus)} of {count(host.gpus, 'GPU')} missing")
    if reading.warning:
        faults.append(clip(reading.warning, FAULT_LETTERS))
    return tuple(faults)


def _notice(reading: HostReading | None) -> Notice:
    if reading is None:
        return Notice(Kind.WAITING, "not fetched yet", "", "The next fetch will ask this host.")
    if reading.ok:
        return Notice(Kind.FAILED, "no GPUs", Status.NO_GPUS.value, "The host answered, and listed no GPU.")
    word = "down" if reading.status in _CANNOT_BE_REACHED else "no data"
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
    return (*failed, *faulty)


def _own_time(reading: HostReading | None, latest: datetime | None, now: datetime) -> Moment | None:
    if reading is None or latest is None or latest - reading.fetched_at <= SAME_RUN:
        return None
    return moment(reading.fetched_at, now, OLD_AFTER)


def _split_name(name: str) -> tuple[str, str]:
    """gpu01 and .lab.example; an address stays whole."""
    first, dot, rest = name.partition(".")
    return (name, "") if ":" in name or first.isdecimal() else (first, dot + rest)


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
