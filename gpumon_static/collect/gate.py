"""The only door out of collect/: every reading passes it once, those of hosts that failed as well.

What has passed cannot break the CSV, the history, the page or anything else that comes after; `bounds/` has
the limits. They are applied where the host is read, so that a bad answer costs that host's time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from gpumon_static.bounds.reading import bounded
from gpumon_static.errors import HostError
from gpumon_static.model import HostReading, Status
from gpumon_static.times import Clock


def answer(host: str, read: Callable[[], HostReading], clock: Clock) -> HostReading:
    """Read the host: its reading, or why there is none. Raises nothing, whatever `read` raises."""
    started = time.monotonic()
    try:
        return bounded(read())
    except HostError as error:
        status, reason = error.status, error.reason
    except Exception as error:
        # A bug of ours with one host must not cost the readings of the others.
        status, reason = Status.ERROR, f"{type(error).__name__}: {error}"
    return failure(host, clock(), status, reason, round(time.monotonic() - started, 3))


def failure(
    host: str, at: datetime, status: Status, reason: str, seconds: float | None = None
) -> HostReading:
    """The reading of a host that failed. `seconds`: spent on the host, where it was asked at all."""
    return bounded(HostReading(host, at, status, reason, seconds))
