"""Three days of the lab of tests/truth, around each change of the clock; `make truth` has a month."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.truth.checks import wrong
from tests.truth.follow import follow
from tests.truth.pipeline import zone
from tests.truth.schedule import CLOCK_CHANGE, DAY, SPRING, ZONE, build


@pytest.mark.parametrize("change", [CLOCK_CHANGE, SPRING], ids=["autumn", "spring"])
def test_three_known_days_are_answered_right(tmp_path: Path, change: int) -> None:
    with zone(ZONE):
        lab = build(change - 2 * DAY, 3, 3600)
        checks = follow(lab, tmp_path, looks=2, questions=0, periods=("24h",), off=("7d",))
    assert checks.findings.checked.total() > 10_000
    assert not list(wrong(checks.findings)), "\n".join(wrong(checks.findings))
