"""Supply: what was free at once and on one host, beside a plain recount; the verdict; what a person gets."""

from __future__ import annotations

import csv
import io
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gpumon_static.config.file import load
from gpumon_static.model import Allocated, Allocation, Gpu, HostReading, Status, Waiting
from gpumon_static.store.history.engine import filled
from gpumon_static.store.history.reader import Period, Reader
from gpumon_static.store.history.upkeep.dropping import drop_after
from gpumon_static.store.slurm.slurm_file import ClusterReport
from gpumon_static.survey.sightings import sightings
from gpumon_static.survey.supply import SupplyRow, hour_words, supply_rows, with_names, with_queue
from tests.builders import NOW, busy_gpu, failed, gpu, process, reading, slices
from tests.command import gpumon
from tests.history_lab import DAY, HOUR, START, HistoryLab, moment
from tests.past_lab import PastLab
from tests.terminal_lab import in_terminal

GROUPS = {"node1": "vision", "node2": "vision", "node3": ""}
INTERVAL = 300
MISSING_S = 7 * DAY

Card = tuple[str, str, str, str]
"""Host, model, state, and what Slurm reports."""


# A plain recount: each run's GPUs in a list, counted for the seconds that the run stands for


@dataclass
class Recount:
    runs: list[tuple[int, list[Card]]] = field(default_factory=list)
    _known: dict[tuple[str, str], tuple[int, Card]] = field(default_factory=dict)
    """By host and UUID: the GPUs that are thought to be there, and when they were last listed."""

    def add(self, lab: HistoryLab, readings: Sequence[HostReading]) -> None:
        seen = sightings(readings, lab.config.busy, lab.config.groups)
        cards = [
            card
            for one, sighting in zip(readings, seen, strict=True)
            for card in self._cards(one, {gpu.number: gpu.gpu_state for gpu in sighting.gpus or ()})
        ]
        self.runs.append((max(int(one.fetched_at.timestamp()) for one in readings), cards))

    def _cards(self, one: HostReading, states: dict[int, str]) -> list[Card]:
        at, listed = int(one.fetched_at.timestamp()), {}
        for card in one.gpus:
            allocated = card.allocation.allocated or ""
            listed[one.host, str(card.uuid)] = (one.host, str(card.name), states[card.index], allocated)
        others = {
            key: known for key, known in self._known.items() if key[0] == one.host and key not in listed
        }
        for key, (known_at, _) in list(others.items()):
            if one.ok and known_at <= at - MISSING_S:
                del others[key], self._known[key]
        self._known |= {key: (at, card) for key, card in listed.items()}
        state = "unknown" if one.ok else "down"
        return [*listed.values(), *((host, name, state, "") for _, (host, name, *_) in others.values())]

    def sums(self, model: str, group: str | None, asked: Period) -> Counter[str]:
        total: Counter[str] = Counter()
        for (at, cards), (following, _) in pairwise(self.runs):
            end = following if following - at <= 1.5 * INTERVAL else at + INTERVAL
            seconds = min(end, asked.until) - max(at, asked.since)
            mine = [card for card in cards if card[1] == model and group in (None, GROUPS[card[0]])]
            if seconds > 0 and mine:
                total.update({name: seconds * value for name, value in _counts(mine).items()})
        return total


def _counts(cards: list[Card]) -> dict[str, int]:
    """Each of SupplySums and SlurmSums, of one second."""
    states = Counter(state for _, _, state, _ in cards)
    free, busy, held = states["free"], states["busy"], states["held"]
    most = max(Counter(host for host, _, state, _ in cards if state == "free").values(), default=0)
    judged = 2 * (free + busy + held) >= len(cards)
    given_out = [state for *_, state, allocated in cards if allocated == "yes"]
    return {
        "counted": 1, "judged": judged, "none": judged and not free, "two": judged and most >= 2,
        "four": judged and most >= 4, "eight": judged and most >= 8, "free": free, "busy": busy, "held": held,
        "unknown": len(cards) - free - busy - held, "reported": sum(a in ("yes", "no") for *_, a in cards),
        "allocated": len(given_out), "idle": given_out.count("held"),
    }  # fmt: skip


