"""Hosts that only a bastion reaches, and programs that reach them: ProxyJump and ProxyCommand."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import gpumon, rows
from tests.nvidia_xml import xml
from tests.ssh_lab import Sshd, bastion, network, root_only, sshd
from tests.sshd import GpuHosts, free_port, keygen

pytestmark = pytest.mark.usefixtures("home")

RELAY = """
import os, socket, sys, threading
open(sys.argv[3], "w").write(str(os.getpid()))
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def back():
    while data := sock.recv(65536):
        os.write(1, data)
threading.Thread(target=back, daemon=True).start()
while data := os.read(0, 65536):
    sock.sendall(data)
"""


@pytest.fixture(scope="module")
def inner_network() -> Iterator[list[str]]:
    with network() as inside:
        yield inside


def write_config(
    hosts: GpuHosts, directory: Path, names: list[str], ssh_config: str, fetch: str = ""
) -> Path:
    """A config.ini that names the hosts, and an ssh_config that says where they are."""
    (directory / "ssh_config").write_text(ssh_config)
    known = directory / "known_hosts"
    if not known.exists():
        kind, key = hosts.host_key.with_suffix(".pub").read_text().split()[:2]
        known.write_text(f"* {kind} {key}\n")
    config = directory / "config.ini"
    config.write_text(
        f"[common]\nhosts = {names}\n"
        f"[fetch]\nssh_config = 'ssh_config'\nknown_hosts = 'known_hosts'\nconnect_timeout = 5\n{fetch}"
    )
    return config


def jump_config(hosts: GpuHosts, jump: Sshd, inner_port: int, addresses: list[str]) -> str:
    blocks = "".join(
        f"Host gpu{i}\n  HostName {address}\n  Port {inner_port}\n" for i, address in enumerate(addresses)
    )
    return (
        f"{blocks}Host gpu*\n  ProxyJump bastion\n"
        f"Host bastion\n  HostName 127.0.0.1\n  Port {jump.port}\n"
        f"Host *\n  User {hosts.user}\n  IdentityFile {hosts.key}\n"
    )


def statuses(directory: Path) -> dict[str, str]:
    return {row["host"]: row["status"] for row in rows(directory / "data/load_data.csv")}


@root_only
@pytest.mark.parametrize("processes", [1, 3])
def test_a_jump_host_is_logged_in_to_once_for_all_hosts_behind_it(
    gpu_hosts: GpuHosts, inner_network: list[str], tmp_path: Path, processes: int
) -> None:
    addresses = [gpu_hosts.add_xml(xml(f"behind{i}")) for i in range(24)]
    with (
        sshd(gpu_hosts, tmp_path / "inner", inside=inner_network) as inner,
        bastion(gpu_hosts, tmp_path / "bastion", inner_network) as jump,
    ):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((addresses[0], inner.port))
        names = [f"gpu{i}" for i in range(24)]
        text = jump_config(gpu_hosts, jump, inner.port, addresses)
        config = write_config(gpu_hosts, tmp_path, names, text, f"processes = {processes}\n")
        done = gpumon("fetch", "-c", config)
        assert (done.returncode, done.stderr) == (0, "")
        assert (jump.logins, inner.logins) == (1, 24)
    found = {row["host"]: row["gpu_uuid"] for row in rows(tmp_path / "data/load_data.csv")}
    assert found == {f"gpu{i}": f"GPU-behind{i}" for i in range(24)}


@root_only
def test_several_hops(gpu_hosts: GpuHosts, inner_network: list[str], tmp_path: Path) -> None:
    address = gpu_hosts.add_xml(xml("far"))
    with (
        sshd(gpu_hosts, tmp_path / "inner", inside=inner_network) as inner,
        sshd(
            gpu_hosts, tmp_path / "second", f"PermitOpen {address}:{inner.port}", inside=inner_network
        ) as second,
        bastion(gpu_hosts, tmp_path / "first", inner_network, f"PermitOpen 127.0.0.1:{second.port}") as first,
    ):
        text = (
            f"Host far*\n  HostName {address}\n  Port {inner.port}\n"
            "Host far\n  ProxyJump first,second\nHost far-by-one\n  ProxyJump first\n"
            f"Host first\n  HostName 127.0.0.1\n  Port {first.port}\n"
            f"Host second\n  HostName 127.0.0.1\n  Port {second.port}\n"
            f"Host *\n  User {gpu_hosts.user}\n  IdentityFile {gpu_hosts.key}\n"
        )
        config = write_config(gpu_hosts, tmp_path, ["far", "far-by-one"], text)
        done = gpumon("fetch", "-c", config)
        assert (first.logins, second.logins, inner.logins) == (1, 1, 1)
    assert statuses(tmp_path) == {"far": "ok", "far-by-one": "refused"}
    assert f"the jump host first may not connect to {address}:{inner.port}" in done.stderr


@root_only
def test_what_the_jump_host_says_of_each_host_behind_it_stays_with_that_host(
    gpu_hosts: GpuHosts, inner_network: list[str], tmp_path: Path
) -> None:
    good = gpu_hosts.add_xml(xml("good"))
    closed = free_port()
    with (
        sshd(gpu_hosts, tmp_path / "inner", inside=inner_network) as inner,
        bastion(gpu_hosts, tmp_path / "bastion", inner_network) as jump,
    ):
        text = jump_config(gpu_hosts, jump, inner.port, [good])
        odd = "".join(f"Host gpu-closed{i}\n  HostName 127.0.0.1\n  Port {closed}\n" for i in range(5))
        odd += "".join(f"Host gpu-no-name{i}\n  HostName no-such-host.invalid\n" for i in range(5))
        names = ["gpu0", *(f"gpu-{kind}{i}" for i in range(5) for kind in ("closed", "no-name"))]
        config = write_config(gpu_hosts, tmp_path, names, odd + text)
        gpumon("fetch", "-c", config)
        assert jump.logins == 1
    wanted = {"gpu0": "ok"} | {f"gpu-closed{i}": "refused" for i in range(5)}
    assert statuses(tmp_path) == wanted | {f"gpu-no-name{i}": "dns" for i in range(5)}


@root_only
def test_a_jump_host_with_another_key_than_known_is_not_passed(
    gpu_hosts: GpuHosts, inner_network: list[str], tmp_path: Path
) -> None:
    addresses = [gpu_hosts.add_xml(xml()) for _ in range(3)]
    other = keygen(tmp_path / "other").with_suffix(".pub").read_text()
    with (
        sshd(gpu_hosts, tmp_path / "inner", inside=inner_network) as inner,
        bastion(gpu_hosts, tmp_path / "bastion", inner_network) as jump,
    ):
        (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{jump.port} {other}")
        names = [f"gpu{i}" for i in range(3)]
        config = write_config(gpu_hosts, tmp_path, names, jump_config(gpu_hosts, jump, inner.port, addresses))
        done = gpumon("fetch", "-c", config)
        assert (jump.logins, inner.logins) == (0, 0)
    assert set(statuses(tmp_path).values()) == {"host-key"}
    assert done.stderr.count("the jump host bastion failed: HOST KEY CHANGED") == 3


def test_a_dead_jump_host_is_tried_once_and_named_on_every_line(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    connections: list[socket.socket] = []
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)

        def take() -> None:
            while True:
                try:
                    connections.append(silent.accept()[0])
                except OSError:
                    return

        threading.Thread(target=take, daemon=True).start()
        jump = Sshd(silent.getsockname()[1], tmp_path / "log")
        names = [f"gpu{i}" for i in range(5)]
        text = jump_config(gpu_hosts, jump, 22, ["127.0.0.2"] * 5)
        config = write_config(gpu_hosts, tmp_path, names, text)
        config.write_text(config.read_text().replace("connect_timeout = 5", "connect_timeout = 2"))
        done = gpumon("fetch", "-c", config)
        silent.shutdown(socket.SHUT_RDWR)
    for sock in connections:
        sock.close()
    assert len(connections) == 1
    # All at once, not one after the other.
    assert all(float(row["fetch_seconds"]) < 6 for row in rows(tmp_path / "data/load_data.csv"))
    assert set(statuses(tmp_path).values()) == {"timeout"}
    assert done.stderr.count("the jump host bastion failed: 127.0.0.1:") == 5


def test_a_proxy_command_carries_the_connection_and_is_ended(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    address = gpu_hosts.add_xml(xml("proxied"))
    (tmp_path / "relay.py").write_text(RELAY)
    relay = f"{sys.executable} {tmp_path}/relay.py %h %p {tmp_path}/pid-%n"
    text = (
        f"Host node\n  HostName {address}\n  Port 1\n  ProxyCommand {relay}\n"
        "Host hangs\n  ProxyCommand sh -c 'echo $$ > " + f"{tmp_path}/pid-hangs; exec sleep 300'\n"
        "Host broken\n  ProxyCommand sh -c 'echo the relay is down >&2; exit 1'\n"
        f"Host *\n  User {gpu_hosts.user}\n  IdentityFile {gpu_hosts.key}\n"
    )
    # config.ini's port wins, for %p too.
    config = write_config(gpu_hosts, tmp_path, [f"node:{gpu_hosts.port}", "hangs", "broken"], text)
    config.write_text(config.read_text().replace("connect_timeout = 5", "connect_timeout = 3"))
    done = gpumon("fetch", "-c", config)
    assert statuses(tmp_path) == {"node": "ok", "hangs": "timeout", "broken": "unreachable"}
    assert "the ProxyCommand for broken:22 failed: the relay is down" in done.stderr
    for name in ("node", "hangs"):
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / f"pid-{name}").read_text()), 0)


def test_a_proxy_command_is_ended_when_the_deadline_ends_the_run(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    text = f"Host hangs\n  ProxyCommand sh -c 'echo $$ > {pid_file}; exec sleep 300'\n"
    config = write_config(gpu_hosts, tmp_path, ["hangs"], text, "deadline = 4\n")
    gpumon("fetch", "-c", config, "--quiet")
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", pid_file.read_text().strip()], capture_output=True, text=True
    )
    assert state.stdout.strip()[:1] in ("", "Z")
