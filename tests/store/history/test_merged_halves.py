"""Two collectors, one after the other: merged, they know what one would have known, to the second."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpumon_static.model import HostReading
from gpumon_static.store.history.moving import merging
from tests.builders import busy_gpu, failed, gpu, process, reading
from tests.history_lab import DAY, HOUR, START, HistoryLab, moment

LATER = moment(START + 30 * DAY)
END = START + HOUR
SEAMS = [START + 2 * HOUR, START + 2 * HOUR + 1500, START + 15 * HOUR]
"""On the hour, within one, and at midnight."""


def read_at(at: int) -> list[HostReading]:
    """What the hosts answer then."""
    alice = busy_gpu(0, processes=(process(user="alice"),))
    one = reading("node1", [alice if at // 1800 % 2 else gpu(0), gpu(1)])
    return [
        one,
        failed("node2") if 2400 <= at % HOUR < 3300 else reading("node2", [busy_gpu(0, uuid="GPU-2")]),
    ]


def lab_of(path: Path, times: list[int]) -> HistoryLab:
    lab = HistoryLab(path, "node1", "node2")
    for at in times:
        lab.add(at, *read_at(at))
    assert lab.lines == []
    return lab


def answers(lab: HistoryLab, since: int, until: int) -> object:
    gpus = [
        (use.host, use.index, use.free_s, use.busy_s, use.held_s, use.unknown_s)
        for use in lab.gpus(since, until)
    ]
    users = [(use.user, use.part, use.busy_s, use.held_s) for use in lab.users(since, until, "host")]
    supply = [(model.model, model.gpus, model.sums) for model in lab.supply(since, until).models]
    # The last one may still be followed by another.
    readings = lab.rows(
        "SELECT host, epoch(fetched_at), seconds FROM rows"
        f" WHERE level = 3 AND epoch(fetched_at) < {until} ORDER BY ALL"
    )
    return gpus, users, supply, readings


@pytest.mark.parametrize(
    ("seam", "is_first_ours", "late"),
    [(SEAMS[0], True, 0), (SEAMS[1], False, 7), (SEAMS[1], True, -7), (SEAMS[2], False, 0)],
)
def test_halves_become_the_whole_and_no_reading_is_lost_at_the_seam(
    tmp_path: Path, seam: int, is_first_ours: bool, late: int
) -> None:
    """`late`: the second collector's cron is some seconds off."""
    times = range(seam - 2100, seam + 2101, 300)
    whole = [at + (late if at >= seam else 0) for at in times]
    expected = lab_of(tmp_path / "whole", whole)
    first = lab_of(tmp_path / "first", [at for at in whole if at < seam])
    second = lab_of(tmp_path / "second", [at for at in whole if at >= seam])
    ours, theirs = (first, second) if is_first_ours else (second, first)
    merging.merge(ours.config, theirs.config.history_path, LATER)
    since, until = whole[0], whole[-1]
    assert answers(ours, since, until) == answers(expected, since, until)
    again = merging.merge(ours.config, theirs.config.history_path, LATER)
    assert again.hours == 0, "a second time changes nothing"
    assert answers(ours, since, until) == answers(expected, since, until)


def test_readings_of_two_collectors_at_the_same_time_are_not_added_up(tmp_path: Path) -> None:
    one = lab_of(tmp_path / "one", list(range(START, END + 1, 300)))
    before = answers(one, START, END)
    # The other looked in between, for a while: it knows nothing that ours does not.
    two = lab_of(tmp_path / "two", list(range(START + 150, END, 300)))
    assert merging.merge(one.config, two.config.history_path, LATER).hours == 0
    assert answers(one, START, END) == before


def test_a_gap_of_one_collector_is_filled_by_the_other(tmp_path: Path) -> None:
    times = list(range(START, END + 1, 300))
    gap = range(START + 600, START + 1800)
    one = lab_of(tmp_path / "one", [at for at in times if at not in gap])
    two = lab_of(tmp_path / "two", [at for at in times if at in gap])
    merging.merge(one.config, two.config.history_path, LATER)
    assert answers(one, START, END) == answers(lab_of(tmp_path / "whole", times), START, END)
