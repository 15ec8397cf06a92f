"""Which processes are one job, and that page, JSON and terminal have the same answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, timedelta
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumon_static.config.settings import Config
from gpumon_static.model import Allocated, Allocation, HostReading, Process
from gpumon_static.publish.exports.gpus_json import document
from gpumon_static.survey.jobs import TOGETHER_S, Job, Jobs, find, find_jobs
from gpumon_static.survey.survey import Survey, build_survey
from gpumon_static.terminal.rows import Look
from gpumon_static.terminal.show import Choice, survey_of, table
from tests.builders import NOW, READ_AT, busy_gpu, config, gpu, host_config, process, reading, slices
from tests.growth import costs_too_much


def lab(*hosts: str, users: str = "names") -> Config:
    setup = config(*hosts)
    return replace(setup, site=replace(setup.site, users=users))


def jobs(readings: Sequence[HostReading], users: str = "names", setup: Config | None = None) -> Jobs:
    setup = setup or lab(*(r.host for r in readings), users=users)
    return find_jobs(build_survey(readings, setup, NOW, key=b"k" * 32))


def trainer(pid: int, **changes: object) -> Process:
    return process(pid, **({"user": "jonas", "name": "/usr/bin/python3", "job": None} | changes))


SLURM = [
    reading("vision-01", [busy_gpu(n, processes=(trainer(n, job="slurm:8841"),)) for n in range(4)]),
    reading(
        "vision-02",
        [gpu(0), *(busy_gpu(n, utilization=85.0, processes=(trainer(n, job="slurm:8841"),)) for n in (1, 2))],
    ),
]


def test_processes_with_one_job_id_are_one_job_over_hosts_and_groups() -> None:
    setup = config(host_config("vision-01", group="vision"), host_config("vision-02", group="language"))
    (job,) = jobs(SLURM, setup=setup).all
    assert (job.address, job.id, job.users, job.program) == (
        "slurm:8841",
        "slurm:8841",
        ("jonas",),
        "python3",
    )
    assert job.by_host == [("vision-01", "0–3"), ("vision-02", "1, 2")]
    assert job.utilization == pytest.approx((4 * 97 + 2 * 85) / 6)
    assert job.memory_mib == 6 * 40960
    assert job.words(NOW) == "6 GPUs on 2 hosts, 93 %, since 06:10"


def started(
    *ages: int | None, user: str = "jonas", name: str = "python3", **changes: object
) -> list[HostReading]:
    """A process per GPU, that long ago."""
    given = [trainer(n, user=user, name=name, elapsed_s=age, **changes) for n, age in enumerate(ages)]
    return [reading("n1", [busy_gpu(n, processes=(one,)) for n, one in enumerate(given)])]


@pytest.mark.parametrize(
    ("ages", "expected"),
    [
        ((600, 600, 480), ["0–2"]),
        ((600, 600, 479), ["0, 1"]),
        ((600, 500, 400), ["0, 1"]),
        ((600, None, 590), ["0, 2"]),
        ((600,), []),
        ((None, None), []),
    ],
)
def test_without_an_id_a_start_within_two_minutes_makes_a_job(
    ages: tuple[int | None, ...], expected: list[str]
) -> None:
    assert [where for job in jobs(started(*ages)).all for _, where in job.by_host] == expected


def test_without_an_id_users_and_programs_are_not_mixed() -> None:
    first, second = trainer(1, user="jonas"), trainer(2, user="mira")
    other = trainer(3, name="gmx")
    assert (
        jobs([reading("n1", [busy_gpu(n, processes=(p,)) for n, p in enumerate((first, second, other))])]).all
        == ()
    )
    unknown = [trainer(n, user=None, uid=None) for n in (1, 2)]
    assert jobs([reading("n1", [busy_gpu(n, processes=(p,)) for n, p in enumerate(unknown)])]).all == ()
    two_on_one_gpu = busy_gpu(0, processes=(trainer(1), trainer(2)))
    assert jobs([reading("n1", [two_on_one_gpu])]).all == ()


def test_a_job_id_joins_several_users_and_unknown_starts() -> None:
    members = (trainer(1, job="pod:a", elapsed_s=None), trainer(2, job="pod:a", user="root"))
    (job,) = jobs([reading("n1", [busy_gpu(n, processes=(p,)) for n, p in enumerate(members)])]).all
    assert (job.users, job.since) == (("jonas", "root"), READ_AT - timedelta(hours=3))


def test_slices_and_unknown_utilization() -> None:
    cut = slices(3, 0, 1)
    (job,) = jobs([reading("n1", [gpu(0, mig_mode=True, utilization=None, slices=cut)])]).all
    assert (job.size, job.by_host, job.utilization) == ("2 slices on 1 host", [("n1", "0:0, 0:1")], None)


@pytest.mark.parametrize("drift", range(-60, 61, 5))
def test_a_link_to_a_job_without_an_id_is_valid_after_the_next_run(drift: int) -> None:
    """The computed start differs from run to run, around the border of a minute as elsewhere."""
    for second in (0, 29, 30, 31, 59):
        before = jobs(started(600 + second, 600 + second)).all[0].address
        after = jobs([*started(600 + second - drift, 600 + second - drift)]).all
        assert find(after, before) is after[0]


def test_a_link_never_leads_to_the_next_job_of_the_same_program() -> None:
    first, second = jobs(started(600, 600, 600 - 121, 600 - 121)).all
    assert first.address != second.address
    assert find([second], first.address) is None
    assert find([first, second], "jonas,python3,tomorrow") is None
    assert find([first], "slurm:1") is None


def test_tiers_decide_what_a_job_is_called() -> None:
    assert jobs(SLURM, "counts").all == ()
    (job,) = jobs(SLURM, "pseudonyms").all
    assert job.id is None
    assert "jonas" not in job.address
    assert "8841" not in repr(job)
    assert job.size == "6 GPUs on 2 hosts"


# Any lab

MEMBER = st.builds(
    trainer,
    st.integers(1, 9),
    user=st.sampled_from(["ann", "bob", None]),
    name=st.sampled_from(["python3", "/opt/a b/python3", "gmx", None]),
    job=st.sampled_from([None, None, "slurm:1", "docker:2"]),
    elapsed_s=st.sampled_from([None, *range(0, 1000, 40)]),
    memory_mib=st.sampled_from([None, 10.0]),
    type=st.sampled_from(["C", "C", "G"]),
)


@st.composite
def labs(draw: st.DrawFn) -> list[HostReading]:
    return [
        reading(
            f"n{host}",
            [
                busy_gpu(
                    n, utilization=draw(st.sampled_from([None, 0.0, 50.0])), processes=tuple(draw(members))
                )
                for n in range(draw(st.integers(0, 4)))
            ],
        )
        for host in range(draw(st.integers(1, 3)))
    ]


members = st.lists(MEMBER, max_size=3)


@given(readings=labs())
@settings(max_examples=60, deadline=None)
def test_the_rule_holds_for_any_lab(readings: list[HostReading]) -> None:
    found = jobs(readings)
    assert len({job.address for job in found.all}) == len(found.all)
    ids = {p.job for r in readings for g in r.gpus for p in g.processes if p.job and p.type != "G"}
    assert {job.id for job in found.all if job.id} == ids
    for job in found.all:
        assert len(set(job.places)) == len(job.places)
        if job.id is None:
            assert len(job.places) > 1
            assert len(job.users) == 1
            assert find(found.all, job.address) is job
    for first, second in combinations((job for job in found.all if job.id is None), 2):
        same = (first.users, first.program) == (second.users, second.program)
        if same and first.since and second.since:
            assert abs(first.since - second.since).total_seconds() > TOGETHER_S
    assert jobs(readings[::-1]).all == found.all


@given(readings=labs())
@settings(max_examples=40, deadline=None)
def test_terminal_and_json_have_the_same_jobs(readings: list[HostReading]) -> None:
    survey = survey_of(readings, lab(*(r.host for r in readings)), NOW)
    told = json.loads(json.dumps(document(survey)))["jobs"]
    assert [job["address"] for job in told] == [job.address for job in find_jobs(survey).all]
    lines = [line.plain for line in table(survey, Choice(), Look(processes=True), None)]
    local = NOW.astimezone()
    for job in find_jobs(survey).all:
        assert sum(job.words(local) in line and (job.id or "–") in line for line in lines) >= 1


def test_a_user_sees_a_row_per_job_in_the_terminal() -> None:
    survey = survey_of(SLURM, lab("vision-01", "vision-02"), NOW)
    lines = [
        line.plain for line in table(survey, Choice(user="jonas"), Look(processes=True, me="jonas"), None)
    ]
    since = f"{(READ_AT - timedelta(hours=3)).astimezone():%H:%M}"
    assert (
        f"slurm:8841  jonas*  python3  240  6 GPUs on 2 hosts, 93 %, since {since}"
        "  vision-01: 0–3, vision-02: 1, 2" in lines
    )
    assert all("GPUs on" not in line.plain for line in table(survey, Choice(), Look(), None))


def test_since_has_a_day_where_it_was_not_today() -> None:
    def words(hours: int) -> str:
        job = Job("x", "x", ("a",), None, (), None, None, NOW - timedelta(hours=hours))
        return job.words(NOW.astimezone(UTC)).rpartition(", ")[2]

    assert [words(hours) for hours in (1, 12, 60)] == ["since 08:12", "since yesterday", "since 11 Nov"]


def test_a_job_on_every_gpu_of_the_site_costs_in_proportion_to_its_gpus() -> None:
    """A Slurm job of thousands of GPUs, each with a process: one reading of the site must not wait for it."""
    given = Allocation(allocated=Allocated.YES, job="7", user="alice")

    def of(gpus: int) -> Survey:
        hosts = [
            reading(
                f"n{number}",
                [busy_gpu(i, allocation=given, processes=(trainer(i + 1, job="slurm:7"),)) for i in range(8)],
            )
            for number in range(gpus // 8)
        ]
        return build_survey(hosts, lab(*(host.host for host in hosts)), NOW)

    surveys = {size: of(size) for size in (400, 3200)}
    (job,) = find_jobs(surveys[400]).all
    assert (len(job.places), job.unused) == (400, ())
    assert (
        costs_too_much(lambda text: find_jobs(surveys[len(text)]), lambda size: "." * size, *surveys) is None
    )
