"""Answers to questions in SQL: a table on a terminal, plain columns in a pipe, CSV and JSON for scripts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import click
from rich.console import Console

from gpumon_static.store.cells import no_formula
from gpumon_static.store.history.views.asking import Answer, AnswerColumn
from gpumon_static.terminal import layout
from gpumon_static.terminal.layout import Cell, Column
from gpumon_static.text import DASH, plain
from gpumon_static.times import utc_text

CHUNK = 2000
LEAST = 8
_NUMBERS = ("INT", "FLOAT", "DOUBLE", "DECIMAL")


def show_answer(answer: Answer, form: str | None) -> None:
    """Print the rows. `form`: csv, json, or None for a table."""
    if form == "csv":
        _show_csv(answer)
    elif form == "json":
        _show_json(answer)
    else:
        _show_table(answer)


def _show_csv(answer: Answer) -> None:
    click.echo(_csv_lines([[column.name for column in answer.columns]]), nl=False)
    for rows in _chunks(answer):
        click.echo(_csv_lines([[_csv_cell(value) for value in row] for row in rows]), nl=False)


def _csv_lines(rows: Sequence[Sequence[Any]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def _csv_cell(value: Any) -> Any:
    if value is None:
        return ""
    return (
        value if isinstance(value, int | float) and not isinstance(value, bool) else no_formula(_text(value))
    )


def _show_json(answer: Answer) -> None:
    """The rows as those of the other reports; one for each line."""
    names = [column.name for column in answer.columns]
    click.echo('{"rows": [', nl=False)
    before = "\n"
    for rows in _chunks(answer):
        lines = [
            json.dumps(dict(zip(names, map(_json_value, row), strict=True)), ensure_ascii=False)
            for row in rows
        ]
        click.echo(before + ",\n".join(lines), nl=False)
        before = ",\n"
    click.echo("\n]}")


def _show_table(answer: Answer) -> None:
    columns = [_column(number, column) for number, column in enumerate(answer.columns)]
    rows = [
        {column.name: Cell(_cell(value)) for column, value in zip(columns, row, strict=True)}
        for chunk in _chunks(answer)
        for row in chunk
    ]
    console = Console(markup=False, highlight=False, emoji=False)
    for line in layout.lines(columns, rows, console.width if console.is_terminal else None):
        if console.is_terminal:
            console.print(line, no_wrap=True, overflow="crop")
        else:
            click.echo(line.plain)


def _column(number: int, column: AnswerColumn) -> Column:
    is_number = any(kind in column.type for kind in _NUMBERS) and "[" not in column.type
    return Column(str(number), plain(column.name), is_number, least=0 if is_number else LEAST)


def _chunks(answer: Answer) -> Iterator[list[tuple[Any, ...]]]:
    times = [column.is_time for column in answer.columns]
    while rows := answer.cursor.fetchmany(CHUNK):
        yield [tuple(map(_in_utc, row, times)) for row in rows]


def _in_utc(value: Any, is_time: bool) -> Any:
    return value.replace(tzinfo=UTC) if is_time and isinstance(value, datetime) else value


def _cell(value: Any) -> str:
    if value is None:
        return DASH
    if isinstance(value, float | Decimal):
        return f"{value:.2f}".removesuffix(".00")
    return plain(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return utc_text(value, exact=True) if value.tzinfo else value.isoformat(sep=" ")
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    if isinstance(value, dict):
        return json.dumps(_json_value(value), ensure_ascii=False)
    return "" if value is None else str(value)


def _json_value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | Decimal):
        number = float(value)
        return number if abs(number) < float("inf") else None
    if isinstance(value, datetime | date):
        return _text(value) if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, list | tuple):
        return [_json_value(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _json_value(one) for name, one in value.items()}
    return str(value)
