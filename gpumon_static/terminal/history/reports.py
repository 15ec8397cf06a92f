"""Reports of the history: a table on a terminal, plain columns in a pipe, CSV and JSON for scripts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import compress
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from gpumon_static.store.cells import no_formula
from gpumon_static.store.history.questions import GpuUse, Level, RunCount, UserUse
from gpumon_static.store.history.reader import Period
from gpumon_static.terminal import layout
from gpumon_static.terminal.layout import Cell, Column
from gpumon_static.text import DASH
from gpumon_static.times import utc_text_of

HOUR = 3600


@dataclass(frozen=True)
class ReportColumn:
    name: str
    """In CSV and JSON; the unit is its last word."""
    title: str
    is_number: bool = True
    is_shown: bool = True
    """To people; CSV and JSON have all."""
    drop: int = 0
    """Where a terminal is too narrow, the column with the highest number goes; 0 stays."""
    least: int = 8
    """The width to which a text may be cut; a number is not, because it would be another one."""
    keep_end: bool = False

    @property
    def on_terminal(self) -> Column:
        least = 0 if self.is_number else self.least
        return Column(self.name, self.title, self.is_number, self.drop, least, self.keep_end)


@dataclass(frozen=True)
class HistoryReport:
    title: str
    columns: Sequence[ReportColumn]
    rows: Sequence[Sequence[str | float | int | None]]


def users_report(uses: Sequence[UserUse], part: str | None) -> HistoryReport:
    total = sum(use.total_s for use in uses)
    is_slurm = any(use.allocated_s for use in uses)
    columns = [ReportColumn("user", "User", is_number=False)]
    columns += [ReportColumn(part, part.capitalize(), is_number=False)] if part else []
    columns += [
        ReportColumn("gpu_hours", "GPU hours"),
        ReportColumn("share_percent", "Share %", drop=4),
        ReportColumn("busy_hours", "Busy h", drop=5),
        ReportColumn("held_idle_hours", "Held idle h"),
        ReportColumn("efficiency_percent", "Kernel active %", drop=1),
        ReportColumn("allocated_hours", "Allocated h", is_shown=is_slurm, drop=2),
        ReportColumn("allocated_idle_hours", "of it idle h", is_shown=is_slurm, drop=3),
    ]
    rows = [
        (
            use.user or "unknown",
            *([use.part or DASH] if part else []),
            _hours(use.total_s),
            round(100 * use.total_s / total, 1) if total else None,
            _hours(use.busy_s),
            _hours(use.held_s),
            rounded(use.efficiency),
            _hours(use.allocated_s) if is_slurm else None,
            _hours(use.allocated_idle_s) if is_slurm else None,
        )
        for use in uses
    ]
    return HistoryReport("GPU hours by user" + (f" and {part}" if part else ""), columns, rows)


def gpus_report(uses: Sequence[GpuUse], *, by_host: bool) -> HistoryReport:
    """Two GPUs that had one number in turn differ by their UUIDs, on a narrow terminal too."""
    is_clear = len({(use.host, use.index) for use in uses}) == len(uses)
    columns = [
        ReportColumn("host", "Host", is_number=False, keep_end=True),
        ReportColumn("gpus", "GPUs") if by_host else ReportColumn("gpu", "GPU", is_number=False),
        ReportColumn("model", "Model", is_number=False, drop=3),
        ReportColumn("utilization_percent", "Util. %"),
        ReportColumn("utilization_max_percent", "max", drop=8),
        ReportColumn("memory_mib", "Memory MiB", drop=4),
        ReportColumn("memory_max_mib", "max", drop=9),
        ReportColumn("temperature_c", "°C", drop=6),
        ReportColumn("temperature_max_c", "max", drop=11),
        ReportColumn("power_w", "W", drop=7),
        ReportColumn("power_max_w", "max", drop=10),
        ReportColumn("busy_hours", "Busy h"),
        ReportColumn("held_idle_hours", "Held idle h"),
        ReportColumn("free_hours", "Free h", drop=2),
        ReportColumn("unknown_hours", "Unknown h", drop=5),
    ]
    if not by_host:
        columns.append(ReportColumn("uuid", "UUID", is_number=False, drop=12 if is_clear else 0, least=12))
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
            *([] if by_host else [use.uuid]),
        )
        for use in uses
    ]
    return HistoryReport("Hosts" if by_host else "GPUs", columns, rows)


def show(report: HistoryReport, asked: Period, form: str | None, runs: RunCount | None = None) -> None:
    """Print a report. `form`: csv, json, or None for a table. `runs`: those of the period."""
    if form is not None:
        click.echo(for_scripts(report, asked, form, runs), nl=False)
    elif (console := Console()).is_terminal:
        for line in _as_table(_for_people(report), asked, console.width, runs):
            console.print(line, no_wrap=True, overflow="crop")
    else:
        click.echo("\n".join([_title(report, asked, runs), *_as_lines(_for_people(report))]))


def for_scripts(report: HistoryReport, asked: Period, form: str, runs: RunCount | None = None) -> str:
    return _as_csv(report) if form == "csv" else _as_json(report, asked, runs) + "\n"


def _for_people(report: HistoryReport) -> HistoryReport:
    return _only(report, [column.is_shown for column in report.columns])


def _only(report: HistoryReport, kept: Sequence[bool]) -> HistoryReport:
    rows = [list(compress(row, kept)) for row in report.rows]
    return HistoryReport(report.title, list(compress(report.columns, kept)), rows)


def _as_csv(report: HistoryReport) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(column.name for column in report.columns)
    writer.writerows(map(_csv_cell, row) for row in report.rows)
    return file.getvalue()


def _csv_cell(cell: str | float | None) -> str | float:
    return no_formula(cell) if isinstance(cell, str) else "" if cell is None else cell


def _as_json(report: HistoryReport, asked: Period, runs: RunCount | None = None) -> str:
    names = [column.name for column in report.columns]
    document: dict[str, Any] = {
        "since": utc_text_of(asked.since),
        "until": utc_text_of(asked.until),
        **({"runs": runs.seen, "runs_expected": runs.expected} if runs else {}),
        "rows": [dict(zip(names, row, strict=True)) for row in report.rows],
    }
    return json.dumps(document, ensure_ascii=False, indent=1)


def _as_table(report: HistoryReport, asked: Period, width: int, runs: RunCount | None = None) -> list[Text]:
    nothing = [] if report.rows else [Text("nothing known")]
    return [Text(_title(report, asked, runs), "italic"), *_lines(report, width), *nothing]


def _title(report: HistoryReport, asked: Period, runs: RunCount | None) -> str:
    """GPUs, 2026-10-24 09:00 to 2026-10-25 08:00 CET, 288 of 288 runs."""
    since, until = (datetime.fromtimestamp(at, UTC).astimezone() for at in (asked.since, asked.until))
    seen = f", {runs.words}" if runs else ""
    return f"{report.title}, {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M %Z}{seen}"


def _as_lines(report: HistoryReport) -> list[str]:
    return [line.plain for line in _lines(report, None)]


def _lines(report: HistoryReport, width: int | None) -> Iterator[Text]:
    names = [column.name for column in report.columns]
    rows = [dict(zip(names, map(Cell, map(_cell, row)), strict=True)) for row in report.rows]
    return layout.lines([column.on_terminal for column in report.columns], rows, width)


def _cell(cell: str | float | None) -> str:
    if cell is None:
        return DASH
    return f"{cell:.1f}" if isinstance(cell, float) else str(cell)


def _level(level: Level) -> tuple[float | None, int | None]:
    return rounded(level.mean), level.most


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _hours(seconds: float) -> float:
    return round(seconds / HOUR, 2)
