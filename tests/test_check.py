"""`gpumon-static check`: each step told, and for each that fails what to do next."""

from __future__ import annotations

import getpass
import io
import json
import os
import pty
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gpumon_static.check import advice, examining, surroundings
from gpumon_static.check.checkup import HostCheck
from gpumon_static.check.examining import Record
from gpumon_static.check.findings import Finding, Mark
from gpumon_static.check.show import table
from gpumon_static.collect.probe import framing
from gpumon_static.collect.trace import Step
from gpumon_static.config.file import load
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from tests import ssh_lab
from tests.builders import gpu, host_config, reading
from tests.command import PROGRAM, gpumon
from tests.sshd import GpuHosts, keygen
from tests.test_fetch_ssh import xml

pytestmark = pytest.mark.usefixtures("home")

NOW = datetime(2025, 1, 1, 12, tzinfo=UTC)
FIRST = r"""printf '\n@@gpumon begin 1 %s\n' "$token" """
"""How the probe of 0.1.0 begins its answer."""


def steps(report: dict[str, Any], host: str) -> dict[str, tuple[str, str]]:
    (found,) = [h for h in report["hosts"] if h["host"] == host]
    return {f["step"]: (f["mark"], f["told"]) for f in found["findings"]}


def test_a_healthy_host_tells_every_step(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add_xml(xml("fine"))
    done = gpumon("check", "--json", "-c", gpu_hosts.config(tmp_path, host))
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["ok"] is True
    told = steps(report, host)
    assert list(told) == ["name", "port", "host key", "login", "shell", "nvidia-smi", "ps", "clock"]
    assert {mark for mark, _ in told.values()} == {"ok"}
    assert told["name"][1] == host
    assert told["port"][1].startswith(f"{host}:{gpu_hosts.port} open after 0.")
    assert told["host key"][1] == f"ssh-ed25519 in {tmp_path}/known_hosts"
    assert told["login"][1] == f"{gpu_hosts.user} by key {gpu_hosts.key}"
    assert told["shell"][1] == "sh ran the probe"
    assert re.fullmatch(r"driver 550\.90\.07, 1 GPU, \d\.\d s", told["nvidia-smi"][1])
    assert told["clock"][1] == "right"
    assert [f["step"] for f in report["surroundings"]] == ["config", "data", "site", "pages"]


def test_the_time_that_nvidia_smi_takes(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    (tmp_path / "xml").write_text(xml())
    host = gpu_hosts.add(f"sleep 1.2; cat {tmp_path}/xml")
    report = json.loads(gpumon("check", "--json", "-c", gpu_hosts.config(tmp_path, host)).stdout)
    seconds = float(steps(report, host)["nvidia-smi"][1].split()[-2])
    assert 1.1 <= seconds < 6


def test_a_failed_step_says_what_was_tried_and_what_to_do(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    good, bad = gpu_hosts.add_xml(xml()), gpu_hosts.add("echo 'No devices were found'; exit 6")
    stranger = keygen(tmp_path / "stranger")
    locked = gpu_hosts.add_xml(xml())
    config = gpu_hosts.config(
        tmp_path, good, bad, locked, "127.0.0.1:1", more=f"[hosts.'{locked}']\nkey_filename = '{stranger}'\n"
    )
    done = gpumon("check", "-c", config)
    assert done.returncode == 3
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines[-1] == "4 hosts: 1 ok, 3 failed"
    assert any(re.match(rf"{good} +ok +\d+\.\d s; .*key {gpu_hosts.key}; driver 550", line) for line in lines)
    assert "GPUs       FAILED: No devices were found" in lines
    copy = f"ssh-copy-id -p {gpu_hosts.port} -i {stranger}.pub {gpu_hosts.user}@{locked}"
    assert f"next: does the account have a password?  {copy}" in lines
    assert any(line.startswith(f"next: if not:  ssh -p {gpu_hosts.port} root@{locked} ") for line in lines)
    assert f"login      FAILED: refused the login of {gpu_hosts.user}; keys tried: {stranger}" in lines
    assert "port       FAILED: connection refused at 127.0.0.1:1: no sshd listens there" in lines
    assert not (tmp_path / "data").exists()


def test_the_line_for_an_unknown_host_key_mends_it(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add_xml(xml())
    (tmp_path / "known_hosts").write_text("")
    config = gpu_hosts.config(tmp_path, host)
    (found,) = json.loads(gpumon("check", "--json", "-c", config).stdout)["hosts"]
    (finding,) = [f for f in found["findings"] if f["mark"] == "failed"]
    assert finding["step"] == "host key"
    assert "SHA256:" in finding["told"]
    assert finding["next"][-1] == f"ssh-keyscan -p {gpu_hosts.port} {host} >> {tmp_path}/known_hosts"
    subprocess.run(finding["next"][-1], shell=True, check=True, capture_output=True)
    assert gpumon("check", "-c", config).returncode == 0


def test_only_the_hosts_that_are_named(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add_xml(xml())
    config = gpu_hosts.config(tmp_path, host, "127.0.0.1:1")
    done = gpumon("check", "-c", config, host)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 host: 1 ok")
    stranger = gpumon("check", "-c", config, "nobody")
    assert (stranger.returncode, "check: not among the hosts" in stranger.stderr) == (2, True)


def test_the_ssh_program_tells_its_steps_too(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add_xml(xml())
    config = gpu_hosts.config(tmp_path, host, more="transport = 'openssh'\n")
    told = steps(json.loads(gpumon("check", "--json", "-c", config).stdout), host)
    assert told["name"] == ("ok", host)
    assert told["host key"][1].startswith("ssh-ed25519 SHA256:")
    assert told["login"] == ("ok", "by publickey")
    assert told["clock"] == ("ok", "right")


def test_a_table_on_a_terminal(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    good, bad = gpu_hosts.add_xml(xml()), "127.0.0.1:1"
    config = gpu_hosts.config(tmp_path, good, bad)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "check", "-c", config],
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"COLUMNS": "120", "TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:
        pass  # the terminal is gone with its program
    os.close(ours)
    assert process.wait(10) == 3
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert re.search(rf"{good} +✓ +✓ +✓ +✓ +✓ +✓ driver 550.90.07", text)
    assert re.search(r"127\.0\.0\.1 +✓ +✗ +· +·", text)
    assert "next: on the host: systemctl status ssh sshd" in text


def test_a_site_that_cannot_be_written_fails_the_check(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add_xml(xml())
    (tmp_path / "page").write_text("a file where the directory should be")
    config = gpu_hosts.config(tmp_path, host, more="[paths]\nsite = 'page/site'\n")
    done = gpumon("check", "-c", config)
    assert done.returncode == 3
    assert f"{tmp_path}/page is not a directory" in done.stdout


def test_a_directory_that_even_root_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text("[common]\nhosts = 'localhost'\n[paths]\nsite = '/proc/site'\n")
    *_, site = surroundings.look(load(tmp_path / "config.ini"), [], now=NOW)
    assert (site.step, site.mark) == ("site", Mark.FAILED)
    assert re.match(r"\S+ cannot write in /proc: ", site.told)
    assert re.fullmatch(r"sudo install -d -o \S+ /proc/site", site.next[0])


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.ini").write_text("[common]\nhosts = 'localhost'\n")
    config = load(tmp_path / "config.ini")
    for free, mark in ((10_000_000, Mark.FAILED), (500_000_000, Mark.WARNING), (5_000_000_000, Mark.OK)):
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free: type("Usage", (), {"free": free}))
        found = {f.step: f.mark for f in surroundings.look(config, config.hosts, now=NOW)}
        assert found == {"config": Mark.OK, "data": mark, "site": mark}


@pytest.mark.parametrize(
    ("seconds", "mark", "told"),
    [
        (0, Mark.OK, "right"),
        (2, Mark.OK, "right"),
        (-10, Mark.OK, "10 s behind"),
        (31, Mark.WARNING, "31 s ahead"),
        (-3600, Mark.WARNING, "3600 s behind"),
    ],
)
def test_the_clock(seconds: int, mark: Mark, told: str) -> None:
    record = Record(lambda: NOW)
    record.received(bytearray(b"@@gpumon x clock\n"))
    clock = {"clock": f"{int(NOW.timestamp()) + seconds}\n"}
    examining._look_at_clock(host_config("n"), clock, record)
    assert (record.findings[Step.CLOCK].mark, record.findings[Step.CLOCK].told) == (mark, told)
    assert bool(record.findings[Step.CLOCK].next) == (mark is Mark.WARNING)


def test_fewer_gpus_than_expected_are_a_warning() -> None:
    record = Record(lambda: NOW)
    examining._look_at_gpus(host_config("n", gpus=8), reading("n", [gpu()]), record)
    assert record.findings[Step.GPUS].told == "driver 550.90.07, 1 GPU; config.ini expects 8"
    assert record.findings[Step.GPUS].mark is Mark.WARNING


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.OK])
@pytest.mark.parametrize("step", list(Step))
def test_every_failure_has_something_to_do_next(status: Status, step: Step) -> None:
    next_steps = advice.after(host_config("n"), step, HostError(status, "it failed"))
    assert next_steps
    assert all(next_steps)


def test_a_jump_host_that_failed_is_what_to_look_at_first() -> None:
    broken = HostError(Status.REFUSED, "connection refused at b:22: nobody", jump="bastion")
    next_steps = advice.after(host_config("n"), Step.NAME, broken)
    assert next_steps == ("first the jump host alone:  ssh bastion true",)


def test_the_ssh_line_is_the_same_way_by_hand(home: Path) -> None:
    usual = home / ".ssh/config"
    assert advice.ssh_line(host_config("n", ssh_config=usual)) == "ssh n"
    full = host_config(
        "n", address="10.0.0.1", user="ada", port=99, key_filename=Path("/my key"), ssh_config=None
    )
    assert advice.ssh_line(full) == "ssh -F none -o HostName=10.0.0.1 -p 99 -i '/my key' ada@n"
    assert advice.copy_id_line(full) == "ssh-copy-id -p 99 -i '/my key.pub' ada@10.0.0.1"


def test_a_probe_that_is_installed_there_tells_its_version(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    """A forced command runs what was installed once: an old one is named, and so is what cannot reach it."""
    ours = framing.script()
    first = re.sub(r"printf '.n@@gpumon begin .*", lambda _: FIRST, ours)
    newer = ours.replace(f"begin {framing.version()} ", "begin 99 ")
    hosts = {}
    for name, probe in {"current": ours, "first": first, "newer": newer}.items():
        hosts[name] = gpu_hosts.add_xml(xml(name))
        (gpu_hosts.directory / f"probe-{hosts[name]}").write_text(probe)
    forced = gpu_hosts.directory / "forced"
    forced.write_text(f"set -- $SSH_CONNECTION; exec sh {gpu_hosts.directory}/probe-$3")
    with ssh_lab.sshd(gpu_hosts, tmp_path / "sshd", f"ForceCommand sh {forced}") as server:
        lines = "".join(map(gpu_hosts.known_hosts_line, hosts.values()))
        (tmp_path / "known_hosts").write_text(lines.replace(f":{gpu_hosts.port} ", f":{server.port} "))
        places = [f"{address}:{server.port}" for address in hosts.values()]
        config = gpu_hosts.config(tmp_path, *places, more="disks = ['/', '/my data']\n")
        report = json.loads(gpumon("check", "--json", "-c", config).stdout)
    found = {h["host"]: {f["step"]: f for f in h["findings"]}["shell"] for h in report["hosts"]}
    current, first_, newer_ = (found[hosts[name]] for name in ("current", "first", "newer"))
    assert {f["mark"] for f in found.values()} == {"warning"}
    assert current["told"] == "the installed probe, version 2, gets no settings from config.ini"
    assert "version 1, is older than this gpumon-static, which has version 2" in first_["told"]
    assert "version 99; this gpumon-static has version 2" in newer_["told"]
    assert newer_["next"] == ["update gpumon-static on the collector"]
    line, unreached = first_["next"]
    place = f"-p {server.port} root@{hosts['first']}"
    assert line.startswith(f"gpumon-static probe | ssh {place} 'cat > /usr/local/bin/gpumon-probe && chmod ")
    assert current["next"] == [unreached]
    assert unreached.startswith("command_timeout, disks of config.ini do not reach it")
    # The line for authorized_keys means what the config does.
    command = (
        unreached.split('command="')[1][:-1].replace('\\"', '"').replace("sh /usr", "printenv GPUMON_DISKS #")
    )
    said = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout
    assert said == "/\n/my data\n"


def test_the_line_for_an_account_without_a_password_makes_its_key_known(home: Path) -> None:
    (home / "my key.pub").write_text("ssh-ed25519 AAAA ada\n")
    line = advice.authorize_line(host_config("n", user=getpass.getuser(), key_filename=home / "my key"))
    # As root would run it on the host: here and now, with this home directory.
    there = re.sub(r"^ssh root@n ", "sh -c ", line).replace(f"~{getpass.getuser()}", str(home))
    subprocess.run(["sh", "-c", there], check=True)
    assert (home / ".ssh/authorized_keys").read_text() == "ssh-ed25519 AAAA ada\n"
    assert (home / ".ssh/authorized_keys").stat().st_mode & 0o077 == 0


def test_the_probe_is_printed_as_it_is_sent_and_the_playbook_installs_what_is_printed() -> None:
    assert gpumon("probe").stdout == framing.script()
    tasks = Path(__file__).parent.parent / "deploy/ansible/tasks"
    assert (
        'argv: ["{{ gpumon_program }}", probe]\n  register: gpumon_probe_script\n'
        in (tasks / "program.yml").read_text()
    )
    assert "gpumon_probe_script.stdout }}\\n" in (tasks / "gpu_host_present.yml").read_text()


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_on_a_terminal_each_host_of_a_check_is_one_line(columns: int) -> None:
    told = {step: "driver 570.124.06, 8 GPUs, 0.3 s" if step is Step.GPUS else "" for step in Step}
    findings = tuple(Finding(step, Mark.OK, words) for step, words in told.items())
    hosts = [HostCheck(f"language-0{n}", findings, 0.2, "ok") for n in range(4)]
    console = Console(file=io.StringIO(), width=columns)
    console.print(table(hosts, console))
    head, *lines = [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert head.split() == [
        "host",
        "name",
        "port",
        "host",
        "key",
        "login",
        "shell",
        "GPUs",
        "ps",
        "clock",
    ] + (["time"] if columns > 60 else [])
    assert [line.split()[0] for line in lines] == [host.host for host in hosts]
    assert ("8 GPUs" in lines[0]) is (columns == 120)
