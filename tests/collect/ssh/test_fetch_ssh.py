"""`gpumon-static fetch` over real SSH, against a real sshd, as a user runs it."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpumon_static.collect.readers import ReaderFactory
from gpumon_static.config.file import load
from tests.command import PROGRAM, gpumon, rows
from tests.nvidia_xml import xml
from tests.ssh_lab import black_hole, listener
from tests.sshd import GpuHosts, free_port, keygen

pytestmark = pytest.mark.usefixtures("home")


def test_fetch_writes_what_the_hosts_say(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    ghost = subprocess.Popen(["true"])
    ghost.wait()
    busy = gpu_hosts.add_xml(xml("busy", 97, 41000, (os.getpid(), ghost.pid)))
    free = gpu_hosts.add_xml(xml("free"))
    config = gpu_hosts.config(tmp_path, busy, free)
    done = gpumon("fetch", "-c", config)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    mine, gone, idle = rows(tmp_path / "data/load_data.csv")
    assert (mine["host"], mine["status"], mine["error"]) == (busy, "ok", "")
    assert (mine["driver_version"], mine["cuda_version"]) == ("550.90.07", "12.4")
    assert (mine["gpu_index"], mine["gpu_uuid"], mine["gpu_name"]) == (
        "0",
        "GPU-busy",
        "NVIDIA A100-SXM4-80GB",
    )
    assert (mine["gpu_utilization"], mine["gpu_memory_used_mib"], mine["gpu_memory_total_mib"]) == (
        "97",
        "41000",
        "81920",
    )
    assert (
        mine["gpu_temperature_c"],
        mine["gpu_fan_percent"],
        mine["gpu_power_w"],
        mine["gpu_power_limit_w"],
    ) == (
        "55",
        "",
        "250.1",
        "400",
    )
    assert (mine["pid"], mine["process_type"], mine["process_name"]) == (str(os.getpid()), "C", "python3")
    assert (mine["process_memory_mib"], mine["user"]) == ("40960", gpu_hosts.user)
    assert mine["elapsed_s"].isdecimal()
    assert (gone["pid"], gone["user"], gone["process_state"]) == (str(ghost.pid), "", "gone")
    assert (idle["host"], idle["gpu_uuid"], idle["pid"]) == (free, "GPU-free", "")


# Each way a host can fail: what its nvidia-smi does, the status, and words of its line.
NVIDIA_SMI_FAILURES = {
    "driver not loaded": (
        'echo "NVIDIA-SMI has failed because it couldn\'t communicate with the NVIDIA driver."; exit 9',
        "driver",
        "couldn't communicate with the NVIDIA driver",
    ),
    "version mismatch": (
        "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18",
        "driver",
        "version mismatch",
    ),
    "no devices": ("echo 'No devices were found'; exit 6", "no-gpus", "No devices were found"),
    "cut off": ("echo '<nvidia_smi_log><gpu><product_name>A1'", "bad-output", "cut off"),
    "not XML": ("echo 'Segmentation fault'; exit 139", "bad-output", "Segmentation fault"),
    "nothing": ("exit 0", "bad-output", "printed nothing"),
}


@pytest.mark.parametrize("case", NVIDIA_SMI_FAILURES)
def test_what_nvidia_smi_says_instead_of_readings(gpu_hosts: GpuHosts, tmp_path: Path, case: str) -> None:
    script, status, words = NVIDIA_SMI_FAILURES[case]
    host = gpu_hosts.add(script)
    done = gpumon("fetch", "-c", gpu_hosts.config(tmp_path, host))
    assert_failed(done, tmp_path, host, status, words)


def assert_failed(
    done: subprocess.CompletedProcess[str], directory: Path, host: str, status: str, words: str
) -> None:
    """Exit 0, one line on stderr, one row."""
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"{host}: {status}: ")
    (row,) = rows(directory / "data/load_data.csv")
    assert (row["host"], row["status"], row["gpu_index"]) == (host, status, "")
    assert words in row["error"]
    assert float(row["fetch_seconds"]) >= 0


def test_a_host_without_nvidia_smi(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add("", network=77)
    done = gpumon("fetch", "-c", gpu_hosts.config(tmp_path, host))
    assert_failed(done, tmp_path, host, "no-nvidia-smi", "not installed")


def test_a_name_that_does_not_exist(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    done = gpumon("fetch", "-c", gpu_hosts.config(tmp_path, "no-such-host.invalid:22"))
    assert_failed(done, tmp_path, "no-such-host.invalid", "dns", "was not found")


def test_a_port_where_nothing_listens(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    port = free_port()
    done = gpumon("fetch", "-c", gpu_hosts.config(tmp_path, f"127.0.0.1:{port}"))
    assert_failed(done, tmp_path, "127.0.0.1", "refused", f"127.0.0.1:{port}")


def test_a_network_without_a_route(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    done = gpumon("fetch", "-c", gpu_hosts.config(tmp_path, "127.255.255.255:22"))
    assert_failed(done, tmp_path, "127.255.255.255", "unreachable", "network is unreachable")


def test_a_host_that_takes_the_connection_and_says_nothing(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    with listener("127.0.0.1") as port:
        config = gpu_hosts.config(
            tmp_path, f"127.0.0.1:{port}", more="[hosts.'127.0.0.1']\nconnect_timeout = 1\n"
        )
        done = gpumon("fetch", "-c", config)
    assert_failed(done, tmp_path, "127.0.0.1", "timeout", "sent no SSH banner within 1 s")


def test_a_host_that_drops_every_packet(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    with black_hole("127.0.0.1") as port:
        config = gpu_hosts.config(
            tmp_path, f"127.0.0.1:{port}", more="[hosts.'127.0.0.1']\nconnect_timeout = 1\n"
        )
        done = gpumon("fetch", "-c", config)
    assert_failed(done, tmp_path, "127.0.0.1", "timeout", "within 1 s")


def test_a_port_that_does_not_speak_ssh(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]

        def greet() -> None:
            with server.accept()[0] as client:
                client.sendall(b"220 mail.lab.example ESMTP\r\n")
                client.recv(1000)

        threading.Thread(target=greet, daemon=True).start()
        done = gpumon("fetch", "-c", gpu_hosts.config(tmp_path, f"127.0.0.1:{port}"))
    assert_failed(
        done, tmp_path, "127.0.0.1", "error", "does not speak SSH; it sent: 220 mail.lab.example ESMTP"
    )


def test_a_host_that_hangs_up_at_once(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]

        def hang_up_twice() -> None:
            for _ in range(2):
                server.accept()[0].close()

        threading.Thread(target=hang_up_twice, daemon=True).start()
        done = gpumon("fetch", "-c", gpu_hosts.config(tmp_path, f"127.0.0.1:{port}"))
    assert_failed(done, tmp_path, "127.0.0.1", "refused", "closed the connection before the login, twice")


def test_a_hung_nvidia_smi(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add("trap '' TERM; exec sleep 300")
    config = gpu_hosts.config(tmp_path, host, more=f"[hosts.'{host}']\ncommand_timeout = 2\n")
    started = time.monotonic()
    done = gpumon("fetch", "-c", config)
    assert time.monotonic() - started < 120
    assert_failed(done, tmp_path, host, "timeout", "did not")


def test_a_host_that_talks_for_ever_is_cut_off(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add("exec yes '<gpu> this goes on and on' >&2")
    assert_failed(
        gpumon("fetch", "-c", gpu_hosts.config(tmp_path, host)),
        tmp_path,
        host,
        "bad-output",
        "more than 8 MiB",
    )


def test_a_key_that_the_host_does_not_take(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add_xml(xml())
    stranger = keygen(tmp_path / "stranger")
    config = gpu_hosts.config(tmp_path, host)
    config.write_text(config.read_text().replace(str(gpu_hosts.key), str(stranger)))
    assert_failed(gpumon("fetch", "-c", config), tmp_path, host, "auth", str(stranger))


def test_an_unknown_host_key_is_refused_with_the_line_that_mends_it(
    gpu_hosts: GpuHosts, tmp_path: Path
) -> None:
    host = gpu_hosts.add_xml(xml())
    known = tmp_path / "known_hosts"
    known.write_text("")
    config = gpu_hosts.config(tmp_path, host)
    done = gpumon("fetch", "-c", config)
    fingerprint = subprocess.run(
        ["ssh-keygen", "-lf", gpu_hosts.host_key], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert_failed(done, tmp_path, host, "host-key", fingerprint)
    assert known.read_text() == ""
    # The line is what a person pastes: it must do what it says.
    subprocess.run(
        done.stderr.strip().split(f"then as {getpass.getuser()}: ")[1],
        shell=True,
        check=True,
        capture_output=True,
    )
    again = gpumon("fetch", "-c", config)
    assert (again.returncode, again.stderr) == (0, "")


def test_accept_new_learns_an_unknown_key_and_refuses_a_changed_one(
    gpu_hosts: GpuHosts, tmp_path: Path
) -> None:
    host = gpu_hosts.add_xml(xml())
    known = tmp_path / "known_hosts"
    known.write_text("")
    config = gpu_hosts.config(tmp_path, host, more="host_keys = 'accept-new'\n")
    assert gpumon("fetch", "-c", config).stderr == ""
    assert known.read_text() == gpu_hosts.known_hosts_line(host)
    other = keygen(tmp_path / "other").with_suffix(".pub").read_text().split()[1]
    changed = f"[{host}]:{gpu_hosts.port} ssh-ed25519 {other}\n"
    known.write_text(changed)
    done = gpumon("fetch", "-c", config)
    assert_failed(done, tmp_path, host, "host-key", "HOST KEY CHANGED")
    assert known.read_text() == changed
    subprocess.run(
        done.stderr.strip().split(f"then as {getpass.getuser()}: ")[1],
        shell=True,
        check=True,
        capture_output=True,
    )
    assert gpumon("fetch", "-c", config).stderr == ""


def test_accept_new_without_a_place_to_keep_the_key_is_told(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add_xml(xml())
    config = gpu_hosts.config(tmp_path, host, more="host_keys = 'accept-new'\n")
    config.write_text(config.read_text().replace(f"{tmp_path}/known_hosts", "/proc/none/known_hosts"))
    done = gpumon("fetch", "-c", config)
    told = "its key is new, and cannot be kept in /proc/none/known_hosts: No such file or directory"
    assert_failed(done, tmp_path, host, "host-key", told)


def test_an_address_that_leads_nowhere_leaves_time_for_the_next(
    gpu_hosts: GpuHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = gpu_hosts.add_xml(xml())
    config = load(gpu_hosts.config(tmp_path, host))
    with black_hole("127.0.0.1") as port:
        real = socket.getaddrinfo

        def two_addresses(name: str, at: int, **more: int) -> list[object]:
            return [*real("127.0.0.1", port, **more), *real(name, at, **more)]

        monkeypatch.setattr(socket, "getaddrinfo", two_addresses)
        with ReaderFactory(config.path, config.hosts, lambda: datetime.now(UTC)).open() as read:
            assert read(config.hosts[0]).ok


def test_one_dead_host_takes_nothing_from_the_others(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    good = [gpu_hosts.add_xml(xml(str(i))) for i in range(3)]
    bad = gpu_hosts.add("exit 1")
    config = gpu_hosts.config(tmp_path, good[0], "127.0.0.1:1", good[1], bad, good[2])
    done = gpumon("fetch", "-c", config, "--strict")
    assert done.returncode == 3
    found = [(r["host"], r["status"], r["gpu_uuid"]) for r in rows(tmp_path / "data/load_data.csv")]
    assert found == [
        (good[0], "ok", "GPU-0"),
        ("127.0.0.1", "refused", ""),
        (good[1], "ok", "GPU-1"),
        (bad, "bad-output", ""),
        (good[2], "ok", "GPU-2"),
    ]


def test_quiet_says_nothing_and_verbose_tells_each_hosts_time(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    good, bad = gpu_hosts.add_xml(xml()), gpu_hosts.add("exit 1")
    config = gpu_hosts.config(tmp_path, good, bad)
    assert gpumon("fetch", "-c", config, "--quiet").stderr == ""
    told = gpumon("fetch", "-c", config, "--verbose").stderr
    assert f"{good}: ok, 1 GPU in " in told
    assert f"{bad}: bad-output: " in told


def test_only_fetches_a_part_and_keeps_the_others_rows(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    hosts = [gpu_hosts.add_xml(xml("old")) for _ in range(3)]
    config = gpu_hosts.config(tmp_path, *hosts)
    gpumon("fetch", "-c", config)
    before = rows(tmp_path / "data/load_data.csv")
    time.sleep(1.1)
    (gpu_hosts.directory / "new.xml").write_text(xml("new"))
    for host in hosts:
        (gpu_hosts.answers / host).write_text(f"cat {gpu_hosts.directory}/new.xml")
    assert gpumon("fetch", "-c", config, "--only", hosts[1]).returncode == 0
    after = rows(tmp_path / "data/load_data.csv")
    assert [r["gpu_uuid"] for r in after] == ["GPU-old", "GPU-new", "GPU-old"]
    assert [after[0], after[2]] == [before[0], before[2]]
    assert after[1]["fetched_at"] > before[1]["fetched_at"]
    stranger = gpumon("fetch", "-c", config, "--only", "nobody[1-2]")
    assert stranger.returncode == 2
    assert "nobody1, nobody2" in stranger.stderr


def test_a_second_fetch_leaves_with_75_and_says_since_when(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add("sleep 3; exit 1")
    config = gpu_hosts.config(tmp_path, host)
    first = subprocess.Popen([*PROGRAM, "fetch", "-c", config, "--quiet"])
    lock = tmp_path / "data/fetch.lock"
    for _ in range(100):
        if lock.exists() and lock.read_text():
            break
        time.sleep(0.05)
    second = gpumon("fetch", "-c", config)
    assert second.returncode == 75
    assert second.stderr.count("\n") == 1
    assert "another fetch is running since" in second.stderr
    assert f"process {first.pid}" in second.stderr
    assert first.wait(120) == 0


def test_a_killed_fetch_leaves_the_last_csv_and_no_lock(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add_xml(xml("good"))
    config = gpu_hosts.config(tmp_path, host)
    gpumon("fetch", "-c", config)
    before = (tmp_path / "data/load_data.csv").read_bytes()
    (gpu_hosts.answers / host).write_text("sleep 20")
    running = subprocess.Popen([*PROGRAM, "fetch", "-c", config])
    time.sleep(1.5)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert (tmp_path / "data/load_data.csv").read_bytes() == before
    (gpu_hosts.answers / host).write_text("exit 1")
    assert gpumon("fetch", "-c", config).returncode == 0


def test_the_deadline_ends_the_run_whatever_the_hosts_do(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    good = gpu_hosts.add_xml(xml())
    hung = [gpu_hosts.add("sleep 600") for _ in range(4)]
    config = gpu_hosts.config(tmp_path, good, *hung, more="deadline = 3\n")
    config.write_text(config.read_text().replace("command_timeout = 10", "command_timeout = 500"))
    started = time.monotonic()
    done = gpumon("fetch", "-c", config)
    assert time.monotonic() - started < 120
    assert done.returncode == 0
    assert [r["status"] for r in rows(tmp_path / "data/load_data.csv")] == ["ok"] + ["timeout"] * 4


def test_200_hosts_of_which_a_third_is_dead_hung_or_lying(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    bad_scripts = {"sleep 60": "timeout", "echo lies": "bad-output", "exec yes >&2": "bad-output"}
    wanted: dict[str, tuple[str, str]] = {}
    with listener("0.0.0.0") as silent, black_hole("127.0.0.1") as dropped:
        for i in range(134):
            wanted[gpu_hosts.add_xml(xml(f"n{i}"))] = ("ok", f"GPU-n{i}")
        for i in range(22):
            script, status = list(bad_scripts.items())[i % 3]
            wanted[gpu_hosts.add(script)] = (status, "")
        for _ in range(20):
            wanted[f"{gpu_hosts.address()}:{silent}"] = ("timeout", "")
        for _ in range(22):
            wanted[f"{gpu_hosts.address()}:1"] = ("refused", "")
        wanted[f"127.0.0.1:{dropped}"] = ("timeout", "")
        wanted["no-such-host.invalid"] = ("dns", "")
        config = gpu_hosts.config(tmp_path, *wanted, more="deadline = 60\n")
        config.write_text(config.read_text().replace("connect_timeout = 5", "connect_timeout = 10"))
        started = time.monotonic()
        done = gpumon("fetch", "-c", config)
        seconds = time.monotonic() - started
    assert done.returncode == 0
    assert seconds < 60
    found = {r["host"]: (r["status"], r["gpu_uuid"]) for r in rows(tmp_path / "data/load_data.csv")}
    assert found == {name.split(":")[0]: result for name, result in wanted.items()}
    assert len(done.stderr.splitlines()) == 66


@pytest.mark.skipif(os.geteuid() != 0, reason="making a user with another shell needs root")
@pytest.mark.parametrize("shell", ["tcsh", "fish"])
def test_any_login_shell_will_do(gpu_hosts: GpuHosts, tmp_path: Path, shell: str) -> None:
    path = shutil.which(shell)
    assert path, f"{shell} is not installed"
    name = f"gpumon-{shell}"
    subprocess.run(["useradd", "--no-create-home", "--password", "*", "--shell", path, name], check=True)
    try:
        host = gpu_hosts.add_xml(xml("shell"))
        config = gpu_hosts.config(tmp_path, host)
        config.write_text(config.read_text().replace(f"user = '{gpu_hosts.user}'", f"user = '{name}'"))
        assert gpumon("fetch", "-c", config).stderr == ""
        assert rows(tmp_path / "data/load_data.csv")[0]["gpu_uuid"] == "GPU-shell"
    finally:
        # Its last shell may not have ended yet.
        subprocess.run(["userdel", "--force", name], check=True)


def test_localhost_is_read_without_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "xml").write_text(xml("local", pids=(os.getpid(),)))
    (programs / "nvidia-smi").write_text(f"#!/bin/sh\ncat {tmp_path}/xml\n")
    (programs / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    (tmp_path / "config.ini").write_text("[common]\nhosts = 'localhost'\n")
    done = gpumon("fetch", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (row,) = rows(tmp_path / "data/load_data.csv")
    assert (row["host"], row["gpu_uuid"], row["pid"]) == ("localhost", "GPU-local", str(os.getpid()))


def test_one_connection_and_one_command_per_host(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    count = tmp_path / "count"
    (tmp_path / "xml").write_text(xml("a", pids=(os.getpid(), 1)))
    host = gpu_hosts.add(f"echo run >> {count}; cat {tmp_path}/xml")
    log = gpu_hosts.directory / "log"
    logins = log.read_text().count("Accepted publickey")
    gpumon("fetch", "-c", gpu_hosts.config(tmp_path, host))
    assert count.read_text() == "run\n"
    assert log.read_text().count("Accepted publickey") == logins + 1


def test_changes_tells_only_of_hosts_that_failed_or_came_back(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    steady, flapping = gpu_hosts.add_xml(xml("a")), gpu_hosts.add_xml(xml("b"))
    config = gpu_hosts.config(tmp_path, steady, flapping, "127.0.0.1:1")
    first = gpumon("fetch", "--changes", "-c", config).stderr
    assert first.startswith("127.0.0.1: refused: ")
    assert first.count("\n") == 1
    assert gpumon("fetch", "--changes", "-c", config).stderr == ""
    good = (gpu_hosts.answers / flapping).read_text()
    (gpu_hosts.answers / flapping).write_text("exit 9")
    assert gpumon("fetch", "--changes", "-c", config).stderr.startswith(f"{flapping}: driver: ")
    assert gpumon("fetch", "--changes", "-c", config).stderr == ""
    (gpu_hosts.answers / flapping).write_text(good)
    assert gpumon("fetch", "--changes", "-c", config).stderr == f"{flapping}: ok again; it was: driver\n"
