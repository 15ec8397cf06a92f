"""`gpumon-static check`: each step told, and for each that fails what to do next."""

from __future__ import annotations

import getpass
import io
import json
import os
import pty
import re
import shlex
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gpumon_static.check import advice, examining, logins, surroundings
from gpumon_static.check.checkup import CheckReport, HostCheck
from gpumon_static.check.examining import Record
from gpumon_static.check.findings import Finding, Mark
from gpumon_static.check.show import plain_lines, table
from gpumon_static.collect.probe import framing
from gpumon_static.collect.trace import Step
from gpumon_static.config.file import load
from gpumon_static.errors import HostError, Refusal
from gpumon_static.model import Status
from tests import ssh_lab
from tests.builders import gpu, host_config, reading
from tests.command import PROGRAM, gpumon
from tests.nvidia_xml import xml
from tests.places import ROOT
from tests.sshd import GpuHosts, keygen

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
    assert 1.1 <= seconds < 60


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
    key = " ".join(stranger.with_suffix(".pub").read_text().split()[:2])
    restricted = f"""'restrict,command="sh /usr/local/bin/gpumon-probe" {key}'"""
    assert any(f"{restricted} | ssh -p {gpu_hosts.port} root@{locked} " in line for line in lines)
    assert any(
        re.match(r"next: on the host, as root:  journalctl -u ssh -u sshd -n 20", line) for line in lines
    )
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
    key = " ".join(gpu_hosts.host_key.with_suffix(".pub").read_text().split()[:2])
    line = rf"printf '\n%s\n' '[{host}]:{gpu_hosts.port} {key}' >> {tmp_path}/known_hosts"
    assert finding["next"][-1] == f"as {getpass.getuser()}:  {line}"
    assert finding["commands"][-1] == {"words": "", "as": getpass.getuser(), "line": line}
    subprocess.run(line, shell=True, check=True, capture_output=True)
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
    assert process.wait(120) == 3
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert re.search(rf"{good} +✓ +✓ +✓ +✓ +✓ +✓ driver 550.90.07", text)
    assert re.search(r"127\.0\.0\.1 +✓ +✗ +· +·", text)
    assert "next: on the host:  systemctl status ssh sshd" in text


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
    assert re.match(r"\S+ cannot write in /proc: ", site.message)
    assert re.fullmatch(r"as root:  install -d -o \S+ /proc/site", str(site.next[0]))


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
    assert (record.findings[Step.CLOCK].mark, record.findings[Step.CLOCK].message) == (mark, told)
    assert bool(record.findings[Step.CLOCK].next) == (mark is Mark.WARNING)


def test_fewer_gpus_than_expected_are_a_warning() -> None:
    record = Record(lambda: NOW)
    examining._look_at_gpus(host_config("n", gpus=8), reading("n", [gpu()]), record)
    assert record.findings[Step.GPUS].message == "driver 550.90.07, 1 GPU; config.ini expects 8"
    assert record.findings[Step.GPUS].mark is Mark.WARNING


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.OK])
@pytest.mark.parametrize("step", list(Step))
def test_every_failure_has_something_to_do_next(status: Status, step: Step) -> None:
    next_steps = advice.after(host_config("n"), step, HostError(status, "it failed"))
    assert next_steps
    assert all(map(str, next_steps))


def test_a_jump_host_that_failed_is_what_to_look_at_first() -> None:
    broken = HostError(Status.REFUSED, "connection refused at b:22: nobody", jump="bastion")
    next_steps = advice.after(host_config("n"), Step.NAME, broken)
    assert list(map(str, next_steps)) == [
        f"first the jump host alone, as {getpass.getuser()}:  ssh bastion true"
    ]


