"""Numbers, times and texts as the page writes them. What is not known is a dash, never a zero."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from gpumon_static.publish.page import Moment, Quantity

DASH = "–"
NOT_KNOWN = Quantity(DASH)

_DIGITS = re.compile(r"([0-9]+)")


def natural_key(text: str) -> list[tuple[bool, int, str]]:
    """Sorts n2 before n10."""
    parts = _DIGITS.split(text.casefold())
    return [(not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts if part]


def clip(text: str, most: int) -> str:
    """Hosts may say as much as they like; the page shows so many characters of it."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def split_name(host: str) -> tuple[str, str]:
    """gpu01 and .lab.example; an address stays whole."""
    first, dot, rest = host.partition(".")
    return (host, "") if ":" in host or first.isdecimal() else (first, dot + rest)


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float | None) -> str:
    """45 s, 12 min, 3 h, 2 d 4 h: the unit that matters, rounded down."""
    if seconds is None:
        return DASH
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86400:
        return f"{whole // 3600} h"
    days, hours = whole // 86400, whole % 86400 // 3600
    return f"{days} d {hours} h" if hours and days < 100 else f"{days} d"


def rounded(number: float | None, unit: str) -> Quantity:
    return NOT_KNOWN if number is None else Quantity(f"{number:.0f}", unit)


def percent(number: float | None) -> Quantity:
    return rounded(number, "%")


def memory(mib: float | None) -> Quantity:
    if mib is None:
        return NOT_KNOWN
    return Quantity(f"{mib:.0f}", "MB") if 0 < mib < 100 else Quantity(_gigabytes(mib), "GB")


def memory_of(used_mib: float | None, total_mib: float | None) -> Quantity:
    """0.4 / 80 GB. Either side may be unknown, and both at once are one dash."""
    if used_mib is None and total_mib is None:
        return NOT_KNOWN
    return Quantity(f"{_gigabytes(used_mib)} / {_gigabytes(total_mib)}", "GB")


def power_of(used_w: float | None, limit_w: float | None) -> Quantity:
    if used_w is None or limit_w is None:
        return rounded(used_w, "W")
    return Quantity(f"{used_w:.0f} / {limit_w:.0f}", "W")


def share(part: float | None, whole: float | None) -> int | None:
    """Percent of a bar that is filled, from 0 to 100."""
    if part is None or not whole:
        return None
    return round(min(1.0, max(0.0, part / whole)) * 100)


def moment(time: datetime, now: datetime, old_after: timedelta) -> Moment:
    """In the time zone of `now`, which is the reader's lab's; old as seen when the page is made."""
    local = time.astimezone(now.tzinfo)
    written = f"{local.day} {local:%b %Y, %H:%M %Z}"
    return Moment(time.isoformat(timespec="seconds"), written, is_old=now - time > old_after)


def _gigabytes(mib: float | None) -> str:
    # What drivers and vendors call GB is 1024 MiB: a card of 81920 MiB is sold as 80 GB.
    if mib is None:
        return DASH
    gigabytes = mib / 1024
    if gigabytes < 0.05:
        return "0"
    return f"{gigabytes:.1f}" if round(gigabytes, 1) < 10 else f"{gigabytes:.0f}"
