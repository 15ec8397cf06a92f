"""`gpumon-static history ...`: options to one call per command, as in cli.py."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from gpumon_static.commands.options import (
    config_option,
    debug_option,
    exclusive,
    load_config,
    moment,
    now,
)


def _month(_context: click.Context, _parameter: click.Parameter, value: str | None) -> datetime | None:
    try:
        return datetime.strptime(value, "%Y-%m").replace(tzinfo=UTC) if value else None
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a month such as 2026-10") from None


since_option = click.option(
    "--since",
    metavar="TIME",
    default="30d",
    show_default=True,
    callback=moment,
    help="Period (30d) or start date (2026-11-01, local time).",
)


by_group_option = click.option(
    "--by",
    "by_group",
    type=click.Choice(["group"]),
    callback=lambda _context, _parameter, value: value is not None,
    help="Each group's models.",
)


@click.group()
@debug_option
def history() -> None:
    """Reports on the last hours, days and months, and who used what.

    Every fetch adds to data/history/. Time for which there is no answer, from a host or because no run
    came, is unknown: neither idle nor used.
    """


def command(function: Callable[..., Any]) -> click.Command:
    return history.command(function.__name__.strip("_"))(config_option(debug_option(function)))


def form_options(function: Callable[..., Any]) -> Callable[..., Any]:
    as_csv = click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

    @functools.wraps(function)
    def with_form(*, as_csv: bool, as_json: bool, **given: Any) -> Any:
        exclusive(csv=as_csv, json=as_json)
        return function(form="csv" if as_csv else "json" if as_json else None, **given)

    return since_option(as_csv(as_json(with_form)))


@command
@form_options
@click.option(
    "--by", "part", type=click.Choice(["host", "group", "model"]), help="Each user's hours by part."
)
def users(config_path: Path | None, since: int, form: str | None, part: str | None) -> None:
    """GPU hours of each user: busy, held idle, and how well they were used.

    A GPU that several users hold is split evenly among them; a MIG slice counts by its share of the card.
    Kernel active is sampled: the mean share of the time in which a kernel ran, in readings while the GPU was
    held. Of a shared GPU it is the GPU's, not the person's.

    Example:  gpumon-static history users --since 7d --by model
    """
    from gpumon_static.commands.history_reports import report_users

    report_users(load_config(config_path), since, now(), part, form)


@command
@form_options
def hosts(config_path: Path | None, since: int, form: str | None) -> None:
    """How busy each host was: utilization, memory, hours by state."""
    from gpumon_static.commands.history_reports import report_gpus

    report_gpus(load_config(config_path), since, now(), form, by_host=True)


@command
@form_options
def gpus(config_path: Path | None, since: int, form: str | None) -> None:
    """The same for each GPU and MIG slice."""
    from gpumon_static.commands.history_reports import report_gpus

    report_gpus(load_config(config_path), since, now(), form, by_host=False)


@command
@form_options
@by_group_option
def supply(config_path: Path | None, since: int, form: str | None, by_group: bool) -> None:
    """Whether there are enough GPUs of each model, or whether they are held idle.

    Shares of time: busy and held idle (of the known GPU time), none free, two, four and eight free on one
    host. The worst hour of the week, GPU days held idle and by whom, and a verdict; docs/history.md has its
    rules.

    Example:  gpumon-static history supply --since 90d --by group
    """
    from gpumon_static.commands.history_reports import report_supply

    report_supply(load_config(config_path), since, now(), form, by_group=by_group)


@command
@click.argument("log", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def import_(config_path: Path | None, log: Path) -> None:
    """Import a log of rntop.

    Lines for which there are samples of our own are left out, so that a second time changes nothing.
    Lines that cannot be read are counted, listed and skipped.
    """
    from gpumon_static.commands.history_reports import import_rntop

    import_rntop(load_config(config_path), log, now())


@command
@click.option(
    "--rntop", is_flag=True, help="The samples in rntop's log format, which its board opens.  [default]"
)
@click.option("--csv", "as_csv", is_flag=True, help="The hours of GPUs and users, a row each, for notebooks.")
@since_option
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="[default: stdout]")
def export(config_path: Path | None, rntop: bool, as_csv: bool, since: int, output: Path | None) -> None:
    """Write every reading of every GPU, or the hours of GPUs and users."""
    from gpumon_static.commands.history_reports import export as run_export

    exclusive(rntop=rntop, csv=as_csv)
    run_export(load_config(config_path), since, now(), output, as_hours=as_csv)


@command
@click.argument("target", metavar="PATH", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--keep",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Copies to keep: PATH, PATH.1 and so on.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print errors only: for cron, which mails every line.")
def backup(config_path: Path | None, target: Path, keep: int, quiet: bool) -> None:
    """Copy the history while it is in use, as one tar file.

    Replaces an older backup, and no other file.

    Example, for cron:  gpumon-static history backup --quiet --keep 7 /backup/history.tar
    """
    from gpumon_static.store.history.moving.copies import backup as run_backup

    written = run_backup(load_config(config_path).history_path, target, keep)
    if not quiet:
        click.echo(f"wrote {written.words}")


backup_argument = click.argument("file", metavar="BACKUP", type=click.Path(exists=True, path_type=Path))


@command
@backup_argument
def restore(config_path: Path | None, file: Path) -> None:
    """Put a backup in the place of the history.

    BACKUP: a file of `history backup`, a copy of the folder, or a history.db of a version before 0.2. It is
    checked first, and what was there is kept beside it.
    """
    from gpumon_static.commands.history_reports import restore as run_restore

    run_restore(load_config(config_path), file, now())


@command
@backup_argument
def merge(config_path: Path | None, file: Path) -> None:
    """Add the history of another collector to this one.

    For two collectors that become one. BACKUP is as for `history restore`. Where both have an hour of a host,
    the one that knows more of it counts, and never both. A second time changes nothing.
    """
    from gpumon_static.commands.history_reports import merge as run_merge

    run_merge(load_config(config_path), file, now())


@command
@click.argument(
    "file", metavar="[DATABASE]", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
def convert(config_path: Path | None, file: Path | None) -> None:
    """Turn the history.db of a version before 0.2 into files.

    The next fetch does the same. The database stays as history.db.before-parquet. One that lies elsewhere,
    such as an old backup, is added as `merge` adds it, and stays where it is.
    """
    from gpumon_static.commands.history_reports import convert as run_convert

    run_convert(load_config(config_path), file, now())


@command
@click.option(
    "--drop-after",
    "last_right",
    metavar="TIME",
    required=True,
    callback=moment,
    help="The last time that is right: a date, or how long ago (2h).",
)
def repair(config_path: Path | None, last_right: int) -> None:
    """Drop what was recorded while the clock was ahead.

    All runs after TIME go. A copy of them is kept beside the history.

    Example:  gpumon-static history repair --drop-after 2025-11-14T09:30
    """
    from gpumon_static.commands.history_reports import drop_after

    drop_after(load_config(config_path), datetime.fromtimestamp(last_right, UTC), now())


@click.command()
@config_option
@debug_option
@form_options
@by_group_option
@click.option(
    "--month", metavar="YYYY-MM", callback=_month, help="A whole month (UTC), in the place of --since."
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="[default: stdout]")
def report(
    config_path: Path | None,
    since: int,
    form: str | None,
    by_group: bool,
    month: datetime | None,
    output: Path | None,
) -> None:
    """Supply of a period as one HTML file, for mail.

    The same as `history supply`; users are shown as on the page (`users` in [site]). `render` writes the
    report of each month that is over to reports/ in the site.

    Example:  gpumon-static report --month 2026-10 --by group -o october.html
    """
    from gpumon_static.publish.reports.months import ReportTime, month_of, report_text
    from gpumon_static.survey.privacy import key_for
    from gpumon_static.system.files import write_atomic

    chosen = click.get_current_context().get_parameter_source("since")
    if month and chosen is ParameterSource.COMMANDLINE:
        raise click.UsageError("--month and --since exclude each other")
    time = month_of(month) if month else ReportTime(since)
    config = load_config(config_path)
    text = report_text(config, time, now(), form, key_for(config, config.pages[:1]), by_group=by_group)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_atomic(output, text)
