"""The tab Health: what is down, faulty, different or full, what happened, and how often hosts answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpumon_static.model import Status, rules
from gpumon_static.publish.page.host_view import FULL_PERCENT
from gpumon_static.publish.page.records import Attention, HostView, Kind
from gpumon_static.publish.page.tabs.outages import TEXT_LETTERS, beat_paths, event_rows
from gpumon_static.publish.page.thing_records import (
    AvailabilityRow,
    DiskRow,
    DownRow,
    DriverRow,
    FaultLine,
    HealthView,
    IdlePerson,
    UpkeepRow,
)
from gpumon_static.publish.page.words import memory_of, share
from gpumon_static.survey.faults import acknowledged_words, outdated_probe, wrong_clock
from gpumon_static.survey.slurm.nodes import resume_command
from gpumon_static.system.command import Command
from gpumon_static.text import DASH, clip, count, natural_key

if TYPE_CHECKING:
    from gpumon_static.publish.page.past import PastView
    from gpumon_static.store.events import Event
    from gpumon_static.store.history.machines import Availability
    from gpumon_static.survey.survey import Survey, SurveyedHost

MOST_ROWS = 200
MOST_EVENTS_SHOWN = 50
MOST_NAMED = 6
REOPEN = "When it is ready again:"
NEXT_STEPS = {
    Status.DNS: "Look for its name in the DNS, or set address for it in the config.",
    Status.UNREACHABLE: "Is it on, and connected to the network?",
    Status.REFUSED: "Start sshd on it, or set its port in the config.",
    Status.TIMEOUT: "Is it on, and does it hang? A slow one needs a longer connect_timeout.",
    Status.HOST_KEY: "Compare its key: reinstalled, or another host under this name?",
    Status.AUTH: "Put the collector's public key into authorized_keys of its login.",
    Status.NO_SHELL: "Only hosts with a POSIX shell can be read.",
    Status.NO_NVIDIA_SMI: "Install the driver, or set nvidia_smi to its path.",
    Status.NO_GPU_TOOL: "Install the driver and its tools.",
    Status.DRIVER: "Load the driver: after an update of the kernel or driver, reboot it.",
    Status.NO_GPUS: "Look for the GPUs with lspci; reseat or replace a card that is missing.",
}
"""What to do first about a host that does not answer; `check` finds out more."""


def build_health(
    survey: Survey,
    views: Sequence[HostView],
    past: PastView | None,
    ignored: Sequence[str],
    own: Iterable[Attention] = (),
) -> HealthView:
    """`own`: what concerns all hosts."""
    events = event_rows(shown_events(survey, past), survey.tier)
    known = past.past.availability if past else {}
    there = [(host.name, known[host.name]) for host in survey.hosts if host.name in known]
    beats = past.past.heartbeat if past else {}
    rows = [_availability(name, found, beats.get(name, "")) for name, found in there]
    rows.sort(key=lambda row: (row.percent is None, row.percent))
    down = list(_down(views, past))
    faults = [*_of_all(own), *_faults(survey.hosts, views)]
    return HealthView(
        down=tuple(down[:MOST_ROWS]),
        faults=tuple(faults[:MOST_ROWS]),
        listed=len(down) + len(faults),
        hosts_down=len(down),
        drivers=() if "driver-differs" in ignored else tuple(_drivers(survey.hosts))[:MOST_ROWS],
        disks=tuple(_disks(survey.hosts))[:MOST_ROWS],
        events=tuple(events[:MOST_EVENTS_SHOWN]),
        events_in_all=len(events),
        availability=tuple(rows[:MOST_ROWS]),
        always_up=sum(row.percent == 100 for row in rows[MOST_ROWS:]),
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
    """Those of the hosts of this page and of the Dask cluster, newest first."""
    names = {host.name for host in survey.hosts}
    return [event for event in past.past.events if event.is_of_worker or event.host in names] if past else []


def _down(views: Iterable[HostView], past: PastView | None) -> Iterator[DownRow]:
    for view in views:
        if view.notice and view.notice.kind is Kind.FAILED:
            down = past.down_for(view.full_name) if past else ""
            status = view.notice.status
            yield DownRow(
                view.full_name,
                view.anchor,
                status,
                view.notice.reason,
                down,
                NEXT_STEPS.get(Status(status), "") if status in set(Status) else "",
                Command.of("gpumon-static", "check", view.full_name),
            )


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


def _availability(host: str, found: Availability, days: str) -> AvailabilityRow:
    # Rounded down: only a host that never failed has 100.
    percent = None if found.share is None else int(1000 * found.share) / 10
    text = DASH if percent is None else f"{percent:.1f}"
    return AvailabilityRow(host, text, percent, f"{100 * found.coverage:.0f}", *beat_paths(days))


def health_summary(health: HealthView, idle: Sequence[IdlePerson]) -> str:
    """2 hosts are down, 1 fault is open, and 4 GPUs are held idle by 3 users."""
    faults = health.listed - health.hosts_down
    gpus = sum(person.number for person in idle)
    users = len({name for person in idle for name, is_name in person.users if is_name})
    by = f" by {count(users, 'user')}" if users else ""
    parts = [
        f"{count(health.hosts_down, 'host')} {_are(health.hosts_down)} down" if health.hosts_down else "",
        f"{count(faults, 'fault')} {_are(faults)} open" if faults else "",
        f"{count(gpus, 'GPU')} {_are(gpus)} held idle{by}" if gpus else "",
    ]
    *first, last = list(filter(None, parts)) or [""]
    return f"{', '.join(first)}{' and ' if first else ''}{last}." if last else ""


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
