"""`gpumon-static show`: the lab as a table, from the last fetch or asked now."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import click
from rich.text import Text

from gpumon_static.config.settings import Config
from gpumon_static.model import HostReading
from gpumon_static.survey.faults import judged
from gpumon_static.survey.jobs import Job
from gpumon_static.survey.names import short_model
from gpumon_static.survey.owners import owner
from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.survey import Place, Survey, SurveyedHost, assemble
from gpumon_static.survey.totals import total
from gpumon_static.terminal import layout
from gpumon_static.terminal.amounts import UNITS, memory, percent, percent_of
from gpumon_static.terminal.layout import LinePart, Row
from gpumon_static.terminal.rows import Look, columns, host_rows, job_columns, job_row
from gpumon_static.text import count, plain

if TYPE_CHECKING:
    from rich.console import Console


DOT = " · "


@dataclass(frozen=True)
class Choice:
    """Which hosts and GPUs."""

    nodes: re.Pattern[str] | None = None
    user: str | None = None
    free: bool = False

    def takes(self, host: SurveyedHost, place: Place) -> bool:
        if self.nodes and not self.nodes.search(host.name):
            return False
        if self.user is not None and all(owner(process).name != self.user for process in place.processes):
            return False
        return place.is_usable or not self.free

    @property
    def is_of_gpus(self) -> bool:
        return self.free or self.user is not None


def survey_of(readings: Sequence[HostReading], config: Config, now: datetime) -> Survey:
    """The survey for the user who runs it: all hosts, with their logins."""
    page = replace(config.pages[0], groups=())
    return assemble(judged(readings, config, now), config, now, page, Tier.NAMES)


def chosen(survey: Survey, choice: Choice) -> Survey:
    hosts = (h for h in survey.hosts if not choice.nodes or choice.nodes.search(h.name))
    return replace(survey, hosts=tuple(hosts))


def show(console: Console, survey: Survey, choice: Choice, look: Look) -> None:
    """Print the table: on a terminal it fits the width; in a pipe it is as wide as needed."""
    width = console.width if console.is_terminal else None
    for line in table(chosen(survey, choice), choice, look, width):
        if width is None:
            # Not through rich, which treats a pipe as a terminal of 80 columns.
            click.echo(line.plain, file=console.file)
        else:
            console.print(line, no_wrap=line.no_wrap, overflow="crop" if line.no_wrap else None)


def table(survey: Survey, choice: Choice, look: Look, width: int | None) -> Iterator[Text]:
    names = shown_names([host.name for host in survey.hosts], short=width is not None)
    rows = gpu_rows(survey, choice, names, look)
    if rows:
        yield from layout.lines(columns(look), rows, width)
        yield Text()
    yield from below(survey, choice, names, look, width)


def gpu_rows(survey: Survey, choice: Choice, names: dict[str, str], look: Look) -> list[Row]:
    rows: list[Row] = []
    for host in survey.hosts:
        places = [place for place in host.places() if choice.takes(host, place)]
        if places:
            rows += host_rows(host, places, names[host.name], look, survey)
    return rows


def below(
    survey: Survey, choice: Choice, names: dict[str, str], look: Look, width: int | None
) -> Iterator[Text]:
    """What follows the rows of GPUs."""
    if look.processes:
        yield from _job_lines(survey, choice, names, look, width)
    if not choice.is_of_gpus:
        yield from not_read(survey.hosts, names, with_notes=survey.tier is Tier.NAMES)
    yield from _summary(survey, choice, look)


def _job_lines(
    survey: Survey, choice: Choice, names: dict[str, str], look: Look, width: int | None
) -> Iterator[Text]:
    rows = [job_row(job, names, look, survey.made_at) for job in jobs_of(survey, choice)]
    if rows:
        yield from layout.lines(job_columns(look), rows, width)
        yield Text()


def jobs_of(survey: Survey, choice: Choice) -> list[Job]:
    """Those with a process on a chosen GPU; of one user, where that is asked for."""
    taken = {
        (host.name, place.index)
        for host in survey.hosts
        for place in host.places()
        if choice.takes(host, place)
    }
    return [
        job
        for job in survey.jobs.all
        if not taken.isdisjoint(job.places) and (choice.user is None or choice.user in job.users)
    ]


def shown_names(names: Sequence[str], *, short: bool) -> dict[str, str]:
    """Without the domain, where they are different without it."""
    cut = {name: name if ":" in name or name[:1].isdecimal() else name.partition(".")[0] for name in names}
    unique = len(set(cut.values())) == len(cut)
    return cut if short and unique else {name: name for name in names}


def not_read(
    hosts: Sequence[SurveyedHost], names: dict[str, str], *, with_notes: bool = True
) -> Iterator[Text]:
    """A line per host that failed. In full: a reason often ends in the command that fixes it."""
    failed = [host for host in hosts if not host.ok and not host.state]
    away = [host for host in hosts if host.state]
    longest = max((len(names[host.name]) for host in (*failed, *away)), default=0)
    for host in failed:
        status = host.reading.status.value if host.reading else "not fetched yet"
        error = plain(host.reading.error or "") if host.reading else "the next fetch asks it"
        yield Text(f"{names[host.name]:{longest}}  {status}: ", "red").append(error, "default")
    for host in away:
        note = f": {plain(host.config.note)}" if host.config.note and with_notes else ""
        yield Text(f"{names[host.name]:{longest}}  {host.state_words}{note}", "dim")
    if failed or away:
        yield Text()


def _summary(survey: Survey, choice: Choice, look: Look) -> Iterator[Text]:
    yield layout.in_line(totals(survey.hosts, look), None, DOT)
    free = Counter(
        (f"{p.mig.profile or 'MIG'} " if p.mig else "") + short_model(p.gpu.name)
        for host in survey.hosts
        for p in host.places()
        if p.is_usable
    )
    if free:
        listed = ", ".join(f"{number} x {plain(model)}" for model, number in free.most_common())
        yield Text("Free: ", "bold").append(listed, "green")
    if choice.user is not None:
        yield _user_line(survey.hosts, choice.user, look)
    yield _time_line(survey) if look.is_past else age_line(survey)


def totals(hosts: Sequence[SurveyedHost], look: Look, *, short: bool = False) -> list[LinePart]:
    sums = total(hosts)
    unit = UNITS[look.unit][0]
    parts = [LinePart(f"{sums.free} of {count(sums.gpus, 'GPU')} free", "bold")]
    if sums.slices:
        parts.append(LinePart(f"{sums.slices_free} of {count(sums.slices, 'slice')}", "bold", 3))
    if sums.total_mib:
        used, whole = memory(sums.used_mib, look.unit), memory(sums.total_mib, look.unit)
        part = percent(percent_of(sums.used_mib, sums.total_mib))
        words = f"memory {part}" if short else f"memory {used} / {whole} {unit} ({part})"
        parts.append(LinePart(words, "bold", 5))
    parts.append(LinePart(f"utilization {percent(sums.utilization)}", "bold", 4))
    asked = [host for host in hosts if not host.state]
    failed = sum(not host.ok for host in asked)
    words = f"{failed} of {count(len(asked), 'host')} failed" if failed else count(len(asked), "host")
    return [*parts, LinePart(words, "bold", 1 if failed else 6)]


def _user_line(hosts: Sequence[SurveyedHost], user: str, look: Look) -> Text:
    held = [
        (host.name, place.index, process.memory_mib or 0)
        for host in hosts
        for place in host.places()
        for process in place.processes
        if owner(process).name == user
    ]
    places = {(host, index) for host, index, _ in held}
    amount = f"{memory(sum(mib for *_, mib in held), look.unit)} {UNITS[look.unit][0]}"
    on = count(len({host for host, _ in places}), "host")
    return Text(f"{plain(user)}: {count(len(places), 'GPU')} with {amount} on {on}")


def _time_line(survey: Survey) -> Text:
    """Of the past, whose age is of no use."""
    when = f"As it was at {survey.made_at.astimezone():%Y-%m-%d %H:%M:%S %Z}"
    read = f", read at {survey.latest.astimezone():%H:%M:%S}" if survey.latest else ""
    return Text(f"{when}{read}", "dim")


def age_line(survey: Survey) -> Text:
    if survey.latest is None:
        return Text("No data yet: gpumon-static fetch asks the hosts.", "yellow")
    age = survey.age(survey.latest)
    when = f"{survey.latest.astimezone():%Y-%m-%d %H:%M:%S %Z}"
    if age.is_stale:
        why = "the collector's clock is or was wrong" if age.is_ahead else "fetch seems to have stopped"
        return Text(f"STALE DATA of {when}, {age.words}: {why}", "bold yellow")
    return Text(f"Data of {when}, {age.words}", "dim")
