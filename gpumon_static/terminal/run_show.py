"""What `show` does: read or ask, then print in the form that was asked for."""

from __future__ import annotations

import getpass
import io
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import click
from rich.console import Console

from gpumon_static.config import Config
from gpumon_static.model import HostReading
from gpumon_static.terminal.rows import Look
from gpumon_static.terminal.show import Choice, as_csv, as_json, show, survey_of

Clock = Callable[[], datetime]


def run_show(
    config: Config, choice: Choice, look: Mapping[str, Any], form: str, *, clock: Clock, live: bool
) -> None:
    from gpumon_static.store import snapshot

    readings = ask_now(config, choice, clock) if live else snapshot.read(config.csv_path)
    survey = survey_of(readings, config, clock())
    if form == "json":
        click.echo(as_json(survey, choice))
    elif form == "csv":
        click.echo(as_csv(survey, choice, snapshot.text), nl=False)
    else:
        allow_any_text()
        console = Console(markup=False, highlight=False, emoji=False)
        every_node = not console.is_terminal
        show(console, survey, choice, Look(**look, me=who_am_i(), every_node=every_node))


def ask_now(config: Config, choice: Choice, clock: Clock) -> list[HostReading]:
    """Beside a fetch that may be running: no lock, and nothing is written."""
    from gpumon_static.collect import readers
    from gpumon_static.collect.fan_out import fan_out

    hosts = [host for host in config.hosts if not choice.nodes or choice.nodes.search(host.name)]
    with readers.for_hosts(config.path, hosts, clock) as read:
        return fan_out(
            hosts,
            read,
            workers=config.fetch.workers,
            deadline=config.fetch.deadline,
            clock=clock,
            patience=read.patience,
        )


def allow_any_text() -> None:
    """A terminal that is not UTF-8 shows a question mark for what it does not have."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def who_am_i() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
