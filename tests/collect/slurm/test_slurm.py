"""Slurm: what scontrol prints, and which GPU of which host that is."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpumon_static.bounds.reading import bounded
from gpumon_static.collect.slurm import answer
from gpumon_static.collect.slurm.join import join
from gpumon_static.collect.slurm.nodes import takes_jobs
from gpumon_static.config import file as config_file
from gpumon_static.config.settings import BusyConfig, Config
from gpumon_static.errors import ConfigError, HostError
from gpumon_static.model import (
    Allocated,
    Gpu,
    HostReading,
    JobGpus,
    SlurmAnswer,
    SlurmJob,
    Status,
    Waiting,
)
from gpumon_static.model.states import State
from gpumon_static.store import snapshot
from gpumon_static.store.slurm import slurm_file
from gpumon_static.survey.state import gpu_state, slice_state, slices_of
from gpumon_static.survey.survey import SurveyedHost
from tests.builders import READ_AT, busy_gpu, gpu, process, slices
from tests.builders import reading as a_reading
from tests.command import gpumon
from tests.places import SHARED
from tests.slurm_texts import answer as told
from tests.slurm_texts import job, node, on

ENDS = datetime(2025, 11, 14, 14, 30, tzinfo=UTC)
CAPTURES = SHARED / "slurm"


def read(jobs: str = "", nodes: str = "") -> SlurmAnswer:
    found = bounded(answer.parse("Slurm on login1", told(jobs, nodes), READ_AT)).slurm
    assert found
    return found


def jobs_of(*lines: str) -> dict[str, SlurmJob]:
    return {one.id: one for one in read("\n".join(lines)).jobs}


# Jobs


def test_a_job_has_its_owner_its_gpus_and_its_end() -> None:
    assert jobs_of(job(77, on("gpu[1-2]", "gpu:h200:2(IDX:0-1)"))) == {
        "77": SlurmJob(
            "77",
            "alice",
            "train",
            datetime(2025, 11, 14, 8, 30, tzinfo=UTC),
            ENDS,
            (JobGpus("gpu1", 2, (0, 1)), JobGpus("gpu2", 2, (0, 1))),
            "gpu",
            "vision",
        )
    }


@pytest.mark.parametrize(
    ("group", "gpus"),
    [
        (on("gpu1", "gpu:a100:1(IDX:0),gpu:v100:2(IDX:1-2)"), (JobGpus("gpu1", 3, (0, 1, 2)),)),
        (on("gpu1", "gpu(IDX:2,4)", "GRES_IDX"), (JobGpus("gpu1", 2, (2, 4)),)),
        (on("gpu1", "gpu:2(IDX:0,3)"), (JobGpus("gpu1", 2, (0, 3)),)),
        (on("gpu1", "gpu:1g.10gb:1(IDX:5),shard:2(IDX:0)"), (JobGpus("gpu1", 1, (5,), (0,)),)),
        (on("gpu1", "shard:a100:3(IDX:1)"), (JobGpus("gpu1", 0, (), (1,)),)),
        (on("gpu1", "mps:50(IDX:0)"), (JobGpus("gpu1", 0, (), (0,)),)),
        (on("gpu1", "shard:2(0/4,2/4)"), (JobGpus("gpu1", 0),)),
        (on("gpu1", "gpu:a100:2(IDX:N/A)"), (JobGpus("gpu1", 2),)),
        (on("gpu1,gpu[3-4]", "gpu:1(IDX:0)"), tuple(JobGpus(n, 1, (0,)) for n in ("gpu1", "gpu3", "gpu4"))),
    ],
)
def test_the_gpus_of_a_job_in_each_form(group: str, gpus: tuple[JobGpus, ...]) -> None:
    assert jobs_of(job(1, group))["1"].gpus == gpus


def test_a_job_of_several_groups_of_nodes_has_all_of_them() -> None:
    found = jobs_of(job(1, on("gpu1", "gpu:2(IDX:0-1)"), on("gpu[2-3]", "gpu:1(IDX:1)")))["1"]
    assert [(g.node, g.indexes) for g in found.gpus] == [("gpu1", (0, 1)), ("gpu2", (1,)), ("gpu3", (1,))]


@pytest.mark.parametrize("group", ["", on("gpu1", ""), on("gpu1", "(null)"), on("gpu1", "license:2(IDX:0)")])
def test_a_job_without_gpus_is_left_out(group: str) -> None:
    assert jobs_of(job(1, group)) == {}


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "x=1 y=2",
        "a JobState=PENDING b",
        "a UserId=bob(0) b",
        "JobId=7 JobName=x EndTime=2031-01-01T00:00:00 Nodes=gpu9 CPU_IDs=0 Mem=0 GRES=gpu:8(IDX:0-7)",
        "\"quoted\" 'and' \x1b[31mred",
        "日本語 🚀",
    ],
)
def test_a_name_is_a_name_whatever_is_in_it(name: str) -> None:
    found = jobs_of(job(1, on("gpu1", "gpu:a100:1(IDX:0)"), name=name))["1"]
    assert (found.user, found.ends_at, found.gpus) == ("alice", ENDS, (JobGpus("gpu1", 1, (0,)),))
    assert found.name is not None
    assert found.name.startswith(name[:3].strip())


def test_a_name_that_pretends_to_be_another_job_is_not_believed() -> None:
    forged = "x UserId=bob(1) GroupId=g(1) MCS_label=N/A JobState=RUNNING EndTime=2025-11-14T09:20:00"
    lines = [job(1, on("gpu1", "gpu:1(IDX:0)"), name=forged), job(2, on("gpu1", "gpu:1(IDX:1)"))]
    found = answer.parse("s", told("\n".join(lines)), READ_AT)
    assert found.slurm
    assert [one.id for one in found.slurm.jobs] == ["2"]
    assert found.note == "1 line about jobs not understood"


def test_a_comment_adds_no_gpus_and_changes_no_end() -> None:
    tail = "MinCPUsNode=1 Command=/x EndTime=2031-01-01T00:00:00 Comment= Nodes=gpu9 CPU_IDs=0 Mem=0 GRES=gpu:8(IDX:0-7)"
    found = jobs_of(job(1, on("gpu1", "gpu:1(IDX:0)"), tail=tail))["1"]
    assert (found.gpus, found.ends_at) == ((JobGpus("gpu1", 1, (0,)),), ENDS)


# What users wrote is not what Slurm reports: jobs that squeue confirms

OWNERS = "1|1002|mallory|RUNNING|gpu1\n2|1001|alice|RUNNING|gpu[1-2]\n3|1001|alice|PENDING|\n"
ALICES = job(2, on("gpu[1-2]", "gpu:1(IDX:1)"))
WAITS = job(3, state="PENDING", reason="Resources", more="ReqTRES=cpu=1,gres/gpu=2")
EVERY_GPU = on("gpu[1-8]", "gpu:8(IDX:0-7)")
HONEST = [(JobGpus("gpu1", 1, (0,)),), (JobGpus("gpu1", 1, (1,)), JobGpus("gpu2", 1, (1,)))]


def confirmed(*lines: str) -> HostReading:
    found = bounded(answer.parse("s", told("\n".join(lines), owners=OWNERS), READ_AT))
    assert found.slurm
    return found


def mallorys(**texts: str) -> str:
    return job(1, on("gpu1", "gpu:1(IDX:0)"), user="mallory(1002)", **texts)


@pytest.mark.parametrize(
    "forged",
    [
        job(9999, EVERY_GPU),
        job(9999, EVERY_GPU, user="mallory(1002)"),
        job(2, EVERY_GPU, user="mallory(1002)"),
        job(9999, state="PENDING", reason="Resources", more="ReqTRES=cpu=1,gres/gpu=900"),
        "JobId=9999",
        "No jobs in the system",
    ],
)
@pytest.mark.parametrize("place", ["comment", "name", "directory"])
def test_a_users_text_is_no_job_of_slurm(forged: str, place: str) -> None:
    """With newlines, as `sbatch --comment=$'x\\nJobId=...'` has them."""
    texts = {
        "comment": {"tail": f"MinCPUsNode=1 Command=/x Comment=x\n{forged}\n"},
        "directory": {"tail": f"MinCPUsNode=1 Command=/x WorkDir=/tmp/x\n{forged}\n Comment=y"},
        "name": {"name": f"x\n{forged}\n"},
    }[place]
    for lines in ([mallorys(**texts), ALICES, WAITS], [WAITS, ALICES, mallorys(**texts)]):
        found = confirmed(*lines).slurm
        assert found
        jobs = {one.id: one for one in found.jobs}
        assert set(jobs) <= {"1", "2"}
        assert (jobs["2"].user, jobs["2"].ends_at in (ENDS, None)) == ("alice", True)
        assert {gpus for gpus in jobs["2"].gpus if gpus.count} <= set(HONEST[1])
        assert "JobId=2 " in forged or (jobs["2"].gpus, jobs["2"].ends_at) == (HONEST[1], ENDS)
        # The forger may lose what is known of the own job, and no more.
        assert all(one.gpus == HONEST[0] and one.user == "mallory" for one in jobs.values() if one.id == "1")
        assert [(one.gpus, one.jobs) for one in found.waiting] == [(2, 1)]


@pytest.mark.parametrize("forged", [job(2, EVERY_GPU), job(2, on("gpu1", "gpu:1(IDX:0)"), end="Unknown")])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_copy_of_anothers_job_changes_nothing_of_it(forged: str, is_first: bool) -> None:
    """Of two records of one job, one is a user's text: what differs is not known, and not what the text claims."""
    lines = [mallorys(tail=f"MinCPUsNode=1 Comment=x\n{forged}\n"), ALICES]
    found = confirmed(*(lines if is_first else reversed(lines)))
    assert found.slurm
    alices = next(one for one in found.slurm.jobs if one.id == "2")
    assert (alices.user, alices.name) == ("alice", "train")
    assert {gpus for gpus in alices.gpus if gpus.count} <= set(HONEST[1])
    assert alices.ends_at in (ENDS, None)
    assert found.note == "1 line about jobs not understood"


