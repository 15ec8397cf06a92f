"""`gpumon-static history sql`: options to one call, as in cli.py."""

from __future__ import annotations

from pathlib import Path

import click

from gpumon_static.commands.options import command, config_option, exclusive, load_config, moment


@command
@config_option
@click.argument("question", metavar="SQL", required=False)
@click.option(
    "-f",
    "--file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Read it from a file.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--parquet", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write a Parquet file."
)
@click.option(
    "--since",
    metavar="TIME",
    callback=moment,
    help="Only files from then on: 30d, 2026-11-01.  [default: all]",
)
@click.option("--until", metavar="TIME", callback=moment, help="Only files up to then.  [default: all]")
def sql(
    config_path: Path | None,
    question: str | None,
    file: Path | None,
    as_csv: bool,
    as_json: bool,
    parquet: Path | None,
    since: int | None,
    until: int | None,
) -> None:
    """Ask your own question in SQL, of every run that was kept.

    The views are readings, gpu_runs, host_runs, holdings, jobs and events; `DESCRIBE jobs` lists the columns
    of one. The dialect is DuckDB's, times are UTC. A question can read the history and nothing else, and it
    changes nothing. With --since and --until only the files of that time are opened. `-` reads the question
    from stdin. docs/ask.md has ten questions to start from.

    \b
    gpumon-static history sql "SELECT host, max(temperature_c) FROM gpu_runs GROUP BY host"
    gpumon-static history sql --since 7d --csv -f question.sql
    """
    from gpumon_static.commands.history_sql import ask_in_sql, read_question

    exclusive(csv=as_csv, json=as_json, parquet=parquet is not None)
    form = "csv" if as_csv else "json" if as_json else None
    ask_in_sql(load_config(config_path), read_question(question, file), since, until, form, parquet)
