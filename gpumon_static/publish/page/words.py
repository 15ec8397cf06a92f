"""Numbers, times and texts as the page writes them. What is not known is a dash, never a zero."""

from __future__ import annotations

from datetime import UTC, datetime

from gpumon_static.publish.page.records import Moment, Quantity
from gpumon_static.text import DASH
from gpumon_static.times import age_of

NOT_KNOWN = Quantity(DASH)


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


def share(part: float | None, whole: float | None) -> int | None:
    """Percent of a bar that is filled, from 0 to 100."""
    if part is None or not whole:
        return None
    return round(min(1.0, max(0.0, part / whole)) * 100)


def moment(time: datetime, now: datetime, old_after_s: float) -> Moment:
    """In UTC, for readers without JavaScript; a browser writes its own zone. Stale when the page is made."""
    there = time.astimezone(UTC)
    written = f"{there.day} {there:%b %Y, %H:%M} UTC"
    age = age_of(time, now, old_after_s)
    return Moment(time.isoformat(timespec="seconds"), written, is_old=age.is_stale, is_ahead=age.is_ahead)


def _gigabytes(mib: float | None) -> str:
    # What drivers and vendors call GB is 1024 MiB: a card of 81920 MiB is sold as 80 GB.
    if mib is None:
        return DASH
    gigabytes = mib / 1024
    if gigabytes < 0.05:
        return "0"
    return f"{gigabytes:.1f}" if round(gigabytes, 1) < 10 else f"{gigabytes:.0f}"
