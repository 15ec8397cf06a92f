"""Readers beside runs that close hours and days, in short: no error, no row twice, none missing."""

from __future__ import annotations

from pathlib import Path

from tests.history_lab import DAY, HOUR
from tests.torture import history

STEP = 2 * HOUR
RUNS = 3 * DAY // STEP + 2
"""Each run closes an hour, and some of them a day."""


def test_questions_and_pages_beside_runs_and_merges_are_right(tmp_path: Path) -> None:
    result = history.readers(tmp_path, RUNS, reads_of_a_run=0, step=STEP)
    assert result.failures == []
    assert result.tried > 20


def test_two_collectors_at_once_count_no_time_twice(tmp_path: Path) -> None:
    assert history.collectors(tmp_path, 6).failures == []