def test_a_copy_of_a_job_that_waits_is_not_waited_for() -> None:
    forged = job(3, state="PENDING", reason="Resources", more="ReqTRES=cpu=1,gres/gpu=900")
    for lines in (
        [mallorys(tail=f"Comment=x\n{forged}\n"), WAITS],
        [WAITS, mallorys(tail=f"Comment=\n{forged}\n")],
    ):
        found = confirmed(*lines).slurm
        assert found
        assert found.waiting == ()


def test_the_owner_is_squeues_word() -> None:
    """The record has the right uid beside another's name."""
    forged = job(1, EVERY_GPU, user="alice(1002)")
    found = confirmed(f"JobId=1 JobName=x\n{forged}").slurm
    assert found
    assert [one.user for one in found.jobs if one.gpus] in ([], ["mallory"])


def test_where_squeue_fails_jobs_are_read_and_that_is_noted() -> None:
    output = told(ALICES, owners="").replace(b"slurm-owners\n\nstatus 0", b"slurm-owners\n\nstatus 127")
    found = answer.parse("s", output, READ_AT)
    assert found.slurm
    assert [one.id for one in found.slurm.jobs] == ["2"]
    assert found.note == "squeue failed: owners of jobs are not confirmed"


def test_a_key_before_the_state_is_a_users_text() -> None:
    """WCKey may be any text, and stands before what is read."""
    forged = "normal WCKey=x Nodes=gpu1 CPU_IDs=0 Mem=0 GRES=gpu:8(IDX:0-7) EndTime=2031-01-01T00:00:00"
    found = jobs_of(job(1, on("gpu1", "gpu:1(IDX:0)")).replace("QOS=normal", f"QOS={forged}"))["1"]
    assert (found.gpus, found.ends_at) == (HONEST[0], ENDS)
    forged += " JobState=RUNNING StartTime=2020-01-01T00:00:00"
    assert jobs_of(job(1, on("gpu1", "gpu:1(IDX:0)")).replace("QOS=normal", f"QOS={forged}")) == {}


