"""`gpumon-static demo`: the embedded cluster over real SSH, and the command as a newcomer runs it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import paramiko
import pytest

from gpumon_static.collect.ssh import known_hosts
from gpumon_static.commands.fetch import fetch
from gpumon_static.commands.render import render
from gpumon_static.config import file as config_file
from gpumon_static.config.settings import BusyConfig, Config
from gpumon_static.demo import run, workload
from gpumon_static.demo.cluster import DemoCluster
from gpumon_static.demo.lab import DemoSpec
from gpumon_static.demo.run import Pipelines
from gpumon_static.demo.server import _run
from gpumon_static.demo.site import serve_site
from gpumon_static.model import HostReading, Status
from gpumon_static.model.states import State
from gpumon_static.store import snapshot
from gpumon_static.store.lock import only_one
from gpumon_static.survey.state import gpu_state
from tests.command import PROGRAM, gpumon, rows
from tests.processes import is_running
from tests.waiting import wait_until

NOW = datetime(2026, 8, 20, 14, 0, tzinfo=UTC)
LATER = NOW + timedelta(days=3)


def write_config(cluster: DemoCluster, directory: Path) -> Config:
    path = directory / "config.ini"
    path.write_text(cluster.config_text(), encoding="utf-8")
    return config_file.load(path, need_keys=True)


def comparable(reading: HostReading) -> HostReading:
    """But for the time it took, probe and clock, the order of processes, and the end of a name that only ps has."""
    gpus = (
        replace(gpu, processes=tuple(sorted(gpu.processes, key=lambda process: process.pid)))
        for gpu in reading.with_processes(lambda p: replace(p, name=(p.name or "")[:15])).gpus
    )
    return replace(reading, fetch_seconds=None, gpus=tuple(gpus), probe_version=None, clock_offset_s=None)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DemoCluster, Config]]:
    directory = tmp_path_factory.mktemp("cluster")
    with DemoCluster(DemoSpec(), directory, NOW) as running:
        yield running, write_config(running, directory)


def test_over_ssh_each_host_tells_what_the_workload_says(cluster: tuple[DemoCluster, Config]) -> None:
    lab, config = cluster
    for at in (NOW, LATER):
        lab.refresh(at)
        readings = fetch(config, clock=lambda at=at: at)  # type: ignore[misc]
        told = {r.host: comparable(r) for r in readings if r.ok}
        expected = {h.name: comparable(workload.reading(h, at)) for h in lab.hosts if h.fate is Status.OK}
        assert told == expected
        assert {r.host: r.status for r in readings if not r.ok} == {
            "language-03": Status.REFUSED,
            "render-01": Status.DRIVER,
        }


def test_known_hosts_has_a_line_for_each_host(cluster: tuple[DemoCluster, Config]) -> None:
    lab, config = cluster
    assert {host.host_keys for host in config.hosts} == {"strict"}
    entries = list(known_hosts.parse(lab.known_hosts_path.read_text()))
    assert [entry.names for entry in entries] == [(f"[127.0.0.1]:{port}",) for port in lab.ports.values()]
    assert lab.key_path.stat().st_mode & 0o777 == 0o600


def test_a_strangers_key_is_not_let_in(cluster: tuple[DemoCluster, Config], tmp_path: Path) -> None:
    config = cluster[1]
    stranger = tmp_path / "key"
    paramiko.ECDSAKey.generate().write_private_key_file(str(stranger))
    hosts = tuple(replace(h, key_filename=stranger) for h in config.hosts if h.name == "vision-01")
    readings = fetch(
        replace(config, hosts=hosts, paths=replace(config.paths, data=tmp_path)), clock=lambda: NOW
    )
    assert [r.status for r in readings] == [Status.AUTH]


@contextmanager
def login(cluster: DemoCluster, host: str) -> Iterator[paramiko.Transport]:
    key = paramiko.Ed25519Key.from_private_key_file(str(cluster.key_path))
    sock = socket.create_connection(("127.0.0.1", cluster.ports[host]))
    with closing(paramiko.Transport(sock)) as transport:
        transport.connect(username="monitor", pkey=key)
        yield transport


def test_what_a_client_started_ends_when_it_leaves(
    cluster: tuple[DemoCluster, Config], tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    script = f"echo $$ > {shlex.quote(str(note))}.new && mv {note}.new {note}; exec sleep 300"
    with login(cluster[0], "vision-01") as transport:
        channel = transport.open_session()
        channel.exec_command(f"sh -c {shlex.quote(script)}")
        channel.shutdown_write()
        wait_until(note.exists)
        pid = int(note.read_text())
        assert is_running(pid)
    wait_until(lambda: not is_running(pid))


def test_a_host_runs_only_its_stand_ins_for_nvidia_smi_and_ps(cluster: tuple[DemoCluster, Config]) -> None:
    with login(cluster[0], "render-01") as transport:
        channel = transport.open_session()
        channel.exec_command("nvidia-smi -L")
        channel.shutdown_write()
        said = channel.makefile("rb").read().decode()
        assert "couldn't communicate with the NVIDIA driver" in said
        assert channel.recv_exit_status() == 9


def test_nothing_is_left_when_the_cluster_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with DemoCluster(DemoSpec(hosts=2), tmp_path, NOW) as lab:
        assert len(list(temporary.iterdir())) == 1
        port = lab.ports["vision-01"]
        socket.create_connection(("127.0.0.1", port)).close()
    assert list(temporary.iterdir()) == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


# The command


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    directory = tmp_path_factory.mktemp("demo") / "lab"
    return directory, gpumon("demo", "--dir", directory)


Run = tuple[Path, subprocess.CompletedProcess[str]]


def test_demo_ends_with_the_path_of_the_page(demo_run: Run) -> None:
    directory, finished = demo_run
    assert (finished.returncode, finished.stderr) == (0, "")
    last_line = finished.stdout.splitlines()[-1]
    page = Path(last_line.split(maxsplit=1)[1])
    assert page == directory / "site" / "index.html"
    html = page.read_text(encoding="utf-8")
    assert "Demo Lab" in html
    assert "konstantina" in html


def test_the_next_lines_of_the_demo_work_as_printed(demo_run: Run) -> None:
    """Also after `make demo`, whose programs are not on the PATH of the shell."""
    _, finished = demo_run
    printed = finished.stdout.splitlines()
    at = next(number for number, line in enumerate(printed) if line.startswith("next "))
    for line in printed[at:-1]:
        command = line.removeprefix("next").strip().replace("    keeps the hosts up and the page fresh", "")
        shell = ["env", "-i", "PATH=/usr/bin:/bin", "sh", "-c"]
        done = subprocess.run(
            [*shell, f"{command} --help" if "--serve" in command else command],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), command


def test_demo_says_which_hosts_fail_on_purpose_and_does_not_scare(demo_run: Run) -> None:
    _, finished = demo_run
    assert "2 hosts fail on purpose: language-03 (refused), render-01 (driver)" in finished.stdout
    assert "12 hosts answered, with 51 GPUs" in finished.stdout
    assert "error" not in finished.stdout.lower()


def test_demo_csv_has_every_host_and_every_state(demo_run: Run) -> None:
    directory, _ = demo_run
    csv_path = directory / "data" / "load_data.csv"
    table = rows(csv_path)
    statuses = {row["host"]: row["status"] for row in table}
    assert statuses == {
        "vision-01": "ok",
        "vision-02": "ok",
        "vision-03": "ok",
        "language-01": "ok",
        "language-02": "ok",
        "language-03": "refused",
        "slices-01": "ok",
        "teach-01": "ok",
        "mi300-01": "ok",
        "radeon-01": "ok",
        "chem-01": "ok",
        "chem-02": "ok",
        "desk-01": "ok",
        "render-01": "driver",
    }
    states = {gpu_state(gpu, BusyConfig()) for r in snapshot.read(csv_path) for gpu in r.gpus}
    assert states == {State.FREE, State.BUSY, State.HELD}
    sharing = {row["user"] for row in table if (row["host"], row["gpu_index"]) == ("vision-02", "0")}
    assert len(sharing) == 2
    assert {row["mig_device"] for row in table if row["host"] == "slices-01"} == {"0", "1", "2", "3", ""}
    assert {row["process_type"] for row in table if row["host"] == "desk-01"} == {"G"}
    ghost = [row for row in table if (row["host"], row["gpu_index"]) == ("chem-02", "0")]
    assert [(row["user"], row["process_state"]) for row in ghost] == [("", "gone")]
    assert {row["gpu_name"] for row in table if row["gpu_name"]} == {
        "NVIDIA A100-SXM4-80GB",
        "NVIDIA A100 80GB PCIe",
        "NVIDIA H100 80GB HBM3",
        "NVIDIA L40S",
        "NVIDIA GeForce RTX 3090",
        "NVIDIA GeForce RTX 4090",
        "Tesla V100-SXM2-32GB",
        "Tesla V100-PCIE-16GB",
        "Tesla T4",
        "AMD Instinct MI300X OAM",
        "AMD Radeon RX 7900 XTX",
    }
    assert {row["driver_version"].split(".")[0] for row in table if row["driver_version"]} == {
        "470", "525", "535", "550", "570", "580", "6",
    }  # fmt: skip


def test_other_commands_take_the_config_of_the_demo(demo_run: Run) -> None:
    directory, _ = demo_run
    page = directory / "site" / "index.html"
    page.unlink()
    assert gpumon("render", "-c", directory / "config.ini").returncode == 0
    assert page.exists()


def test_demo_runs_again_in_its_own_directory(tmp_path: Path) -> None:
    for hosts in ("2", "1"):
        finished = gpumon(
            "demo",
            "--dir",
            tmp_path / "lab",
            "--history",
            "1",
            "--hosts",
            hosts,
            "--gpus",
            "2",
            "--seed",
            "5",
        )
        assert finished.returncode == 0, finished.stderr
    table = rows(tmp_path / "lab" / "data" / "load_data.csv")
    assert {(row["host"], row["gpu_index"]) for row in table} == {("vision-01", "0"), ("vision-01", "1")}
    assert "on purpose" not in finished.stdout


def test_demo_leaves_a_directory_alone_that_is_not_its_own(tmp_path: Path) -> None:
    precious = tmp_path / "config.ini"
    precious.write_text("mine")
    finished = gpumon("demo", "--dir", tmp_path)
    assert finished.returncode == 1
    assert (
        finished.stderr
        == f"gpumon-static: {tmp_path} is not empty and not a demo's: choose another with --dir\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["config.ini"]
    assert precious.read_text() == "mine"


def test_sixty_four_hosts_are_easy(tmp_path: Path) -> None:
    finished = gpumon(
        "demo", "--dir", tmp_path, "--history", "1", "--hosts", "64", "--gpus", "8", timeout=600
    )
    assert finished.returncode == 0, finished.stderr
    readings = snapshot.read(tmp_path / "data" / "load_data.csv")
    assert len(readings) == 64
    failed = {r.host: r.status for r in readings if not r.ok}
    assert failed == {"language-03": Status.REFUSED, "render-01": Status.DRIVER}
    assert {len(r.gpus) for r in readings if r.ok} == {8}


@contextmanager
def serving(directory: Path, temporary: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A demo that serves, and the URL it printed."""
    temporary.mkdir()
    arguments = [*PROGRAM, "demo", "--dir", str(directory), "--hosts", "2", "--history", "1", "--serve", "0"]
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        try:
            url = next(found[0] for line in process.stdout if (found := re.search(r"http://\S+", line)))
            yield process, url
        finally:
            process.kill()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_serve_serves_the_page_and_ends_cleanly(tmp_path: Path, ending: signal.Signals) -> None:
    temporary = tmp_path / "tmp"
    with serving(tmp_path / "lab", temporary) as (process, url):
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.status == 200
            assert b"Demo Lab" in answer.read()
        fetched = gpumon("fetch", "--strict", "-c", tmp_path / "lab" / "config.ini")
        assert fetched.returncode == 0, fetched.stderr
        second = gpumon("demo", "--dir", tmp_path / "lab")
        assert (second.returncode, "another demo is running" in second.stderr) == (1, True)
        process.send_signal(ending)
        assert process.wait(timeout=60) == 0
        assert process.stdout
        assert process.stdout.read() == "stopped\n"
    assert list(temporary.iterdir()) == []


