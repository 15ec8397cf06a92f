"""The Dask engine with the real thing: a scheduler, workers, and hosts that only some of the workers reach."""

from __future__ import annotations

import json
import pickle
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpumon_static.collect.engines import dask_task, processes
from gpumon_static.collect.readers import ReaderFactory
from gpumon_static.config.settings import FetchConfig
from gpumon_static.times import utc_now
from tests import slurm_texts
from tests.builders import host_config
from tests.command import PROGRAM, gpumon, rows
from tests.dask_lab import OTHER_VERSION, DaskLab, engine, on_worker, patch, statuses
from tests.engines_lab import TROUBLE
from tests.nvidia_xml import xml
from tests.processes import processes_with
from tests.sshd import GpuHosts, free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("home")


PATIENCE_S = 60.0
"""For what takes a second on a machine that has nothing else to do."""
PASSPHRASE = "correct-horse-battery"


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with TemporaryDirectory(prefix="gpumon-dask-") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def workers_home(directory: Path) -> Path:
    """The home directory on the workers' machines: the key, its passphrase and known_hosts are there only."""
    home = directory / "workers-home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    return home


@pytest.fixture(scope="module")
def lab(directory: Path, workers_home: Path) -> Iterator[DaskLab]:
    """Workers a and b with the resource of their name, and one with another version of gpumon-static.

    On an answer of the host `bad`, each of them meets what our parsers may one day not be up to.
    """
    blocks = patch(directory / "blocks", TROUBLE.format(trouble="re.match(r'(a+)+$', 'a' * 64 + 'b')"))
    with DaskLab(directory) as made:
        for name in ("a", "b"):
            made.worker(name, name, HOME=str(workers_home), PYTHONPATH=blocks)
        made.worker("old", "old", PYTHONPATH=patch(directory / "old-version", OTHER_VERSION))
        made.wait()
        yield made


def errors_of(directory: Path) -> dict[str, str]:
    return {row["host"]: row["error"] for row in rows(directory / "data/load_data.csv")}


def worker_processes(lab: DaskLab) -> set[str]:
    """The supervised processes of its Dask workers."""
    parents = ",".join(str(worker.pid) for worker in lab.workers.values())
    done = subprocess.run(
        ["pgrep", "-P", parents, "-f", processes.WORKER], capture_output=True, text=True, check=False
    )
    return set(done.stdout.split())


# Where hosts go.


def test_hosts_are_read_by_workers_that_have_their_resource(
    lab: DaskLab, gpu_hosts: GpuHosts, tmp_path: Path
) -> None:
    anywhere, at_a, at_b, nowhere, at_old = (gpu_hosts.add_xml(xml(name)) for name in "vwxyz")
    more = engine(lab, deadline=16) + on_worker("a", at_a) + on_worker("b", at_b)
    more += on_worker("nobody-has-it", nowhere) + on_worker("old", at_old)
    config = gpu_hosts.config(tmp_path, anywhere, at_a, at_b, nowhere, at_old, more=more)
    done = gpumon("fetch", "-c", config)
    assert done.returncode == 0, done.stderr
    assert statuses(tmp_path) == {anywhere: "ok", at_a: "ok", at_b: "ok", nowhere: "error", at_old: "error"}
    told = errors_of(tmp_path)
    assert told[nowhere] == (
        'no worker: no Dask worker with gpumon-static 0.1.0 has the resource "nobody-has-it"'
    )
    assert 'has the resource "old"' in told[at_old]
    lines = done.stderr.splitlines()
    assert [line for line in lines if "127." not in line.partition(":")[0]] == [
        line for line in lines if re.search(r"worker old \(\S+\) has gpumon-static 0.0.9, not 0.1.0", line)
    ]
    assert len(lines) == 3, "two hosts, one worker"


