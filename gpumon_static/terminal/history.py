"""Reports of the history: a table on a terminal, plain columns in a pipe, CSV and JSON for scripts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from gpumon_static.store.questions import GpuUse, Level, Period, UserUse

HOUR = 3600
DASH = "–"


@dataclass(frozen=True)
class Column:
    name: str
    """In CSV and JSON; the unit is its last word."""
    title: str
    is_number: bool = True


@dataclass(frozen=True)
class Report:
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str | float | int | None]]


def users_report(uses: Sequence[UserUse], part: str | None) -> Report:
    total = sum(use.total_s for use in uses)
    columns = [Column("user", "User", is_number=False)]
    columns += [Column(part, part.capitalize(), is_number=False)] if part else []
    columns += [
        Column("gpu_hours", "GPU hours"),
        Column("share_percent", "Share %"),
        Column("busy_hours", "Busy h"),
        Column("held_idle_hours", "Held idle h"),
        Column("efficiency_percent", "Efficiency %"),
    ]
    rows = [
        (
            use.user or "unknown",
            *([use.part or DASH] if part else []),
            _hours(use.total_s),
            round(100 * use.total_s / total, 1) if total else None,
            _hours(use.busy_s),
            _hours(use.held_s),
            _rounded(use.efficiency),
        )
        for use in uses
    ]
    return Report("GPU hours by user" + (f" and {part}" if part else ""), columns, rows)


def gpus_report(uses: Sequence[GpuUse], *, by_host: bool) -> Report:
    columns = [
        Column("host", "Host", is_number=False),
        Column("gpus", "GPUs") if by_host else Column("gpu", "GPU", is_number=False),
        Column("model", "Model", is_number=False),
        Column("utilization_percent", "Util. %"),
        Column("utilization_max_percent", "max"),
        Column("memory_mib", "Memory MiB"),
        Column("memory_max_mib", "max"),
        Column("temperature_c", "°C"),
        Column("temperature_max_c", "max"),
        Column("power_w", "W"),
        Column("power_max_w", "max"),
        Column("busy_hours", "Busy h"),
        Column("held_idle_hours", "Held idle h"),
        Column("free_hours", "Free h"),
        Column("unknown_hours", "Unknown h"),
    ]
    rows = [
        (
            use.host,
            int(use.index) if by_host else use.index,
            use.model or DASH,
            *_level(use.utilization),
            *_level(use.memory),
            *_level(use.temperature),
            *_level(use.power),
            *(_hours(seconds) for seconds in (use.busy_s, use.held_s, use.free_s, use.unknown_s)),
        )
        for use in uses
    ]
    return Report("Hosts" if by_host else "GPUs", columns, rows)


def show(report: Report, asked: Period, form: str | None) -> None:
    """`form`: csv, json, or None for people."""
    if form == "csv":
        click.echo(_as_csv(report), nl=False)
    elif form == "json":
        click.echo(_as_json(report, asked))
    elif (console := Console()).is_terminal:
        console.print(_as_table(report, asked))
    else:
        click.echo("\n".join(_as_lines(report)))


def _as_csv(report: Report) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(column.name for column in report.columns)
    writer.writerows(["" if cell is None else cell for cell in row] for row in report.rows)
    return file.getvalue()


def _as_json(report: Report, asked: Period) -> str:
    names = [column.name for column in report.columns]
    document: dict[str, Any] = {
        "since": _iso(asked.since),
        "until": _iso(asked.until),
        "rows": [dict(zip(names, row, strict=True)) for row in report.rows],
    }
    return json.dumps(document, ensure_ascii=False, indent=1)


def _as_table(report: Report, asked: Period) -> Table:
    since, until = (datetime.fromtimestamp(at, UTC).astimezone() for at in (asked.since, asked.until))
    title = f"{report.title}, {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in report.columns:
        table.add_column(column.title, justify="right" if column.is_number else "left", no_wrap=True)
    for row in report.rows:
        table.add_row(*map(_cell, row))
    if not report.rows:
        table.add_row("nothing known")
    return table


def _as_lines(report: Report) -> list[str]:
    cells = [
        [column.title for column in report.columns],
        *([_cell(cell) for cell in row] for row in report.rows),
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(row, widths, report.columns, strict=True)
        ).rstrip()
        for row in cells
    ]


def _cell(cell: str | float | None) -> str:
    if cell is None:
        return DASH
    return f"{cell:.1f}" if isinstance(cell, float) else str(cell)


def _level(level: Level) -> tuple[float | None, int | None]:
    return _rounded(level.mean), level.most


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _hours(seconds: float) -> float:
    return round(seconds / HOUR, 2)


def _iso(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
