"""What users get of Slurm: by when, whose, how much; in words, files, history, events and browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpumon_static.config.settings import HistoryConfig, PageConfig
from gpumon_static.model import (
    Allocated,
    Allocation,
    Fault,
    Gpu,
    NodeState,
)
from gpumon_static.publish.exports.metrics import metrics_prom
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.reports.supply import SupplyReport, SupplySection, render_supply
from gpumon_static.store.events import EventMemory
from gpumon_static.store.history import questions
from gpumon_static.store.history.past import SUPPLY_DAYS
from gpumon_static.survey.changes import note_changes
from gpumon_static.survey.news import tell
from gpumon_static.survey.offers import Wanted, offers
from gpumon_static.survey.slurm.demand import demand_lines, idle_lines
from gpumon_static.survey.slurm.nodes import closed_words
from gpumon_static.survey.slurm.when import estimates
from gpumon_static.survey.supply import SupplyRow, supply_rows
from gpumon_static.survey.survey import build_survey
from gpumon_static.terminal.history import reports
from gpumon_static.terminal.history.supply import supply_report
from tests.builders import NOW, READ_AT, busy_gpu, config, gpu, slices
from tests.builders import reading as a_reading
from tests.history_lab import HOUR, START
from tests.past_lab import PastLab
from tests.slurm_readings import NODE, REPORTS, V100, at, given, idle, survey_of, words, works

# By when


def test_by_when_enough_gpus_of_a_host_are_free() -> None:
    lab = [
        a_reading("vision-01", [works(0, minutes=30), idle(1, minutes=90, user="user4", job="8"), gpu(2)]),
        a_reading("vision-02", [works(0, minutes=45)]),
    ]
    assert words(Wanted(1), *lab)[0] == "1 x A100 80G on vision-01 now"
    assert words(Wanted(2), *lab) == [
        f"2 x A100 80G on vision-01 by {at(30)} at the latest, if nobody in the queue is before you (the job of user3 ends)"
    ]
    assert words(Wanted(3), *lab) == [
        f"3 x A100 80G on vision-01 by {at(90)} at the latest, if nobody in the queue is before you (the jobs of user3, user4 end)"
    ]
    assert words(Wanted(4), *lab) == []


def test_gpus_of_two_vendors_are_not_added_up() -> None:
    amd = replace(works(1, minutes=30), vendor="amd", name="AMD Instinct MI300X")
    lab = [a_reading("a", [gpu(0), amd, works(2, minutes=90)])]
    assert words(Wanted(2), *lab) == [
        f"2 x A100 80G on a by {at(90)} at the latest, if nobody in the queue is before you (the job of user3 ends)"
    ]
    assert words(Wanted(1, vendor="amd"), *lab) == [
        f"1 x MI300X on a by {at(30)} at the latest, if nobody in the queue is before you (the job of user3 ends)"
    ]
    assert words(Wanted(3), *lab) == words(Wanted(2, vendor="amd"), *lab) == []


def test_the_earliest_host_comes_first() -> None:
    lab = [
        a_reading(name, [works(0, minutes=minutes)]) for name, minutes in (("a", 50), ("b", 20), ("c", 70))
    ]
    assert [one.host for one in estimates(survey_of(*lab), Wanted(), NOW)] == ["b", "a", "c"]


@pytest.mark.parametrize(
    "card",
    [
        busy_gpu(0),
        works(0, minutes=None),
        replace(works(0), faults=(Fault("ecc-errors"),)),
        replace(works(0), allocation=Allocation(Allocated.UNKNOWN)),
    ],
    ids=["no job", "no limit", "a fault", "hidden"],
)
def test_no_time_is_given_where_none_is_known(card: Gpu) -> None:
    assert words(Wanted(), a_reading("a", [card])) == []


def test_a_host_that_takes_no_jobs_is_no_place_to_wait_for() -> None:
    assert words(Wanted(), a_reading("a", [works(0)], node=replace(NODE, takes_jobs=False))) == []


def test_memory_and_model_are_asked_of_what_will_be_free() -> None:
    lab = [a_reading("a", [works(0, minutes=10), replace(works(1, minutes=20), **V100)])]
    assert words(Wanted(1, 60_000.0), *lab) == [
        f"1 x A100 80G on a by {at(10)} at the latest, if nobody in the queue is before you (the job of user3 ends)"
    ]
    assert words(Wanted(1, model="V100"), *lab) == [
        f"1 x V100 32G on a by {at(20)} at the latest, if nobody in the queue is before you (the job of user3 ends)"
    ]
    assert words(Wanted(1, 90_000.0), *lab) == []


def test_a_job_that_is_over_its_time_ends_now_and_one_of_another_day_has_the_day() -> None:
    assert f"by {at(0)} at the latest" in words(Wanted(), a_reading("a", [works(0, minutes=-5)]))[0]
    later = NOW + timedelta(days=2)
    assert (
        f"by {later.astimezone():%a %H:%M} at" in words(Wanted(), a_reading("a", [works(0, minutes=2880)]))[0]
    )
    later = NOW + timedelta(days=20)
    assert (
        f"by {later.astimezone().day} {later.astimezone():%b %H:%M} at"
        in words(Wanted(), a_reading("a", [works(0, minutes=20 * 1440)]))[0]
    )


def test_gpus_json_of_an_older_release_gives_no_time_and_no_error() -> None:
    told = survey_of(a_reading("a", [works(0), gpu(1)]))
    for host in told["hosts"]:
        del host["slurm"], host["run"]
        for card in host["gpus"]:
            del card["slurm"]
    assert [one.at for one in estimates(told, Wanted(), NOW)] == [None]
    assert [offer.slurm for offer in offers(told, Wanted(), NOW)] == [None]


# Where


def test_slurms_options_take_the_place_of_ssh_where_programs_are_started_so() -> None:
    one = a_reading("vision-01", [gpu(0), gpu(1)], node=NODE)
    (offer,) = offers(survey_of(one, run="slurm"), Wanted(2), NOW)
    assert str(offer.slurm) == "--gres=gpu:a100:2 --nodelist=gpu-1"
    assert offers(survey_of(one), Wanted(2), NOW)[0].slurm is None
    mixed = replace(one, node=replace(NODE, kind=None))
    (offer,) = offers(survey_of(mixed, run="slurm"), Wanted(), NOW)
    assert str(offer.slurm) == "--gres=gpu:1 --nodelist=gpu-1"
    hostile = replace(one, node=replace(NODE, node="x;rm", kind="a b"))
    assert offers(survey_of(hostile, run="slurm"), Wanted(), NOW)[0].slurm is None


def test_an_allocated_gpu_and_a_drained_host_are_never_offered() -> None:
    held = a_reading("a", [idle(0)], node=NODE)
    drained = a_reading("b", [gpu(0)], node=replace(NODE, takes_jobs=False, state="IDLE+DRAIN"))
    hidden = a_reading("c", [gpu(0, allocation=Allocation(Allocated.UNKNOWN))], node=NODE)
    told = survey_of(held, drained, hidden)
    assert [host["gpus"][0]["state"] for host in told["hosts"]] == ["held", "free", "unknown"]
    assert [host["gpus"][0]["is_usable"] for host in told["hosts"]] == [False, False, False]
    assert offers(told, Wanted(), NOW) == []


@pytest.mark.parametrize(
    ("state", "reason", "told"),
    [
        ("IDLE+DRAIN", "disk is full", "drained in Slurm: disk is full"),
        ("DOWN*+NOT_RESPONDING", None, "down in Slurm"),
        ("MIXED+RESERVED", None, "reserved in Slurm"),
        ("IDLE+MAINTENANCE+RESERVED", None, "in maintenance in Slurm"),
        ("DRAINING", None, "drained in Slurm"),
        ("BLOCKED", None, "blocked in Slurm"),
    ],
)
def test_a_closed_host_in_words(state: str, reason: str | None, told: str) -> None:
    assert closed_words(NodeState("n", state, reason, False)) == told
    assert closed_words(NodeState("n", state, reason, True)) is None


# Files


def test_what_is_waited_for_in_words() -> None:
    assert list(demand_lines(REPORTS, NOW)) == [
        "Slurm on a: 3 jobs wait for 6 a100, the oldest for 2 h",
        "Slurm on a: 1 job waits for 1 GPU",
    ]


def test_what_is_allocated_and_idle_in_words() -> None:
    lab = [a_reading("a", [works(0), idle(1), idle(2), idle(3, job="8", user="user4"), gpu(4)])]
    survey = build_survey(lab, config("a"), NOW)
    assert list(idle_lines(survey)) == ["Allocated and idle now: 3 of 4 allocated GPUs (user3 2, user4 1)"]
    counted = build_survey(lab, config("a"), NOW, PageConfig("x.html", users="counts"))
    assert list(idle_lines(counted)) == ["Allocated and idle now: 3 of 4 allocated GPUs"]
    assert list(idle_lines(build_survey([a_reading("a", [gpu(0)])], config("a"), NOW))) == []


def test_metrics_have_allocation_ends_and_demand() -> None:
    lab = [a_reading("a", [idle(0), gpu(1, allocation=Allocation(Allocated.NO)), gpu(2)], node=NODE)]
    text = "".join(metrics_prom(build_survey(lab, config("a"), NOW, clusters=REPORTS)))
    found = {
        (
            sample.name,
            *sorted(v for k, v in sample.labels.items() if k in ("gpu", "kind", "slurm")),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["gpumon_gpu_allocated", "0"] == 1
    assert found["gpumon_gpu_allocated", "1"] == 0
    assert ("gpumon_gpu_allocated", "2") not in found
    assert found["gpumon_gpu_job_end_timestamp_seconds", "0"] == (NOW + timedelta(hours=1)).timestamp()
    assert found["gpumon_host_takes_jobs",] == 1
    assert (found["gpumon_slurm_up", "Slurm on a"], found["gpumon_slurm_up", "Slurm on b"]) == (1, 0)
    assert found["gpumon_slurm_gpus_waiting", "Slurm on a", "a100"] == 6
    assert found["gpumon_slurm_jobs_waiting", "Slurm on a", "a100"] == 3
    oldest = found["gpumon_slurm_oldest_waiting_timestamp_seconds", "Slurm on a", "a100"]
    assert oldest == (NOW - timedelta(hours=2)).timestamp()


# History


def test_allocated_gpu_hours_stand_beside_used_ones(tmp_path: Path) -> None:
    """An hour in which one GPU of two works; then the job is over."""
    lab = PastLab(tmp_path, "a")
    lab.runs(range(0, 60, 5), a_reading("a", [works(0), idle(1)]))
    lab.runs(range(60, 75, 5), a_reading("a", [gpu(0), gpu(1)]))
    (use,) = lab.users(START, START + 2 * HOUR)
    (by_host,) = lab.users(START, START + 2 * HOUR, "host")
    assert (use.user, use.busy_s, use.held_s) == ("user3", 3600, 3600)
    assert (use.allocated_s, use.allocated_idle_s) == (7200, 3600)
    assert (by_host.part, by_host.allocated_s) == ("a", 7200)
    report = reports.users_report([use], None)
    told = dict(zip((column.name for column in report.columns), report.rows[0], strict=True))
    assert (told["allocated_hours"], told["allocated_idle_hours"]) == (2.0, 1.0)


def test_a_missed_run_is_not_counted_as_allocated(tmp_path: Path) -> None:
    lab = PastLab(tmp_path, "a")
    lab.runs((0, 60), a_reading("a", [idle(0)]))
    (use,) = lab.users(START, START + 2 * HOUR)
    assert (use.allocated_s, use.allocated_idle_s) == (300, 300)


def test_without_slurm_the_report_shows_no_such_columns() -> None:
    report = reports.users_report([questions.UserUse("alice", None, 3600, 0, 180_000, 3600)], None)
    assert [column.is_shown for column in report.columns[-2:]] == [False, False]
    assert report.rows[0][-2:] == (None, None)


class SupplyOf:
    """Four hours of a lab, with an hour between two runs, as the ways to see its supply have it."""

    def __init__(self, data: Path, *cards: Gpu) -> None:
        self.lab = PastLab(data, "a")
        made = self.lab.config
        self.lab.config = replace(made, site=replace(made.site, interval=HOUR))
        self.lab.runs(range(0, 241, 60), a_reading("a", cards))

    def row(self) -> SupplyRow:
        (row,) = supply_rows(self.lab.supply(START, START + 4 * HOUR))
        return row

    def page(self) -> str:
        return render_page(self.lab.page(240, a_reading("a", [gpu(0)])))


NOT_GIVEN = Allocation(Allocated.NO)


def test_allocated_and_idle_is_a_share_of_the_time_that_slurm_reported_on(tmp_path: Path) -> None:
    """Of five GPUs, Slurm reports on four: one works, one is idle, two have no job."""
    hidden = replace(gpu(4), allocation=Allocation(Allocated.UNKNOWN))
    lab = SupplyOf(
        tmp_path, works(0), idle(1), gpu(2, allocation=NOT_GIVEN), gpu(3, allocation=NOT_GIVEN), hidden
    )
    row = lab.row()
    assert (row.allocated, row.allocated_idle, row.held) == (0.5, 0.25, 0.25)
    assert row.allocated_days == pytest.approx(8 / 24)
    assert row.allocated_idle_days == pytest.approx(4 / 24)
    told = supply_report([row], by_group=False)
    shown = dict(zip((column.name for column in told.columns), told.rows[0], strict=True))
    assert (shown["allocated_percent"], shown["allocated_idle_percent"]) == (50.0, 25.0)
    assert (shown["allocated_gpu_days"], shown["allocated_idle_gpu_days"]) == (0.3, 0.2)
    assert [c.name for c in told.columns if c.is_shown and "allocated" in c.name] == [
        "allocated_idle_percent"
    ]
    ranges = '<div title="0.2 of 0.3 allocated GPU days"><dt>allocated, idle</dt><dd>25<'
    assert lab.page().count(ranges) == len(SUPPLY_DAYS)
    section = SupplySection("By model", [row], by_group=False)
    report = render_supply(SupplyReport("Lab", "4 h", "", "UTC", "", [section]))
    assert '<th scope="col" class="number">Allocated, idle&nbsp;%</th>' in report
    assert "a part of held idle" in report


@pytest.mark.parametrize(
    ("card", "told"),
    [
        (gpu(0), None),
        (gpu(0, allocation=Allocation(Allocated.UNKNOWN)), None),
        (gpu(0, allocation=NOT_GIVEN), 0.0),
        (gpu(0, slices=slices(3, 1), mig_mode=True, allocation=given()), None),
        (gpu(0, utilization=None, memory_used_mib=None, processes_known=False, allocation=given()), 0.0),
    ],
    ids=["no Slurm", "hidden", "no job", "slices", "a GPU that reports nothing of itself"],
)
def test_what_slurm_does_not_report_is_neither_allocated_nor_idle(
    tmp_path: Path, card: Gpu, told: float | None
) -> None:
    lab = SupplyOf(tmp_path, card)
    assert lab.row().allocated_idle == told
    assert ("<dt>allocated, idle</dt>" in lab.page()) is (told is not None)


# Events


def events(*cards: Sequence[Gpu], minutes: int = 5) -> list[Any]:
    setup = replace(config("a"), history=HistoryConfig(idle_after=900))
    memory, found = EventMemory(), []
    for number, listed in enumerate(cards):
        when = READ_AT + timedelta(minutes=minutes * number)
        found += note_changes(memory, [a_reading("a", listed, fetched_at=when)], setup)
    return found


def test_a_job_that_leaves_its_gpus_idle_is_told_once() -> None:
    (event,) = events(*[[idle(0), idle(1), works(2)]] * 9)
    assert (event.type, event.job, event.user) == ("job-idle", "7", "user3")
    assert [one.index for one in event.gpus] == [0, 1]
    assert event.since == READ_AT
    assert tell(event).title == "a: job 7 of user3 leaves GPUs 0 and 1 idle"
    assert tell(event).text == "A100 80G on a, allocated by Slurm and idle for 15 min."
    assert tell(event, with_error=False).title == "a: a Slurm job leaves GPUs 0 and 1 idle"


def test_a_job_that_works_in_between_or_ends_is_no_event() -> None:
    assert events(*[[idle(0)], [idle(0)], [works(0)]] * 4) == []
    assert events(*[[idle(0, job=str(n // 3))] for n in range(9)]) == []
    assert events(*[[gpu(0)]] * 9) == []


def test_two_jobs_are_two_events_with_ids_of_their_own() -> None:
    found = events(*[[idle(0), idle(1, job="8", user="user4")]] * 9)
    assert [(event.job, event.user) for event in found] == [("7", "user3"), ("8", "user4")]
    assert len({event.id for event in found}) == 2
