"""What is to be put right on hosts that answer: clocks that differ, installed probes that are outdated."""

from __future__ import annotations

from gpumon_static.collect.probe import framing
from gpumon_static.model import HostReading

CLOCK_TOLERANCE_S = 30


def clock_words(offset_s: int) -> str:
    """`95 s ahead`, or `right`: two seconds are what the way of an answer costs."""
    if abs(offset_s) <= 2:
        return "right"
    return f"{abs(offset_s)} s {'ahead' if offset_s > 0 else 'behind'}"


def is_clock_wrong(offset_s: int, took_s: float = 0) -> bool:
    """`took_s`: what passed at the most between the host's look at its clock and ours."""
    return offset_s > CLOCK_TOLERANCE_S or offset_s < -CLOCK_TOLERANCE_S - took_s


def wrong_clock(reading: HostReading) -> str | None:
    """By how much the host's clock differs; None where it does not, or where that is not known."""
    offset = reading.clock_offset_s
    if offset is None or not is_clock_wrong(offset, reading.fetch_seconds or 0):
        return None
    return clock_words(offset)


def outdated_probe(reading: HostReading) -> tuple[int, int] | None:
    """The version of the probe that is installed there and ours, where that one is older."""
    version, ours = reading.probe_version, framing.version()
    return (version, ours) if version is not None and version < ours else None
