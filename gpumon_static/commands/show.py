"""`gpumon-static show`: read the last fetch or ask the hosts, then print the table, JSON or CSV."""

from __future__ import annotations

import getpass
import io
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from gpumon_static.config.settings import Config
from gpumon_static.model import STATUS_MEANINGS, HostReading
from gpumon_static.survey.survey import Survey, stale_after_s
from gpumon_static.terminal.rows import Look
from gpumon_static.terminal.show import Choice, chosen, jobs_of, show, survey_of
from gpumon_static.times import Clock

if TYPE_CHECKING:
    from gpumon_static.store.history.views.moment import LabThen

MOST_UNREAD = 5
"""Hosts without a reading that are named."""


def run_show(
    config: Config,
    choice: Choice,
    look: Mapping[str, Any],
    form: str,
    *,
    clock: Clock,
    live: bool = False,
    then: LabThen | None = None,
) -> None:
    """`then`: the lab at a time of the past, which `clock` gives."""
    from gpumon_static.store import snapshot

    if then:
        readings: Sequence[HostReading] = then.readings
    else:
        readings = ask_now(config, choice, clock) if live else snapshot.read(config.csv_path)
    survey = survey_of(readings, config, clock())
    if form == "json":
        click.echo(as_json(survey, choice))
    elif form == "csv":
        click.echo(snapshot.to_csv(chosen_readings(survey, choice)), nl=False)
    else:
        allow_any_text()
        console = Console(markup=False, highlight=False, emoji=False)
        every_node = not console.is_terminal
        shown = Look(**look, me=who_am_i(), every_node=every_node, is_past=then is not None)
        show(console, survey, choice, shown)


def as_it_was(config: Config, moment: datetime) -> tuple[Config, LabThen]:
    """The lab at that time, and the config with the hosts that it had: those that were read."""
    from gpumon_static.store.history.views.moment import lab_then

    then = lab_then(config.history_path, int(moment.timestamp()), stale_after_s, _say)
    readings = [_explained(reading) for reading in then.readings]
    configured = {host.name: host for host in config.hosts}
    # A host that has left the config since then is like any other, and one in maintenance today was in use.
    plain_host = replace(config.hosts[0], group=None, note=None, gpus=None, vendor=None)
    hosts = tuple(
        replace(
            configured.get(reading.host) or replace(plain_host, name=reading.host, address=reading.host),
            state=None,
        )
        for reading in readings
    )
    if unread := [name for name in configured if name not in {reading.host for reading in readings}]:
        more = f" and {len(unread) - MOST_UNREAD} more" if len(unread) > MOST_UNREAD else ""
        _say(f"no reading then of {', '.join(unread[:MOST_UNREAD])}{more}")
    site = replace(config.site, interval=max(config.site.interval, then.interval_s))
    return replace(config, hosts=hosts, site=site), replace(then, readings=readings)


def _explained(reading: HostReading) -> HostReading:
    """The history keeps the lines of errors only where the config asks for it."""
    return reading if reading.ok or reading.error else replace(reading, error=STATUS_MEANINGS[reading.status])


def _say(line: str) -> None:
    click.echo(f"gpumon-static: {line}", err=True)


def as_json(survey: Survey, choice: Choice) -> str:
    """The form of gpus.json. A choice of GPUs leaves out the others."""
    from gpumon_static.publish.exports.gpus_json import document

    shown = document(chosen(survey, choice))
    if choice.is_of_gpus:
        kept = {
            (host.name, place.gpu.index)
            for host in survey.hosts
            for place in host.places()
            if choice.takes(host, place)
        }
        for host in shown["hosts"]:
            host["gpus"] = [gpu for gpu in host["gpus"] if (host["name"], gpu["index"]) in kept]
        listed = {job.address for job in jobs_of(chosen(survey, choice), choice)}
        shown["jobs"] = [job for job in shown["jobs"] if job["address"] in listed]
    return json.dumps(shown, ensure_ascii=False, indent=2)


def chosen_readings(survey: Survey, choice: Choice) -> list[HostReading]:
    """The readings to print as CSV, in the form of load_data.csv."""
    readings = []
    for host in chosen(survey, choice).hosts:
        gpus = {place.gpu.index for place in host.places() if choice.takes(host, place)}
        if host.reading and (gpus or not choice.is_of_gpus):
            kept = tuple(gpu for gpu in host.reading.gpus if gpu.index in gpus)
            readings.append(replace(host.reading, gpus=kept))
    return readings


def ask_now(config: Config, choice: Choice, clock: Clock) -> list[HostReading]:
    """Ask the hosts, beside a fetch that may be running: no lock, and nothing is written."""
    from gpumon_static.collect.lab import ask_lab
    from gpumon_static.store import snapshot

    asked = config.asked(clock())
    hosts = tuple(host for host in asked if not choice.nodes or choice.nodes.search(host.name))
    nodes = snapshot.slurm_nodes(config.csv_path) if config.clusters else {}
    return ask_lab(config, hosts, clock, say=_say, last_nodes=nodes).hosts


def allow_any_text() -> None:
    """Let a terminal that is not UTF-8 show a question mark for other characters."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def who_am_i() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
