"""The history around midnight, when two days have runs that no hour has yet."""

from __future__ import annotations

from pathlib import Path

from tests.builders import busy_gpu, reading
from tests.history_lab import DAY, HOUR, START, HistoryLab

MIDNIGHT = START // DAY * DAY + DAY


def test_a_run_before_midnight_counts_once_after_it(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path)
    lab.every(MIDNIGHT - 600, MIDNIGHT + 300, reading("node1", [busy_gpu()]))
    rows = lab.rows(f"SELECT epoch(fetched_at)::BIGINT - {MIDNIGHT} FROM rows ORDER BY 1")
    assert rows == [(-600,), (-300,), (0,), (300,)]
    (use,) = lab.users(MIDNIGHT - HOUR, MIDNIGHT + HOUR)
    assert use.busy_s == 900
