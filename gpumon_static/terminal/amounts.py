"""Amounts as a terminal shows them, memory in the unit that was asked for."""

from __future__ import annotations

import re

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


def parse_memory(text: str) -> float:
    """`40G`, `24GiB` or `16000M` to MiB; raises `ValueError`.

    G is what vendors mean by it, a thousand million bytes: a card of 80 GB has less than 80 GiB.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([mgt])(i?)b?)?\s*", text.lower())
    if not found:
        raise ValueError(f"{text!r} is not an amount of memory such as 40G, 24GiB or 16000M")
    base = 1024.0 if found[3] else 1000.0
    power = {"m": 2, "g": 3, "t": 4}[found[2] or "g"]
    return float(found[1]) * base**power / 1024.0**2
