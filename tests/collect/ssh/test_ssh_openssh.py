"""`transport = "openssh"`: the ssh program, with the same limits and the same statuses."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpumon_static.collect.engines.threads import fan_out
from gpumon_static.collect.readers import ReaderFactory
from gpumon_static.collect.ssh import openssh
from gpumon_static.config import file as config_file
from gpumon_static.model import HostReading
from tests.builders import host_config
from tests.command import gpumon, rows
from tests.nvidia_xml import xml
from tests.ssh_lab import black_hole, listener
from tests.sshd import GpuHosts, free_port, keygen

pytestmark = pytest.mark.usefixtures("home")

NOW = datetime(2025, 1, 1, tzinfo=UTC)


def openssh_config(hosts: GpuHosts, directory: Path, *addresses: str, more: str = "") -> Path:
    return hosts.config(directory, *addresses, more="transport = 'openssh'\n" + more)


def read(config_path: Path) -> list[HostReading]:
    config = config_file.load(config_path, need_keys=True)
    with ReaderFactory(config.path, config.hosts, lambda: NOW).open() as reader:
        return fan_out(
            config.hosts, reader, workers=8, deadline=60, clock=lambda: NOW, patience=reader.patience
        )


def assert_failed(config_path: Path, status: str, words: str) -> HostReading:
    (found,) = read(config_path)
    assert (found.status, words in (found.error or "")) == (status, True), found.error
    return found


def test_the_readings_are_the_same(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add_xml(xml("program", 50, 4000, (os.getpid(),)))
    done = gpumon("fetch", "-c", openssh_config(gpu_hosts, tmp_path, host))
    assert (done.returncode, done.stderr) == (0, "")
    (row,) = rows(tmp_path / "data/load_data.csv")
    assert (row["host"], row["gpu_uuid"], row["user"]) == (host, "GPU-program", gpu_hosts.user)


def test_each_host_may_have_its_own_transport(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    one, other = gpu_hosts.add_xml(xml("one")), gpu_hosts.add_xml(xml("other"))
    config = gpu_hosts.config(tmp_path, one, other, more=f"[hosts.'{other}']\ntransport = 'openssh'\n")
    assert [h.transport for h in config_file.load(config).hosts] == ["paramiko", "openssh"]
    assert [r.gpus[0].uuid for r in read(config)] == ["GPU-one", "GPU-other"]


def test_a_name_that_does_not_exist(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    assert_failed(
        openssh_config(gpu_hosts, tmp_path, "no-such-host.invalid:22"), "dns", "no-such-host.invalid"
    )


def test_a_port_where_nothing_listens(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    config = openssh_config(gpu_hosts, tmp_path, f"127.0.0.1:{free_port()}")
    assert_failed(config, "refused", "Connection refused")


def test_a_network_without_a_route(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    config = openssh_config(gpu_hosts, tmp_path, "127.255.255.255:22")
    assert_failed(config, "unreachable", "Network is unreachable")


def test_a_host_that_says_nothing_and_one_that_drops_every_packet(
    gpu_hosts: GpuHosts, tmp_path: Path
) -> None:
    with listener("127.0.0.1") as silent, black_hole("127.0.0.2") as dropped:
        more = "[hosts.'127.0.0.[1-2]']\nconnect_timeout = 1\ncommand_timeout = 1\n"
        config = openssh_config(gpu_hosts, tmp_path, f"127.0.0.1:{silent}", f"127.0.0.2:{dropped}", more=more)
        started = time.monotonic()
        found = read(config)
        assert time.monotonic() - started < 120
    assert [r.status for r in found] == ["timeout", "timeout"]


def test_a_host_that_hangs_up(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        tries: list[float] = []

        def hang_up() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                    tries.append(time.monotonic())
                    connection.close()
                except OSError:
                    return

        threading.Thread(target=hang_up, daemon=True).start()
        config = openssh_config(gpu_hosts, tmp_path, f"127.0.0.1:{server.getsockname()[1]}")
        assert_failed(config, "refused", "twice: sshd's MaxStartups or a firewall")
        assert len(tries) == 2
        server.shutdown(socket.SHUT_RDWR)


def test_a_key_that_the_host_does_not_take(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    stranger = keygen(tmp_path / "stranger")
    config = openssh_config(gpu_hosts, tmp_path, gpu_hosts.add_xml(xml()))
    config.write_text(config.read_text().replace(str(gpu_hosts.key), str(stranger)))
    assert_failed(config, "auth", "Permission denied (publickey)")


def test_an_unknown_host_key_and_a_changed_one(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add_xml(xml("trusted"))
    known = tmp_path / "known_hosts"
    known.write_text("")
    config = openssh_config(gpu_hosts, tmp_path, host)
    fingerprint = subprocess.run(
        ["ssh-keygen", "-lf", gpu_hosts.host_key], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    unknown = assert_failed(config, "host-key", f"unknown host key; compare ssh-ed25519 {fingerprint}")
    assert known.read_text() == ""
    assert "StrictHostKeyChecking=ask" in (unknown.error or "")
    config.write_text(config.read_text() + "host_keys = 'accept-new'\n")
    assert read(config)[0].status == "ok"
    assert len(known.read_text().splitlines()) == 1
    other = keygen(tmp_path / "other").with_suffix(".pub").read_text()
    known.write_text(f"[{host}]:{gpu_hosts.port} {other}")
    changed = assert_failed(config, "host-key", "HOST KEY CHANGED to ssh-ed25519")
    remove = f"ssh-keygen -R '[{host}]:{gpu_hosts.port}' -f {known} && ssh -a -x "
    assert f"is right, then as {getpass.getuser()}: {remove}" in (changed.error or "")
    known.write_text(f"@revoked * {gpu_hosts.host_key.with_suffix('.pub').read_text()}")
    assert_failed(config, "host-key", "is revoked")


def test_a_host_certificate_is_known_by_its_authority(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    """What paramiko cannot: it says so, and names this transport."""
    host = gpu_hosts.add_xml(xml("certified"))
    authority = keygen(tmp_path / "authority").with_suffix(".pub").read_text()
    (tmp_path / "known_hosts").write_text(f"@cert-authority * {authority}")
    (found,) = read(gpu_hosts.config(tmp_path, host))
    assert found.status == "host-key"
    assert 'use transport = "openssh"' in (found.error or "")


def test_a_hung_command_is_ended_with_its_ssh(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add("exec sleep 300")
    config = openssh_config(
        gpu_hosts, tmp_path, host, more=f"[hosts.'{host}']\ncommand_timeout = 1\nconnect_timeout = 3\n"
    )
    assert_failed(config, "timeout", "")
    left = subprocess.run(["pgrep", "-f", f"ssh.*-- {host} sh"], capture_output=True, text=True, check=False)
    assert left.stdout == ""


def test_too_much_output_and_no_nvidia_smi(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    talker, bare = gpu_hosts.add("exec yes '<gpu> on and on' >&2"), gpu_hosts.add("", network=77)
    found = read(openssh_config(gpu_hosts, tmp_path, talker, bare))
    assert [r.status for r in found] == ["bad-output", "no-nvidia-smi"]


def test_no_ssh_program(gpu_hosts: GpuHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert_failed(openssh_config(gpu_hosts, tmp_path, "127.0.0.1"), "error", "needs the ssh program")


def test_only_what_config_ini_says_is_put_on_the_command_line(tmp_path: Path, home: Path) -> None:
    plain = openssh.arguments(host_config("node9", transport="openssh", ssh_config=home / ".ssh/config"))
    words = "ssh -v -T -a -x -o BatchMode=yes -o ConnectTimeout=10 -o StrictHostKeyChecking=yes"
    safe = "-o ClearAllForwardings=yes -o PermitLocalCommand=no"
    assert plain == [*words.split(), *safe.split(), "--", "node9", "sh -s"]
    full = openssh.arguments(
        host_config(
            "node9",
            address="fe80::1%eth0",
            user="ada",
            port=2222,
            key_filename=Path("/k"),
            known_hosts=Path("/my hosts"),
            configured=frozenset({"known_hosts"}),
            connect_timeout=1.5,
            host_keys="accept-new",
        )
    )
    assert full[:12] == "ssh -v -T -a -x -F none -p 2222 -l ada -i".split()
    assert full[12] == "/k"
    assert full[13:-3] == [
        *"-o BatchMode=yes -o ConnectTimeout=2 -o StrictHostKeyChecking=accept-new".split(),
        *safe.split(),
        *("-o", 'UserKnownHostsFile="/my hosts"', "-o", "HostName=fe80::1%%eth0", "-o", "IdentitiesOnly=yes"),
    ]
    assert full[-3:] == ["--", "node9", "sh -s"]


def test_control_master_stays_and_is_used(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add_xml(xml("mastered"))
    control = f"/tmp/gpumon-cm-{os.getpid()}"
    (tmp_path / "ssh_config").write_text(
        f"Host *\n  ControlMaster auto\n  ControlPath {control}\n  ControlPersist 30\n"
    )
    config = openssh_config(gpu_hosts, tmp_path, host, more="ssh_config = 'ssh_config'\n")
    log = gpu_hosts.directory / "log"
    before = log.read_text().count("Accepted publickey")
    try:
        assert [read(config)[0].status for _ in range(2)] == ["ok", "ok"]
    finally:
        subprocess.run(
            ["ssh", "-O", "exit", "-o", f"ControlPath={control}", host], capture_output=True, check=False
        )
    assert log.read_text().count("Accepted publickey") == before + 1


def test_the_end_of_no_answer_is_lost(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    """A hundred healthy hosts: in 0.1.0 every run lost some, `the answer was cut off`."""
    addresses = [gpu_hosts.add_xml(xml(f"end{number}")) for number in range(100)]
    more = "transport = 'openssh'\nworkers = 24\ncommand_timeout = 60\n"
    config = (
        gpu_hosts.config(tmp_path, *addresses, more=more).read_text().replace("command_timeout = 10\n", "")
    )
    (tmp_path / "config.ini").write_text(config.replace("connect_timeout = 5", "connect_timeout = 30"))
    done = gpumon("fetch", "-c", tmp_path / "config.ini", timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    found = {row["gpu_uuid"] for row in rows(tmp_path / "data/load_data.csv")}
    assert found == {f"GPU-end{number}" for number in range(100)}
