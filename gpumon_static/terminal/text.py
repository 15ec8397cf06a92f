"""Text that is safe in a terminal, and memory in the unit that was asked for."""

from __future__ import annotations

import unicodedata

_NOT_SHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Controls, and what turns the direction of a line: neither may come from a host or a web page."""

UNITS = {"mib": ("MiB", 1.0), "gib": ("GiB", 1 / 1024), "mb": ("MB", 1.048576), "gb": ("GB", 0.001048576)}
"""Word, and how many of it a MiB is."""

DASH = "–"


def plain(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join("\ufffd" if unicodedata.category(letter) in _NOT_SHOWN else letter for letter in text)


def memory(mib: float | None, unit: str) -> str:
    if mib is None:
        return DASH
    value = mib * UNITS[unit][1]
    return f"{value:.0f}" if unit in ("mib", "mb") or value >= 100 else f"{value:.1f}"


def percent(value: float | None) -> str:
    return DASH if value is None else f"{value:.0f}%"


def share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else 100 * part / whole


def rounded(value: float | None, unit: str) -> str:
    return DASH if value is None else f"{value:.0f}{unit}"