@pytest.mark.parametrize(
    ("ids", "number"),
    [
        ("ArrayJobId=70 ArrayTaskId=3 ", 77),
        ("HetJobId=70 HetJobOffset=1 HetJobIdSet=70-72 ", 71),
        ("PackJobId=70 PackJobOffset=1 PackJobIdSet=70-72 ", 71),
    ],
)
def test_a_task_of_an_array_and_a_part_of_a_het_job_have_the_id_that_cgroups_have(
    ids: str, number: int
) -> None:
    assert list(jobs_of(job(number, on("gpu1", "gpu:1(IDX:0)"), ids=ids))) == [str(number)]


@pytest.mark.parametrize(
    ("user", "shown"), [("alice(1001)", "alice"), ("uc-10", "uc-10"), ("1001(1001)", "uid 1001")]
)
def test_the_owner_in_each_form(user: str, shown: str) -> None:
    assert jobs_of(job(1, on("gpu1", "gpu:1(IDX:0)"), user=user))["1"].user == shown


@pytest.mark.parametrize(
    ("state", "end", "is_held", "ends_at"),
    [
        ("RUNNING", "2025-11-14T14:30:00", True, ENDS),
        ("RUNNING", "Unknown", True, None),
        ("RUNNING", "N/A", True, None),
        ("RUNNING", "9999-12-31T23:59:59", True, None),
        ("RUNNING", "2025-02-30T00:00:00", True, None),
        ("SUSPENDED", "2025-11-14T14:30:00", True, None),
        ("COMPLETING", "2025-11-14T09:00:00", True, None),
        ("COMPLETED", "2025-11-14T09:00:00", False, None),
        ("CONFIGURING", "2025-11-14T14:30:00", False, None),
    ],
)
def test_which_jobs_hold_gpus_and_until_when(
    state: str, end: str, is_held: bool, ends_at: datetime | None
) -> None:
    found = jobs_of(job(1, on("gpu1", "gpu:1(IDX:0)"), state=state, end=end))
    assert ("1" in found) == is_held
    if is_held:
        assert found["1"].ends_at == ends_at


# What is waited for


@pytest.mark.parametrize(
    ("more", "ids", "tail", "waiting"),
    [
        ("ReqTRES=cpu=8,node=1,gres/gpu=2 AllocTRES=(null)", "", "", {None: (2, 1)}),
        (
            "ReqTRES=cpu=8,gres/gpu=3,gres/gpu:a100=1,gres/gpu:h200=2",
            "",
            "",
            {"a100": (1, 1), "h200": (2, 1)},
        ),
        ("TRES=cpu=1,gres/gpu=4", "", "", {None: (4, 1)}),
        ("TRES=cpu=1", "", "TresPerNode=gres:gpu:a100:2", {"a100": (2, 1)}),
        ("TRES=cpu=1", "", "TresPerNode=gres/gpu:a100", {"a100": (1, 1)}),
        ("TRES=cpu=1", "", "TresPerJob=gres/gpu:4 TresPerTask=cpu=4", {None: (4, 1)}),
        ("TRES=cpu=1 Gres=gpu:k80:2", "", "", {"k80": (2, 1)}),
        ("TRES=cpu=1", "ArrayJobId=1 ArrayTaskId=1-10%2 ", "TresPerNode=gres:gpu:1", {None: (10, 10)}),
        ("TRES=cpu=1", "ArrayJobId=1 ArrayTaskId=3,7,11-13 ", "TresPerNode=gres:gpu:1", {None: (5, 5)}),
        ("TRES=cpu=64", "", "", {}),
    ],
)
def test_pending_jobs_are_counted_by_the_kind_of_gpu(
    more: str, ids: str, tail: str, waiting: dict[str | None, tuple[int, int]]
) -> None:
    line = job(
        1, state="PENDING", reason="Priority", start="Unknown", end="Unknown", more=more, ids=ids, tail=tail
    )
    found = read(line).waiting
    assert {one.kind: (one.gpus, one.jobs) for one in found} == waiting
    assert all(one.oldest_at == datetime(2025, 11, 14, 8, tzinfo=UTC) for one in found)


@pytest.mark.parametrize(
    "reason", ["JobHeldUser", "JobHeldAdmin", "Dependency", "DependencyNeverSatisfied", "BeginTime"]
)
def test_jobs_that_would_not_start_on_a_free_gpu_wait_for_none(reason: str) -> None:
    assert read(job(1, state="PENDING", reason=reason, more="ReqTRES=gres/gpu=2")).waiting == ()


# Nodes


@pytest.mark.parametrize(
    ("state", "takes"),
    [
        ("IDLE", True), ("MIXED", True), ("ALLOCATED", True), ("IDLE+PLANNED", True), ("PLANNED", True),
        ("MIXED+COMPLETING", True), ("IDLE+CLOUD+POWERED_DOWN", True), ("IDLE~", True),
        ("IDLE+DRAIN", False), ("MIXED+DRAIN", False), ("DRAINED", False), ("DRAINING*", False),
        ("MIXED+RESERVED", False), ("DOWN*", False), ("DOWN*+NOT_RESPONDING", False), ("IDLE*", False),
        ("MAINT", False), ("IDLE+MAINTENANCE+RESERVED", False), ("ALLOCATED$", False), ("FAIL", False),
        ("UNKNOWN", False), ("SOMETHING_NEW", False), (None, None),
    ],
)  # fmt: skip
def test_which_nodes_take_jobs(state: str | None, takes: bool | None) -> None:
    assert takes_jobs(state) is takes


