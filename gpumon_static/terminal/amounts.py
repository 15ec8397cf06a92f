"""Amounts as a terminal shows them, memory in the unit that was asked for."""

from __future__ import annotations

from gpumon_static.text import DASH

UNITS = {"mib": ("MiB", 1.0), "gib": ("GiB", 1 / 1024), "mb": ("MB", 1.048576), "gb": ("GB", 0.001048576)}
"""Word, and how many of it a MiB is."""


def memory(mib: float | None, unit: str) -> str:
    if mib is None:
        return DASH
    value = mib * UNITS[unit][1]
    return f"{value:.0f}" if unit in ("mib", "mb") or value >= 100 else f"{value:.1f}"


def percent(value: float | None) -> str:
    return DASH if value is None else f"{value:.0f}%"


def percent_of(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else 100 * part / whole


def rounded(value: float | None, unit: str) -> str:
    return DASH if value is None else f"{value:.0f}{unit}"
