"""Waiting for something to happen: with a limit that only a machine at a standstill reaches."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(happened: Callable[[], object], what: str = "it", *, seconds: float = 120) -> None:
    """Looks again every few milliseconds; `what` did not happen, if it does not."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"{what} did not come within {seconds:g} s"
        time.sleep(0.01)
