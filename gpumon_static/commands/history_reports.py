"""`gpumon-static history`: ask the history and print the report."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from gpumon_static.config.settings import Config
from gpumon_static.errors import GpumonError
from gpumon_static.store import events_file, lock
from gpumon_static.store.history import questions
from gpumon_static.store.history.converting.tables import OldNames
from gpumon_static.store.history.moving import convert as conversion
from gpumon_static.store.history.moving import copies, merging, rntop
from gpumon_static.store.history.moving.hours import export_hours
from gpumon_static.store.history.questions import GpuUse, RunCount, UserUse
from gpumon_static.store.history.reader import Period, Reader, ask
from gpumon_static.store.history.supply import SupplyAnswer, supply
from gpumon_static.store.history.upkeep import dropping
from gpumon_static.survey.names import short_model
from gpumon_static.survey.sightings import bare_state
from gpumon_static.survey.supply import supply_rows
from gpumon_static.system.files import write_atomic
from gpumon_static.terminal.history import reports as terminal
from gpumon_static.terminal.history.supply import supply_report
from gpumon_static.times import utc_text

T = TypeVar("T")


def report_users(config: Config, since: int, now: datetime, part: str | None, form: str | None) -> None:
    def answer(reader: Reader) -> tuple[Period, list[UserUse], RunCount]:
        asked = questions.period(reader, since, int(now.timestamp()))
        return asked, questions.users(reader, asked, part), questions.run_count(reader, asked)

    asked, uses, runs = _ask(config, answer)
    terminal.show(terminal.users_report(uses, part), asked, form, runs)


def report_gpus(config: Config, since: int, now: datetime, form: str | None, *, by_host: bool) -> None:
    def answer(reader: Reader) -> tuple[Period, list[GpuUse], RunCount]:
        asked = questions.period(reader, since, int(now.timestamp()))
        uses = questions.hosts(reader, asked) if by_host else questions.gpus(reader, asked)
        return asked, uses, questions.run_count(reader, asked)

    asked, uses, runs = _ask(config, answer)
    terminal.show(terminal.gpus_report(uses, by_host=by_host), asked, form, runs)


def report_supply(config: Config, since: int, now: datetime, form: str | None, *, by_group: bool) -> None:
    def answer(reader: Reader) -> tuple[SupplyAnswer, RunCount]:
        asked = questions.period(reader, since, int(now.timestamp()))
        found = supply(reader, asked, by_group=by_group, idle_after=config.history.idle_after)
        return found, questions.run_count(reader, found.asked)

    found, runs = _ask(config, answer)
    terminal.show(supply_report(supply_rows(found), by_group=by_group), found.asked, form, runs)


def _ask(config: Config, question: Callable[[Reader], T]) -> T:
    """With a line on stderr for each file that is left out."""
    return ask(config.history_path, question, lambda line: click.echo(f"history: {line}", err=True))


def import_rntop(config: Config, log: Path, now: datetime) -> None:
    try:
        with (
            log.open(encoding="utf-8", errors="replace") as file,
            lock.only_one(config.paths.data / "fetch.lock", now),
        ):
            state_of = partial(bare_state, config.busy)
            result = rntop.import_log(config, file, int(now.timestamp()), state_of)
    except OSError as error:
        raise GpumonError(f"cannot read {log}: {error.strerror}") from error
    for line in result.bad_lines:
        click.echo(f"{log}: {line}", err=True)
    if result.bad > len(result.bad_lines):
        click.echo(f"{log}: and {result.bad - len(result.bad_lines)} more bad lines", err=True)
    if not result.added and not result.known:
        raise GpumonError(f"{log} has no line of rntop's log: nothing was added")
    click.echo(
        f"{result.added} samples added, {result.known} left out because their time is already in the history,"
        f" {result.bad} bad lines skipped"
    )


def drop_after(config: Config, last_right: datetime, now: datetime) -> None:
    path = events_file.path_in(config.paths.data)
    with lock.only_one(config.paths.data / "fetch.lock", now):
        dropped = dropping.drop_after(config, last_right, now)
        memory = events_file.load(path)
        if memory.newest and memory.newest > last_right:
            memory.rewind(last_right)
            memory.doubted = []
            events_file.save(path, memory)
    click.echo(dropped.words if dropped else f"nothing was recorded after {utc_text(last_right)}")


def restore(config: Config, file: Path, now: datetime) -> None:
    with lock.only_one(config.paths.data / "fetch.lock", now):
        found, before = copies.restore(config.history_path, file, now, _naming(config))
    click.echo(f"restored {found.words}")
    if before:
        click.echo(f"what was there is in {before}")


def merge(config: Config, file: Path, now: datetime) -> None:
    with lock.only_one(config.paths.data / "fetch.lock", now):
        merged = merging.merge(config, file, now, _naming(config))
    click.echo(merged.words)


def convert(config: Config, file: Path | None, now: datetime) -> None:
    """The database of the config, or one that lies elsewhere, which is added and stays."""
    own = config.old_history_path
    with lock.only_one(config.paths.data / "fetch.lock", now):
        if file is not None and file.resolve() != own.resolve():
            merged = merging.merge(config, file, now, _naming(config))
            click.echo(f"{file}: {merged.words}")
            return
        if not own.exists():
            click.echo(f"nothing to convert: there is no {own}")
            return
        converted = conversion.convert_own(config, now, _naming(config))
    click.echo(converted.words)


def _naming(config: Config) -> OldNames:
    return OldNames(config.groups, short_model)


def export(config: Config, since: int, now: datetime, output: Path | None, *, as_hours: bool) -> None:
    """rntop's log, or the hours of GPUs and users as a table."""
    file = io.StringIO()
    write = export_hours if as_hours else rntop.export_log
    count = _ask(
        config,
        lambda reader: write(reader, questions.period(reader, since, int(now.timestamp())), file),
    )
    if output is None:
        click.echo(file.getvalue(), nl=False)
        return
    write_atomic(output, file.getvalue())
    click.echo(f"{count} {'rows' if as_hours else 'samples'} written to {output}")
