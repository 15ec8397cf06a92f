"""Which GPU of which host has which job of Slurm."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpumon_static.collect.slurm import answer
from gpumon_static.collect.slurm.join import join
from gpumon_static.config.settings import BusyConfig, Config
from gpumon_static.model import Allocated, Gpu, HostReading, SlurmAnswer, Status, Waiting
from gpumon_static.model.states import State
from gpumon_static.store import snapshot
from gpumon_static.store.slurm import slurm_file
from gpumon_static.survey.state import gpu_state, slice_state, slices_of
from gpumon_static.survey.survey import SurveyedHost
from tests.builders import READ_AT, busy_gpu, gpu, process, slices
from tests.builders import reading as a_reading
from tests.slurm_answers import ENDS, NO, SETUP, UNKNOWN, YES, configured, read
from tests.slurm_texts import answer as told
from tests.slurm_texts import job, node, on


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
