"""A check as a table that fills while it runs, and as plain text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import click
from rich.console import Console, JustifyMethod
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from gpumon_static.check.checkup import CheckReport, Checkup, HostCheck
from gpumon_static.check.findings import Finding, Mark
from gpumon_static.check.publishing import TryRender
from gpumon_static.check.slurm import look_at_slurm
from gpumon_static.check.surroundings import look
from gpumon_static.collect.trace import Step
from gpumon_static.config.hostlist import folded
from gpumon_static.config.settings import Config, HostConfig
from gpumon_static.text import count
from gpumon_static.times import Clock

SIGNS = {
    Mark.OK: ("✓", "green"),
    Mark.WARNING: ("!", "yellow"),
    Mark.FAILED: ("✗", "bold red"),
    Mark.UNTRIED: ("·", "dim"),
}
MOST_ALIKE = 5
"""Hosts that fail with one status and are each shown."""
WIDE = 10_000
FORMS = ((True, True), (False, True), (False, False))
"""Of the table, the widest first: with the words on the GPUs, with the time."""
WORDS = {Mark.OK: "ok", Mark.WARNING: "warning", Mark.FAILED: "FAILED", Mark.UNTRIED: "-"}


def run_check(
    config: Config,
    hosts: Sequence[HostConfig],
    *,
    clock: Clock,
    as_json: bool,
    try_render: TryRender | None = None,
    in_full: bool = True,
) -> CheckReport:
    """Run a check and show it: a table that fills on a terminal, plain lines in a pipe, or JSON.

    `in_full`: every host that fails, where many fail alike.
    """
    console = Console()
    checkup = Checkup(config, hosts, clock)
    if as_json or not console.is_terminal:
        report = CheckReport(_around(config, hosts, clock, try_render), checkup.run())
        lines = plain_lines(report, in_full=in_full)
        click.echo(report.to_json() if as_json else "\n".join(lines))
        return report
    with live(console, checkup.so_far):
        report = CheckReport(_around(config, hosts, clock, try_render), checkup.run())
    show(console, report, in_full=in_full)
    return report


def _around(
    config: Config, hosts: Sequence[HostConfig], clock: Clock, try_render: TryRender | None
) -> tuple[Finding, ...]:
    return (*look(config, hosts, try_render, now=clock()), *look_at_slurm(config, clock))


def live(console: Console, so_far: Callable[[], Sequence[HostCheck]]) -> Live:
    return Live(
        get_renderable=lambda: table(so_far(), console),
        console=console,
        refresh_per_second=4,
        transient=True,
        vertical_overflow="ellipsis",
    )


def show(console: Console, report: CheckReport, *, in_full: bool = True) -> None:
    alike = (
        set() if in_full else {host for hosts in failed_alike(report.hosts).values() for host in hosts[1:]}
    )
    console.print(table([host for host in report.hosts if host not in alike], console))
    for line in plain_lines(report, only_trouble=len(report.hosts) > 1, in_full=in_full):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def table(hosts: Sequence[HostCheck], console: Console) -> Table:
    """As much of it as a terminal has room for in one line per host."""
    # Measured for a terminal that has room for everything: else nothing is wider than the terminal.
    wide = console.options.update_width(WIDE)
    *wider, narrow = (_table(hosts, with_words=words, with_time=time) for words, time in FORMS)
    fitting = (form for form in wider if Measurement.get(console, wide, form).maximum <= console.width)
    return next(fitting, narrow)


def _table(hosts: Sequence[HostCheck], *, with_words: bool, with_time: bool) -> Table:
    shown = Table(box=None, padding=(0, 2, 0, 0) if with_words else (0, 1, 0, 0), header_style="bold")
    shown.add_column("host", no_wrap=True)
    for step in Step:
        justify: JustifyMethod = "left" if step is Step.GPUS and with_words else "center"
        shown.add_column(_word(step), justify=justify, no_wrap=True)
    if with_time:
        shown.add_column("time", justify="right", no_wrap=True)
    for host in hosts:
        seconds = f"{host.seconds:.1f} s" if host.seconds is not None else ""
        name = Text(host.host, style=SIGNS[host.mark][1] if host.mark is not Mark.UNTRIED else "")
        cells = [_cell(finding, with_words=with_words) for finding in host.findings]
        shown.add_row(name, *cells, *([seconds] if with_time else []))
    return shown


def _word(step: str) -> str:
    return "GPUs" if step == Step.GPUS else step


def _cell(finding: Finding, *, with_words: bool) -> Text:
    sign, style = SIGNS[finding.mark]
    # The one column whose words matter more than its sign.
    has_words = with_words and finding.step == Step.GPUS and finding.mark is Mark.OK
    words = f" {finding.message}" if has_words else ""
    return Text(sign, style=style).append(words, style="")


def failed_alike(hosts: Sequence[HostCheck]) -> dict[str, list[HostCheck]]:
    """By status, where so many hosts have it that one stands for all: a rack, a network, a key."""
    found: dict[str, list[HostCheck]] = {}
    for host in hosts:
        if host.is_failure and host.status:
            found.setdefault(host.status, []).append(host)
    return {status: failed for status, failed in found.items() if len(failed) > MOST_ALIKE}


def plain_lines(report: CheckReport, *, only_trouble: bool = False, in_full: bool = True) -> Iterator[str]:
    alike = {} if in_full else failed_alike(report.hosts)
    left_out = {host.host for failed in alike.values() for host in failed[1:]}
    hosts = [h for h in report.hosts if not only_trouble or h.mark is not Mark.OK]
    hosts = [h for h in hosts if h.host not in left_out]
    width = max([len(h.host) for h in hosts] + [len(f.step) for f in report.surroundings]) + 2
    for finding in report.surroundings:
        yield f"{finding.step:{width}}{WORDS[finding.mark]:9}{finding.message}"
        yield from _next(finding, width)
    yield ""
    for status, failed in alike.items():
        yield f"{count(len(failed), 'host')}: {status}: {folded(host.host for host in failed)}"
        yield f"{'':{width}}the first one is below, all with --all"
    for host in hosts:
        if host.mark is Mark.OK and len(hosts) > 1:
            yield f"{host.host:{width}}{WORDS[host.mark]:9}{_in_short(host)}"
        else:
            yield from _host_lines(host, width)
    yield _summary(report)


def _host_lines(host: HostCheck, width: int) -> Iterator[str]:
    seconds = f"{host.seconds:.1f} s" if host.seconds is not None else ""
    yield f"{host.host:{width}}{WORDS[host.mark]:9}{', '.join(filter(None, (seconds, host.state)))}"
    for finding in host.findings:
        if finding.mark is not Mark.UNTRIED:
            word = "" if finding.mark is Mark.OK else f"{WORDS[finding.mark]}: "
            yield f"{'':{width}}{_word(finding.step):11}{word}{finding.message}"
            yield from _next(finding, width + 11)


def _in_short(host: HostCheck) -> str:
    messages = {finding.step: finding.message for finding in host.findings}
    parts = [messages[step] for step in (Step.LOGIN, Step.GPUS)]
    parts += [f"clock {messages[Step.CLOCK]}"] if messages[Step.CLOCK] else []
    return f"{host.seconds or 0:.1f} s; " + "; ".join(parts)


def _next(finding: Finding, width: int) -> Iterator[str]:
    for line in finding.next:
        yield f"{'':{width}}next: {line}"


def _summary(report: CheckReport) -> str:
    marks = Counter(host.mark for host in report.hosts)
    failed = sum(host.is_failure for host in report.hosts)
    failures = {
        "with a warning": marks[Mark.WARNING],
        "failed": failed,
        "failed (not in use)": marks[Mark.FAILED] - failed,
    }
    good = len(report.hosts) - sum(failures.values())
    parts = [f"{good} ok", *(f"{n} {words}" for words, n in failures.items() if n)]
    return f"{count(len(report.hosts), 'host')}: {', '.join(parts)}"
