"""Slurm: what scontrol prints, and which GPU of which host that is."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpumon_static.bounds.reading import bounded
from gpumon_static.collect.slurm import answer
from gpumon_static.collect.slurm.nodes import takes_jobs
from gpumon_static.errors import HostError
from gpumon_static.model import HostReading, JobGpus, SlurmAnswer, SlurmJob, Status
from tests.builders import READ_AT
from tests.places import SHARED
from tests.slurm_answers import ENDS, read
from tests.slurm_texts import answer as told
from tests.slurm_texts import job, node, on

CAPTURES = SHARED / "slurm"


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
