"""What users get of Slurm: by when, whose, how much; in words, files, history, events and browser."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect
from prometheus_client.parser import text_string_to_metric_families

from gpumon_static.config.settings import HistoryConfig, PageConfig, SlurmCluster
from gpumon_static.model import (
    Allocated,
    Allocation,
    Fault,
    Gpu,
    HostReading,
    JobGpus,
    NodeState,
    SlurmAnswer,
    SlurmJob,
    SlurmNode,
    Status,
    Waiting,
)
from gpumon_static.publish.exports.gpus_json import document
from gpumon_static.publish.exports.metrics import metrics_prom
from gpumon_static.publish.page.data import page_data
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.view import build_page
from gpumon_static.publish.reports.supply import SupplyReport, SupplySection, render_supply
from gpumon_static.store.events import EventMemory
from gpumon_static.store.history import questions
from gpumon_static.store.history.past import SUPPLY_DAYS
from gpumon_static.store.slurm.slurm_file import ClusterReport
from gpumon_static.survey.changes import note_changes
from gpumon_static.survey.jobs import find_jobs
from gpumon_static.survey.news import tell
from gpumon_static.survey.offers import Wanted, offers
from gpumon_static.survey.slurm.demand import demand_lines, idle_lines
from gpumon_static.survey.slurm.nodes import closed_words
from gpumon_static.survey.slurm.when import estimates
from gpumon_static.survey.supply import SupplyRow, supply_rows
from gpumon_static.survey.survey import build_survey
from gpumon_static.terminal.history import reports
from gpumon_static.terminal.history.supply import supply_report
from gpumon_static.terminal.rows import Look
from gpumon_static.terminal.show import Choice, table
from gpumon_static.terminal.show import survey_of as shown_survey
from gpumon_static.terminal.top import survey_now
from gpumon_static.terminal.top_view import View, frame
from tests.browser import OpenPage
from tests.builders import NOW, READ_AT, busy_gpu, config, failed, gpu, host_config, process, slices
from tests.builders import reading as a_reading
from tests.history_lab import HOUR, START
from tests.past_lab import PastLab

NODE = NodeState("gpu-1", "MIXED", None, True, "a100")
V100: dict[str, Any] = {"name": "Tesla V100-SXM2-32GB", "memory_total_mib": 32768.0}


def given(minutes: float | None = 60, user: str | None = "user3", job: str = "7", **more: Any) -> Allocation:
    """`minutes`: from now until its job ends at the latest."""
    ends_at = None if minutes is None else NOW + timedelta(minutes=minutes)
    return Allocation(Allocated.YES, job, user=user, ends_at=ends_at, **more)


def idle(index: int = 0, **more: Any) -> Gpu:
    """Given to a job, without a process."""
    return gpu(index, allocation=given(**more))


def works(index: int = 0, **more: Any) -> Gpu:
    return busy_gpu(index, processes=(process(user="user3", job="slurm:7"),), allocation=given(**more))


def survey_of(*readings: HostReading, **host: Any) -> dict[str, Any]:
    setup = config(*(host_config(one.host, **host) for one in readings))
    told: dict[str, Any] = json.loads(json.dumps(document(build_survey(readings, setup, NOW))))
    return told


def at(minutes: float) -> str:
    return f"{(NOW + timedelta(minutes=minutes)).astimezone():%H:%M}"


# By when


def words(wanted: Wanted, *readings: HostReading) -> list[str]:
    return [one.words(NOW) for one in estimates(survey_of(*readings), wanted, NOW)]


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


REPORTS = (
    ClusterReport("Slurm on a", NOW, Status.OK, version="23.11", waiting=(Waiting("a100", 6, 3, NOW - timedelta(hours=2)), Waiting(None, 1, 1))),
    ClusterReport("Slurm on b", NOW, Status.TIMEOUT, "no answer"),
)  # fmt: skip


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


# The page


def page_of(*readings: HostReading, run: str = "slurm") -> Any:
    setup = config(*(host_config(one.host, run=run) for one in readings))
    return build_page(readings, setup, NOW, clusters=REPORTS)


def test_a_host_that_is_down_in_slurm_too_is_reported_once() -> None:
    silent = replace(
        failed("a"), node=replace(NODE, takes_jobs=False, state="DOWN*", reason="Not responding")
    )
    page = page_of(silent, a_reading("b", [gpu(0)], node=NODE))
    assert [entry.text for entry in page.attention if entry.host == "a"] == ["down · timeout"]
    assert [row.host for row in page.health.down] == ["a"]
    assert [line for line in page.health.faults if line.anchor] == [], "but that Slurm does not answer"
    assert "Not responding" in render_page(page), "on its card"


def test_the_page_has_the_words_of_slurm() -> None:
    lab = [
        a_reading("a", [idle(0, job_name="train")], node=NODE),
        a_reading(
            "b", [gpu(0)], node=replace(NODE, takes_jobs=False, state="IDLE+DRAIN", reason="disk is full")
        ),
    ]
    page = page_of(*lab)
    card = page.hosts[0].cards[0]
    assert (card.word, card.kind, card.holder.text, card.holder.is_name) == (
        "allocated",
        "held",
        "user3",
        True,
    )
    assert card.when == "allocated · until 10:12 UTC"
    assert card.tooltip.job is not None
    assert card.tooltip.job.words == "7 (train) of user3"
    assert page.hosts[1].faults == ("drained in Slurm: disk is full",)
    assert [(one.host, one.text) for one in page.attention][:1] == [("Slurm on b", "no answer")]
    html = render_page(page)
    for told in ("allocated", "until", "3 jobs wait for 6 a100, the oldest for 2 h", "drained in Slurm"):
        assert told in html


@pytest.mark.parametrize(
    ("node", "state", "command"),
    [
        ("gpu-7", "IDLE+DRAIN", "scontrol update nodename=gpu-7 state=resume"),
        ("gpu-7", "DOWN*", "scontrol update nodename=gpu-7 state=resume"),
        # What is reserved is not opened by that, and a name that a shell would run is not offered to be pasted.
        ("gpu-7", "MAINT+RESERVED", None),
        ("gpu;reboot", "IDLE+DRAIN", None),
        # Slurm's answer comes from a host: a name that is not the config's, such as that of all nodes, is not offered.
        ("ALL", "IDLE+DRAIN", None),
        (None, "IDLE+DRAIN", None),
    ],
)
def test_health_has_the_command_that_opens_a_closed_node(
    node: str | None, state: str, command: str | None
) -> None:
    closed = replace(NODE, node=node, takes_jobs=False, state=state)
    page = page_of(a_reading("gpu-7.lab.example", [gpu(0)], node=closed))
    assert page.health
    assert [line.command and str(line.command) for line in page.health.faults if line.anchor] == [command]
    assert bool(command) == (f"<code>{command}</code>" in render_page(page))


SOONEST = """([data, questions]) => {
  const hosts = gpumon.readHosts(JSON.parse(data));
  return questions.map(({ n, gb, model }) => {
    const found = gpumon.offers.soonest(hosts, { n, gb: gb * 1024 ** 2 / 1e9, model }, NOW);
    return found && [found.host.name, found.at];
  });
}"""


def test_the_picker_gives_the_same_times_and_slurms_options(open_page: OpenPage) -> None:
    lab = [
        a_reading("a", [works(0, minutes=30), idle(1, minutes=90, user="user4", job="8")], node=NODE),
        a_reading(
            "b",
            [works(0, minutes=45), replace(works(1, minutes=20), **V100), works(2, minutes=-9)],
            node=NODE,
        ),
        a_reading("c", [works(0, minutes=1)], node=replace(NODE, takes_jobs=False)),
        a_reading("d", [works(0, minutes=2), gpu(1)], node=replace(NODE, kind=None, node="d1")),
        a_reading("e", [replace(works(0, minutes=3), faults=(Fault("ecc-errors"),))], node=NODE),
        a_reading(
            "f", [replace(works(0, minutes=4), vendor="amd"), works(1, minutes=5), works(2, minutes=95)]
        ),
    ]
    page = page_of(*lab)
    setup = config(*(host_config(one.host, run="slurm") for one in lab))
    told = document(build_survey(lab, setup, NOW))
    asked = [
        {"n": n, "gb": mib, "model": model}
        for n in (1, 2, 3, 4)
        for mib in (0, 40_000)
        for model in ("", "V100", "A100 80G")
    ]
    opened = open_page(render_page(page))
    found = opened.page.evaluate(SOONEST.replace("NOW", str(NOW.timestamp())), [page_data(page), asked])
    expected = []
    for question in asked:
        wanted = Wanted(int(str(question["n"])), float(str(question["gb"])), str(question["model"]) or None)
        # The page asks only where nothing is free now.
        later = [one for one in estimates(told, wanted, NOW) if one.at is not None]
        expected.append([later[0].host, later[0].at.timestamp()] if later and later[0].at else None)
    assert found == expected
    picker = opened.page.locator("#answers")
    assert picker.locator("button", has_text="srun").first.get_attribute("data-copy") == (
        "srun --gres=gpu:1 --nodelist=d1 --pty bash"
    )
    assert picker.locator("button", has_text="ssh").count() == 0
    opened.page.locator("input[name=n]").fill("2")
    sentence = picker.inner_text()
    assert "at the latest, if nobody in the queue is before you: 2 x A100 80G on d" in sentence
    assert "(the job of user3 ends)" in sentence
    shown = opened.page.locator("time.ends").first
    local = datetime.fromisoformat(str(shown.get_attribute("datetime")))
    assert shown.inner_text().startswith("busy · until ")
    assert local == NOW + timedelta(minutes=30)


# Users


def people_of(tier: str, *readings: HostReading) -> dict[str, tuple[object, ...]]:
    """User to GPUs, allocated, in how many jobs, used, efficiency."""
    page = build_page(
        readings, config(*(one.host for one in readings)), NOW, PageConfig("x.html", users=tier), b"k"
    )
    assert page.people
    return {
        row.name: (
            row.gpus,
            row.given and (row.given.gpus, row.given.jobs, row.given.used, str(row.given.efficiency)),
        )
        for row in (*page.people.rows, page.people.total)
    }


def test_users_have_what_slurm_gave_them_and_how_much_of_it_they_use() -> None:
    """One works on one GPU of three; one has a job without any process; one came without Slurm."""
    lab = [
        a_reading("n1", [works(0), idle(1), idle(2, job="9"), idle(3, job="8", user="user4")]),
        a_reading("n2", [busy_gpu(0, processes=(process(user="user5"),))]),
    ]
    assert people_of("names", *lab) == {
        "user3": (3, (3, "in 2 jobs", 1, "32 %")),
        "user4": (1, (1, "in 1 job", 0, "0 %")),
        "user5": (1, None),
        "Total": (5, (4, "in 3 jobs", 1, "24 %")),
    }
    on_tier = people_of("pseudonyms", *lab)
    found = {value for key, value in on_tier.items() if key != "Total"}
    assert found == {(1, None), (1, (1, "", 0, "0 %")), (3, (3, "", 1, "32 %"))}
    assert not {"user3", "user4"} & on_tier.keys()


def test_an_end_on_another_day_has_its_day_also_without_javascript() -> None:
    assert f"{NOW:%a %d %b}" == "Fri 14 Nov"
    lab = [a_reading("n1", [works(0, minutes=24 * 60), works(1, minutes=10 * 24 * 60)])]
    first, second = page_of(*lab).hosts[0].cards
    assert first.when == f"busy · until Sat {NOW:%H:%M} UTC"
    assert second.when == f"busy · until 24 Nov {NOW:%H:%M} UTC"


def test_a_tooltip_has_the_end_of_its_job_in_the_zone_of_the_reader(open_page: OpenPage) -> None:
    """And never before it: what ends within a minute ends by the next one."""
    lab = [a_reading("n1", [works(0, minutes=60.5)])]
    opened = open_page(render_page(page_of(*lab)), timezone_id="Asia/Tokyo").page
    ends = opened.locator("#thing dt", has_text="Ends by").locator("xpath=../dd")
    there = (NOW + timedelta(minutes=61)).astimezone(ZoneInfo("Asia/Tokyo"))
    assert opened.locator(".card time.ends").inner_text() == f"busy · until {there:%H:%M}"
    opened.locator(".card").first.hover()
    expect(opened.locator("#tip")).to_contain_text(f"until {there:%H:%M}")
    opened.locator(".card").first.click()
    assert " ".join(ends.inner_text().split()) == f"{there:%H:%M} at the latest"
    (sentence,) = words(Wanted(), *lab)
    assert f"by {at(61)} at the latest" in sentence


def test_without_slurm_the_users_have_no_such_columns() -> None:
    html = render_page(page_of(a_reading("n2", [busy_gpu(0)])))
    assert "Table of users" in html
    assert ">Allocated</th>" not in html


def test_the_panels_of_a_user_and_a_job_have_what_slurm_knows(open_page: OpenPage) -> None:
    more: dict[str, Any] = {"partition": "gpu-long", "account": "acct-7"}
    lab = [a_reading("n1", [works(0, **more), idle(1, **more)]), a_reading("n2", [idle(0, **more)])]
    opened = open_page(render_page(page_of(*lab))).page
    opened.evaluate("location.hash = '#user/user3'")
    panel = opened.locator("#thing")
    panel.get_by_text("Allocated by Slurm").wait_for()
    told = " ".join(panel.inner_text().split())
    assert "Allocated by Slurm 3 GPUs in 1 job Used 1 of 3 GPU active now 32 %" in told
    assert "Ends by" in told
    opened.evaluate("location.hash = '#job/slurm:7'")
    panel.get_by_text("Unused").first.wait_for()
    told = " ".join(panel.inner_text().split())
    assert "Unused 2 of 3 allocated: n1: 1, n2: 0" in told
    assert "Partition gpu-long Account acct-7" in told
    on_tier = build_page(lab, config("n1", "n2"), NOW, PageConfig("x.html", users="pseudonyms"), b"k")
    assert not [name for name in more.values() if name in render_page(on_tier)]
    ends = panel.locator("dt", has_text="Ends by").locator("xpath=../dd/time")
    assert datetime.fromisoformat(str(ends.get_attribute("datetime"))) == NOW + timedelta(hours=1)


# top


def test_top_joins_what_slurm_answers_and_names_a_slurm_that_fails() -> None:
    job = SlurmJob("7", "user3", None, None, NOW + timedelta(hours=1), (JobGpus("a", 1, (0,)),))
    answer = SlurmAnswer("23.11", (SlurmNode("a", state="MIXED", takes_jobs=True, gpus_used=1),), (job,))
    asked = host_config("Slurm on login1", asks_slurm=True)
    setup = replace(config("a"), clusters=(SlurmCluster(asked),))
    told = HostReading(asked.name, NOW, slurm=answer)
    hosts = {"a": a_reading("a", [gpu(0), gpu(1)])}

    def screen(slurm: HostReading) -> str:
        view = View(Look(), 5, readings=hosts, slurm={asked.name: slurm})
        lines, _ = frame(view, survey_now(view, setup, NOW), 120, 12)
        return "\n".join(line.plain for line in lines)

    ends = f"{(NOW + timedelta(hours=1)).astimezone():%d %b %H:%M}"
    assert f"allocated to user3, no process, ends by {ends}" in screen(told)
    assert "1 of 2 GPUs free" in screen(told)
    failed = screen(replace(told, status=Status.TIMEOUT, slurm=None))
    assert "0 of 2 GPUs free" in failed
    assert "Slurm on login1: timeout" in failed


# Jobs


def test_a_job_has_the_gpus_that_it_does_not_use_too() -> None:
    """Three GPUs, of which one works; and a job without any process."""
    lab = [
        a_reading(
            "n1", [works(0), idle(1), idle(2, job="8", user="user4", started_at=NOW - timedelta(hours=1))]
        ),
        a_reading("n2", [idle(0)]),
    ]
    first, second = find_jobs(build_survey(lab, config("n1", "n2"), NOW)).all
    assert (first.id, first.users, [f"{p.host}:{p.gpu}" for p in first.places]) == (
        "slurm:7", ("user3",), ["n1:0", "n1:1", "n2:0"],
    )  # fmt: skip
    assert ([f"{p.host}:{p.gpu}" for p in first.unused], first.ends_at) == (
        ["n1:1", "n2:0"],
        NOW + timedelta(hours=1),
    )
    assert first.utilization == pytest.approx(97 / 3)
    assert (second.id, second.users, second.program, second.since) == (
        "slurm:8", ("user4",), None, NOW - timedelta(hours=1),
    )  # fmt: skip
    html = render_page(page_of(*lab))
    assert '3 <span class="unit">(2 unused)</span>' in html
    told = survey_of(*lab)["jobs"]
    ends = "2025-11-14T10:12:00Z"
    assert [(job["gpus_unused"], job["ends_at"]) for job in told] == [(2, ends), (1, ends)]


def test_a_job_on_whose_gpu_only_others_are_seen_has_that_gpu() -> None:
    """Its processes are not in its cgroup, as in a container of another system."""
    lab = [
        a_reading(
            "n1", [busy_gpu(0, allocation=given()), gpu(1, allocation=Allocation(Allocated.UNKNOWN, "9"))]
        )
    ]
    (job,) = find_jobs(build_survey(lab, config("n1"), NOW)).all
    assert (job.id, len(job.places), job.unused, job.utilization) == ("slurm:7", 1, (), 97)


def test_where_there_is_no_room_the_end_of_a_job_is_shown_in_the_place_of_its_run_time() -> None:
    ends = NOW + timedelta(hours=2)
    card = replace(busy_gpu(0), allocation=Allocation(Allocated.YES, "7", None, "alice", None, ends))
    survey = shown_survey([a_reading("a", [card])], config("a"), NOW)
    full = f"alice 3 h, ends by {ends.astimezone():%d %b %H:%M}"
    for width, who in ((200, full), (66, f"alice until {ends.astimezone():%H:%M}")):
        line = list(table(survey, Choice(), Look(), width))[1].plain
        assert line.endswith(f"%  {who}"), line


@pytest.mark.parametrize(("names", "who"), [(True, "user3"), (False, "a job")])
def test_the_terminal_names_the_owner_of_a_job_only_where_names_are_shown(names: bool, who: str) -> None:
    survey = build_survey([a_reading("a", [idle(0), works(1)], node=NODE)], config("a"), NOW)
    lines = [line.plain for line in table(survey, Choice(), Look(names=names), None)]
    ends = f"ends by {(NOW + timedelta(hours=1)).astimezone():%d %b %H:%M}"
    assert any(line.endswith(f"allocated to {who}, no process, {ends}") for line in lines), lines