SLURM = (None, Allocated.YES, Allocated.NO, Allocated.UNKNOWN)
CARD = st.tuples(st.booleans(), st.booleans(), st.integers(0, 3))
"""Whether it is listed, whether it is busy, and what Slurm reports."""
HOST = st.one_of(st.none(), st.lists(CARD, min_size=4, max_size=4), st.lists(CARD, min_size=4, max_size=4))
RUN = st.tuples(st.sampled_from([300, 300, 300, 299, 450, 451, 3500, 90000]), st.tuples(HOST, HOST, HOST))


def readings_of(at: int, hosts: Sequence[Any]) -> list[HostReading]:
    """A host that is None does not answer; the first GPU is always listed."""
    found = []
    for offset, (host, cards) in enumerate(zip(GROUPS, hosts, strict=True)):
        gpus = [
            replace(
                (busy_gpu if is_busy else gpu)(n),
                uuid=f"GPU-{host}-{n}",
                name="A100" if n < 2 else "T4",
                allocation=Allocation(SLURM[slurm], user="bob" if slurm == 1 else None),
            )
            for n, (is_listed, is_busy, slurm) in enumerate(cards or ())
            if is_listed or n == 0
        ]
        one = failed(host) if cards is None else reading(host, gpus)
        found.append(replace(one, fetched_at=moment(at + offset)))
    return found


def counted(reader: Reader, asked: Period) -> dict[tuple[str, str | None], list[int]]:
    """SupplySums and SlurmSums by model and group."""
    found = {}
    for not_ in ("", "NOT"):
        query = filled("questions/supply", supply=reader.sums("supply", asked), not_=not_)
        for model, group, *numbers in reader.engine.rows(query):
            found[model, group] = numbers[4:]
    return found


@given(
    runs=st.lists(RUN, min_size=2, max_size=6),
    part=st.tuples(st.integers(0, 400), st.integers(400, 200_000)),
)
@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_every_period_is_that_of_a_plain_recount(runs: list[tuple[int, Any]], part: tuple[int, int]) -> None:
    """The whole history, and a part of it that begins and ends anywhere."""
    recount, at = Recount(), START
    with TemporaryDirectory() as directory:
        lab = HistoryLab(Path(directory), *GROUPS, groups=GROUPS)
        for gap, hosts in runs:
            run = readings_of(at, hosts)
            lab.add_dated(run, at + len(hosts))
            recount.add(lab, run)
            at += gap
        for asked in (Period(START, recount.runs[-1][0]), Period(START + part[0], START + part[1])):
            found = lab.ask(partial(counted, asked=asked))
            for model in ("A100", "T4"):
                for group in (None, "vision", ""):
                    expected = recount.sums(model, group, asked)
                    numbers = [expected[name] for name in _counts([])]
                    assert found.get((model, group), [0] * len(numbers)) == numbers, (model, group, asked)
        assert lab.lines == []


# What a run says


class Lab(PastLab):
    """Runs an hour apart on some hosts."""

    start = int(datetime(2026, 9, 1, tzinfo=UTC).timestamp())

    def __init__(self, directory: Path, *hosts: str, groups: dict[str, str] | None = None) -> None:
        super().__init__(directory, *hosts, groups=groups)
        self.config = replace(self.config, site=replace(self.config.site, interval=HOUR))

    def hour(self, hour: float, *asked: HostReading) -> None:
        self.run(60 * hour, *asked)

    def rows_of(self, *, by_group: bool = False) -> list[SupplyRow]:
        last = max((at for at, _ in self._runs), default=self.start)
        return supply_rows(self.supply(self.start, last, by_group=by_group))


def a100(index: int, host: str, name: str = "NVIDIA A100-SXM4-80GB", **more: Any) -> Gpu:
    return gpu(index, uuid=f"GPU-{host}-{index}", name=name, **more)


def taken(index: int, host: str, **more: Any) -> Gpu:
    return busy_gpu(index, uuid=f"GPU-{host}-{index}", name="NVIDIA A100-SXM4-80GB", **more)


