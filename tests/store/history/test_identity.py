"""Which GPU is which: host and UUID, and the few cases in which a past follows a card."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpumon_static.model import HostReading
from tests.builders import busy_gpu, failed, gpu, reading, slices
from tests.history_lab import DAY, START, HistoryLab

MASKED = "GPU-00000000-0000-0000-0000-000000000000"


@pytest.fixture
def lab(tmp_path: Path) -> HistoryLab:
    return HistoryLab(tmp_path, "node1", "node2")


def add_all(lab: HistoryLab, *runs: list[HostReading]) -> int:
    """Runs five minutes apart; returns the time of the last."""
    for number, readings in enumerate(runs):
        lab.add(START + 300 * number, *readings)
    assert lab.lines == []
    return START + 300 * (len(runs) - 1)


def uses(lab: HistoryLab, until: int) -> list[tuple[str, str, str, int, int, int]]:
    """Host, index, card, and seconds busy, free and unknown."""
    return [
        (use.host, use.index, use.card, use.busy_s, use.free_s, use.unknown_s)
        for use in lab.gpus(START, until)
    ]


def states(lab: HistoryLab, card: str) -> list[tuple[str, str]]:
    """Host and state of a card, run by run."""
    return lab.rows(
        f"SELECT host, gpu_state FROM rows WHERE card = '{card}' AND level >= 2 ORDER BY run_at, host"
    )


@pytest.mark.parametrize(
    "uuid", [MASKED, "GPU-XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX", "GPU-1ab2c3d4-0000-4444-9999-1234567890ab"]
)
def test_hosts_that_report_the_same_uuid_share_nothing(lab: HistoryLab, uuid: str) -> None:
    busy, free = reading("node1", [busy_gpu(uuid=uuid)]), reading("node2", [gpu(uuid=uuid)])
    runs = [[busy, free]] * 3 + [[failed("node1"), free], [busy, failed("node2")], [free, busy], [free, busy]]
    until = add_all(lab, *runs)
    found = {host: (busy_s, free_s) for host, _, _, busy_s, free_s, _ in uses(lab, until)}
    assert found == {"node1": (1500, 0), "node2": (0, 1500)}


def test_a_host_that_lists_the_uuids_of_another_does_not_take_over_its_history(lab: HistoryLab) -> None:
    own, evil = reading("node1", [busy_gpu(uuid="GPU-1")]), reading("node2", [gpu(uuid="GPU-1")])
    until = add_all(lab, [own, reading("node2")], [own, evil], [failed("node1"), evil], [own, evil])
    found = {host: (busy_s, free_s) for host, _, _, busy_s, free_s, _ in uses(lab, until)}
    assert found == {"node1": (600, 0), "node2": (0, 600)}
    past = lab.past(until).gpus
    assert (past["node1", "0"].since, past["node2", "0"].since) == (START, START + 300)


def test_a_card_that_moved_keeps_its_since_and_its_hours_stay_with_the_host_of_the_time(
    lab: HistoryLab,
) -> None:
    one, two = busy_gpu(0, uuid="GPU-1"), gpu(1, uuid="GPU-2")
    before = [reading("node1", [one, two]), reading("node2")]
    after = [reading("node1", [two]), reading("node2", [one])]
    until = add_all(lab, before, before, after, after)
    assert uses(lab, until) == [
        ("node1", "0", "GPU-1", 600, 0, 0),
        ("node1", "1", "GPU-2", 0, 900, 0),
        ("node2", "0", "GPU-1", 300, 0, 0),
    ]
    assert lab.past(until).gpus["node2", "0"].taken_since == START
    assert ("node1", "0") not in lab.past(until).gpus


def test_a_card_whose_old_host_does_not_answer_is_not_followed(lab: HistoryLab) -> None:
    one = busy_gpu(uuid="GPU-1")
    until = add_all(
        lab, [reading("node1", [one]), reading("node2")], [failed("node1"), reading("node2", [one])]
    )
    assert lab.past(until).gpus["node2", "0"].since == until
    assert lab.past(until).gpus["node1", "0"].since == START


def test_a_renamed_host_goes_on_with_its_cards(lab: HistoryLab, tmp_path: Path) -> None:
    add_all(lab, [reading("node1", [busy_gpu()])], [reading("node1", [busy_gpu()])])
    renamed = HistoryLab(tmp_path, "newname")
    for at in (START + 600, START + 900):
        renamed.add(at, reading("newname", [busy_gpu()]))
    past = renamed.past(START + 900).gpus
    assert list(past) == [("newname", "0")]
    assert past["newname", "0"].since == START
    assert [use[0] for use in uses(renamed, START + 900)] == ["newname", "node1"]


def test_another_gpu_in_the_same_slot_is_another_gpu(lab: HistoryLab) -> None:
    old, new = reading("node1", [busy_gpu(uuid="GPU-old")]), reading("node1", [gpu(uuid="GPU-new")])
    until = add_all(lab, [old], [old], [new], [new])
    assert sorted(uses(lab, until)) == [
        ("node1", "0", "GPU-new", 0, 300, 0),
        ("node1", "0", "GPU-old", 600, 0, 0),
    ]


def test_a_gpu_that_loses_its_uuid_is_known_by_its_bus_id_then_by_its_index(lab: HistoryLab) -> None:
    one = busy_gpu(0, uuid="GPU-1", bus_id="0000:01")
    two = gpu(1, uuid="GPU-2", bus_id="0000:02")
    whole = reading("node1", [one, two])
    # The second time they changed their places, and say where they are; the third time only the index is left.
    swapped = reading("node1", [replace(two, index=0, uuid=None), replace(one, index=1, uuid=None)])
    bare = reading("node1", [replace(two, index=0, uuid=None, bus_id=None), replace(one, index=1, uuid=None, bus_id=None)])  # fmt: skip
    until = add_all(lab, [whole], [swapped], [bare], [bare])
    assert sorted(use[2:5] for use in uses(lab, until)) == [("GPU-1", 900, 0), ("GPU-2", 0, 900)]


def test_one_card_is_never_two_gpus_of_a_host(lab: HistoryLab) -> None:
    one = gpu(0, uuid="GPU-1", bus_id="0000:01")
    moved = [gpu(0, uuid=None), gpu(1, uuid=None, bus_id="0000:01")]
    until = add_all(lab, [reading("node1", [one])], [reading("node1", moved)], [reading("node1", moved)])
    assert sorted(use[2] for use in uses(lab, until)) == ["#0", "GPU-1"]


def test_uuids_that_several_gpus_of_a_host_have_are_none(lab: HistoryLab) -> None:
    twice = reading("node1", [busy_gpu(0, uuid="GPU-1"), gpu(1, uuid="GPU-1")])
    until = add_all(lab, [twice], [twice])
    assert [use[2:5] for use in uses(lab, until)] == [("#0", 300, 0), ("#1", 0, 300)]


def test_a_gpu_that_gets_its_uuid_keeps_its_since(lab: HistoryLab) -> None:
    until = add_all(
        lab, [reading("node1", [busy_gpu(uuid=None)])], [reading("node1", [busy_gpu(uuid="GPU-1")])]
    )
    assert lab.past(until).gpus["node1", "0"].since == START


# Missing


@pytest.mark.parametrize("missing", [0, 2])
def test_a_gpu_that_its_host_no_longer_lists_is_unknown_for_a_week_then_gone(
    lab: HistoryLab, missing: int
) -> None:
    """The others are renumbered, as nvidia-smi does it: the one of the middle is missed as the last one is."""
    three = [gpu(n, uuid=f"GPU-{n}") for n in range(3)]
    left = [replace(one, index=n) for n, one in enumerate(o for o in three if o.uuid != f"GPU-{missing}")]
    lab.add(START, reading("node1", three))
    for days in (0, 1, 6, 8, 9):
        lab.add(START + days * DAY + 300, reading("node1", left))
    card = f"GPU-{missing}"
    assert states(lab, card) == [("node1", "free"), *[("node1", "unknown")] * 3]


def test_a_gpu_that_is_cut_into_slices_is_missed_too(lab: HistoryLab) -> None:
    cut = gpu(0, uuid="GPU-1", mig_mode=True, utilization=None, slices=slices(2))
    add_all(lab, [reading("node1", [cut])], [reading("node1")], [failed("node1")], [reading("node1")])
    found = [state for _, state in states(lab, "GPU-1")]
    assert found == ["free", "unknown", "down", "unknown"]


def test_all_gpus_of_a_host_that_does_not_answer_are_down(lab: HistoryLab) -> None:
    both = reading("node1", [gpu(0, uuid="GPU-1"), gpu(1, uuid="GPU-2", mig_mode=True, slices=slices(2))])
    add_all(lab, [both], [failed("node1")])
    found = lab.rows(
        "SELECT card, mig_device, state FROM rows WHERE state = 'down' AND card IS NOT NULL ORDER BY ALL"
    )
    assert found == [("GPU-1", None, "down"), ("GPU-2", 0, "down"), ("GPU-2", 1, "down")]


def test_a_host_that_makes_gpus_up_adds_few_missing_ones(lab: HistoryLab) -> None:
    for run in range(4):
        made_up = [gpu(n, uuid=f"GPU-{run}-{n}") for n in range(20 * (4 - run))]
        lab.add(START + 300 * run, reading("node1", made_up))
    (most,) = lab.rows(
        "SELECT max(n) FROM (SELECT count(*) AS n FROM rows WHERE gpu_state = 'unknown' GROUP BY run_at)"
    )
    assert most[0] is None or most[0] <= 16