def test_the_ssh_line_is_the_same_way_by_hand(home: Path) -> None:
    usual = home / ".ssh/config"
    assert str(advice.ssh(host_config("n", ssh_config=usual), "true")) == "ssh n true"
    full = host_config(
        "n", address="10.0.0.1", user="ada", port=99, key_filename=Path("/my key"), ssh_config=None
    )
    assert str(advice.ssh(full)) == "ssh -F none -o HostName=10.0.0.1 -p 99 -i '/my key' ada@n"
    refusal = Refusal("ada", key="ssh-ed25519 AAAA", key_file=Path("/my key"))
    assert str(logins.copy_id(full, refusal)) == "ssh-copy-id -p 99 -i '/my key.pub' ada@10.0.0.1"


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
    assert current["told"] == "the installed probe, version 4, gets no settings from config.ini"
    assert "version 1, is older than this gpumon-static, which has version 4" in first_["told"]
    assert "version 99; this gpumon-static has version 4" in newer_["told"]
    assert newer_["next"] == ["update gpumon-static on the collector"]
    line, unreached = first_["next"]
    place = f"-p {server.port} root@{hosts['first']}"
    assert f"/gpumon-static probe | ssh {place} 'cat > /usr/local/bin/gpumon-probe.new && test -s " in line
    assert current["next"] == [unreached]
    assert unreached.startswith("command_timeout, disks of config.ini do not reach it")


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash", "/bin/rbash", "/usr/bin/tcsh", "/usr/bin/fish"])
def test_the_line_with_the_settings_of_an_installed_probe_ends_its_warning(
    gpu_hosts: GpuHosts, tmp_path: Path, shell: str
) -> None:
    """In whatever shell the account has: sshd gives it the command."""
    host = gpu_hosts.add_xml(xml())
    probe = tmp_path / "probe"
    probe.write_text(framing.script())
    more = "disks = ['/', '/my data', \"/it's\"]\ncommand_lines = true\n"

    def finding(options: str) -> dict[str, Any]:
        keys = gpu_hosts.directory / "authorized_keys"
        before = keys.read_text()
        keys.write_text(f"{options.replace(framing.PROBE_PATH, str(probe))} {before}")
        try:
            report = json.loads(gpumon("check", "--json", "-c", config).stdout)
        finally:
            keys.write_text(before)
        return next(f for f in report["hosts"][0]["findings"] if f["step"] == "shell")

    config = gpu_hosts.config(tmp_path, host, more=more)
    warned = finding(f'restrict,command="sh {framing.PROBE_PATH}"')
    assert warned["mark"] == "warning"
    words, _, line = warned["next"][0].partition("before the key:  ")
    assert words.startswith("command_timeout, disks, command_lines of config.ini do not reach it")
    assert line.startswith('restrict,command="env ')
    run = line.removeprefix('restrict,command="')[:-1].replace('\\"', '"')
    # As sshd hands it to the account's shell.
    in_shell = tmp_path / "in-shell"
    in_shell.write_text(f"exec {shell} -c {shlex.quote(run.replace(framing.PROBE_PATH, str(probe)))}\n")
    ended = finding(f'restrict,command="sh {in_shell}"')
    assert (ended["mark"], ended["told"]) == ("ok", "the installed probe, version 4")


def test_the_line_for_an_account_without_a_password_makes_its_key_known(home: Path) -> None:
    user = getpass.getuser()
    line = str(logins.authorize(host_config("n", user=user), Refusal(user, key="ssh-ed25519 AAAA")))
    # As root would run it on the host: here and now, with this home directory.
    there = line.replace(" ssh root@n ", " sh -c ").replace(f"~{user}", str(home))
    keys = home / ".ssh/authorized_keys"
    keys.parent.mkdir(mode=0o700, exist_ok=True)
    keys.write_text("ssh-rsa BBBB of another")
    keys.chmod(0o600)
    subprocess.run(["sh", "-c", there], check=True, capture_output=True)
    assert list(filter(None, keys.read_text().splitlines())) == [
        "ssh-rsa BBBB of another",
        'restrict,command="sh /usr/local/bin/gpumon-probe" ssh-ed25519 AAAA',
    ]
    assert keys.stat().st_mode & 0o077 == 0
    nobody = str(logins.authorize(host_config("n"), Refusal("no-such-user", key="ssh-ed25519 AAAA")))
    done = subprocess.run(
        ["sh", "-c", nobody.replace(" ssh root@n ", " sh -c ")], capture_output=True, cwd=home
    )
    assert done.returncode
    assert not (home / "~no-such-user").exists()


def test_the_probe_is_printed_as_it_is_sent_and_the_playbook_installs_what_is_printed() -> None:
    assert gpumon("probe").stdout == framing.script()
    tasks = ROOT / "deploy/ansible/tasks"
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


def test_hosts_that_fail_alike_are_one_line_with_a_node_set() -> None:
    def check(name: str, status: str) -> HostCheck:
        failed = Finding(Step.PORT, Mark.FAILED, f"{name} is away")
        return HostCheck(name, (failed,), 0.2, status)

    rack = [check(f"gpu{number:03}", "timeout") for number in range(1, 213)]
    report = CheckReport((), (*rack, check("other", "refused")))
    lines = list(plain_lines(report, in_full=False))
    assert "212 hosts: timeout: gpu[001-212]" in lines
    text = "\n".join(lines)
    assert "gpu001 is away" in text
    assert "gpu002 is away" not in text
    assert "other is away" in text
    assert lines[-1] == "213 hosts: 0 ok, 213 failed"
    assert "gpu212 is away" in "\n".join(plain_lines(report))


def test_nvidia_smi_elsewhere_is_found_by_the_path_of_the_config(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.address(77)
    elsewhere = tmp_path / "my smi"
    elsewhere.write_text(f"#!/bin/sh\ncat {gpu_hosts.directory}/elsewhere.xml\n")
    elsewhere.chmod(0o755)
    (gpu_hosts.directory / "elsewhere.xml").write_text(xml())
    config = gpu_hosts.config(tmp_path, host)
    (found,) = json.loads(gpumon("check", "--json", "-c", config).stdout)["hosts"]
    (finding,) = [f for f in found["findings"] if f["mark"] == "failed"]
    assert finding["next"][0].startswith("searched: the PATH of the login, /usr/bin, /bin, /usr/local/bin, ")
    gpu_hosts.config(tmp_path, host, more=f"[hosts.'{host}']\nnvidia_smi = '{elsewhere}'\n")
    assert gpumon("check", "-c", config).returncode == 0
