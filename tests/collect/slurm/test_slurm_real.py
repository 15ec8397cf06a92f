"""A real Slurm: jobs are submitted to it, and seen on the page."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import pytest

from tests.command import gpumon, rows
from tests.slurm_lab import SlurmLab, slurm_lab
from tests.sshd import GpuHosts

XML = """<?xml version="1.0" ?>
<nvidia_smi_log><driver_version>550.90.07</driver_version><cuda_version>12.4</cuda_version>{gpus}</nvidia_smi_log>
"""
GPU = """<gpu id="00000000:{0}7:00.0"><product_name>NVIDIA A100-SXM4-80GB</product_name>
<uuid>GPU-{1}-{0}</uuid><minor_number>{0}</minor_number>
<fb_memory_usage><total>81920 MiB</total><used>4 MiB</used></fb_memory_usage>
<utilization><gpu_util>0 %</gpu_util></utilization><processes></processes></gpu>"""
SETTINGS = """
[site]
run = "slurm"
[slurm]
host = "login1"
job_names = true
"""


@dataclass
class Cluster:
    slurm: SlurmLab
    hosts: GpuHosts
    addresses: dict[str, str]
    jobs: dict[str, str]

    def config(self, directory: Path, more: str = SETTINGS, **changes: str) -> Path:
        """`changes`: another address for a host."""
        directory.mkdir(exist_ok=True)
        at = self.addresses | changes
        known = directory / "known_hosts"
        known.write_text("".join(self.hosts.known_hosts_line(address) for address in at.values()))
        path = directory / "config.ini"
        sections = "".join(
            f"[hosts.{name}]\naddress = '{address}'\nport = {self.hosts.port}\n"
            for name, address in at.items()
            if name != "login1" or "login1" in more
        )
        path.write_text(
            f"[common]\nhosts = ['n1', 'n2']\nuser = '{self.hosts.user}'\nkey_filename = '{self.hosts.key}'\n"
            f"[fetch]\nknown_hosts = '{known}'\nconnect_timeout = 20\ncommand_timeout = 40\n{more}{sections}"
        )
        return path

    def by_gpu(self, directory: Path) -> dict[tuple[str, str], dict[str, str]]:
        return {(row["host"], row["gpu_index"]): row for row in rows(directory / "data" / "load_data.csv")}


@pytest.fixture(scope="module")
def cluster(gpu_hosts: GpuHosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with slurm_lab(tmp_path_factory.mktemp("slurm")) as lab:
        # The login host: scontrol finds this Slurm.
        scontrol = gpu_hosts.directory / "bin" / "scontrol"
        scontrol.write_text(f'#!/bin/sh\nSLURM_CONF={lab.base}/slurm.conf exec /usr/bin/scontrol "$@"\n')
        scontrol.chmod(0o755)
        squeue = scontrol.with_name("squeue")
        squeue.write_text(scontrol.read_text().replace("scontrol", "squeue"))
        squeue.chmod(0o755)
        addresses = {
            name: gpu_hosts.add_xml(XML.format(gpus="".join(GPU.format(n, name) for n in (0, 1))))
            for name in ("n1", "n2")
        }
        addresses["login1"] = gpu_hosts.address()
        jobs = {
            "one": lab.submit("--gres=gpu:a100:1", "-t", "90", "-w", "n1", "-J", "a JobState=PENDING b"),
            "both": lab.submit("--gres=gpu:a100:2", "-t", "30", "-w", "n2"),
        }
        for job in jobs.values():
            lab.wait_for(job, "RUNNING")
        jobs["wait"] = lab.submit("--gres=gpu:a100:2", "-t", "10", "-w", "n2")
        jobs["array"] = lab.submit("--gres=gpu:a100:1", "-t", "10", "-w", "n2", "--array=1-2")
        lab.run("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=disk is full")
        yield Cluster(lab, gpu_hosts, addresses, jobs)
        scontrol.unlink()
        squeue.unlink()


def test_jobs_are_seen_on_page_csv_json_and_terminal(cluster: Cluster, tmp_path: Path) -> None:
    config = cluster.config(tmp_path)
    done = gpumon("fetch", "-v", "-c", config)
    assert done.returncode == 0, done.stderr
    assert "Slurm on login1: ok, 2 nodes, 2 jobs with GPUs in " in done.stderr
    found = cluster.by_gpu(tmp_path)
    assert {key: (row["slurm_allocated"], row["slurm_job"]) for key, row in found.items()} == {
        ("n1", "0"): ("yes", cluster.jobs["one"]),
        ("n1", "1"): ("no", ""),
        ("n2", "0"): ("yes", cluster.jobs["both"]),
        ("n2", "1"): ("yes", cluster.jobs["both"]),
    }
    one = found["n1", "0"]
    assert (one["slurm_user"], one["slurm_job_name"]) == (cluster.hosts.user, "a JobState=PENDING b")
    lasts = datetime.fromisoformat(one["slurm_ends_at"]) - datetime.fromisoformat(one["slurm_started_at"])
    assert lasts.total_seconds() == 90 * 60
    assert abs((datetime.now(UTC) - datetime.fromisoformat(one["slurm_started_at"])).total_seconds()) < 600
    drained = found["n2", "0"]
    assert (drained["slurm_state"], drained["slurm_reason"]) == ("MIXED+DRAIN", "disk is full")

    assert gpumon("render", "-c", config).returncode == 0
    told = json.loads((tmp_path / "site" / "gpus.json").read_text())
    (report,) = told["slurm"]
    assert (report["status"], [(w["kind"], w["gpus"], w["jobs"]) for w in report["waiting"]]) == (
        "ok",
        [("a100", 4, 3)],
    )
    assert [gpu["state"] for host in told["hosts"] for gpu in host["gpus"]] == [
        "held",
        "free",
        "held",
        "held",
    ]
    page = unescape((tmp_path / "site" / "index.html").read_text())
    assert "allocated" in page
    assert "drained in Slurm: disk is full" in page
    assert re.search(r"until", page)

    free = gpumon("free", "--from", tmp_path / "site")
    assert "srun --gres=gpu:a100:1 --nodelist=n1 --pty bash" in free.stdout
    both = gpumon("free", "-n", "2", "--from", tmp_path / "site")
    assert both.returncode == 1
    ends = datetime.fromisoformat(one["slurm_ends_at"]).astimezone()
    # By the next whole minute: before that it is not over.
    ends += timedelta(seconds=-ends.second % 60)
    day = "" if ends.date() == datetime.now(ends.tzinfo).date() else f"{ends:%a} "
    assert (
        f"2 x A100 80G on n1 by {day}{ends:%H:%M} at the latest, if nobody in the queue is before you (the job of {cluster.hosts.user} ends)"
        in both.stderr
    )
    when = json.loads(gpumon("free", "-n", "2", "--when", "--json", "--from", tmp_path / "site").stdout)
    assert [(entry["host"], entry["gpus"]) for entry in when] == [("n1", 2)]
    shown = gpumon("show", "-c", config).stdout
    assert f"allocated to {cluster.hosts.user}, no process, ends by" in shown
    checked = gpumon("check", "-c", config).stdout
    assert re.search(
        r"slurm +ok +login1: Slurm 22\S+, 2 nodes with GPUs, 2 jobs on them, 4 GPUs waited for", checked
    )


@pytest.mark.parametrize(
    "more",
    [
        "engine = 'threads'\n" + SETTINGS,
        "transport = 'openssh'\n" + SETTINGS,
        SETTINGS.replace("login1", "n1"),
    ],
    ids=["threads", "openssh", "a host of the lab"],
)
def test_slurm_is_asked_the_same_way_by_each_engine_and_transport(
    cluster: Cluster, tmp_path: Path, more: str
) -> None:
    done = gpumon("fetch", "-c", cluster.config(tmp_path, more))
    assert (done.returncode, done.stderr) == (0, "")
    assert [row["slurm_allocated"] for row in cluster.by_gpu(tmp_path).values()] == [
        "yes",
        "no",
        "yes",
        "yes",
    ]


ANOTHERS = (
    "UserId=alice(4242) GroupId=lab(100) MCS_label=N/A Priority=1 Nice=0 Account=vision QOS=normal"
    " JobState=RUNNING Reason=None StartTime=2025-11-14T08:30:00 EndTime=2099-11-14T14:30:00 Partition=gpu"
    " NumNodes=2 TRES=cpu=1   Nodes=n[1-2] CPU_IDs=0-7 Mem=0 GRES=gpu:a100:2(IDX:0-1) MinCPUsNode=1 Command=/x"
)
PENDING = ANOTHERS.replace("RUNNING", "PENDING").replace("TRES=cpu=1", "ReqTRES=gres/gpu=900")


def forged(number: object, text: str = ANOTHERS) -> str:
    return f"x\nJobId={number} JobName=y {text} \n"


def test_no_text_of_a_user_is_a_job_of_another(cluster: Cluster, tmp_path: Path) -> None:
    """As attackers would write comment, name, account, key, directory, feature and admin comment."""
    lab = cluster.slurm
    directory = tmp_path / f"d\nJobId=9994 JobName=y {ANOTHERS} \n"
    directory.mkdir(parents=True)
    theirs = [
        lab.submit("--comment", forged(9991) + forged(9992, PENDING)),
        lab.submit("-J", forged(9993)),
        lab.submit("-D", str(directory)),
        lab.submit("-A", forged(9995), "--wckey", forged(9996)),
        lab.submit("--array=1-2", "-J", f"{forged(9997)}[%a]"),
        lab.submit("--comment", forged(cluster.jobs["one"]), "-J", forged(cluster.jobs["both"], PENDING)),
        lab.submit("--hold", "--comment", forged(cluster.jobs["wait"], PENDING)),
    ]
    lab.run("scontrol", "update", f"JobId={theirs[0]}", f"AdminComment={forged(9998)}")
    refused = lab.tried("sbatch", "-C", forged(9999), "--wrap", "true")
    assert "Invalid feature" in refused
    try:
        for job in theirs[:4]:
            lab.wait_for(job, "RUNNING")
        found = {}
        for name, more in {"sent": SETTINGS, "threads": f"engine = 'threads'\n{SETTINGS}"}.items():
            done = gpumon("fetch", "-c", cluster.config(tmp_path / name, more))
            assert done.returncode == 0
            found = cluster.by_gpu(tmp_path / name)
            assert {row["slurm_user"] for row in found.values()} <= {cluster.hosts.user, ""}
            assert found["n1", "1"]["slurm_allocated"] == "no"
            assert {row["slurm_job"] for row in found.values()} <= {*cluster.jobs.values(), ""}
            assert "2099" not in (tmp_path / name / "data" / "load_data.csv").read_text()
            assert gpumon("render", "-c", tmp_path / name / "config.ini").returncode == 0
            told = (tmp_path / name / "site" / "gpus.json").read_text()
            assert "alice" not in told
            assert sum(one["gpus"] for one in json.loads(told)["slurm"][0]["waiting"]) <= 4
    finally:
        for job in theirs:
            lab.run("scancel", job)


def test_an_installed_probe_answers_when_asked_for_slurm(cluster: Cluster, tmp_path: Path) -> None:
    """The key may run the probe and nothing else, on GPU hosts and login host alike."""
    keys = cluster.hosts.directory / "authorized_keys"
    before = keys.read_text()
    installed = tmp_path / "gpumon-probe"
    installed.write_text(gpumon("probe").stdout)
    try:
        keys.write_text(f'restrict,command="sh {installed}" {before}')
        done = gpumon("fetch", "-c", cluster.config(tmp_path / "a"))
        assert (done.returncode, done.stderr) == (0, "")
        assert [r["slurm_allocated"] for r in cluster.by_gpu(tmp_path / "a").values()] == [
            "yes",
            "no",
            "yes",
            "yes",
        ]
        # One of an older release answers for the GPUs, whatever it is asked.
        installed.write_text(installed.read_text().replace("GPUMON_ASK=slurm", "GPUMON_ASK=never"))
        done = gpumon("fetch", "-c", cluster.config(tmp_path / "b"))
        told = "the probe that is installed there is of an older version, without Slurm: install the new one"
        assert done.stderr == f"Slurm on login1: bad-output: {told}\n"
        assert [r["slurm_allocated"] for r in cluster.by_gpu(tmp_path / "b").values()] == ["unknown"] * 4
    finally:
        keys.write_text(before)


def test_a_slurm_that_fails_makes_no_gpu_free(cluster: Cluster, tmp_path: Path) -> None:
    """A login host whose scontrol has no configuration."""
    config = cluster.config(tmp_path, login1=cluster.hosts.address(77))
    done = gpumon("fetch", "--strict", "-c", config)
    assert done.returncode == 0
    assert done.stderr.startswith("Slurm on login1: error: scontrol failed: ")
    assert gpumon("render", "-c", config).returncode == 0
    told = json.loads((tmp_path / "site" / "gpus.json").read_text())
    assert [gpu["state"] for host in told["hosts"] for gpu in host["gpus"]] == ["unknown"] * 4
    assert told["slurm"][0]["status"] == "error"
    assert "Slurm on login1" in (tmp_path / "site" / "index.html").read_text()
    checked = gpumon("check", "-c", config)
    assert checked.returncode == 3
    assert re.search(r"slurm +FAILED +login1: error: scontrol failed", checked.stdout)


def fetched_states(config: Path) -> list[str]:
    assert gpumon("fetch", "-c", config).returncode == 0
    assert gpumon("render", "-c", config).returncode == 0
    told = json.loads((config.parent / "site" / "gpus.json").read_text())
    return [gpu["state"] for host in told["hosts"] for gpu in host["gpus"]]


def test_a_slurmctld_that_is_only_slow_is_waited_for(cluster: Cluster, tmp_path: Path) -> None:
    config = cluster.config(tmp_path, SETTINGS + "[notify]\nsamples = 1\nlong_use = 0\n")
    cluster.slurm.signal_controller(signal.SIGSTOP)
    timer = threading.Timer(4, cluster.slurm.signal_controller, (signal.SIGCONT,))
    begun = time.monotonic()
    timer.start()
    try:
        assert fetched_states(config) == ["held", "free", "held", "held"]
        assert time.monotonic() - begun > 4, "it was asked while it was slow"
    finally:
        timer.join()
    assert gpumon("free", "-c", config).returncode == 0
    assert json.loads((tmp_path / "data" / "events.json").read_text())["events"] == []


def test_a_slurmctld_that_hangs_or_is_killed_offers_nothing_and_frees_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    config = cluster.config(tmp_path, SETTINGS + "[notify]\nsamples = 1\nlong_use = 0\n")
    path = config.read_text().replace("command_timeout = 40", "command_timeout = 9")
    config.write_text(path)

    def offers() -> int:
        return gpumon("free", "-c", config).returncode

    assert fetched_states(config) == ["held", "free", "held", "held"]
    assert offers() == 0
    cluster.slurm.signal_controller(signal.SIGSTOP)
    try:
        assert fetched_states(config) == ["unknown"] * 4
        assert offers() != 0
    finally:
        cluster.slurm.signal_controller(signal.SIGCONT)
    cluster.slurm.signal_controller(signal.SIGKILL)
    try:
        assert [fetched_states(config), fetched_states(config)] == [["unknown"] * 4] * 2
        assert offers() != 0
        rows_ = gpumon("history", "gpus", "--since", "1h", "--json", "-c", config).stdout
        assert sum(row["free_hours"] for row in json.loads(rows_)["rows"]) < 0.02, "the minute before"
    finally:
        cluster.slurm.start_controller()
    fetched_states(config)
    events = json.loads((tmp_path / "data" / "events.json").read_text())["events"]
    assert [event["type"] for event in events] == []
