"""Times and lengths of time, as users and as files write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import NamedTuple

from gpumon_static.text import DASH

# gpufree runs where Python is older than ours, which has a shorter name for it.
UTC = timezone.utc  # noqa: UP017

Clock = Callable[[], datetime]

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
LAST_TIME = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())
"""Seconds since 1970 that a calendar has; damaged data may have more."""
EXAMPLES = "'30m', '24h', '7d', '2w' or '1y'"


def utc_now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@lru_cache(maxsize=4096)
def utc_text(time: datetime, *, exact: bool = False) -> str:
    """ISO 8601 in UTC: `2025-11-14T09:10:00Z`. `exact`: with parts of a second, where there are any."""
    return time.astimezone(UTC).isoformat(timespec="auto" if exact else "seconds").replace("+00:00", "Z")


def utc_text_of(seconds: float) -> str:
    """The same for seconds since 1970."""
    return utc_text(datetime.fromtimestamp(seconds, UTC))


@lru_cache(maxsize=4096)
def by_minute(time: datetime) -> datetime:
    """The whole minute by which it is over: what ends at 14:29:31 has not ended by 14:29."""
    if not time.second and not time.microsecond:
        return time
    return time.replace(second=0, microsecond=0) + timedelta(minutes=1)


def parse_utc(text: str) -> datetime:
    """The time that `utc_text` wrote."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


class Age(NamedTuple):
    """How old data is by a clock, and whether it can be true now: the one rule; assets/times.js has its twin.

    Two clocks may differ a little. What is dated further ahead than data may be old was dated by a wrong
    clock, or is read by one: nobody knows how old it is.
    """

    seconds: float
    """Below 0: dated ahead of the clock."""
    limit_s: float

    @property
    def is_ahead(self) -> bool:
        return self.seconds < -self.limit_s

    @property
    def is_stale(self) -> bool:
        return self.is_ahead or self.seconds > self.limit_s

    @property
    def words(self) -> str:
        """3 h ago; dated 3 h ahead of the clock."""
        if self.is_ahead:
            return f"dated {duration(-self.seconds)} ahead of the clock"
        return f"{duration(self.seconds)} ago"


def age_of(time: datetime, now: datetime, limit_s: float) -> Age:
    return Age((now - time).total_seconds(), limit_s)


def parse_duration(text: str) -> int:
    """`90m`, `1h`, `30d`, `2w` to seconds; raises `ValueError`."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhdwy])\s*", text.lower())
    if not found:
        raise ValueError(f"{text!r} is not a length of time such as {EXAMPLES}")
    seconds = round(float(found[1]) * UNITS_S[found[2]])
    if not 0 < seconds <= 100 * UNITS_S["y"]:
        raise ValueError(f"{text!r} is not between a second and 100 years")
    return seconds


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
