"""Lengths of time as people write them: `90m`, `1h`, `30d`, `2w`."""

from __future__ import annotations

import re

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
EXAMPLES = "'30m', '24h', '7d', '2w' or '1y'"


def parse_duration(text: str) -> int:
    """Seconds; raises `ValueError` for what is no length of time."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhdwy])\s*", text.lower())
    if not found:
        raise ValueError(f"{text!r} is not a length of time such as {EXAMPLES}")
    seconds = round(float(found[1]) * UNITS_S[found[2]])
    if not 0 < seconds <= 100 * UNITS_S["y"]:
        raise ValueError(f"{text!r} is not between a second and 100 years")
    return seconds