def test_a_node_has_its_reason_without_who_wrote_it() -> None:
    (found,) = read(nodes=node("gpu1", state="IDLE+DRAIN", reason="disk is full, see ticket=12")).nodes
    assert (found.state, found.takes_jobs, found.reason) == (
        "IDLE+DRAIN",
        False,
        "disk is full, see ticket=12",
    )


@pytest.mark.parametrize(
    ("used", "count", "at"),
    [
        ("gpu:a100:1(IDX:0)", 1, (0,)),
        ("gpu:a100:0(IDX:N/A)", 0, ()),
        ("gpu:a100:1(IDX:3),gpu:v100:2(IDX:0-1)", 3, (3, 0, 1)),
        ("gpu:2", 2, None),
        ("gpu:a100:2(IDX:0-99999999999)", 2, None),
        ("(null)", None, None),
    ],
)
def test_what_is_in_use_of_a_node(used: str, count: int | None, at: tuple[int, ...] | None) -> None:
    (found,) = read(nodes=node(used=used)).nodes
    assert (found.gpus_used, found.used) == (count, at)


def test_a_node_without_gpus_is_left_out() -> None:
    assert read(nodes=node("cpu1", gres="(null)")).nodes == ()


# The answer as a whole


def test_a_packed_answer_is_the_same() -> None:
    lines = job(1, on("gpu1", "gpu:1(IDX:0)")), node()
    plain, packed = (
        answer.parse("s", told(*lines, packed=is_packed), READ_AT) for is_packed in (False, True)
    )
    assert plain == packed
    assert plain.slurm
    assert plain.slurm.version == "23.11.4"


def test_no_jobs_and_no_nodes_are_no_error() -> None:
    assert read("No jobs in the system", "") == SlurmAnswer("23.11.4")


