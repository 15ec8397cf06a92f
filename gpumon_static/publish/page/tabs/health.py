"""The tab Health: what is down, faulty, different or full, what happened, and how often hosts answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from typing import TYPE_CHECKING

from gpumon_static.model import rules
from gpumon_static.publish.page.host_view import FULL_PERCENT
from gpumon_static.publish.page.records import Attention, HostView, Kind
from gpumon_static.publish.page.thing_records import (
    AvailabilityRow,
    DiskRow,
    DownRow,
    DriverRow,
    EventRow,
    FaultLine,
    HealthView,
    UpkeepRow,
)
from gpumon_static.publish.page.words import memory_of, share
from gpumon_static.survey.faults import acknowledged_words, outdated_probe, wrong_clock
from gpumon_static.survey.news import tell
from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.slurm.nodes import resume_command
from gpumon_static.text import DASH, clip, natural_key
from gpumon_static.times import utc_text

if TYPE_CHECKING:
    from gpumon_static.publish.page.past import PastView
    from gpumon_static.store.events import Event
    from gpumon_static.store.history.machines import Availability
    from gpumon_static.survey.survey import Survey, SurveyedHost

FREED = "gpu-freed"
"""No worry, and one of every day: only the browser lists it, if asked."""
MOST_ROWS = 200
MOST_EVENTS_SHOWN = 50
MOST_NAMED = 6
TEXT_LETTERS = 160
REOPEN = "When it is ready again:"


def build_health(
    survey: Survey,
    views: Sequence[HostView],
    past: PastView | None,
    ignored: Sequence[str],
    own: Iterable[Attention] = (),
) -> HealthView:
    """`own`: what concerns all hosts."""
    events = [event for event in shown_events(survey, past) if event.type != FREED]
    known = past.past.availability if past else {}
    there = [(host.name, known[host.name]) for host in survey.hosts if host.name in known]
    rows = sorted(map(_availability, there), key=lambda row: (row.percent is None, row.percent))
    down = list(_down(views, past))
    faults = [*_of_all(own), *_faults(survey.hosts, views)]
    not_always = [row for row in rows if row.percent is None or row.percent < 100]
    return HealthView(
        down=tuple(down[:MOST_ROWS]),
        faults=tuple(faults[:MOST_ROWS]),
        listed=len(down) + len(faults),
        drivers=() if "driver-differs" in ignored else tuple(_drivers(survey.hosts))[:MOST_ROWS],
        disks=tuple(_disks(survey.hosts))[:MOST_ROWS],
        events=tuple(_event(event, survey.tier) for event in events[:MOST_EVENTS_SHOWN]),
        events_in_all=len(events),
        availability=tuple(not_always[:MOST_ROWS]),
        always_up=len(rows) - len(not_always),
        clocks=tuple(_clocks(survey.hosts))[:MOST_ROWS],
        acknowledged=tuple(
            UpkeepRow(host.name, clip(words, TEXT_LETTERS))
            for host in survey.hosts
            for words in acknowledged_words(host)
        )[:MOST_ROWS],
        probes=tuple(_probes(survey.hosts))[:MOST_ROWS],
        unread=sum(host.is_unread for host in survey.hosts),
    )


def shown_events(survey: Survey, past: PastView | None) -> list[Event]:
    """Those of the hosts of this page, newest first."""
    names = {host.name for host in survey.hosts}
    return [event for event in past.past.events if event.host in names] if past else []


def title_of(event: Event, tier: Tier) -> str:
    """What happened, without the host's name."""
    title = tell(event, with_error=tier is Tier.NAMES).title
    if event.type == FREED:
        # Not now: it was so then.
        title = title.replace(" are free", " became free").replace(" is free", " became free")
    return clip(title.removeprefix(event.host).removeprefix(":").strip(), TEXT_LETTERS)


def _event(event: Event, tier: Tier) -> EventRow:
    at = event.at.astimezone(UTC)
    return EventRow(
        at=utc_text(at),
        text=f"{at.day} {at:%b %Y, %H:%M} UTC",
        kind=event.type,
        host=event.host,
        title=title_of(event, tier),
    )


