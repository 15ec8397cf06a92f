"""A user with two logins that are shown by one name is one user, wherever names are listed."""

from __future__ import annotations

from pathlib import Path

from gpumon_static.publish.page.past import PastView
from gpumon_static.publish.page.past_data import _bands
from gpumon_static.survey.supply import supply_rows, with_names
from tests.builders import gpu, process, reading
from tests.history_lab import HOUR, START, HistoryLab

ALICE = (process(1, user="alice"), process(2, user="alice2"))
BOB = (process(3, user="bob"),)


def who(login: str) -> str:
    return {"alice": "Alice", "alice2": "Alice"}.get(login, login)


def test_one_name_stands_once_on_the_ribbon_and_in_supply(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path)
    held = [gpu(number, memory_used_mib=40_000.0, processes=user) for number, user in enumerate((ALICE, BOB))]
    end = START + 2 * HOUR
    lab.every(START, end, reading("node1", held))
    view = PastView(lab.past(end), who, HOUR)
    card = view.past.gpus["node1", "0"]
    assert view.people(card.users) == "Alice"
    names: dict[str, int] = {}
    assert len(_bands(view, card, names)) == 2
    assert list(names) == ["Alice"]
    (row,) = with_names(supply_rows(lab.supply(START, end)), who)
    assert [(name, round(24 * days, 1)) for name, days in row.held_by] == [("Alice", 2.0), ("bob", 2.0)]