@pytest.mark.parametrize(
    ("output", "status", "error"),
    [
        (
            told(
                status=1, errors="slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
            ),
            Status.ERROR,
            "scontrol failed: slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        ),
        (told(status=1), Status.ERROR, "scontrol failed: exit status 1"),
        (told(status=137), Status.TIMEOUT, "Slurm did not answer scontrol in time"),
        (
            b"\n@@gpumon begin 1 ab\n\n@@gpumon ab slurm-missing\n\n@@gpumon ab end\n",
            Status.ERROR,
            "there is no scontrol on this host, or not on the PATH of its login shell",
        ),
        (
            b"\n@@gpumon begin 1 ab\n\n@@gpumon ab smi\n<nvidia_smi_log/>\n\n@@gpumon ab end\n",
            Status.BAD_OUTPUT,
            "the probe that is installed there is of an older version, without Slurm: install the new one",
        ),
    ],
)
def test_why_there_is_no_answer(output: bytes, status: Status, error: str) -> None:
    with pytest.raises(HostError) as raised:
        answer.parse("s", output, READ_AT)
    assert (raised.value.status, raised.value.reason) == (status, error)


def test_an_answer_that_was_cut_off_loses_its_last_line_and_says_so() -> None:
    whole = job(1, on("gpu1", "gpu:1(IDX:0)"))
    found = answer.parse(
        "s", told(f"{whole}\n{whole[:200]}", f"{node()}\n{node('gpu2')}"[:-20], status=141), READ_AT
    )
    assert found.slurm
    assert ([one.id for one in found.slurm.jobs], [one.name for one in found.slurm.nodes]) == (
        ["1"],
        ["gpu1"],
    )
    assert found.note == "scontrol prints more than 16 MiB: what comes after that is not known"


def test_a_list_of_a_thousand_million_nodes_costs_nothing() -> None:
    lines = [job(n, on("gpu[1-999999999]", "gpu:1(IDX:0)")) for n in range(1, 3)]
    found = answer.parse("s", told("\n".join(lines)), READ_AT)
    assert found.slurm
    assert (found.slurm.jobs, found.note) == ((), "2 lists of nodes left out")


def test_more_nodes_of_jobs_than_there_can_be_are_left_out() -> None:
    lines = [job(n, on("gpu[1-20000]", "gpu:1(IDX:0)")) for n in range(1, 13)]
    found = answer.parse("s", told("\n".join(lines)), READ_AT)
    assert found.slurm
    assert (len(found.slurm.jobs), found.note) == (10, "2 lists of nodes left out")


@pytest.mark.parametrize("folder", [CAPTURES] if CAPTURES.is_dir() else [])
def test_real_captures(folder: Path) -> None:
    jobs, nodes = ((folder / f"slurm-22.05.8-{what}.txt").read_text() for what in ("jobs", "nodes"))
    found = read(jobs, nodes)
    assert [(j.id, j.user, j.name, j.gpus) for j in found.jobs] == [
        ("1", "root", "a JobState=PENDING b", (JobGpus("n1", 1, (0,)),)),
        ("2", "root", "wait", (JobGpus("n2", 2, (0, 1)),)),
    ]
    assert [(n.name, n.used, n.takes_jobs, n.reason) for n in found.nodes] == [
        ("n1", (0,), True, None),
        ("n2", (0, 1), False, "disk is full"),
    ]
    assert [(w.kind, w.gpus, w.jobs) for w in found.waiting] == [("a100", 6, 3)]
    pending = read((folder / "sonar-scontrol_resource1.txt").read_text())
    assert [(w.kind, w.gpus, w.jobs) for w in pending.waiting] == [(None, 6, 3)]


# Joining


SETUP = '[common]\nhosts = ["gpu1.lab.example", "gpu2", "desk"]\n'


def configured(tmp_path: Path, text: str = SETUP + '[slurm]\nhost = "login1"\n') -> Config:
    path = tmp_path / "config.ini"
    path.write_text(text)
    return config_file.load(path)


def joined(config: Config, answered: SlurmAnswer | None, *readings: HostReading) -> dict[str, HostReading]:
    asked = config.clusters[0].asked.name
    told_by = HostReading(asked, READ_AT, slurm=answered)
    return {one.host: one for one in join(readings, {asked: told_by}, config)}


def allocated(reading: HostReading) -> list[tuple[Allocated | None, str | None]]:
    return [(one.allocation.allocated, one.allocation.job) for one in reading.gpus]


def states(reading: HostReading) -> list[State]:
    return [gpu_state(one, BusyConfig()) for one in reading.gpus]


def in_job(number: int | str, index: int = 0) -> Gpu:
    return busy_gpu(index, processes=(process(job=f"slurm:{number}"),))


YES, NO, UNKNOWN = Allocated.YES, Allocated.NO, Allocated.UNKNOWN


@pytest.mark.parametrize("claimed", ["gpu:2(IDX:0-1)", "gpu:1(IDX:0)", "gpu:8(IDX:N/A)"])
def test_a_job_has_no_more_gpus_than_its_node_has_in_use(tmp_path: Path, claimed: str) -> None:
    """The node's word is Slurm's own; a job's record has texts of its user in it."""
    jobs = f"{job(7, on('gpu2', claimed))}\n{job(8, on('gpu2', 'gpu:1(IDX:1)'), user='bob(1)')}"
    slurm = read(jobs, node("gpu2", "gpu:1(IDX:1)", "MIXED"))
    found = joined(configured(tmp_path), slurm, a_reading("gpu2", [gpu(0), gpu(1)]))["gpu2"]
    assert allocated(found) == [(NO, None), (YES, "8")]


def test_a_gpu_of_a_job_without_a_process_is_held_and_has_the_jobs_owner_and_end(tmp_path: Path) -> None:
    slurm = read(job(7, on("gpu1", "gpu:1(IDX:1)")), node("gpu1", "gpu:1(IDX:1)", "MIXED"))
    found = joined(configured(tmp_path), slurm, a_reading("gpu1.lab.example", [gpu(0), gpu(1)]))[
        "gpu1.lab.example"
    ]
    assert allocated(found) == [(NO, None), (YES, "7")]
    assert states(found) == [State.FREE, State.HELD]
    given = found.gpus[1].allocation
    assert (given.user, given.ends_at, given.job_name) == ("alice", ENDS, None)
    assert (found.node.node, found.node.state, found.node.takes_jobs) == ("gpu1", "MIXED", True)


def test_the_name_of_a_job_is_kept_where_the_config_asks_for_it(tmp_path: Path) -> None:
    slurm = read(job(7, on("gpu2", "gpu:1(IDX:0)")), node("gpu2", "gpu:1(IDX:0)"))
    config = configured(tmp_path, SETUP + '[slurm]\nhost = "login1"\njob_names = true\n')
    assert joined(config, slurm, a_reading("gpu2", [gpu(0)]))["gpu2"].gpus[0].allocation.job_name == "train"


def test_the_job_id_of_a_process_counts_more_than_slurms_number(tmp_path: Path) -> None:
    """Slurm calls it GPU 0; nvidia-smi shows the job's process on GPU 1."""
    slurm = read(job(7, on("gpu2", "gpu:1(IDX:0)")), node("gpu2", "gpu:1(IDX:0)", "MIXED"))
    found = joined(configured(tmp_path), slurm, a_reading("gpu2", [gpu(0), in_job(7, 1)]))["gpu2"]
    assert allocated(found) == [(NO, None), (YES, "7")]


def test_the_order_of_the_config_is_applied_to_slurms_numbers(tmp_path: Path) -> None:
    slurm = read(job(7, on("gpu2", "gpu:1(IDX:0)")), node("gpu2", "gpu:1(IDX:0)"))
    config = configured(tmp_path, SETUP + '[slurm]\nhost = "login1"\norder = [1, 0]\n')
    assert allocated(joined(config, slurm, a_reading("gpu2", [gpu(0), gpu(1)]))["gpu2"]) == [
        (NO, None),
        (YES, "7"),
    ]


def test_where_slurms_number_is_somebody_elses_gpu_no_other_is_called_free(tmp_path: Path) -> None:
    """The job has one GPU that is idle; the one of its number runs another program. Which it is, is not known."""
    slurm = read(job(7, on("gpu2", "gpu:1(IDX:0)")), node("gpu2", "gpu:1(IDX:0)", "MIXED"))
    found = joined(configured(tmp_path), slurm, a_reading("gpu2", [busy_gpu(0), gpu(1), gpu(2)]))["gpu2"]
    assert allocated(found) == [(UNKNOWN, None)] * 3
    assert states(found) == [State.BUSY, State.UNKNOWN, State.UNKNOWN]


def test_jobs_that_slurm_hides_hold_their_gpus_all_the_same(tmp_path: Path) -> None:
    """PrivateData=jobs: no job is listed, and the node has one GPU in use."""
    slurm = read("", node("gpu2", "gpu:a100:1(IDX:1)", "MIXED"))
    found = joined(configured(tmp_path), slurm, a_reading("gpu2", [gpu(0), gpu(1)]))["gpu2"]
    assert allocated(found) == [(NO, None), (YES, None)]
    assert states(found) == [State.FREE, State.HELD]


def test_where_slurm_hides_which_gpus_are_in_use_none_is_called_free(tmp_path: Path) -> None:
    for used, state in (
        ("gpu:1", "MIXED"),
        ("(null)", "ALLOCATED"),
        ("gpu:a100:0(IDX:N/A),shard:2", "MIXED"),
    ):
        slurm = read("", node("gpu2", used, state))
        found = joined(configured(tmp_path), slurm, a_reading("gpu2", [gpu(0), gpu(1)]))["gpu2"]
        assert states(found) == [State.UNKNOWN, State.UNKNOWN], used


def test_a_hidden_job_with_a_process_is_counted_once(tmp_path: Path) -> None:
    slurm = read("", node("gpu2", "gpu:1", "MIXED"))
    found = joined(configured(tmp_path), slurm, a_reading("gpu2", [in_job(99), gpu(1)]))["gpu2"]
    assert (allocated(found), states(found)) == ([(YES, None), (NO, None)], [State.BUSY, State.FREE])


LATER = ENDS + timedelta(hours=2)
LATER_TEXT = "2025-11-14T16:30:00"


def shared_by(*numbers: int, index: int = 0) -> Gpu:
    return busy_gpu(index, processes=tuple(process(job=f"slurm:{number}") for number in numbers))


@pytest.mark.parametrize(
    ("jobs", "used", "card", "told"),
    [
        pytest.param(
            [job(7, on("gpu2", "shard:2(IDX:0)")), job(8, on("gpu2", "shard:2(IDX:0)"), end=LATER_TEXT)],
            "gpu:0(IDX:N/A),shard:4(IDX:0)",
            shared_by(7, 8),
            ("8", LATER),
            id="two-shards-both-seen",
        ),
        pytest.param(
            [job(7, on("gpu2", "shard:2(IDX:0)")), job(8, on("gpu2", "shard:2(IDX:0)"), end=LATER_TEXT)],
            "gpu:0(IDX:N/A),shard:4(IDX:0)",
            shared_by(7),
            ("8", LATER),
            id="two-shards-one-without-a-process",
        ),
        pytest.param(
            [job(7, on("gpu2", "mps:50(IDX:0)")), job(8, on("gpu2", "mps:50(IDX:0)"), end="Unknown")],
            "gpu:0(IDX:N/A),mps:100(IDX:0)",
            shared_by(7, 8),
            ("8", None),
            id="an-end-that-is-not-known-is-the-last",
        ),
        pytest.param(
            [job(7, on("gpu2", "shard:2(IDX:0)")), job(8, on("gpu2", "shard:2(IDX:1)"), end=LATER_TEXT)],
            "gpu:0(IDX:N/A),shard:4(IDX:0-1)",
            shared_by(7),
            ("7", ENDS),
            id="a-shard-of-another-gpu-does-not-count",
        ),
        pytest.param(
            [job(7, on("gpu2", "gpu:1(IDX:0)")), job(8, on("gpu2", "gpu:1(IDX:0)"), end=LATER_TEXT)],
            "gpu:1(IDX:0)",
            gpu(0),
            ("8", LATER),
            id="one-index-and-no-process",
        ),
        pytest.param(
            [job(7, on("gpu2", "gpu:1(IDX:0)")), job(8, on("gpu2", "gpu:1(IDX:0)"), state="SUSPENDED")],
            "gpu:1(IDX:0)",
            shared_by(7),
            ("8", None),
            id="a-suspended-job-has-it-too",
        ),
        pytest.param(
            [job(7, on("gpu2", "shard:2(IDX:3)")), job(8, on("gpu2", "shard:2(IDX:3)"), end=LATER_TEXT)],
            "gpu:0(IDX:N/A),shard:4(IDX:3)",
            shared_by(7),
            ("8", LATER),
            id="slurm-counts-otherwise",
        ),
        pytest.param(
            [job(7, on("gpu2", "gpu:1(IDX:0)"))],
            "gpu:1(IDX:0)",
            shared_by(7, 99),
            ("7", None),
            id="the-other-job-is-hidden",
        ),
    ],
)
def test_a_gpu_that_jobs_share_is_free_when_the_last_of_them_ends(
    tmp_path: Path, jobs: list[str], used: str, card: Gpu, told: tuple[str, datetime | None]
) -> None:
    for order in (jobs, jobs[::-1]):
        slurm = read("\n".join(order), node("gpu2", used, "MIXED"))
        found = joined(configured(tmp_path), slurm, a_reading("gpu2", [card, gpu(1)]))["gpu2"]
        given = found.gpus[0].allocation
        assert (given.allocated, given.job, given.ends_at) == (YES, *told)


def test_a_gpu_of_which_parts_are_given_out_is_not_called_free(tmp_path: Path) -> None:
    slurm = read(job(7, on("gpu2", "shard:2(IDX:0)")), node("gpu2", "gpu:0(IDX:N/A),shard:2(IDX:0)", "MIXED"))
    found = joined(configured(tmp_path), slurm, a_reading("gpu2", [gpu(0), gpu(1)]))["gpu2"]
    assert states(found) == [State.UNKNOWN, State.UNKNOWN]


def test_an_idle_node_that_reports_nothing_in_use_has_free_gpus(tmp_path: Path) -> None:
    found = joined(configured(tmp_path), read("", node("gpu2", "(null)")), a_reading("gpu2", [gpu(0)]))[
        "gpu2"
    ]
    assert states(found) == [State.FREE]


def test_a_host_that_slurm_does_not_list_is_as_without_it(tmp_path: Path) -> None:
    before = a_reading("desk", [gpu(0)])
    assert joined(configured(tmp_path), read("", node("gpu1")), before)["desk"] == before


@pytest.mark.parametrize("more", ['hosts = "gpu2"', '[hosts.gpu2]\nslurm = "x2"'])
def test_a_host_that_slurm_should_list_and_does_not_offers_nothing(tmp_path: Path, more: str) -> None:
    config = configured(tmp_path, SETUP + f'[slurm]\nhost = "login1"\n{more}\n')
    assert states(joined(config, read("", ""), a_reading("gpu2", [gpu(0)]))["gpu2"]) == [State.UNKNOWN]


@pytest.mark.parametrize("more", ["", 'hosts = "gpu2"'])
def test_nothing_is_free_while_slurm_does_not_answer(tmp_path: Path, more: str) -> None:
    config = configured(tmp_path, SETUP + f'[slurm]\nhost = "login1"\n{more}\n')
    one = a_reading("gpu2", [gpu(0), busy_gpu(1), gpu(2, mig_mode=True, slices=slices(2, 1))])
    found = joined(config, None, one)["gpu2"]
    assert states(found) == [State.UNKNOWN, State.BUSY, State.BUSY]
    cut = SurveyedHost(config.hosts[1], found, (), config.busy).places_of(found.gpus[2])
    assert [place.state for place in cut] == [State.UNKNOWN, State.BUSY]
    assert not any(place.is_offered for place in cut)


def test_a_host_that_slurm_never_managed_stays_free_while_slurm_does_not_answer(tmp_path: Path) -> None:
    config = configured(tmp_path)
    hosts = [a_reading("gpu1", [gpu(0)]), a_reading("gpu2", [gpu(0)])]
    found = {one.host: one for one in join(hosts, {}, config, {"gpu1": "gpu1"})}
    assert states(found["gpu1"]) == [State.UNKNOWN]
    assert found["gpu1"].node.node == "gpu1", "it is remembered for the next run"
    assert states(found["gpu2"]) == [State.FREE]


def test_names_match_without_domain_by_host_name_and_by_the_config(tmp_path: Path) -> None:
    config = configured(tmp_path, SETUP + '[slurm]\nhost = "login1"\n[hosts.desk]\nslurm = "node-9"\n')
    nodes = "\n".join([node("GPU1"), node("n2", host_name="gpu2.cluster"), node("node-9")])
    found = joined(
        config, read("", nodes), *(a_reading(n, [gpu(0)]) for n in ("gpu1.lab.example", "gpu2", "desk"))
    )
    assert [one.node.node for one in found.values()] == ["GPU1", "n2", "node-9"]


def test_a_slice_is_offered_only_where_all_that_is_given_is_seen(tmp_path: Path) -> None:
    cut = gpu(0, mig_mode=True, slices=slices(3, 1))
    mine = tuple(
        replace(mig, processes=tuple(replace(p, job="slurm:7") for p in mig.processes)) for mig in cut.slices
    )
    card = replace(cut, slices=mine)
    config = configured(tmp_path)
    for count, free in ((1, State.FREE), (2, State.UNKNOWN)):
        given = f"gpu:1g.10gb:{count}(IDX:{'0' if count == 1 else '0-1'})"
        slurm = read(job(7, on("gpu2", given)), node("gpu2", given, "MIXED"))
        found = joined(config, slurm, a_reading("gpu2", [card, gpu(1)]))["gpu2"]
        offered = [slice_state(cut, found.gpus[0], BusyConfig()) for cut in slices_of(found.gpus[0])]
        assert offered == [free, State.BUSY, free]
        assert states(found)[1] is free


def test_what_was_joined_is_in_the_file_and_comes_back(tmp_path: Path) -> None:
    slurm = read(
        job(7, on("gpu2", "gpu:1(IDX:0)")), node("gpu2", "gpu:1(IDX:0)", "MIXED+DRAIN", reason="=x; y")
    )
    found = joined(
        configured(tmp_path), slurm, a_reading("gpu2", [gpu(0), gpu(1)]), a_reading("desk", [gpu(0)])
    )
    snapshot.write(tmp_path / "x.csv", found.values())
    assert snapshot.read(tmp_path / "x.csv") == list(found.values())


def test_the_report_of_a_cluster_is_kept_beside_the_readings(tmp_path: Path) -> None:
    path = tmp_path / "slurm.json"
    pending = job(1, state="PENDING", reason="Priority", more="ReqTRES=gres/gpu:a100=2,gres/gpu=2")
    answered = answer.parse("Slurm on login1", told(pending, node()), READ_AT)
    failed = HostReading("Slurm on b", READ_AT, Status.TIMEOUT, "no answer")
    slurm_file.write(path, [answered, failed])
    first, second = slurm_file.read(path)
    assert (first.ok, first.version, first.nodes, first.jobs) == (True, "23.11.4", 1, 0)
    assert first.waiting == (Waiting("a100", 2, 1, datetime(2025, 11, 14, 8, tzinfo=UTC)),)
    assert (second.status, second.error) == (Status.TIMEOUT, "no answer")
    slurm_file.write(path, [])
    assert slurm_file.read(path) == []
    for damaged in (
        "",
        "[]",
        '{"version": 2}',
        '{"version": 1, "clusters": [{}]}',
        '{"version": 1, "clusters": 7}',
    ):
        path.write_text(damaged)
        assert slurm_file.read(path) == []


# The config


def test_slurm_is_asked_with_the_settings_of_its_host(tmp_path: Path) -> None:
    text = '[common]\nhosts = ["gpu1"]\nuser = "mon"\n[slurm]\nhost = "ada@login1:2200"\n[hosts.login1]\ncommand_timeout = 7\n'
    (cluster,) = configured(tmp_path, text).clusters
    asked = cluster.asked
    assert (asked.name, asked.alias, asked.address) == ("Slurm on login1", "login1", "login1")
    assert (asked.user, asked.port, asked.command_timeout, asked.asks_slurm) == ("ada", 2200, 7, True)


def test_a_host_of_the_lab_is_asked_for_its_slurm_apart_from_its_gpus(tmp_path: Path) -> None:
    config = configured(tmp_path, SETUP + '[slurm]\nhost = "gpu2"\n[hosts.gpu2]\naddress = "10.0.0.2"\n')
    asked = config.clusters[0].asked
    assert (asked.alias, asked.address, asked.asks_slurm) == ("gpu2", "10.0.0.2", True)
    assert [host.asks_slurm for host in config.hosts] == [False, False, False]


def test_localhost_is_asked_without_ssh(tmp_path: Path) -> None:
    assert (
        configured(tmp_path, SETUP + '[slurm]\nhost = "localhost"\n').clusters[0].asked.transport == "local"
    )


def test_several_clusters_each_with_its_hosts(tmp_path: Path) -> None:
    config = configured(
        tmp_path, SETUP + '[[slurm]]\nhost = "a"\nhosts = "gpu2"\n[[slurm]]\nhost = "b"\nhosts = ["desk"]\n'
    )
    assert [(c.asked.alias, *c.hosts) for c in config.clusters] == [("a", "gpu2"), ("b", "desk")]


def test_how_programs_are_started_is_the_sites_or_the_hosts(tmp_path: Path) -> None:
    config = configured(tmp_path, SETUP + '[site]\nrun = "slurm"\n[hosts.desk]\nrun = "ssh"\n')
    assert [host.run for host in config.hosts] == ["slurm", "slurm", "ssh"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[slurm]\n", "slurm.host: missing; it is the host that has scontrol"),
        ('[slurm]\nhost = "a,b"\n', "slurm.host: 'a,b' is not a host name"),
        ('[slurm]\nhost = "n[1-2]"\n', "slurm.host: must be one host, not 'n[1-2]'"),
        ('[slurm]\nhots = "a"\n', "slurm.hots: unknown key; the nearest known one is slurm.host"),
        ('[slurm]\nhost = "a"\nhosts = "gpu7"\n', "slurm.hosts: gpu7 is not in common.hosts"),
        ('[slurm]\nhost = "a"\norder = [0, 0]\n', "slurm.order: must be a list of different GPU indexes"),
        (
            '[[slurm]]\nhost = "a"\n[[slurm]]\nhost = "b"\nhosts = "desk"\n',
            "slurm 1.hosts: missing; with several [[slurm]], each lists the hosts it manages",
        ),
        (
            '[[slurm]]\nhost = "a"\nhosts = "desk"\n[[slurm]]\nhost = "b"\nhosts = "desk"\n',
            "slurm.hosts: desk is managed by Slurm on a already",
        ),
        (
            '[[slurm]]\nhost = "a"\nhosts = "desk"\n[[slurm]]\nhost = "a"\nhosts = "gpu2"\n',
            "slurm.host: a is asked twice",
        ),
        ('slurm = "a"\n', "slurm: must be a section, [slurm], not a value"),
        ('[site]\nrun = "pbs"\n', "site.run: must be 'ssh' or 'slurm', not 'pbs'"),
    ],
)
def test_what_is_wrong_with_the_section_is_named(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        configured(tmp_path, text + SETUP if text.startswith("slurm =") else SETUP + text)
    assert any(line.startswith(problem) for line in raised.value.problems), raised.value.problems


def test_a_host_that_is_no_name_is_one_problem(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        configured(tmp_path, SETUP + "[slurm]\nhost = 3\n")
    assert len(error.value.problems) == 1


# Groups of ClusterShell


def groups(directory: Path) -> dict[str, str]:
    """A groups.conf with a file of groups, and a source that is a command, as the one for Slurm is."""
    (directory / "groups.d").mkdir(parents=True)
    (directory / "groups.conf").write_text(
        f"[Main]\ndefault: lab\nautodir: {directory}/groups.d\n"
        '[slurm]\nmap: [ "$GROUP" = gpu-partition ] && echo "gpu[1-3]"\nall: echo gpu[1-3]\nlist: echo gpu-partition\n'
    )
    (directory / "groups.d" / "lab.yaml").write_text("lab:\n  gpu: 'node[01-02].lab'\n  big: 'n[1-30000]'\n")
    return {"CLUSTERSHELL_CFGDIR": str(directory)}


def test_groups_are_hosts_and_one_that_cannot_be_resolved_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in groups(tmp_path / "clustershell").items():
        monkeypatch.setenv(name, value)
    config = tmp_path / "config.ini"

    def told(hosts: str) -> str:
        config.write_text(f"[common]\nhosts = {hosts}\n")
        return gpumon("show", "-c", config).stderr

    config.write_text('[common]\nhosts = ["@gpu", "@slurm:gpu-partition"]\n[hosts.gpu2]\nslurm = "g2"\n')
    shown = gpumon("check", "--json", "-c", config).stdout
    named = [host["host"] for host in json.loads(shown)["hosts"]]
    assert named == ["node01.lab", "node02.lab", "gpu1", "gpu2", "gpu3"]
    assert "common.hosts: group '@nope' cannot be resolved: ClusterShell knows no host in it" in told(
        '["@nope"]'
    )
    assert "common.hosts: group '@slurm:nope' cannot be resolved" in told('["@slurm:nope"]')
    assert "common.hosts: group '@other:gpu' cannot be resolved: no source 'other'" in told('["@other:gpu"]')
    assert "common.hosts: group '@big' is 30000 hosts; 20000 is the most" in told('["@big"]')
    assert "common.hosts: '@a b' is not a group such as '@gpu' or '@slurm:gpu'" in told('["@a b"]')
    made = gpumon("init", tmp_path / "new", "--hosts", "@gpu", "--no-check")
    assert made.returncode == 0, made.stderr
    assert 'hosts = ["@gpu"]' in (tmp_path / "new" / "config.ini").read_text()
