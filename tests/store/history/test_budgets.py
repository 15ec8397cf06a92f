"""A short form of `make budgets`: hosts that make everything up, for an hour of runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.torture import budgets, liars
from tests.torture.lab import Result

HOUR = 15
"""Runs until the first hour is closed."""


@pytest.mark.parametrize(
    ("kind", "runs"), [(budgets.month, HOUR), (budgets.kinds, HOUR), (budgets.hundred, 2)]
)
def test_a_host_that_makes_everything_up_costs_the_others_little(
    tmp_path: Path, kind: Callable[[Path, int], Result], runs: int
) -> None:
    result = kind(tmp_path, runs)
    assert result.failures == []
    assert result.tried >= 1


def test_what_is_too_much_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The budgets' own eyes: bytes above the limit, a slower render, an answer that differs."""
    monkeypatch.setattr(budgets, "MOST_A_DAY", 1)
    monkeypatch.setattr(budgets, "MOST_TIMES", 0.1)
    monkeypatch.setattr(budgets, "TRIES", 1)
    monkeypatch.setattr(budgets, "MOST_TRIES", 1)
    # It has the model of the good hosts.
    monkeypatch.setattr(liars, "careful", liars.steady)
    assert len(budgets.month(tmp_path, HOUR).failures) == 4
