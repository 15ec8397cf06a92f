"""What the page, its users and jobs, and the terminal show of Slurm."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from gpumon_static.config.settings import PageConfig, SlurmCluster
from gpumon_static.model import (
    Allocated,
    Allocation,
    Fault,
    HostReading,
    JobGpus,
    SlurmAnswer,
    SlurmJob,
    SlurmNode,
    Status,
)
from gpumon_static.publish.exports.gpus_json import document
from gpumon_static.publish.page.data import page_data
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.view import build_page
from gpumon_static.survey.jobs import find_jobs
from gpumon_static.survey.offers import Wanted
from gpumon_static.survey.slurm.when import estimates
from gpumon_static.survey.survey import build_survey
from gpumon_static.terminal.rows import Look
from gpumon_static.terminal.show import Choice, table
from gpumon_static.terminal.show import survey_of as shown_survey
from gpumon_static.terminal.top import survey_now
from gpumon_static.terminal.top_view import View, frame
from tests.browser import OpenPage
from tests.builders import NOW, busy_gpu, config, failed, gpu, host_config, process
from tests.builders import reading as a_reading
from tests.slurm_readings import NODE, REPORTS, V100, at, given, idle, survey_of, words, works

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
