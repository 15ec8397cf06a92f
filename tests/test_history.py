"""What a run adds to the history, and how its time is counted. All expectations are worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumon_static.config.settings import Config, PathsConfig
from gpumon_static.model import Gpu, HostReading
from gpumon_static.store.history import questions, record
from gpumon_static.store.history.database import reading as open_history
from gpumon_static.survey.sightings import sightings
from tests.builders import busy_gpu, config, failed, gpu, process, reading, slices

START = datetime(2025, 11, 14, 9, 0, tzinfo=UTC)
MINUTE = 60
HOUR = 3600


class Lab:
    """A history, and runs of it at minutes after nine."""

    def __init__(self, directory: Path, *hosts: str) -> None:
        self.config: Config = replace(config(*(hosts or ("node1",))), paths=PathsConfig(directory, directory))
        self.said: list[str] = []

    def run(self, minute: float, *readings: HostReading, now: float | None = None) -> None:
        at = START + timedelta(minutes=minute)
        clock = START + timedelta(minutes=minute if now is None else now)
        timed = [replace(reading, fetched_at=at) for reading in readings]
        record.record(self.config, sightings(timed, self.config.busy), clock, self.said.append)

    def runs(self, minutes: Sequence[float], *gpus: Gpu, host: str = "node1") -> None:
        for minute in minutes:
            self.run(minute, reading(host, gpus))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with open_history(self.config.history_path) as connection:
            return list(connection.execute(query))

    def users(self, days: int = 1) -> dict[str, tuple[float, float, float | None]]:
        """Seconds busy and held, and efficiency."""
        with open_history(self.config.history_path) as connection:
            now = START + timedelta(days=days)
            asked = questions.period(connection, int(START.timestamp()), int(now.timestamp()))
            return {u.user: (u.busy_s, u.held_s, u.efficiency) for u in questions.users(connection, asked)}

    def gpus(self) -> list[questions.GpuUse]:
        with open_history(self.config.history_path) as connection:
            now = START + timedelta(days=1)
            asked = questions.period(connection, int(START.timestamp()), int(now.timestamp()))
            return questions.gpus(connection, asked)

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        names = [name for (name,) in self.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {str(name): self.rows(f"SELECT * FROM {name}") for name in names}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    assert made.said == [], "nothing to be said was expected"


def held_gpu(index: int = 0, *users: str) -> Gpu:
    """Memory in use, no work."""
    holders = tuple(process(100 + n, user=user, memory_mib=1000.0) for n, user in enumerate(users))
    return gpu(index, memory_used_mib=40000.0, utilization=0.0, processes=holders)


# Counting time


def test_a_sample_stands_for_the_time_until_the_next_one(lab: Lab) -> None:
    lab.runs([0, 5], busy_gpu())
    lab.runs([10, 15], gpu())
    (use,) = lab.gpus()
    # 9:00 and 9:05 were busy, each for five minutes; 9:10 was free for five; 9:15 is still open.
    assert (use.busy_s, use.free_s, use.unknown_s) == (600, 300, 0)


def test_a_missed_run_is_unknown_neither_idle_nor_used(lab: Lab) -> None:
    lab.runs([0, 5, 15, 20], busy_gpu())
    (use,) = lab.gpus()
    # 9:05 stands for five minutes; nobody knows of 9:10 to 9:15.
    assert (use.busy_s, use.free_s, use.unknown_s) == (900, 0, 300)
    assert lab.users()["alice"] == (900, 0, 97)


def test_a_run_that_comes_a_little_late_is_not_missed(lab: Lab) -> None:
    lab.runs([0, 7.5], busy_gpu())
    assert lab.users()["alice"][0] == 450


def test_a_run_that_comes_later_than_half_an_interval_is(lab: Lab) -> None:
    lab.runs([0, 7.6], busy_gpu())
    assert lab.users()["alice"][0] == 300


def test_a_slower_cron_than_the_config_says_is_learned(lab: Lab) -> None:
    lab.runs(range(0, 20 * 13, 20), busy_gpu())
    # Until ten gaps of 20 minutes have been seen, a sample stands for the 5 minutes of the config: the gaps
    # that runs 1 to 10 close; from the run after that on it stands for all of the 20.
    assert lab.users()["alice"][0] == 10 * 5 * MINUTE + 2 * 20 * MINUTE


def test_time_is_split_at_the_hour(lab: Lab) -> None:
    lab.runs([58, 63], busy_gpu())
    assert lab.rows("SELECT hour * 3600, busy_s FROM gpu_hours ORDER BY hour") == [
        (int(START.timestamp()), 120),
        (int(START.timestamp()) + HOUR, 180),
    ]


def test_a_day_is_the_sum_of_its_hours(lab: Lab) -> None:
    lab.runs(range(0, 130, 5), busy_gpu(), held_gpu(1, "bob"))
    for columns, name, keys in (("busy_s held_s utilization_sum utilization_n power_sum", "gpu", "gpu"),
                                ("busy_s held_s utilization_s", "user", "user, gpu"),
                                ("free_s taken_s memory_sum memory_total", "pool", "host, model")):  # fmt: skip
        summed = ", ".join(f"sum({column})" for column in columns.split())
        by_hour = lab.rows(f"SELECT {keys}, {summed} FROM {name}_hours GROUP BY {keys}")
        assert lab.rows(f"SELECT {keys}, {summed} FROM {name}_days GROUP BY {keys}") == by_hour
        assert by_hour


def test_average_largest_and_number_of_samples_are_kept(lab: Lab) -> None:
    for minute, utilization, watts in ((0, 10.0, 100.0), (5, 90.0, 300.0), (10, None, None)):
        lab.run(minute, reading("node1", [busy_gpu(utilization=utilization, power_w=watts)]))
    row = lab.rows(
        "SELECT utilization_n, utilization_sum, utilization_max, power_sum, power_max FROM gpu_hours"
    )
    assert row == [(2, 100, 90, 400, 300)]


# Users


def test_a_shared_gpu_is_split_evenly_among_its_users(lab: Lab) -> None:
    shared = busy_gpu(processes=(process(1, user="alice"), process(2, user="alice"), process(3, user="bob")))
    lab.runs([0, 5], shared)
    assert lab.users() == {"alice": (150, 0, 97), "bob": (150, 0, 97)}


def test_time_held_without_work_is_a_number_of_its_own(lab: Lab) -> None:
    lab.runs([0, 5], held_gpu(0, "bob"))
    lab.runs([10, 15], busy_gpu(processes=(process(user="bob"),), utilization=60.0))
    busy_s, held_s, efficiency = lab.users()["bob"]
    # Held from 9:00 to 9:10 at 0 %, busy from 9:10 to 9:15 at 60 %: on average 20 %.
    assert (busy_s, held_s) == (300, 600)
    assert efficiency == pytest.approx(20)


def test_memory_that_nobody_owns_is_nobodys_and_not_lost(lab: Lab) -> None:
    lab.runs([0, 5], gpu(memory_used_mib=40000.0))
    assert lab.users() == {"": (0, 300, 0)}


def test_a_desktop_does_not_count_as_use(lab: Lab) -> None:
    desktop = process(type="G", name="Xorg", user="root", memory_mib=300.0)
    lab.runs([0, 5], gpu(memory_used_mib=304.0, processes=(desktop,)))
    assert lab.users() == {}


def test_a_slice_counts_by_its_share_of_the_card(lab: Lab) -> None:
    # 9728 of 81920 MiB; nvidia-smi tells no utilization of slices, so there is no efficiency.
    lab.runs([0, 5], gpu(mig_mode=True, utilization=None, slices=slices(2, 0)))
    busy_s, held_s, efficiency = lab.users()["mia"]
    assert busy_s == pytest.approx(300 * 9728 / 81920)
    assert (held_s, efficiency) == (0, None)


def test_the_card_of_slices_is_counted_once_and_its_slices_beside_it(lab: Lab) -> None:
    lab.runs([0, 5], gpu(mig_mode=True, utilization=None, slices=slices(2, 0)))
    assert [(use.index, use.busy_s, use.free_s) for use in lab.gpus()] == [
        ("0", 300, 0),
        ("0:0", 300, 0),
        ("0:1", 0, 300),
    ]


def test_hours_can_be_told_by_host_and_by_model(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1", "node2")
    for minute in (0, 5, 10):
        lab.run(minute, reading("node1", [busy_gpu()]), reading("node2", [busy_gpu(1, name="Tesla T4")]))
    with open_history(lab.config.history_path) as connection:
        asked = questions.period(connection, int(START.timestamp()), int(START.timestamp()) + HOUR)
        by_model = questions.users(connection, asked, lambda _host, model: model)
        by_host = questions.users(connection, asked, lambda host, _model: host)
    assert [(u.part, u.total_s) for u in by_model] == [("NVIDIA A100-SXM4-80GB", 600), ("Tesla T4", 600)]
    assert [(u.part, u.total_s) for u in by_host] == [("node1", 600), ("node2", 600)]


# Hosts that do not answer


def test_a_host_that_is_down_is_unknown_and_comes_back(lab: Lab) -> None:
    lab.runs([0, 5], busy_gpu())
    lab.run(10, failed("node1"))
    lab.run(15, failed("node1"))
    lab.runs([20, 25], gpu())
    (use,) = lab.gpus()
    assert (use.busy_s, use.free_s, use.unknown_s) == (600, 300, 600)
    assert lab.rows("SELECT down_s FROM gpu_hours") == [(600,)]
    assert lab.rows("SELECT down_since FROM hosts") == [(None,)]


def test_a_host_says_since_when_it_is_down(lab: Lab) -> None:
    lab.runs([0], busy_gpu())
    for minute in (5, 10, 15):
        lab.run(minute, failed("node1"))
    at = int(START.timestamp())
    assert lab.rows("SELECT answered_at, down_since FROM hosts") == [(at, at + 5 * MINUTE)]


# Which GPU is which


def test_a_renamed_host_keeps_its_history(lab: Lab) -> None:
    lab.runs([0, 5], busy_gpu(0), gpu(1))
    lab.config = replace(lab.config, hosts=config("newname").hosts)
    lab.runs([10, 15], busy_gpu(0), gpu(1), host="newname")
    assert [(use.host, use.index, use.busy_s) for use in lab.gpus()] == [
        ("newname", "0", 900),
        ("newname", "1", 0),
    ]
    assert lab.rows("SELECT name FROM hosts") == [("newname",)]


def test_a_gpu_that_moves_to_another_host_takes_its_history_along(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.run(0, reading("node1", [busy_gpu(0), gpu(1)]), reading("node2", [gpu(2)]))
    lab.run(5, reading("node1", [gpu(1)]), reading("node2", [gpu(2), busy_gpu(0)]))
    lab.run(10, reading("node1", [gpu(1)]), reading("node2", [gpu(2), busy_gpu(0)]))
    busy = [use for use in lab.gpus() if use.busy_s]
    assert [(use.host, use.busy_s) for use in busy] == [("node2", 600)]
    assert sorted(name for (name,) in lab.rows("SELECT name FROM hosts")) == ["node1", "node2"]


def test_another_gpu_in_the_same_slot_is_another_gpu(lab: Lab) -> None:
    lab.runs([0, 5], busy_gpu(0, uuid="GPU-old"))
    lab.runs([10, 15], gpu(0, uuid="GPU-new"))
    assert [(use.index, use.busy_s, use.free_s) for use in lab.gpus()] == [("0", 300, 0), ("0", 0, 300)]


def test_without_a_uuid_a_gpu_is_known_by_its_place_and_later_by_its_uuid(lab: Lab) -> None:
    lab.runs([0, 5], busy_gpu(0, uuid=None))
    lab.runs([10, 15], busy_gpu(0, uuid="GPU-known-now"))
    assert [use.busy_s for use in lab.gpus()] == [900]


def test_two_hosts_that_tell_the_same_uuid_are_kept_apart(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1", "node2")
    for minute in (0, 5, 10):
        lab.run(minute, reading("node1", [busy_gpu()]), reading("node2", [gpu()]))
    assert [(use.host, use.busy_s, use.free_s) for use in lab.gpus()] == [
        ("node1", 600, 0),
        ("node2", 0, 600),
    ]


# Since when


def test_a_gpu_knows_since_when_it_is_free_or_taken(lab: Lab) -> None:
    lab.runs([0], gpu())
    lab.runs([5, 10], busy_gpu())
    lab.runs([15, 20], held_gpu(0, "alice"))
    at = int(START.timestamp())
    # Idle since 9:15, alice's since 9:05.
    assert lab.rows("SELECT since, taken_since FROM latest") == [(at + 15 * MINUTE, at + 5 * MINUTE)]


def test_a_new_owner_starts_a_new_hold(lab: Lab) -> None:
    lab.runs([0, 5], held_gpu(0, "alice"))
    lab.runs([10], held_gpu(0, "bob"))
    at = int(START.timestamp())
    assert lab.rows("SELECT since, taken_since FROM latest") == [(at, at + 10 * MINUTE)]


def test_a_short_silence_does_not_restart_the_since(lab: Lab) -> None:
    lab.runs([0, 5], busy_gpu())
    lab.run(10, failed("node1"))
    lab.runs([35], busy_gpu())
    at = int(START.timestamp())
    assert lab.rows("SELECT since, taken_since FROM latest") == [(at, at)]


def test_a_long_silence_does(lab: Lab) -> None:
    lab.runs([0, 5, 66], busy_gpu())
    assert lab.rows("SELECT since FROM latest") == [(int(START.timestamp()) + 66 * MINUTE,)]


def test_changes_are_kept_as_spans_with_gaps(lab: Lab) -> None:
    lab.runs([0, 5], busy_gpu())
    lab.runs([30], gpu())
    at = int(START.timestamp())
    # Busy; from 9:10 on no run; free. States: 1, 5, 0.
    spans = lab.rows("SELECT at, state FROM spans ORDER BY at")
    assert spans == [(at, 1), (at + 10 * MINUTE, 5), (at + 30 * MINUTE, 0)]


# Again, and back in time


def test_the_same_snapshot_again_changes_nothing(lab: Lab) -> None:
    lab.runs([0, 5], busy_gpu(), held_gpu(1, "bob"))
    lab.run(10, failed("node1"))
    before = lab.everything()
    lab.run(5, reading("node1", [busy_gpu(), held_gpu(1, "bob")]), now=10)
    lab.run(10, failed("node1"))
    assert lab.everything() == before


def test_an_old_snapshot_changes_nothing(lab: Lab) -> None:
    lab.runs([0, 5, 10], busy_gpu())
    before = lab.everything()
    lab.run(3, reading("node1", [gpu()]), now=11)
    assert lab.everything() == before


def test_with_only_some_hosts_asked_the_others_stay(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1", "node2")
    one, two = reading("node1", [busy_gpu(0)]), reading("node2", [busy_gpu(1)])
    for minute in (0, 5):
        lab.run(minute, one, two)
    # `--only node1` keeps node2's row with its old time.
    at = START + timedelta(minutes=10)
    old = replace(two, fetched_at=START + timedelta(minutes=5))
    seen = sightings([replace(one, fetched_at=at), old], lab.config.busy)
    record.record(lab.config, seen, at, lab.said.append)
    assert [(use.host, use.busy_s) for use in lab.gpus()] == [("node1", 600), ("node2", 300)]


def test_a_run_that_is_behind_the_last_one_changes_nothing(tmp_path: Path) -> None:
    """Whether its clock or that of the last run is right, store/clock.py decides."""
    lab = Lab(tmp_path)
    lab.runs([0, 5, 400], busy_gpu())
    before = lab.everything()
    lab.runs([10, 300], busy_gpu())
    assert lab.everything() == before


# Everything adds up

STATES = {"free": gpu(), "busy": busy_gpu(), "held": held_gpu(0, "bob", "carol"), "mystery": gpu(
    utilization=None, memory_used_mib=None, processes_known=False)}  # fmt: skip
STEPS = st.lists(st.tuples(st.integers(1, 4000), st.sampled_from([*STATES, "down"])), min_size=2, max_size=9)
"""So few that no other interval than the config's is learned from them."""


@given(steps=STEPS)
@settings(max_examples=40)
def test_the_seconds_of_all_states_are_the_time_that_is_covered(
    steps: list[tuple[int, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    lab = Lab(tmp_path_factory.mktemp("history"))
    lab.run(0, reading("node1", [gpu()]))
    at, covered, taken, state = 0, 0, 0, "free"
    for gap, following in steps:
        at += gap
        stands_for = gap if gap <= 450 else 300
        covered += stands_for
        taken += stands_for if state in ("busy", "held") else 0
        state = following
        lab.run(at / 60, failed("node1") if state == "down" else reading("node1", [STATES[state]]))
    (sums,) = lab.rows(
        "SELECT sum(free_s + busy_s + held_s + unknown_s + down_s), sum(busy_s + held_s) FROM gpu_hours"
    )
    assert sums == (covered, taken)
    (by_users,) = lab.rows("SELECT total(busy_s + held_s) FROM user_days")
    assert by_users[0] == pytest.approx(taken)
    (hours,) = lab.rows("SELECT max(free_s + busy_s + held_s + unknown_s + down_s) FROM gpu_hours")
    assert hours[0] <= HOUR