def test_slurm_is_asked_by_a_worker_too(lab: DaskLab, gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    """The host has scontrol as well: it is asked twice, by whichever worker."""
    host = gpu_hosts.add_xml(xml("s"))
    (tmp_path / "jobs").write_text(slurm_texts.job(7, slurm_texts.on("gpu1", "gpu:a100:1(IDX:0)")) + "\n")
    (tmp_path / "nodes").write_text(slurm_texts.node("gpu1", "gpu:a100:1(IDX:0)", "MIXED") + "\n")
    scontrol = gpu_hosts.directory / "bin" / "scontrol"
    scontrol.write_text(
        f"#!/bin/sh\ncase $* in *job) cat {tmp_path}/jobs;; *node) cat {tmp_path}/nodes;; *) echo slurm 23;; esac\n"
    )
    scontrol.chmod(0o755)
    more = engine(lab) + f"[slurm]\nhost = '{host}'\n[hosts.'{host}']\nslurm = 'gpu1'\nworker = 'a'\n"
    try:
        done = gpumon("fetch", "-c", gpu_hosts.config(tmp_path, host, more=more))
    finally:
        scontrol.unlink()
    assert done.returncode == 0, done.stderr
    row = rows(tmp_path / "data/load_data.csv")[0]
    assert (row["status"], row["slurm_node"], row["slurm_state"]) == ("ok", "gpu1", "MIXED")
    assert (row["slurm_allocated"], row["slurm_job"], row["slurm_user"]) == ("yes", "7", "alice")


def test_the_files_and_secrets_are_those_of_the_workers_machine(
    lab: DaskLab, gpu_hosts: GpuHosts, workers_home: Path, home: Path, tmp_path: Path
) -> None:
    address = gpu_hosts.add_xml(xml("far"))
    key = workers_home / ".ssh/locked"
    key.write_text(gpu_hosts.key.read_text())
    key.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", PASSPHRASE, "-f", key], check=True)
    (workers_home / "passphrase").write_text(PASSPHRASE + "\n")
    (workers_home / ".ssh/known_hosts").write_text(gpu_hosts.known_hosts_line(address))
    config = tmp_path / "config.ini"
    config.write_text(
        f"[common]\nhosts = ['{address}:{gpu_hosts.port}']\nuser = '{gpu_hosts.user}'\n"
        "key_filename = '~/.ssh/locked'\nkey_passphrase_command = 'cat ~/passphrase'\n"
        "[fetch]\n" + engine(lab)
    )
    done = gpumon("fetch", "--strict", "-c", config)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    assert not list((home / ".ssh").iterdir())
    assert PASSPHRASE not in "".join(lab.log(name) for name in ("scheduler", "a", "b", "old"))


def test_a_key_that_a_worker_does_not_have_is_the_error_of_its_hosts(
    lab: DaskLab, gpu_hosts: GpuHosts, tmp_path: Path
) -> None:
    good, bad = gpu_hosts.add_xml(xml("g")), gpu_hosts.add_xml(xml("b"))
    more = engine(lab) + on_worker("a", good) + on_worker("b", bad) + "key_filename = '/nowhere/key'\n"
    done = gpumon("fetch", "-c", gpu_hosts.config(tmp_path, good, bad, more=more))
    assert done.returncode == 0
    assert statuses(tmp_path) == {good: "ok", bad: "error"}
    assert re.match(r"no worker: on the Dask worker b: .*/nowhere/key", errors_of(tmp_path)[bad])


def test_no_secret_is_in_what_is_sent(tmp_path: Path, home: Path) -> None:
    secret_file, key = home / "password", home / "key"
    secret_file.write_text(PASSPHRASE)
    key.write_text(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{PASSPHRASE}\n")
    command = ("cat", str(secret_file))
    host = host_config("far", key_filename=key, key_passphrase_command=command, password_command=command)
    factory = ReaderFactory(tmp_path / "config.ini", (host,), utc_now)
    sent = dask_task.pack(factory, [host], FetchConfig(), 10.0, "mark")
    assert PASSPHRASE.encode() not in sent
    shard = pickle.loads(sent)
    (sent_host,) = shard.factory.hosts
    assert sent_host.password_command == ("cat", "~/password")
    assert (str(sent_host.key_filename), str(sent_host.known_hosts)) == ("~/key", "known_hosts")
    assert str(home).encode() not in sent


# Trouble.


def test_an_answer_that_blocks_the_parser_hurts_no_dask_worker(
    lab: DaskLab, gpu_hosts: GpuHosts, tmp_path: Path
) -> None:
    good = [gpu_hosts.add_xml(xml(str(number))) for number in range(3)]
    bad = gpu_hosts.add_xml(xml("bad"))
    known = [gpu_hosts.known_hosts_line(address) for address in (*good, bad)]
    (tmp_path / "known_hosts").write_text("".join(known))
    more = engine(lab, deadline=32) + f"[hosts.bad]\naddress = '{bad}'\n"
    config = gpu_hosts.config(tmp_path, *good, f"bad:{gpu_hosts.port}", more=more)
    assert gpumon("fetch", "-c", config).returncode == 0
    assert statuses(tmp_path) == dict.fromkeys(good, "ok") | {"bad": "bad-output"}
    assert errors_of(tmp_path)["bad"] == "gave up: the reader hung on its answer, twice"
    assert all(worker.poll() is None for worker in lab.workers.values())
    assert not worker_processes(lab)


@contextmanager
def fetching(config: Path, errors: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A fetch in the background; what it prints is in a file."""
    with errors.open("w") as file:
        process = subprocess.Popen([*PROGRAM, "fetch", "-c", str(config)], stderr=file)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def waits(gpu_hosts: GpuHosts, tmp_path: Path, mark: str = "") -> str:
    """A host that answers when the file `go` is there."""
    (tmp_path / "smi.xml").write_text(xml("waits"))
    wait = f"while [ ! -e {tmp_path}/go ]; do sleep 0.2{mark}; done"
    return gpu_hosts.add(f"echo >> {tmp_path}/started; {wait}; cat {tmp_path}/smi.xml")


def times_started(tmp_path: Path) -> int:
    started = tmp_path / "started"
    return len(started.read_text()) if started.exists() else 0


def patient(config: Path) -> Path:
    """With time for a host that waits."""
    config.write_text(config.read_text().replace("command_timeout = 10\n", "command_timeout = 200\n"))
    return config


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_fetch_leaves_no_process_behind(
    lab: DaskLab, gpu_hosts: GpuHosts, tmp_path: Path, number: signal.Signals
) -> None:
    mark = f"{time.time_ns()}"
    host = waits(gpu_hosts, tmp_path, mark)
    config = patient(gpu_hosts.config(tmp_path, host, more=engine(lab)))
    with fetching(config, tmp_path / "errors") as fetch:
        wait_until(lambda: times_started(tmp_path))
        assert worker_processes(lab)
        fetch.send_signal(number)
        code = fetch.wait(PATIENCE_S)
    if number != signal.SIGKILL:
        assert code == 128 + number
        told = (tmp_path / "errors").read_text()
        assert told.splitlines()[-1] == "gpumon-static: interrupted"
        assert "Traceback" not in told
    wait_until(lambda: not worker_processes(lab), seconds=PATIENCE_S)
    wait_until(lambda: not processes_with(mark), seconds=PATIENCE_S)
    assert not (tmp_path / "data/load_data.csv").exists()


def test_what_a_killed_worker_had_is_read_by_another(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    """Those that any may read by the one that is left, the others by the next that comes with the resource."""
    *anywhere, at_a = (waits(gpu_hosts, tmp_path) for _ in range(4))
    with DaskLab(tmp_path) as lab:
        for name in ("a", "b"):
            lab.worker(name, name)
        lab.wait()
        more = engine(lab, deadline=120) + on_worker("a", at_a)
        config = patient(gpu_hosts.config(tmp_path, *anywhere, at_a, more=more))
        with fetching(config, tmp_path / "errors") as fetch:
            wait_until(lambda: times_started(tmp_path) >= 4)
            before = times_started(tmp_path)
            lab.workers["a"].kill()
            lab.worker("new", "a")
            (tmp_path / "go").touch()
            assert fetch.wait(130) == 0
        assert statuses(tmp_path) == dict.fromkeys([*anywhere, at_a], "ok"), (tmp_path / "errors").read_text()
        wait_until(lambda: not worker_processes(lab), seconds=PATIENCE_S)
    assert times_started(tmp_path) > before, "some were asked again"


@pytest.mark.parametrize(("number", "deadline"), [(signal.SIGKILL, 100), (signal.SIGSTOP, 14)])
def test_without_the_scheduler_the_run_ends_with_what_was_read(
    gpu_hosts: GpuHosts, tmp_path: Path, number: signal.Signals, deadline: int
) -> None:
    quick, never = gpu_hosts.add_xml(xml("quick")), waits(gpu_hosts, tmp_path)
    errors = tmp_path / "errors"
    with DaskLab(tmp_path) as lab:
        lab.worker("a", "a")
        lab.wait()
        more = engine(lab, deadline=deadline) + on_worker("a", never)
        refuses = f"127.0.0.1:{free_port()}"
        config = patient(gpu_hosts.config(tmp_path, quick, refuses, never, more=more))
        with fetching(config, errors) as fetch:
            # It is in one shard with `quick`, and the only one that is printed.
            wait_until(lambda: "refused" in errors.read_text() and times_started(tmp_path))
            lab.scheduler.send_signal(number)
            code = fetch.wait(PATIENCE_S)
        lab.scheduler.send_signal(signal.SIGCONT)
        told = errors.read_text()
        assert code == 0, told
        assert statuses(tmp_path) == {quick: "ok", "127.0.0.1": "refused", never: "error"}
        how = "has gone away" if number == signal.SIGKILL else "does not answer"
        assert errors_of(tmp_path)[never] == f"no worker: the Dask scheduler {lab.address} {how}"
        assert "Traceback" not in told
        wait_until(lambda: not worker_processes(lab), seconds=PATIENCE_S)


def test_without_a_scheduler_the_collector_reads_the_hosts_that_name_no_worker(
    gpu_hosts: GpuHosts, tmp_path: Path
) -> None:
    *anywhere, at_a = (gpu_hosts.add_xml(xml(str(number))) for number in range(20))
    nobody = f"tcp://127.0.0.1:{free_port()}"
    more = f"engine = 'dask'\nscheduler = '{nobody}'\ndeadline = 40\n" + on_worker("a", at_a)
    done = gpumon("fetch", "-c", gpu_hosts.config(tmp_path, *anywhere, at_a, more=more))
    assert done.returncode == 0
    assert statuses(tmp_path) == dict.fromkeys(anywhere, "ok") | {at_a: "error"}
    assert errors_of(tmp_path)[at_a].startswith(f"no worker: cannot reach the Dask scheduler {nobody}: ")
    warning, _ = done.stderr.splitlines()
    assert warning.startswith(f"gpumon-static: cannot reach the Dask scheduler {nobody}: ")
    assert warning.endswith(": 19 hosts are read by the collector itself")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_scheduler_that_dies_during_a_run_costs_no_reading(
    gpu_hosts: GpuHosts, tmp_path: Path, number: signal.Signals
) -> None:
    hosts = [waits(gpu_hosts, tmp_path) for _ in range(12)]
    errors = tmp_path / "errors"
    with DaskLab(tmp_path) as lab:
        lab.worker("a")
        lab.wait()
        config = patient(gpu_hosts.config(tmp_path, *hosts, more=engine(lab, deadline=100)))
        with fetching(config, errors) as fetch:
            wait_until(lambda: times_started(tmp_path) >= 12)
            lab.scheduler.send_signal(number)
            (tmp_path / "go").touch()
            assert fetch.wait(110) == 0
        lab.scheduler.send_signal(signal.SIGCONT)
    assert statuses(tmp_path) == dict.fromkeys(hosts, "ok"), errors.read_text()


def test_what_a_stopped_worker_had_is_read_by_another(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    hosts = [waits(gpu_hosts, tmp_path) for _ in range(12)]
    errors = tmp_path / "errors"
    with DaskLab(tmp_path) as lab:
        for name in ("a", "b"):
            lab.worker(name)
        lab.wait()
        config = patient(gpu_hosts.config(tmp_path, *hosts, more=engine(lab, deadline=100)))
        with fetching(config, errors) as fetch:
            wait_until(lambda: times_started(tmp_path) >= 12)
            lab.workers["a"].send_signal(signal.SIGSTOP)
            (tmp_path / "go").touch()
            assert fetch.wait(110) == 0
        lab.workers["a"].send_signal(signal.SIGCONT)
    assert statuses(tmp_path) == dict.fromkeys(hosts, "ok"), errors.read_text()
    told = errors.read_text().splitlines()
    assert told == ["gpumon-static: the Dask worker a does not answer: others read its hosts"]


def test_a_worker_that_is_gone_is_an_event_a_message_and_a_line_in_health(
    gpu_hosts: GpuHosts, tmp_path: Path
) -> None:
    host = gpu_hosts.add_xml(xml("quick"))
    command = f"[notify]\nsamples = 1\ncommand = \"sh -c 'echo $GPUMON_TITLE >> {tmp_path}/sent'\"\n"
    with DaskLab(tmp_path) as lab:
        for name in ("east", "west"):
            lab.worker(name)
        lab.wait()
        config = gpu_hosts.config(tmp_path, host, more=engine(lab, deadline=60) + command)

        def run() -> tuple[str, str]:
            assert gpumon("fetch", "-c", config).returncode == 0
            assert gpumon("render", "-c", config).returncode == 0
            return (tmp_path / "site/index.html").read_text(), (tmp_path / "site/feed.xml").read_text()

        page, feed = run()
        assert "Dask worker west" not in page + feed
        lab.workers["west"].kill()
        lab.workers["west"].wait()
        page, feed = run()
        assert "Dask worker west" in page
        assert "is gone" in page
        assert "<title>Dask worker west is gone</title>" in feed
        lab.worker("west")
        lab.wait()
        page, feed = run()
    assert "<title>Dask worker west is back</title>" in feed
    assert "1 fault is open" not in page
    sent = (tmp_path / "sent").read_text().splitlines()
    assert sent == ["Dask worker west is gone", "Dask worker west is back"]


def test_hosts_of_a_worker_without_the_key_are_read_by_another(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    hosts = [gpu_hosts.add_xml(xml(str(number))) for number in range(8)]
    with_key, without = tmp_path / "with-key", tmp_path / "without"
    for directory in (with_key, without):
        directory.mkdir()
    (with_key / "key").write_bytes(gpu_hosts.key.read_bytes())
    (with_key / "key").chmod(0o600)
    with DaskLab(tmp_path) as lab:
        lab.worker("a", HOME=str(without))
        lab.worker("b", HOME=str(with_key))
        lab.wait()
        config = gpu_hosts.config(tmp_path, *hosts, more=engine(lab, deadline=60))
        config.write_text(config.read_text().replace(str(gpu_hosts.key), "~/key"))
        done = gpumon("fetch", "-c", config)
    assert (done.returncode, done.stderr) == (0, "")
    assert statuses(tmp_path) == dict.fromkeys(hosts, "ok")


def test_a_reading_does_not_wait_for_the_rest_of_its_shard(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    quick, slow, errors = gpu_hosts.add_xml(xml("quick")), waits(gpu_hosts, tmp_path), tmp_path / "errors"
    with DaskLab(tmp_path) as lab:
        lab.worker("a")
        lab.wait()
        config = patient(gpu_hosts.config(tmp_path, slow, quick, more=engine(lab, deadline=100)))
        with errors.open("w") as file:
            fetch = subprocess.Popen([*PROGRAM, "fetch", "-v", "-c", str(config)], stderr=file)
        wait_until(lambda: f"{quick}: ok" in errors.read_text())
        assert slow not in errors.read_text()
        (tmp_path / "go").touch()
        assert fetch.wait(PATIENCE_S) == 0
    assert [line.partition(",")[0] for line in errors.read_text().splitlines()] == [
        f"{quick}: ok",
        f"{slow}: ok",
    ]


def test_a_scheduler_that_cannot_be_reached_is_one_line_and_the_last_files_stay(
    gpu_hosts: GpuHosts, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data/load_data.csv").write_text("as it was\n")
    (tmp_path / "data/load_data.csv").chmod(0o600)
    nobody = f"tcp://127.0.0.1:{free_port()}"
    more = f"engine = 'dask'\nscheduler = '{nobody}'\ndeadline = 2\ndask_fallback = false\n"
    done = gpumon("fetch", "-c", gpu_hosts.config(tmp_path, "127.0.0.1", more=more))
    assert done.returncode == 1
    assert re.fullmatch(f"gpumon-static: cannot reach the Dask scheduler {nobody}: .+\n", done.stderr)
    assert (tmp_path / "data/load_data.csv").read_text() == "as it was\n"


def test_a_scheduler_with_another_version_is_one_line(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    old = patch(tmp_path / "old-version", OTHER_VERSION)
    with DaskLab(tmp_path, PYTHONPATH=old) as lab:
        done = gpumon(
            "fetch", "-c", gpu_hosts.config(tmp_path, "127.0.0.1", more=engine(lab, dask_fallback=False))
        )
    assert done.returncode == 1
    assert done.stderr == (
        f"gpumon-static: the Dask scheduler {lab.address} has gpumon-static 0.0.9;"
        " install gpumon-static[dask]==0.1.0 there\n"
    )


def test_without_dask_installed_a_line_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.ini"
    config.write_text("[common]\nhosts = 'a'\n[fetch]\nengine = 'dask'\nscheduler = 'tcp://[::1]:8786'\n")
    monkeypatch.setenv(
        "PYTHONPATH", patch(tmp_path / "none", "import sys\nsys.modules['distributed'] = None\n")
    )
    done = gpumon("fetch", "-c", config)
    assert done.returncode == 1
    assert done.stderr == 'gpumon-static: engine = "dask" needs Dask: pip install "gpumon-static[dask]"\n'


# The other commands.


def test_show_live_and_check_ask_the_same_workers(lab: DaskLab, gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    good, refuses = gpu_hosts.add_xml(xml("live")), f"127.0.0.1:{free_port()}"
    more = engine(lab, deadline=24) + on_worker("a", good) + on_worker("b", "127.0.0.1")
    config = gpu_hosts.config(tmp_path, good, refuses, more=more)
    shown = gpumon("show", "--live", "--json", "-c", config)
    found = {host["name"]: host["status"] for host in json.loads(shown.stdout)["hosts"]}
    assert found == {good: "ok", "127.0.0.1": "refused"}
    assert "worker old" in shown.stderr
    checked = gpumon("check", "-c", config)
    assert checked.returncode == 3
    assert re.search(rf"engine +ok +Dask, {lab.address}: 2 workers: a \(a\), b \(b\)", checked.stdout)
    assert re.search(r"engine +warning +the Dask worker old .* has gpumon-static 0\.0\.9", checked.stdout)
    assert "pip install 'gpumon-static[dask]==0.1.0'" in checked.stdout
    assert re.search(rf"{good} +ok .*; driver 550.90.07, 1 GPU, \d", checked.stdout)
    told = json.loads(gpumon("check", "--json", good, "-c", config).stdout)["hosts"][0]["findings"]
    assert [(one["step"], one["told"]) for one in told if one["step"] == "ps"] == [
        ("ps", "reports users and run times")
    ]
    assert re.search(r"port +FAILED: ", checked.stdout)


def test_check_names_a_resource_that_no_worker_has(lab: DaskLab, gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    address = gpu_hosts.add_xml(xml("never"))
    config = gpu_hosts.config(tmp_path, address, more=engine(lab, deadline=12) + on_worker("z", address))
    checked = gpumon("check", "-c", config)
    assert checked.returncode == 3
    assert 'no Dask worker has the resource "z": 1 host cannot be asked' in checked.stdout
    assert f"dask worker {lab.address} --resources z=1" in checked.stdout