def test_two_free_on_one_host_are_more_than_one_on_each_of_two(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1", "node2")
    lab.hour(
        0, reading("node1", (a100(0, "a"), taken(1, "a"))), reading("node2", (a100(0, "b"), taken(1, "b")))
    )
    lab.hour(
        1, reading("node1", (a100(0, "a"), a100(1, "a"))), reading("node2", (taken(0, "b"), taken(1, "b")))
    )
    lab.hour(
        2, reading("node1", (a100(0, "a"), a100(1, "a"))), reading("node2", (taken(0, "b"), taken(1, "b")))
    )
    (row,) = lab.rows_of()
    assert (row.gpus, row.free, row.none_free, row.two_free) == (4, 0.5, 0.0, 0.5)
    assert row.four_free is None, "no host has four"


def test_a_gpu_cut_into_slices_is_free_only_if_all_its_slices_are(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1")
    all_free, one_busy = a100(0, "a", slices=slices(3)), a100(0, "a", slices=slices(3, 1))
    lab.hour(0, reading("node1", (all_free,)))
    lab.hour(1, reading("node1", (one_busy,)))
    lab.hour(4, reading("node1", (one_busy,)))
    (row,) = lab.rows_of()
    assert (row.gpus, row.busy, row.free, row.none_free) == (1, 0.5, 0.5, 0.5)


def test_models_with_one_short_name_are_one(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1", "node2")
    pcie = a100(0, "b", name="NVIDIA A100 80GB PCIe")
    for hour in (0, 1):
        lab.hour(hour, reading("node1", (taken(0, "a"),)), reading("node2", (pcie,)))
    (row,) = lab.rows_of()
    assert (row.model, row.gpus, row.none_free) == ("A100 80G", 2, 0.0)


def test_when_most_gpus_are_unknown_nobody_says_that_none_is_free(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1", "node2", "node3")
    lab.hour(0, *(reading(host, (taken(0, host),)) for host in ("node1", "node2", "node3")))
    for hour in (1, 2):
        lab.hour(hour, reading("node1", (taken(0, "node1"),)), *(failed(host) for host in ("node2", "node3")))
    (row,) = lab.rows_of()
    # The first hour is judged; in the second two of three hosts were down.
    assert (row.gpus, row.none_free, row.known_days) == (3, 1.0, 1 / 24)
    assert row.coverage == pytest.approx(4 / 6)


def test_a_run_of_some_hosts_only_changes_nothing(tmp_path: Path) -> None:
    """`fetch --only` in between: until the next run of all hosts the last one of all stands."""
    lab = HistoryLab(tmp_path, "node1", "node2")
    busy, free = reading("node1", (taken(0, "a"),)), reading("node2", (a100(0, "b"),))
    lab.add(START, busy, free)
    only = [replace(busy, fetched_at=moment(START + 100)), replace(free, fetched_at=moment(START))]
    lab.add_dated(only, START + 100)
    lab.add(START + INTERVAL, busy, free)
    (row,) = supply_rows(lab.supply(START, START + INTERVAL))
    assert (row.gpus, row.none_free, row.coverage, row.busy) == (2, 0.0, 1.0, 0.5)


def test_time_without_runs_is_not_covered(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1")
    for hour in (0, 1, 9, 10):
        lab.hour(hour, reading("node1", (taken(0, "a"),)))
    (row,) = lab.rows_of()
    # Two hours before the pause, the first of the second by its own run; one after it.
    assert row.coverage == pytest.approx(3 / 10)
    assert row.busy == 1.0


def test_a_model_that_is_gone_is_left_out_after_a_week_and_one_that_came_late_is_covered_since_then(
    tmp_path: Path,
) -> None:
    """A GPU that its host no longer lists may be lost: it is unknown for seven days."""
    lab = HistoryLab(tmp_path, "node1")
    old, new = a100(0, "a", name="Tesla T4"), gpu(2, name="NVIDIA L40S")
    lab.every(START, START + 600, reading("node1", (old, taken(1, "a"))))
    lab.every(START + 900, START + 1500, reading("node1", (taken(1, "a"), new)))
    rows = {row.model: row for row in supply_rows(lab.supply(START, START + 1500))}
    assert {model: (row.gpus, row.coverage) for model, row in rows.items()} == {
        "A100 80G": (1, 1.0),
        "L40S": (1, 1.0),
        "T4": (1, 0.6),
    }
    later = START + 8 * DAY
    lab.every(later, later + 600, reading("node1", (taken(1, "a"), new)))
    assert {row.model for row in supply_rows(lab.supply(START, later + 600))} == {"A100 80G", "L40S"}


def test_groups_are_counted_for_themselves(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1", "node2", groups={"node1": "vision"})
    for hour in (0, 1):
        lab.hour(hour, reading("node1", (taken(0, "a"),)), reading("node2", (a100(0, "b"),)))
    found = {(row.group, row.gpus, row.none_free) for row in lab.rows_of(by_group=True)}
    assert found == {("vision", 1, 1.0), ("", 1, 0.0)}
    assert [(row.group, row.gpus, row.none_free) for row in lab.rows_of()] == [(None, 2, 0.0)]


def test_a_dropped_run_stands_for_no_time(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path, "node1")
    busy = reading("node1", (taken(0, "a"),))
    lab.every(START, START + 5 * INTERVAL, busy)
    assert drop_after(lab.config, moment(START + 2 * INTERVAL), moment(START + 3 * INTERVAL))
    lab.every(START + 5 * INTERVAL + 150, START + 6 * INTERVAL + 150, busy)
    (row,) = supply_rows(lab.supply(START, START + 6 * INTERVAL + 150))
    # Three intervals before the cut, and one after it: the dropped runs stand for nothing.
    assert row.known_days * DAY == pytest.approx(4 * INTERVAL)
    assert row.coverage == pytest.approx(4 / 6.5)


def test_the_change_is_that_against_the_period_before(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1")
    for hour in range(48):
        lab.hour(hour, reading("node1", (taken(0, "a") if hour >= 24 or hour % 4 == 0 else a100(0, "a"),)))
    lab.hour(48, reading("node1", (a100(0, "a"),)))
    (row,) = supply_rows(lab.supply(lab.start + DAY, lab.start + 2 * DAY))
    (all_of_it,) = supply_rows(lab.supply(lab.start, lab.start + 2 * DAY))
    assert (row.busy, row.busy_change, row.none_free_change) == (1.0, 0.75, 0.75)
    assert (all_of_it.busy, all_of_it.busy_change) == (0.625, None), "nothing is known of the time before"


def test_the_worst_hour_of_the_week_is_in_local_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        lab = Lab(tmp_path, "node1")
        for hour in range(8 * 24):
            is_rush = hour % 24 == 12 and (hour // 24) % 7 == 1
            lab.hour(hour, reading("node1", (taken(0, "a") if is_rush else a100(0, "a"), a100(1, "a"))))
        (row,) = lab.rows_of()
    finally:
        monkeypatch.undo()
        time.tzset()
    # The 1st of September 2026 is a Tuesday; 12:00 UTC is 14:00 in Berlin.
    assert hour_words(row.worst_hour) == "Wed 14 h"


# The verdict

QUEUE = "1 job waits for 4 at once, for 5 h"


def test_a_model_has_the_jobs_that_wait_for_it() -> None:
    """By the kind that Slurm calls it."""
    report = ClusterReport(
        "Slurm",
        NOW,
        Status.OK,
        waiting=(Waiting("a100", 4, 1, NOW - timedelta(hours=5)), Waiting(None, 9, 9, NOW)),
    )
    a100, t4 = with_queue([row_of(none_free=0.0), row_of(model="T4")], [report], NOW)
    assert (a100.queue, t4.queue) == (QUEUE, "")
    more = replace(report, waiting=(*report.waiting, Waiting("A100", 2, 2, NOW)))
    assert with_queue([a100], [more], NOW)[0].queue == "3 jobs wait for 6 in all, the oldest for 5 h"


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
        ({"none_free": 0.61}, "short", "short: none free most of the time; 4 at once 20 % of the time"),
        ({"none_free": 0.2}, "short", "short: none free 20 % of the time; 4 at once 20 % of the time"),
        ({"none_free": 0.19}, "enough", "enough: none free 19 % of the time; 4 at once 20 % of the time"),
        ({"none_free": 0.05, "four_free": 0.5}, "enough", "enough: none free 5 % of the time"),
        # Of one, of two, of four, of eight.
        ({"none_free": 0.04, "four_free": 0.5}, "ample", "ample: some free 96 % of the time"),
        ({"none_free": 0.04}, "enough", "enough: some free 96 % of the time; 4 at once 20 % of the time"),
        ({"none_free": 0.04, "two_free": 0.49}, "enough", "enough: some free 96 % of the time; 2 at once 49 % of the time"),
        ({"none_free": 0.0, "four_free": 0.9, "eight_free": 0.0}, "enough", "enough: some free 100 % of the time; 8 at once never"),
        ({"none_free": 0.0, "two_free": None, "four_free": None}, "ample", "ample: some free 100 % of the time"),
        # Held idle is said where it is ample, too.
        ({"none_free": 0.0, "four_free": 0.6, "held": 0.5}, "ample", "ample: some free 100 % of the time; 5.0 GPUs held idle"),
        ({"none_free": 0.0, "held": 0.15}, "held idle", "1.5 GPUs are held idle: reclaim before buying; 4 at once 20 % of the time"),
        ({"none_free": 0.18, "held": 0.15, "four_free": 0.5}, "held idle", "1.5 GPUs are held idle: reclaim before buying"),
        ({"none_free": 0.9, "held": 0.1, "four_free": 0.5}, "held idle", "1.0 GPUs are held idle: reclaim before buying"),
        ({"none_free": 0.9, "held": 0.1, "gpus": 4, "four_free": 0.5}, "short", "short: none free most of the time"),
        ({"none_free": 0.9, "held": 0.09, "four_free": 0.5}, "short", "short: none free most of the time; 0.9 GPUs held idle"),
        # By the queue.
        ({"none_free": 0.0, "four_free": 0.0, "queue": QUEUE}, "short", f"short: {QUEUE}; 4 at once never"),
        ({"none_free": 0.0, "four_free": 0.9, "held": 0.2, "queue": QUEUE}, "held idle", f"2.0 GPUs are held idle: reclaim before buying; {QUEUE}"),
        ({"none_free": 0.9, "known_days": 2.9}, "too little data", "too little data: 2.9 days"),
        ({"none_free": 0.9, "coverage": 0.49}, "too little data", "too little data: 49 % of the time known"),
        ({"none_free": None, "known_days": 0.0}, "too little data", "too little data: 0.0 days"),
    ],
)  # fmt: skip
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
    lab = PastLab(place)
    lab.config = settings_
    for ago in range(24 * days, -1, -1):
        at = now - timedelta(hours=ago)
        second = busy_gpu(1, uuid="A-1") if ago % 2 else gpu(1, uuid="A-1")
        lab.run_dated(
            [reading("node1", h100s, fetched_at=at), reading("node2", (idle, second), fetched_at=at)]
        )
    lab.write()
    return now


def test_supply_in_a_pipe_is_plain_columns(tmp_path: Path) -> None:
    fill(tmp_path)
    done = gpumon("history", "supply", "--since", "4d", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines.pop(0).startswith("Supply by model, ")
    assert lines[0].startswith("Model GPUs Busy % Held idle % Known % None free % 2+ on a host %")
    assert lines[1].startswith("H100 80G 2 100.0 0.0 100.0 100.0 0.0")
    assert lines[1].endswith("short: none free most of the time; 2 at once never")
    assert lines[2].startswith("A100 80G 2 25.")
    assert "bob 4.0" in lines[2]
    # One of the two is held all the time.
    assert lines[2].endswith("1.0 GPUs are held idle: reclaim before buying; 2 at once never")


def test_a_narrow_terminal_keeps_what_decides(tmp_path: Path) -> None:
    fill(tmp_path)
    for columns, shown, hidden in ((80, "None free %", "Busy %"), (200, "8+ %", "Unknown %")):
        seen = in_terminal("history", "supply", "--since", "4d", cwd=tmp_path, columns=columns)
        assert shown in seen.text
        assert hidden not in seen.text
        assert "1.0 GPUs are held idle: reclaim before buying" in seen.text
        # At 80 columns there is no room for what comes after the verdict.
        assert ("…" in seen.text) == (columns == 80)


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
