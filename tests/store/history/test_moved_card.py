"""The last day of a card that was put into another host: the card's own record goes with it."""

from __future__ import annotations

from pathlib import Path

from tests.builders import busy_gpu, failed, gpu, reading
from tests.history_lab import HOUR, START, HistoryLab


def test_ribbon_and_last_24_hours_of_a_moved_card_begin_where_it_was_before(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path, "node1", "node2")
    card, other = busy_gpu(0, uuid="GPU-1", power_w=390.0), gpu(1, uuid="GPU-2")
    idle = gpu(0, uuid="GPU-1", power_w=60.0)
    lab.every(START, START + HOUR - 300, reading("node1", [card, other]), reading("node2"))
    end = START + 3 * HOUR
    lab.every(START + HOUR, end, reading("node1", [other]), reading("node2", [idle]))
    found = lab.past(end).gpus["node2", "0"]
    assert found.spans.minutes() == [60, 0, 120], "busy, held, free: no time is unknown because of the move"
    slots = [(state, last - first) for first, last, state, _ in found.spans]
    assert slots == [("busy", 4), ("free", 8)]
    assert found.day is not None
    assert found.day.most[3] == 390, "the largest reading is the card's, wherever it was"
    assert [watts for watts in found.day.power if watts < 1000] == [390, 60, 60, 60]
    hours = {(use.host, use.card): (use.busy_s, use.free_s) for use in lab.gpus(START, end)}
    assert (hours["node1", "GPU-1"], hours["node2", "GPU-1"]) == ((HOUR, 0), (0, 2 * HOUR))


def test_a_uuid_that_two_hosts_report_brings_no_past_from_one_to_the_other(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path, "node1", "node2")
    own, evil = reading("node1", [busy_gpu(uuid="GPU-1")]), reading("node2", [gpu(uuid="GPU-1")])
    lab.every(START, START + HOUR, own, reading("node2"))
    end = START + HOUR + 600
    lab.add(START + HOUR + 300, failed("node1"), evil)
    lab.add(end, own, evil)
    past = lab.past(end).gpus
    assert past["node2", "0"].spans.minutes() == [0, 0, 5]
    assert past["node1", "0"].spans.minutes() == [65, 0, 0]


def test_a_host_that_listed_a_card_of_another_one_leaves_nothing_in_its_last_day(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path, "node1", "node2")
    own, evil = reading("node1", [busy_gpu(uuid="GPU-1")]), reading("node2", [gpu(uuid="GPU-1")])
    lab.every(START, START + HOUR, own, evil)
    end = START + 2 * HOUR
    lab.every(START + HOUR + 300, end, own, reading("node2"))
    found = lab.past(end).gpus["node1", "0"]
    assert found.spans.minutes() == [120, 0, 0]
