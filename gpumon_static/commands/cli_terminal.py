"""The commands for the terminal and for scripts: options to one call per command; no logic."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpumon_static.bounds.vendors import VENDORS
from gpumon_static.commands.options import command, config_option, exclusive, load_config, moment, now
from gpumon_static.terminal.amounts import parse_memory
from gpumon_static.times import parse_duration

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config, HostConfig
    from gpumon_static.terminal.source import Source

NO_CONFIG = "; or name the page: --from https://lab.example/gpu-monitor/, or that in $GPUMON_URL"
NO_PAGE = "`gpumon-static render` writes the page; or name another: --from https://lab.example/gpu-monitor/"
UNIT_NAMES = ("mib", "gib", "mb", "gb")


def _regex(_context: click.Context, _parameter: click.Parameter, value: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(value) if value is not None else None
    except re.error as error:
        raise click.BadParameter(f"{value!r} is not a regular expression: {error}") from error


def _memory_mib(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float:
    try:
        return parse_memory(value or "0")
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _seconds(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
    try:
        return parse_duration(value) if value is not None else None
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


nodes_option = click.option(
    "-n", "--nodes", metavar="REGEX", callback=_regex, help="Only hosts whose name matches."
)
units_option = click.option(
    "--units",
    type=click.Choice(UNIT_NAMES, case_sensitive=False),
    default="gib",
    show_default=True,
    help="Memory unit.",
)


@command
@config_option
@click.option("--live", is_flag=True, help="Ask the hosts now; nothing is written.")
@click.option(
    "--at",
    metavar="TIME",
    callback=moment,
    help="As it was then: a time (2026-10-03T02:15, local time) or how long ago (3h).",
)
@click.option("-p", "--processes", is_flag=True, help="A line per process: user, PID, memory, runtime, name.")
@click.option("-d", "--details", is_flag=True, help="Fan, temperature and power too.")
@click.option("-t", "--times", is_flag=True, help="Show when each host was read.")
@nodes_option
@click.option("-u", "--user", metavar="USER", help="Only GPUs on which this user has a process.")
@click.option("--free", is_flag=True, help="Only free GPUs.")
@units_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in the form of gpus.json.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, in the form of load_data.csv.")
def show(
    config_path: Path | None,
    live: bool,
    at: int | None,
    processes: bool,
    details: bool,
    times: bool,
    nodes: re.Pattern[str] | None,
    user: str | None,
    free: bool,
    units: str,
    as_json: bool,
    as_csv: bool,
) -> None:
    """The lab as a table, from the last fetch, or as it was at a time of the history.

    Free GPUs are green, and your own processes have a star. In a pipe it is plain text, with the name
    of the host in every line.

    \b
    gpumon-static show                    everything
    gpumon-static show --live -p          now, with processes
    gpumon-static show -n 'gpu0[1-4]' -d  four hosts, with temperatures
    gpumon-static show -u alice           what alice runs
    gpumon-static show --free --json      for a script
    gpumon-static show --at 3h -p         what ran three hours ago
    """
    from gpumon_static.commands.show import as_it_was, run_show
    from gpumon_static.terminal.show import Choice

    exclusive(json=as_json, csv=as_csv)
    exclusive(live=live, at=at is not None)
    config, then, clock = load_config(config_path, need_keys=live), None, now
    if at is not None:
        time = datetime.fromtimestamp(at, UTC)
        (config, then), clock = as_it_was(config, time), lambda: time
    _matching(config, nodes)
    form = "json" if as_json else "csv" if as_csv else "table"
    look = {"unit": units, "processes": processes, "details": details, "seen": times}
    run_show(config, Choice(nodes, user, free), look, form, clock=clock, live=live, then=then)


@command
@config_option
@click.option(
    "-i",
    "--interval",
    type=click.FloatRange(1, 3600),
    default=5,
    show_default=True,
    help="Seconds from one reading to the next.",
)
@click.option("-p", "--processes", is_flag=True, help="A line per process; the key p does it too.")
@click.option("-d", "--details", is_flag=True, help="Fan, temperature and power; the key d does it too.")
@nodes_option
@units_option
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append each reading, in rntop's log format.",
)
def top(
    config_path: Path | None,
    interval: float,
    processes: bool,
    details: bool,
    nodes: re.Pattern[str] | None,
    units: str,
    output: Path | None,
) -> None:
    """The lab live, over connections that stay open.

    A host that does not answer is tried again, later and later; the others go on.

    \b
    Keys:  q quit   space pause   / filter   Esc clear the filter
           sort by: n host  u utilization  m memory  c temperature  w power  f free first
           p processes   d details   arrows, PgUp, PgDn, Home, End scroll

    \b
    gpumon-static top                       every 5 seconds
    gpumon-static top -i 1 -n gpu0          some hosts, every second
    gpumon-static top --output rntop.log    with a log that rntop's board can open
    """
    from gpumon_static.commands.show import allow_any_text, who_am_i
    from gpumon_static.terminal.rows import Look
    from gpumon_static.terminal.top import top as run_top

    config = load_config(config_path, need_keys=True)
    hosts = _matching(config, nodes)
    allow_any_text()
    look = Look(units, processes, details, me=who_am_i())
    run_top(config, hosts, look, interval, output, now)


def _matching(config: Config, nodes: re.Pattern[str] | None) -> list[HostConfig]:
    hosts = [host for host in config.hosts if not nodes or nodes.search(host.name)]
    if not hosts:
        raise click.UsageError("no configured host matches")
    return [host for host in hosts if host.is_asked(now())]


def _wanted_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `free` and `wait`; those of a place are given the names that `Wanted` has."""
    options = [
        click.option(
            "-n",
            "--number",
            "count",
            type=click.IntRange(1, 1024),
            default=1,
            show_default=True,
            help="GPUs on one host.",
        ),
        click.option(
            "--memory", "memory_mib", metavar="SIZE", callback=_memory_mib, help="Free on each, such as 40G."
        ),
        click.option("--model", metavar="TEXT", help="GPU name contains, such as A100."),
        click.option("--vendor", type=click.Choice(list(VENDORS)), help="GPUs of this vendor only."),
        click.option(
            "--host", "hosts", metavar="HOSTS", help="On these only: names with commas, such as gpu01,gpu1*."
        ),
        click.option("--group", metavar="GROUP", help="On hosts of this group only."),
        click.option(
            "--from",
            "address",
            metavar="URL|PATH",
            help="The page, its directory or gpus.json.  [default: $GPUMON_URL, else the config's site]",
        ),
        click.option("--most", type=click.IntRange(1), default=3, show_default=True, help="Hosts to print."),
        click.option("--plain", is_flag=True, help="A line per host: HOST DEVICES."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    ]
    for option in reversed(options):
        function = option(function)
    return config_option(function)


@command
@_wanted_options
@click.option("--old", is_flag=True, help="Accept stale data.")
@click.option("--when", is_flag=True, help="By when at the latest, where Slurm knows until when jobs run.")
def free(
    config_path: Path | None,
    address: str | None,
    most: int,
    plain: bool,
    as_json: bool,
    old: bool,
    when: bool,
    **wanted: Any,
) -> None:
    """Where can I run? The best hosts, and the lines to paste.

    Needs no SSH and no config: the address of the page will do. Healthy hosts with enough RAM come first.
    Exits with 1 when there is no place.

    \b
    gpumon-static free -n 2 --memory 40G --model A100
    gpumon-static free -n 2 --model A100 --when         # and if none are free: by when
    gpumon-static free --from https://lab.example/gpus/
    export GPUMON_URL=https://lab.example/gpus/         # then just: gpumon-static free
    read host devices < <(gpumon-static free --plain --most 1 --vendor nvidia)
    """
    from gpumon_static.survey.offers import Wanted
    from gpumon_static.terminal.free import answer

    exclusive(plain=plain, json=as_json)
    exclusive(plain=plain, when=when)
    source, form = _source(address, config_path), _form(plain, as_json)
    click.echo(answer(source, Wanted(**wanted), now(), most=most, form=form, use_old=old, when=when))


@command
@_wanted_options
@click.option("--timeout", metavar="TIME", callback=_seconds, help="Give up after this time, such as 8h.")
def wait(
    config_path: Path | None,
    address: str | None,
    most: int,
    plain: bool,
    as_json: bool,
    timeout: float | None,
    **wanted: Any,
) -> None:
    """Wait until there is a place to run, then print it as free does.

    Looks at the page as often as a browser would, no more. Exits with 1 after --timeout.

    \b
    gpumon-static wait -n 4 --model H100 && notify-send "four H100 are free"
    gpumon-static wait --memory 24G --timeout 8h --plain --most 1
    """
    from gpumon_static.survey.offers import Wanted
    from gpumon_static.terminal import free as terminal

    exclusive(plain=plain, json=as_json)
    found = terminal.wait(
        _source(address, config_path),
        Wanted(**wanted),
        timeout,
        clock=now,
        say=lambda line: click.echo(f"gpumon-static: {line}", err=True),
    )
    click.echo(terminal.text(found[:most], _form(plain, as_json)))


def _source(address: str | None, config_path: Path | None) -> Source:
    from gpumon_static.terminal.source import Source

    named = address or (None if config_path else os.environ.get("GPUMON_URL"))
    if named:
        return Source(named)
    return Source(str(load_config(config_path, instead=NO_CONFIG).paths.site), NO_PAGE)


def _form(plain: bool, as_json: bool) -> str | None:
    return "json" if as_json else "plain" if plain else None


COMMANDS = (show, top, free, wait)
