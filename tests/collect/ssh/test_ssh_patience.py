"""Order and patience: hosts that are slow, that hang up, that failed last time."""

from __future__ import annotations

import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gpumon_static.collect.readers import Readers
from gpumon_static.collect.ssh.reader import SshReader
from gpumon_static.collect.trace import Step, Trace
from gpumon_static.commands.fetch import in_turn
from gpumon_static.config.budget import budget_warning
from gpumon_static.config.settings import HostConfig
from gpumon_static.store import snapshot
from gpumon_static.times import utc_now
from tests.builders import config as config_of
from tests.builders import host_config
from tests.command import gpumon, rows
from tests.nvidia_xml import xml
from tests.ssh_lab import sshd
from tests.sshd import GpuHosts

pytestmark = pytest.mark.usefixtures("home")


@contextmanager
def slow_banner(to: int, seconds: float) -> Iterator[int]:
    """A port that keeps silent for a while, and then is the other one."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def pump(source: socket.socket, sink: socket.socket) -> None:
            with suppress(OSError):
                while data := source.recv(65536):
                    sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)

        def serve() -> None:
            client, _ = server.accept()
            time.sleep(seconds)
            with client, socket.create_connection(("127.0.0.1", to)) as real:
                threading.Thread(target=pump, args=(client, real), daemon=True).start()
                pump(real, client)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def test_a_slow_banner_is_waited_for(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    (gpu_hosts.answers / "127.0.0.1").write_text(
        (gpu_hosts.answers / gpu_hosts.add_xml(xml("slow"))).read_text()
    )
    with slow_banner(gpu_hosts.port, 2) as port:
        kind, key = gpu_hosts.host_key.with_suffix(".pub").read_text().split()[:2]
        (tmp_path / "known_hosts").write_text(f"* {kind} {key}\n")
        config = gpu_hosts.config(tmp_path, f"127.0.0.1:{port}")
        assert gpumon("fetch", "-c", config).stderr == ""
    (row,) = rows(tmp_path / "data/load_data.csv")
    assert row["gpu_uuid"] == "GPU-slow"
    assert float(row["fetch_seconds"]) >= 2


def held(port: int) -> socket.socket:
    """A connection that never logs in: one of the few that MaxStartups allows."""
    for _ in range(100):
        sock = socket.create_connection(("127.0.0.1", port))
        if sock.recv(4) == b"SSH-":
            return sock
        sock.close()
        time.sleep(0.05)
    raise AssertionError("sshd takes nobody")


@pytest.mark.parametrize("transport", ["paramiko", "openssh"])
def test_a_host_with_too_many_logins_at_once_is_tried_again_and_then_says_so(
    gpu_hosts: GpuHosts, tmp_path: Path, transport: str
) -> None:
    host = gpu_hosts.add_xml(xml("crowded"))
    with sshd(gpu_hosts, tmp_path / "sshd", "MaxStartups 1:100:1\nLoginGraceTime 60") as server:
        line = gpu_hosts.known_hosts_line(host).replace(str(gpu_hosts.port), str(server.port))
        (tmp_path / "known_hosts").write_text(line)
        more = f"transport = '{transport}'\n"
        config = gpu_hosts.config(tmp_path, f"{host}:{server.port}", more=more)
        with held(server.port):
            done = gpumon("fetch", "-c", config)
        assert f"{host}: refused: {host}" in done.stderr
        assert "closed the connection before the login" in done.stderr
        assert "twice: sshd's MaxStartups or a firewall" in done.stderr
        assert server.log.read_text().count("drop connection") == 2
        wait = held(server.port)
        drops = server.log.read_text().count("drop connection")
        # It goes after the first of the two tries, as the log shows it.
        threading.Thread(target=let_go_after, args=(wait, server.log, drops + 1), daemon=True).start()
        assert gpumon("fetch", "-c", config).stderr == ""
        assert server.log.read_text().count("drop connection") == drops + 1
    assert rows(tmp_path / "data/load_data.csv")[0]["gpu_uuid"] == "GPU-crowded"


def let_go_after(sock: socket.socket, log: Path, drops: int) -> None:
    while log.read_text().count("drop connection") < drops:
        time.sleep(0.02)
    sock.close()


def test_hosts_that_failed_last_time_are_tried_last(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    dead, good = "127.0.0.1:1", gpu_hosts.add_xml(xml("good"))
    config = gpu_hosts.config(tmp_path, dead, good, more="workers = 1\n")
    first = gpumon("fetch", "-v", "-c", config).stderr
    assert [line.split(":")[0] for line in first.splitlines()] == ["127.0.0.1", good]
    second = gpumon("fetch", "-v", "-c", config).stderr
    assert [line.split(":")[0] for line in second.splitlines()] == [good, "127.0.0.1"]
    assert [row["host"] for row in rows(tmp_path / "data/load_data.csv")] == ["127.0.0.1", good]


@pytest.mark.parametrize("late", [frozenset({"n"}), frozenset()])
def test_the_probe_knows_whether_its_host_timed_out_in_the_last_run(late: frozenset[str]) -> None:
    sent: list[bytes] = []

    class Way(SshReader):
        def __init__(self) -> None: ...

        def __call__(self, host: HostConfig, trace: Trace, script: bytes) -> bytes:
            trace.done(Step.LOGIN, host.name)
            sent.append(script)
            return b""

    Readers(utc_now, ssh=Way(), late=late).raw(host_config("n"))
    assert (b"GPUMON_WAS_LATE=yes\n" in sent[0]) == bool(late)


@pytest.mark.parametrize("content", [None, "", "host\na\n", "\xff\x00", "host,status\na\n"])
def test_any_old_file_leaves_the_order_as_it_is(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "csv").write_bytes(content.encode("latin-1"))
    hosts = (host_config("b"), host_config("c"))
    assert in_turn(hosts, snapshot.statuses(tmp_path / "csv")) == hosts


@pytest.mark.parametrize(
    ("hosts", "seconds", "warned"), [(64, 240, False), (65, 120, False), (65, 121, True), (128, 120, False)]
)
def test_hosts_that_would_not_fit_into_the_deadline_are_told(
    hosts: int, seconds: float, warned: bool
) -> None:
    given = [host_config(f"n{i}", connect_timeout=float(seconds)) for i in range(hosts)]
    assert bool(budget_warning(config_of(*given), given)) is warned


def test_the_warning_has_the_numbers_and_quiet_mutes_it(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    config = gpu_hosts.config(
        tmp_path, *(f"127.0.0.{i}:1" for i in range(1, 6)), more="workers = 2\ndeadline = 14\n"
    )
    told = gpumon("fetch", "-c", config).stderr.splitlines()[0]
    assert re.findall(r"\d+", told) == ["5", "2", "3", "5", "15", "14"]
    assert "raise fetch.workers or fetch.deadline, or lower fetch.connect_timeout" in told
    assert gpumon("fetch", "--quiet", "-c", config).stderr == ""


def test_no_ssh_is_left_running_when_the_deadline_ends_a_run(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add("exec sleep 60")
    config = gpu_hosts.config(tmp_path, host, more="transport = 'openssh'\ndeadline = 3\n")
    done = gpumon("fetch", "-c", config)
    assert f"{host}: timeout: not finished when the run's deadline of 3 s came" in done.stderr
    left = subprocess.run(["pgrep", "-f", f"ssh.*-- {host} sh"], capture_output=True, text=True, check=False)
    assert left.stdout == ""