def test_serve_on_a_port_that_is_taken_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        finished = gpumon("demo", "--dir", tmp_path, "--hosts", "1", "--history", "0", "--serve", port)
    assert finished.returncode == 1
    assert finished.stderr == f"gpumon-static: cannot serve on port {port}: Address already in use\n"


def test_serve_takes_a_free_port_where_the_usual_one_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        usual = taken.getsockname()[1]
        monkeypatch.setattr("gpumon_static.demo.site.DEFAULT_PORT", usual)
        (tmp_path / "index.html").write_text("here")
        with serve_site(tmp_path, usual) as url:
            assert f":{usual}/" not in url
            with urllib.request.urlopen(url, timeout=60) as answer:
                assert answer.read() == b"here"


def test_each_refresh_brings_new_data_or_says_why_not(cluster: tuple[DemoCluster, Config]) -> None:
    lab, config = cluster
    said: list[str] = []
    run.refresh(config, lab, Pipelines(fetch, render), lambda: NOW, said.append)
    run.refresh(config, lab, Pipelines(fetch, render), lambda: LATER, said.append)
    assert {r.fetched_at for r in snapshot.read(config.csv_path)} == {LATER}
    assert said == []
    with only_one(config.paths.data / "fetch.lock", NOW):
        run.refresh(config, lab, Pipelines(fetch, render), lambda: NOW, said.append)
    assert [line.split(" since")[0] for line in said] == ["not refreshed: another fetch is running"]


def test_a_program_that_reads_late_gets_all_of_its_input() -> None:
    channel = SimpleNamespace(closed=False)
    late = ["sh", "-c", "sleep 0.6; wc -c"]
    output, errors, status = _run(late, b"x" * 300_000, os.environ, cast("Any", channel))
    assert (output.strip(), errors, status) == (b"300000", b"", 0)
