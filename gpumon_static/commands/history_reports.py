"""`gpumon-static history`: query the database and print the report."""

from __future__ import annotations

import io
from datetime import datetime
from functools import partial
from pathlib import Path

import click

from gpumon_static.config.settings import Config
from gpumon_static.errors import GpumonError
from gpumon_static.files import write_atomic
from gpumon_static.store import events_file, lock
from gpumon_static.store.history import questions, record, rntop
from gpumon_static.store.history.database import reading, writing
from gpumon_static.store.history.moving import copies, merging
from gpumon_static.store.history.moving.hours import export_hours
from gpumon_static.store.history.supply import supply
from gpumon_static.survey.sightings import bare_state
from gpumon_static.survey.supply import supply_rows
from gpumon_static.terminal import reports as terminal
from gpumon_static.terminal.supply import supply_report
from gpumon_static.times import utc_text


def report_users(config: Config, since: int, now: datetime, part: str | None, form: str | None) -> None:
    groups = config.groups
    namings: dict[str, questions.Naming] = {
        "host": lambda host, _model: host,
        "group": lambda host, _model: groups.get(host, ""),
        "model": lambda _host, model: model,
    }
    with reading(config.history_path) as connection:
        asked = questions.period(connection, since, int(now.timestamp()))
        uses = questions.users(connection, asked, namings[part] if part else None)
    terminal.show(terminal.users_report(uses, part), asked, form)


def report_gpus(config: Config, since: int, now: datetime, form: str | None, *, by_host: bool) -> None:
    with reading(config.history_path) as connection:
        asked = questions.period(connection, since, int(now.timestamp()))
        uses = questions.hosts(connection, asked) if by_host else questions.gpus(connection, asked)
    terminal.show(terminal.gpus_report(uses, by_host=by_host), asked, form)


def report_supply(config: Config, since: int, now: datetime, form: str | None, *, by_group: bool) -> None:
    with reading(config.history_path) as connection:
        asked = questions.period(connection, since, int(now.timestamp()))
        answer = supply(connection, asked, config.groups if by_group else None)
    terminal.show(supply_report(supply_rows(answer), by_group=by_group), answer.asked, form)


def import_rntop(config: Config, log: Path, now: datetime) -> None:
    try:
        with log.open(encoding="utf-8", errors="replace") as file, writing(config.history_path) as connection:
            result = rntop.import_log(
                connection, config, file, int(now.timestamp()), partial(bare_state, config.busy)
            )
            for line in result.bad_lines:
                click.echo(f"{log}: {line}", err=True)
            if result.bad > len(result.bad_lines):
                click.echo(f"{log}: and {result.bad - len(result.bad_lines)} more bad lines", err=True)
            if not result.added and not result.known:
                raise GpumonError(f"{log} has no line of rntop's log: nothing was added")
    except OSError as error:
        raise GpumonError(f"cannot read {log}: {error.strerror}") from error
    click.echo(
        f"{result.added} samples added, {result.known} left out because their time is already in the history,"
        f" {result.bad} bad lines skipped"
    )


def drop_after(config: Config, last_right: datetime, now: datetime) -> None:
    path = events_file.path_in(config.paths.data)
    with lock.only_one(config.paths.data / "fetch.lock", now):
        dropped = record.drop_after(config, last_right, now)
        memory = events_file.load(path)
        if memory.newest and memory.newest > last_right:
            memory.rewind(last_right)
            memory.doubted = []
            events_file.save(path, memory)
    click.echo(dropped.words if dropped else f"nothing was recorded after {utc_text(last_right)}")


def restore(config: Config, file: Path, now: datetime) -> None:
    with lock.only_one(config.paths.data / "fetch.lock", now):
        found, before = copies.restore(config.history_path, file, now)
    click.echo(f"restored {found.words}")
    if before:
        click.echo(f"what was there is in {before}")


def merge(config: Config, file: Path, now: datetime) -> None:
    with lock.only_one(config.paths.data / "fetch.lock", now):
        merged = merging.merge(config, file, now)
    click.echo(merged.words)


def export(config: Config, since: int, output: Path | None, *, as_hours: bool) -> None:
    """rntop's log, or the hours of GPUs and users as a table."""
    file = io.StringIO()
    with reading(config.history_path) as connection:
        count = (export_hours if as_hours else rntop.export_log)(connection, since, file)
    if output is None:
        click.echo(file.getvalue(), nl=False)
        return
    write_atomic(output, file.getvalue())
    click.echo(f"{count} {'rows' if as_hours else 'samples'} written to {output}")