def _down(views: Iterable[HostView], past: PastView | None) -> Iterator[DownRow]:
    for view in views:
        if view.notice and view.notice.kind is Kind.FAILED:
            down = past.down_for(view.full_name) if past else ""
            yield DownRow(view.full_name, view.anchor, view.notice.status, view.notice.reason, down)


def _of_all(own: Iterable[Attention]) -> Iterator[FaultLine]:
    return (FaultLine(entry.host, "", "", entry.text, "", "") for entry in own)


def _faults(hosts: Iterable[SurveyedHost], views: Iterable[HostView]) -> Iterator[FaultLine]:
    for host, view in zip(hosts, views, strict=True):
        # One that does not answer is listed as such.
        if host.slurm_words and host.ok:
            yield _closed(host, view)
        for words, action in host.found:
            yield FaultLine(host.name, "", view.anchor, clip(words, TEXT_LETTERS), "", action)
        for gpu in host.gpus:
            for fault in rules.marked(gpu.faults):
                detail = f" ({clip(fault.detail, TEXT_LETTERS)})" if fault.detail else ""
                yield FaultLine(
                    host.name,
                    str(gpu.index),
                    f"{view.anchor}:{gpu.index}",
                    f"{rules.word(fault.rule)}{detail}",
                    rules.meaning(fault.rule),
                    rules.action(fault.rule),
                )


def _closed(host: SurveyedHost, view: HostView) -> FaultLine:
    """Of a host on which Slurm starts no jobs."""
    command = resume_command(host.reading.node, host.config) if host.reading else None
    words, action = host.slurm_words or "", REOPEN if command else ""
    return FaultLine(host.name, "", view.anchor, words, "", action, command)


def _drivers(hosts: Iterable[SurveyedHost]) -> Iterator[DriverRow]:
    """Each version of a group that has several of one vendor: hosts of one group are meant to be alike."""
    groups: dict[tuple[str, str], dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for host in hosts:
        if host.reading and host.reading.driver_version and host.config.group:
            software = host.reading.driver_version, host.reading.cuda_version or DASH
            groups[host.config.group, host.vendor][software].append(host.name)
    for (group, _), versions in sorted(groups.items(), key=lambda item: natural_key(item[0][0])):
        if len({version for version, _ in versions}) < 2:
            continue
        for (version, cuda), names in sorted(versions.items(), key=lambda item: natural_key(item[0][0])):
            shown, more = tuple(names[:MOST_NAMED]), max(0, len(names) - MOST_NAMED)
            named = ", ".join(shown) + (f" + {more} more" if more else "")
            yield DriverRow(clip(version, 24), clip(cuda, 24), group, len(names), named, shown, more)


def _disks(hosts: Iterable[SurveyedHost]) -> list[DiskRow]:
    found = []
    for host in hosts:
        for disk in host.reading.machine.disks if host.ok and host.reading else ():
            filled = share(disk.used_mib, disk.total_mib)
            if filled is not None and filled >= FULL_PERCENT:
                amount = str(memory_of(disk.used_mib, disk.total_mib, is_card=False))
                found.append(DiskRow(host.name, clip(disk.mount, 40), filled, amount))
    return sorted(found, key=lambda row: (-row.percent, natural_key(row.host)))


def _clocks(hosts: Iterable[SurveyedHost]) -> Iterator[UpkeepRow]:
    for host in hosts:
        if host.reading and (words := wrong_clock(host.reading)):
            yield UpkeepRow(host.name, words)


def _probes(hosts: Iterable[SurveyedHost]) -> Iterator[UpkeepRow]:
    for host in hosts:
        if host.reading and (versions := outdated_probe(host.reading)):
            yield UpkeepRow(host.name, "version {} is installed, the collector has {}".format(*versions))


def _availability(entry: tuple[str, Availability]) -> AvailabilityRow:
    host, found = entry
    # Rounded down: only a host that never failed has 100.
    percent = None if found.share is None else int(1000 * found.share) / 10
    text = DASH if percent is None else f"{percent:.1f}"
    return AvailabilityRow(host, text, percent, f"{100 * found.coverage:.0f}")
