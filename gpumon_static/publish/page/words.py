"""Numbers, times and texts as the page writes them. What is not known is a dash, never a zero."""

from __future__ import annotations

from datetime import UTC, datetime

from gpumon_static.publish.page.records import Moment, Quantity
from gpumon_static.text import DASH, gigabytes
from gpumon_static.times import age_of

NOT_KNOWN = Quantity(DASH)

LEGEND = (
    ("free", "free", "Nobody uses it: a green card, the one surface that stands out."),
    ("busy", "busy", "It computes, or a program holds it: near the page, with red bars."),
    ("held", "held idle", "Memory or a process holds it, and it does not compute: hatched."),
    ("held", "allocated", "A Slurm job has it, and no process uses it yet."),
    ("partly", "partly free", "A GPU that is cut into slices, some of them free."),
    ("unknown", "unknown", "The driver does not report enough, or it cannot be used: a dashed border."),
    ("failed", "fault, unreachable", "In amber: a fault of the GPU, or a host that does not answer."),
    (
        "ribbon",
        "last 24 hours",
        "Below right on a card: tall is busy, half as tall held idle, low free, nothing unknown.",
    ),
    ("bars", "bars", "Utilization above, memory in use below it, in the GB that the card is sold with."),
)
"""What signs mean: kind, word, explanation; in the page and in docs/page.md."""


def rounded(number: float | None, unit: str) -> Quantity:
    return NOT_KNOWN if number is None else Quantity(f"{number:.0f}", unit)


def percent(number: float | None) -> Quantity:
    return rounded(number, "%")


def memory(mib: float | None, total_mib: float | None = None) -> Quantity:
    """`total_mib`: of the card that it is a part of."""
    if mib is None:
        return NOT_KNOWN
    return Quantity(f"{mib:.0f}", "MB") if 0 < mib < 100 else Quantity(gigabytes(mib, total_mib), "GB")


def memory_of(used_mib: float | None, total_mib: float | None, *, is_card: bool = True) -> Quantity:
    """0.4 / 80 GB. Either side may be unknown, both at once are one dash. `is_card`: not RAM or a disk."""
    if used_mib is None and total_mib is None:
        return NOT_KNOWN
    of = total_mib if is_card else None
    return Quantity(f"{gigabytes(used_mib, of)} / {gigabytes(total_mib, of)}", "GB")


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
