"""`gpumon-static history sql`: ask the history a question of the user's own, and print the answer."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpumon_static.config.settings import Config
from gpumon_static.errors import GpumonError, UsageError
from gpumon_static.store.history.reader import Period
from gpumon_static.store.history.views import asking
from gpumon_static.store.history.views.asking import ALL_TIME, Question
from gpumon_static.terminal.history.answers import show_answer
from gpumon_static.text import count

STDIN = "-"


def read_question(text: str | None, file: Path | None) -> str:
    """From the command line, a file, or stdin (`-`)."""
    if (text is None) == (file is None):
        raise UsageError("give one question: as an argument, `-` for stdin, or -f FILE")
    try:
        if text == STDIN or file == Path(STDIN):
            return sys.stdin.read()
        return text if file is None else file.read_text(encoding="utf-8")  # type: ignore[return-value]
    except UnicodeDecodeError:
        raise UsageError(f"{file or 'stdin'} is not UTF-8 text") from None
    except OSError as error:
        raise GpumonError(f"cannot read {file}: {error.strerror}") from error


def ask_in_sql(
    config: Config, sql: str, since: int | None, until: int | None, form: str | None, parquet: Path | None
) -> None:
    period = Period(ALL_TIME.since if since is None else since, ALL_TIME.until if until is None else until)
    if period.since >= period.until:
        raise UsageError("--since must be before --until")
    question = Question(sql, period)
    if parquet is None:
        asking.answer(config.history_path, question, lambda answer: show_answer(answer, form), _say)
        return
    rows = asking.write_answer(config.history_path, question, parquet, _say)
    click.echo(f"{count(rows, 'row')} written to {parquet}")


def _say(line: str) -> None:
    click.echo(f"history: {line}", err=True)
