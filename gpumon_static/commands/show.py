"""`gpumon-static show`: read the last fetch or ask the hosts, then print the table, JSON or CSV."""

from __future__ import annotations

import getpass
import io
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click
from rich.console import Console

from gpumon_static.config.settings import Config
from gpumon_static.model import HostReading
from gpumon_static.survey.survey import Survey
from gpumon_static.terminal.rows import Look
from gpumon_static.terminal.show import Choice, chosen, jobs_of, show, survey_of
from gpumon_static.times import Clock


def run_show(
    config: Config, choice: Choice, look: Mapping[str, Any], form: str, *, clock: Clock, live: bool
) -> None:
    from gpumon_static.store import snapshot

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
        show(console, survey, choice, Look(**look, me=who_am_i(), every_node=every_node))


def as_json(survey: Survey, choice: Choice) -> str:
    """The form of gpus.json. A choice of GPUs leaves out the others."""
    from gpumon_static.publish.exports.gpus_json import document

    told = document(chosen(survey, choice))
    if choice.is_of_gpus:
        kept = {
            (host.name, place.gpu.index)
            for host in survey.hosts
            for place in host.places()
            if choice.takes(host, place)
        }
        for host in told["hosts"]:
            host["gpus"] = [gpu for gpu in host["gpus"] if (host["name"], gpu["index"]) in kept]
        listed = {job.address for job in jobs_of(chosen(survey, choice), choice)}
        told["jobs"] = [job for job in told["jobs"] if job["address"] in listed]
    return json.dumps(told, ensure_ascii=False, indent=2)


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

    asked = config.asked(clock())
    hosts = tuple(host for host in asked if not choice.nodes or choice.nodes.search(host.name))
    return ask_lab(
        config, hosts, clock, say=lambda line: click.echo(f"gpumon-static: {line}", err=True)
    ).hosts


def allow_any_text() -> None:
    """Let a terminal that is not UTF-8 show a question mark for other characters."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def who_am_i() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
