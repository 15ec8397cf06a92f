"""Supply: what was free at once and on one host, beside a plain recount; the verdict; what a person gets."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumon_static.config.file import load
from gpumon_static.config.settings import Config
from gpumon_static.model import Gpu, HostReading
from gpumon_static.store.history import questions, record
from gpumon_static.store.history.database import (
    SLURM_SUPPLY_SUMS,
    SUPPLY_MAXES,
    SUPPLY_SUMS,
    migrate,
    writing,
)
from gpumon_static.store.history.database import reading as open_history
from gpumon_static.store.history.observed import BUSY, FREE, HELD, HostSighting
from gpumon_static.store.history.supply import supply
from gpumon_static.survey.sightings import model_name, sightings
from gpumon_static.survey.supply import SupplyRow, SupplyVerdict, hour_words, supply_rows, with_names
from tests.builders import busy_gpu, config, failed, gpu, host_config, process, reading, slices
from tests.command import gpumon
from tests.terminal import in_terminal
from tests.test_history_recount import DAY, HOSTS, HOUR, INTERVAL, Recount, many_runs, observed

GROUPS = {"node1": "vision", "node2": "vision", "node3": ""}
LAB = replace(config(), hosts=tuple(host_config(name, group=GROUPS[name] or None) for name in HOSTS))

Tables = dict[tuple[Any, ...], dict[str, int]]


# A slow recount: each run's GPUs in a list, and every second of a run's time by itself


def snapshot(recount: Recount) -> list[tuple[str, str, int, bool | None]]:
    """Of each whole GPU that is thought to be there: host, model, state, and whether a job of Slurm has it."""
    return [
        (
            *recount._pool[name],
            samples[-1].state,
            samples[-1].owner is not None if samples[-1].is_told else None,
        )
        for name, samples in recount.samples.items()
        if recount._there[name] and recount._pool[name][1].endswith("/")
    ]


def plain_sums(snapshots: list[tuple[int, list[tuple[str, str, int, bool | None]]]], unit: int) -> Tables:
    sums: Tables = defaultdict(lambda: dict.fromkeys((*SUPPLY_SUMS, *SUPPLY_MAXES, *SLURM_SUPPLY_SUMS), 0))
    for (at, seen), (following, _) in pairwise(snapshots):
        gap = following - at
        end = following if gap <= 1.5 * INTERVAL else at + INTERVAL
        parts = {(model, group) for host, model, *_ in seen for group in (None, GROUPS[host])}
        for model, group in parts:
            mine = [one for one in seen if one[1] == model and group in (None, GROUPS[one[0]])]
            for second in range(at, end):
                _add_second(sums[second // unit, model, group], mine)
    return sums


def _add_second(row: dict[str, int], seen: list[tuple[str, str, int, bool | None]]) -> None:
    states = [state for _, _, state, _ in seen]
    free, busy, held = states.count(FREE), states.count(BUSY), states.count(HELD)
    on_host = [sum(h == host and state == FREE for h, _, state, _ in seen) for host in HOSTS]
    row["told_s"] += sum(given is not None for *_, given in seen)
    row["allocated_s"] += sum(given is True for *_, given in seen)
    row["idle_s"] += sum(given is True and state == HELD for _, _, state, given in seen)
    row["counted_s"] += 1
    row["free_s"], row["busy_s"], row["held_s"] = (
        row["free_s"] + free,
        row["busy_s"] + busy,
        row["held_s"] + held,
    )
    row["unknown_s"] += len(states) - free - busy - held
    if free + busy + held >= len(states) / 2:
        row["judged_s"] += 1
        row["none_s"] += free == 0
        for column, size in (("two_s", 2), ("four_s", 4), ("eight_s", 8)):
            row[column] += any(number >= size for number in on_host)
    row["gpus"] = max(row["gpus"], len(states))
    row["host_gpus"] = max(row["host_gpus"], *(sum(h == host for h, *_ in seen) for host in HOSTS))


def counted(connection: sqlite3.Connection, unit: str) -> Tables:
    columns = (*SUPPLY_SUMS, *SUPPLY_MAXES, *SLURM_SUPPLY_SUMS)
    listed = ", ".join(f"coalesce({column}, 0)" for column in columns)
    rows = connection.execute(
        f"SELECT {unit}, m.name || '/', g.name, {listed} FROM supply_{unit}s AS s"
        f" LEFT JOIN slurm_supply_{unit}s USING ({unit}, model, host_group)"
        " JOIN supply_models AS m ON m.model = s.model LEFT JOIN host_groups AS g ON g.id = s.host_group"
    )
    return {tuple(row[:3]): dict(zip(columns, row[3:], strict=True)) for row in rows}


@given(runs=many_runs())
@settings(max_examples=25, deadline=None)
def test_hours_and_days_are_those_of_a_plain_recount(runs: list[list[HostSighting]]) -> None:
    recount, snapshots = Recount(), []
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(Path("history.db"), connection)
        for run in runs:
            at = max(host.at for host in run)
            record.add(connection, LAB, run, at)
            recount.add_run(run)
            snapshots.append((at, snapshot(recount)))
        assert counted(connection, "hour") == plain_sums(snapshots, HOUR)
        assert counted(connection, "day") == plain_sums(snapshots, DAY)


@st.composite
def runs_without_moves(draw: st.DrawFn) -> list[list[HostSighting]]:
    """GPUs may come and go; each host has one that stays."""
    at, runs = 1763110800, []
    for _ in range(draw(st.integers(2, 9))):
        run = []
        for place, host in enumerate(HOSTS):
            there = [0, *(n for n in (1, 2, 3) if draw(st.booleans()))]
            gpus = [draw(observed(f"GPU-{host}-{n}", n)) for n in there]
            is_down = draw(st.integers(0, 3)) == 0
            run.append(HostSighting(host, at + place, None if is_down else gpus))
        runs.append(run)
        at += draw(st.sampled_from([300, 300, 300, 299, 450, 451, 3500, 90000]))
    return runs


@given(runs=runs_without_moves())
@settings(max_examples=40, deadline=None)
def test_an_update_counts_the_runs_whose_samples_are_kept(runs: list[list[HostSighting]]) -> None:
    """As if all runs but the last had been recorded by a version that did not count supply, nor ask Slurm."""
    runs = [
        [
            h._replace(gpus=h.gpus and [g._replace(allocated_to=None, is_told=False) for g in h.gpus])
            for h in run
        ]
        for run in runs
    ]
    found = []
    for is_updated in (False, True):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            migrate(Path("history.db"), connection)
            for number, run in enumerate(runs, start=1):
                if is_updated and number == len(runs):
                    for table in (
                        "supply_last",
                        "supply_hours",
                        "supply_days",
                        "supply_models",
                        "host_groups",
                    ):
                        connection.execute(f"DELETE FROM {table}")
                record.add(connection, LAB, run, max(host.at for host in run))
            found.append((counted(connection, "hour"), counted(connection, "day")))
    assert found[0] == found[1]


# What a run says


class Lab:
    """Runs an hour apart on some hosts, written as fetch does."""

    def __init__(self, directory: Path, *hosts: str) -> None:
        made = config(*hosts)
        paths = replace(made.paths, data=directory)
        self.config: Config = replace(made, paths=paths, site=replace(made.site, interval=HOUR))
        self.start = datetime(2026, 9, 1, tzinfo=UTC)

    def run(self, hour: float, *asked: HostReading, others: Sequence[HostReading] = ()) -> None:
        """`others`: hosts that `fetch --only` left out, with their readings of hour 0."""
        at = self.start + timedelta(hours=hour)
        readings = [replace(r, fetched_at=at) for r in asked]
        readings += [replace(r, fetched_at=self.start) for r in others]
        seen = sightings(readings, self.config.busy)
        record.record(self.config, seen, at, pytest.fail, short_model=model_name)

    def rows(self, *, by_group: bool = False) -> list[SupplyRow]:
        since, now = int(self.start.timestamp()), int(self.start.timestamp()) + 30 * DAY
        with open_history(self.config.history_path) as connection:
            asked = questions.period(connection, since, now)
            return supply_rows(supply(connection, asked, self.config.groups if by_group else None))


def a100(index: int, host: str, name: str = "NVIDIA A100-SXM4-80GB", **more: Any) -> Gpu:
    return gpu(index, uuid=f"GPU-{host}-{index}", name=name, **more)


def taken(index: int, host: str, **more: Any) -> Gpu:
    return busy_gpu(index, uuid=f"GPU-{host}-{index}", name="NVIDIA A100-SXM4-80GB", **more)


def test_two_free_on_one_host_are_more_than_one_on_each_of_two(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1", "node2")
    lab.run(
        0, reading("node1", (a100(0, "a"), taken(1, "a"))), reading("node2", (a100(0, "b"), taken(1, "b")))
    )
    lab.run(
        1, reading("node1", (a100(0, "a"), a100(1, "a"))), reading("node2", (taken(0, "b"), taken(1, "b")))
    )
    lab.run(
        2, reading("node1", (a100(0, "a"), a100(1, "a"))), reading("node2", (taken(0, "b"), taken(1, "b")))
    )
    (row,) = lab.rows()
    assert (row.gpus, row.free, row.none_free, row.two_free) == (4, 0.5, 0.0, 0.5)
    assert row.four_free is None, "no host has four"


def test_a_gpu_cut_into_slices_is_free_only_if_all_its_slices_are(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1")
    all_free, one_busy = a100(0, "a", slices=slices(3)), a100(0, "a", slices=slices(3, 1))
    lab.run(0, reading("node1", (all_free,)))
    lab.run(1, reading("node1", (one_busy,)))
    lab.run(4, reading("node1", (one_busy,)))
    (row,) = lab.rows()
    assert (row.gpus, row.busy, row.free, row.none_free) == (1, 0.5, 0.5, 0.5)


def test_models_with_one_short_name_are_one(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1", "node2")
    pcie = a100(0, "b", name="NVIDIA A100 80GB PCIe")
    for hour in (0, 1):
        lab.run(hour, reading("node1", (taken(0, "a"),)), reading("node2", (pcie,)))
    (row,) = lab.rows()
    assert (row.model, row.gpus, row.none_free) == ("A100 80G", 2, 0.0)


def test_when_most_gpus_are_unknown_nobody_says_that_none_is_free(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1", "node2", "node3")
    lab.run(0, *(reading(host, (taken(0, host),)) for host in ("node1", "node2", "node3")))
    for hour in (1, 2):
        lab.run(hour, reading("node1", (taken(0, "node1"),)), *(failed(host) for host in ("node2", "node3")))
    (row,) = lab.rows()
    # The first hour is judged; in the second two of three hosts were down.
    assert (row.gpus, row.none_free, row.known_days) == (3, 1.0, 1 / 24)
    assert row.coverage == pytest.approx(4 / 6)


def test_a_host_that_was_not_asked_counts_as_it_was_until_that_is_stale(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1", "node2")
    other = reading("node2", (a100(0, "b"),))
    lab.run(0, reading("node1", (taken(0, "a"),)), other)
    for hour in (1, 2, 3):
        lab.run(hour, reading("node1", (taken(0, "a"),)), others=[other])
    (row,) = lab.rows()
    # node2 is known in the first and second hour and unknown in the third: then one of two is enough to judge.
    assert row.gpus == 2
    assert row.none_free == pytest.approx(1 / 3)
    assert row.coverage == pytest.approx(5 / 6)


def test_time_without_runs_is_not_covered(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1")
    for hour in (0, 1, 9, 10):
        lab.run(hour, reading("node1", (taken(0, "a"),)))
    (row,) = lab.rows()
    # Two hours before the pause, the first of the second by its own run; one after it.
    assert row.coverage == pytest.approx(3 / 10)
    assert row.busy == 1.0


def test_a_model_that_is_gone_is_left_out_and_one_that_came_late_is_covered_since_then(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path, "node1", "node2")
    old, new = a100(0, "a", name="Tesla T4"), taken(0, "b")
    for hour in range(12):
        lab.run(hour, reading("node1", (old, taken(1, "a"))), failed("node2"))
    for hour in range(12, 25):
        lab.run(hour, reading("node1", (taken(1, "a"),)), reading("node2", (new, gpu(1, name="NVIDIA L40S"))))
    assert {(row.model, row.gpus, row.coverage) for row in lab.rows()} == {
        ("A100 80G", 2, 1.0),
        ("L40S", 1, 1.0),
    }


def test_groups_are_counted_for_themselves(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1", "node2")
    hosts = (host_config("node1", group="vision"), host_config("node2"))
    lab.config = replace(lab.config, hosts=hosts)
    for hour in (0, 1):
        lab.run(hour, reading("node1", (taken(0, "a"),)), reading("node2", (a100(0, "b"),)))
    found = {(row.group, row.gpus, row.none_free) for row in lab.rows(by_group=True)}
    assert found == {("vision", 1, 1.0), ("", 1, 0.0)}
    assert [(row.group, row.gpus, row.none_free) for row in lab.rows()] == [(None, 2, 0.0)]


def test_a_dropped_run_stands_for_no_time(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1")
    busy = reading("node1", (taken(0, "a"),))
    for hour in (0.0, 1.0, 2.0, 3.0, 4.0, 5.0):
        lab.run(hour, busy)
    record.drop_after(lab.config, lab.start + timedelta(hours=2), lab.start + timedelta(hours=3))
    for hour in (5.5, 6.5):
        lab.run(hour, busy)
    (row,) = lab.rows()
    # Three hours before the cut, and one from 5:30 on: the dropped run of 5:00 stands for nothing.
    assert row.known_days * 24 == pytest.approx(4)
    assert row.coverage == pytest.approx(4 / 6.5)


def test_the_change_is_that_against_the_period_before(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1")
    for hour in range(48):
        lab.run(hour, reading("node1", (taken(0, "a") if hour >= 24 or hour % 4 == 0 else a100(0, "a"),)))
    lab.run(48, reading("node1", (a100(0, "a"),)))
    start = int(lab.start.timestamp())
    with open_history(lab.config.history_path) as connection:
        (row,) = supply_rows(supply(connection, questions.Period(start + DAY, start + 2 * DAY)))
        (all_of_it,) = supply_rows(supply(connection, questions.Period(start, start + 2 * DAY)))
    assert (row.busy, row.busy_change, row.none_free_change) == (1.0, 0.75, 0.75)
    assert (all_of_it.busy, all_of_it.busy_change) == (0.625, None), "nothing is known of the time before"


def test_the_worst_hour_of_the_week_is_in_local_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        lab = Lab(tmp_path, "node1")
        for hour in range(8 * 24):
            is_rush = hour % 24 == 12 and (hour // 24) % 7 == 1
            lab.run(hour, reading("node1", (taken(0, "a") if is_rush else a100(0, "a"), a100(1, "a"))))
        (row,) = lab.rows()
    finally:
        monkeypatch.undo()
        time.tzset()
    # The 1st of September 2026 is a Tuesday; 12:00 UTC is 14:00 in Berlin.
    assert hour_words(row.worst_hour) == "Wed 14 h"


# The verdict


def row_of(**changes: Any) -> SupplyRow:
    given: dict[str, Any] = {
        "model": "A100 80G", "group": None, "gpus": 10, "busy": 0.6, "held": 0.02, "free": 0.38,
        "coverage": 0.99, "known_days": 29.0, "none_free": 0.1, "two_free": 0.6, "four_free": 0.2,
        "eight_free": None, "worst_hour": None, "busy_change": None, "none_free_change": None,
        "held_days": 6.0, "held_by": (("alice", 4.0), ("bob", 2.0)), "held_users": 2,
    }  # fmt: skip
    return SupplyRow(**(given | changes))


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({"none_free": 0.61}, SupplyVerdict.SHORT, "short: none free most of the time"),
        ({"none_free": 0.2}, SupplyVerdict.SHORT, "short: none free 20 % of the time"),
        ({"none_free": 0.19}, SupplyVerdict.ENOUGH, "enough: none free 19 % of the time"),
        ({"none_free": 0.05}, SupplyVerdict.ENOUGH, "enough: none free 5 % of the time"),
        ({"none_free": 0.04}, SupplyVerdict.AMPLE, "ample: some free 96 % of the time"),
        ({"none_free": 0.0, "held": 0.5}, SupplyVerdict.AMPLE, "ample: some free 100 % of the time"),
        (
            {"none_free": 0.18, "held": 0.15},
            SupplyVerdict.HELD,
            "1.5 GPUs are held idle: reclaim before buying",
        ),
        (
            {"none_free": 0.9, "held": 0.1},
            SupplyVerdict.HELD,
            "1.0 GPUs are held idle: reclaim before buying",
        ),
        (
            {"none_free": 0.9, "held": 0.1, "gpus": 4},
            SupplyVerdict.SHORT,
            "short: none free most of the time",
        ),
        ({"none_free": 0.9, "held": 0.09}, SupplyVerdict.SHORT, "short: none free most of the time"),
        ({"none_free": 0.9, "known_days": 2.9}, SupplyVerdict.UNSURE, "too little data: 2.9 days"),
        (
            {"none_free": 0.9, "coverage": 0.49},
            SupplyVerdict.UNSURE,
            "too little data: 49 % of the time known",
        ),
        ({"none_free": None, "known_days": 0.0}, SupplyVerdict.UNSURE, "too little data: 0.0 days"),
    ],
)
def test_the_verdict_follows_the_rules_of_the_docs(changes: dict[str, Any], verdict: str, words: str) -> None:
    row = row_of(**changes)
    assert (row.verdict, row.words) == (verdict, words)


def test_names_follow_the_privacy_tier() -> None:
    (named,) = with_names([row_of()], str.upper)
    (hidden,) = with_names([row_of()], None)
    assert named.held_by == (("ALICE", 4.0), ("BOB", 2.0))
    assert (hidden.held_by, hidden.held_users, hidden.held_days) == ((), 2, 6.0)


# What a person gets

CONFIG = """
[common]
hosts = ["node1", "node2"]
[hosts.node1]
group = "vision"
[hosts.node2]
group = "language"
[site]
title = "Vision Lab"
interval = 3600
users = "TIER"
[users]
bob = "Bob Ross"
"""


def fill(place: Path, tier: str = "names", days: int = 5) -> datetime:
    """Hourly runs until now: H100s that are never free on node1; on node2 bob holds one of two A100s idle."""
    (place / "config.ini").write_text(CONFIG.replace("TIER", tier))
    settings_ = load(place / "config.ini")
    now = datetime.now(UTC).replace(microsecond=0)
    h100s = [busy_gpu(n, uuid=f"H-{n}", name="NVIDIA H100 80GB HBM3") for n in range(2)]
    idle = gpu(0, uuid="A-0", memory_used_mib=40000.0, processes=(process(user="bob", memory_mib=39000.0),))
    with writing(settings_.history_path) as connection:
        for ago in range(24 * days, -1, -1):
            at = now - timedelta(hours=ago)
            second = busy_gpu(1, uuid="A-1") if ago % 2 else gpu(1, uuid="A-1")
            readings = [
                reading("node1", h100s, fetched_at=at),
                reading("node2", (idle, second), fetched_at=at),
            ]
            seen = sightings(readings, settings_.busy)
            record.add(connection, settings_, seen, int(at.timestamp()), model_name)
    return now


def test_supply_in_a_pipe_is_plain_columns(tmp_path: Path) -> None:
    fill(tmp_path)
    done = gpumon("history", "supply", "--since", "4d", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0].startswith("Model GPUs Busy % Held idle % Known % None free % 2+ on a host %")
    assert lines[1].startswith("H100 80G 2 100.0 0.0 100.0 100.0 0.0")
    assert lines[1].endswith("short: none free most of the time")
    assert lines[2].startswith("A100 80G 2 25.")
    assert "bob 4.0" in lines[2]
    assert lines[2].endswith("1.0 GPUs are held idle: reclaim before buying")


def test_a_narrow_terminal_keeps_what_decides(tmp_path: Path) -> None:
    fill(tmp_path)
    for columns, shown, hidden in ((80, "None free %", "Busy %"), (200, "8+ %", "Unknown %")):
        seen = in_terminal("history", "supply", "--since", "4d", cwd=tmp_path, columns=columns)
        assert shown in seen.text
        assert hidden not in seen.text
        assert "1.0 GPUs are held idle: reclaim before buying" in seen.text
        assert "…" not in seen.text


def test_csv_and_json_say_the_same_by_group(tmp_path: Path) -> None:
    fill(tmp_path)
    as_csv = gpumon("history", "supply", "--since", "4d", "--by", "group", "--csv", cwd=tmp_path).stdout
    as_json = json.loads(
        gpumon("history", "supply", "--since", "4d", "--by", "group", "--json", cwd=tmp_path).stdout
    )
    rows = list(csv.DictReader(io.StringIO(as_csv)))
    assert [(row["group"], row["model"], row["verdict"]) for row in rows] == [
        ("language", "A100 80G", "held idle"),
        ("vision", "H100 80G", "short"),
    ]
    told = [{k: "" if v is None else str(v) for k, v in row.items()} for row in as_json["rows"]]
    assert told == rows


def test_a_lab_that_has_just_begun_has_too_little_data(tmp_path: Path) -> None:
    fill(tmp_path, days=1)
    rows = json.loads(gpumon("history", "supply", "--json", cwd=tmp_path).stdout)["rows"]
    assert {row["verdict"] for row in rows} == {"too little data"}
    # The first hour has begun before the first run.
    assert all(95 < row["coverage_percent"] <= 100 for row in rows)


def test_a_history_of_0_1_0_is_counted_from_the_next_fetch_on(tmp_path: Path) -> None:
    old = Path(shutil.copytree(Path(__file__).parent / "releases/0.1.0", tmp_path / "old"))
    before = gpumon("history", "supply", "--since", "10y", cwd=old)
    assert before.returncode == 1
    assert before.stderr == (
        "gpumon-static: supply is not counted yet: the next `gpumon-static fetch` begins with it\n"
    )
    assert gpumon("fetch", "--quiet", cwd=old).returncode == 0
    rows = json.loads(gpumon("history", "supply", "--since", "10y", "--json", cwd=old).stdout)["rows"]
    assert rows
    assert all(row["known_days"] > 0 for row in rows)
