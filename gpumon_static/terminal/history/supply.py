"""`gpumon-static history supply`: each model's supply as a report of the history."""

from __future__ import annotations

from collections.abc import Sequence

from gpumon_static.survey.supply import SupplyRow, hour_words
from gpumon_static.terminal.history.reports import HistoryReport, ReportColumn, rounded
from gpumon_static.text import DASH, count

MOST_NAMED = 3
"""Users in one cell; the rest is counted."""


def supply_report(rows: Sequence[SupplyRow], *, by_group: bool) -> HistoryReport:
    """On a terminal, the columns of Slurm are shown where it was asked."""
    is_slurm = any(row.allocated is not None for row in rows)
    columns = [ReportColumn("group", "Group", is_number=False)] if by_group else []
    columns += [
        ReportColumn("model", "Model", is_number=False, least=20),
        ReportColumn("gpus", "GPUs"),
        ReportColumn("busy_percent", "Busy %", drop=3),
        ReportColumn("held_idle_percent", "Held idle %", drop=2),
        ReportColumn("allocated_percent", "Allocated %", is_shown=False),
        ReportColumn("allocated_idle_percent", "Alloc. idle %", drop=4, is_shown=is_slurm),
        ReportColumn("free_percent", "Free %", is_shown=False),
        ReportColumn("unknown_percent", "Unknown %", is_shown=False),
        ReportColumn("coverage_percent", "Known %", drop=1),
        ReportColumn("known_days", "Days known", is_shown=False),
        ReportColumn("none_free_percent", "None free %"),
        ReportColumn("two_free_percent", "2+ on a host %", drop=5),
        ReportColumn("four_free_percent", "4+ %", drop=8),
        ReportColumn("eight_free_percent", "8+ %", drop=10),
        ReportColumn("worst_hour", "Worst", is_number=False, drop=7),
        ReportColumn("busy_change_points", "Busy +/-", drop=9),
        ReportColumn("none_free_change_points", "None free +/-", is_shown=False),
        ReportColumn("held_idle_gpu_days", "Idle days", drop=6),
        ReportColumn("held_idle_by", "By", is_number=False, drop=11),
        ReportColumn("allocated_gpu_days", "Allocated days", is_shown=False),
        ReportColumn("allocated_idle_gpu_days", "Alloc. idle days", is_shown=False),
        ReportColumn("verdict", "Verdict", is_number=False, is_shown=False),
        ReportColumn("words", "In words", is_number=False, least=45),
        ReportColumn("reclaimable_percent", "Idle long %", is_shown=False),
        ReportColumn("held_pauses_percent", "Pauses %", is_shown=False),
    ]
    cells = [(*([row.group or DASH] if by_group else []), *_supply_cells(row)) for row in rows]
    return HistoryReport("Supply by " + ("group and model" if by_group else "model"), columns, cells)


def _supply_cells(row: SupplyRow) -> tuple[str | float | int | None, ...]:
    return (
        row.model,
        row.gpus,
        *map(_percent, (row.busy, row.held, row.allocated, row.allocated_idle)),
        *map(_percent, (row.free, row.unknown, row.coverage)),
        rounded(row.known_days),
        *map(_percent, (row.none_free, row.two_free, row.four_free, row.eight_free)),
        hour_words(row.worst_hour),
        _percent(row.busy_change),
        _percent(row.none_free_change),
        rounded(row.held_days),
        _held_by(row),
        *map(rounded, (row.allocated_days, row.allocated_idle_days)),
        row.verdict,
        row.words,
        *map(_percent, (row.held_long, row.held_pauses)),
    )


def _held_by(row: SupplyRow) -> str | None:
    """alice 2.1, bob 0.4 and 3 more, in GPU days; where no names are shown, how many users."""
    if not row.held_users:
        return None
    if not row.held_by:
        return count(row.held_users, "user")
    named = ", ".join(f"{user or 'unknown'} {days:.1f}" for user, days in row.held_by[:MOST_NAMED])
    more = len(row.held_by) - MOST_NAMED
    rest = sum(days for _, days in row.held_by[MOST_NAMED:])
    return f"{named} and {more} more {rest:.1f}" if more > 0 else named


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 1)
