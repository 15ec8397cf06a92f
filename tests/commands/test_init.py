"""`gpumon-static init`: from nothing to a config that works."""

from __future__ import annotations

import os
import pty
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gpumon_static.commands.init import Answers, config_text, crontab_line, nginx_lines
from gpumon_static.config import file as config_file
from gpumon_static.config import settings
from tests.command import PROGRAM, gpumon
from tests.nvidia_xml import xml
from tests.places import ROOT
from tests.sshd import GpuHosts

pytestmark = pytest.mark.usefixtures("home")


def load(tmp_path: Path, answers: Answers) -> settings.Config:
    (tmp_path / "config.ini").write_text(config_text(answers))
    return config_file.load(tmp_path / "config.ini")


def test_the_config_has_what_was_asked_for_and_every_other_key_explained(tmp_path: Path) -> None:
    loaded = load(tmp_path, Answers("gpu[1-2], node9:2222", user="ada", key_filename="~/k", site="/srv/www"))
    assert [(h.name, h.port, h.user) for h in loaded.hosts] == [
        ("gpu1", None, "ada"),
        ("gpu2", None, "ada"),
        ("node9", 2222, "ada"),
    ]
    assert loaded.page_path == Path("/srv/www/index.html")
    text = (tmp_path / "config.ini").read_text()
    example = (ROOT / "config.example.ini").read_text()
    for line in example.splitlines():
        key = line.removeprefix("# ").split(" = ")[0]
        assert key in text


def test_what_was_not_asked_for_keeps_its_default(tmp_path: Path) -> None:
    loaded = load(tmp_path, Answers("a"))
    bare = tmp_path / "bare.ini"
    bare.write_text("[common]\nhosts = 'a'\n")
    plain = config_file.load(bare)
    assert (loaded.fetch, loaded.site, loaded.busy) == (plain.fetch, plain.site, plain.busy)
    assert [replace(h, configured=frozenset()) for h in loaded.hosts] == [
        replace(h, configured=frozenset()) for h in plain.hosts
    ]
    left_open = {"user", "port", "key_filename", "connect_timeout", "known_hosts", "ssh_config"}
    assert not loaded.hosts[0].configured & left_open, "those are left to ~/.ssh/config"


def test_odd_paths_come_through_cron_and_nginx(tmp_path: Path) -> None:
    directory = tmp_path / "50% of it's"
    directory.mkdir()
    loaded = load(directory, Answers("a", site='/srv/"www"'))
    line = crontab_line(loaded)
    assert line.startswith("*/5 * * * * ")
    assert "%" not in line.replace(r"\%", "")
    command = line.removeprefix("*/5 * * * * ").replace(r"\%", "%").split(" && ")[1]
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert "no data yet" in done.stderr, "the line found the program and the config"
    assert 'alias "/srv/\\"www\\"/";' in nginx_lines(loaded)


def test_init_writes_checks_and_prints_what_comes_next(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add_xml(xml("init"))
    known = Path(os.environ["HOME"]) / ".ssh/known_hosts"
    known.write_text(gpu_hosts.known_hosts_line(host))
    done = gpumon(
        "init", tmp_path / "gpus", "--hosts", f"{host}:{gpu_hosts.port}", "--user", gpu_hosts.user,
        "--key", gpu_hosts.key, "--site", tmp_path / "www",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"fetch --changes -c {tmp_path}/gpus/config.ini && " in done.stdout
    assert f"alias {tmp_path}/www/;" in done.stdout
    assert gpumon("fetch", "-c", tmp_path / "gpus/config.ini", "--strict").returncode == 0


def test_init_says_3_when_the_check_fails_and_keeps_the_config(tmp_path: Path) -> None:
    done = gpumon("init", tmp_path, "--hosts", "127.0.0.1:1")
    assert done.returncode == 3
    assert (tmp_path / "config.ini").exists()
    assert "*/5 * * * *" in done.stdout


def test_init_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text("mine")
    done = gpumon("init", tmp_path, "--hosts", "a", "--no-check")
    assert done.returncode == 1
    assert "never overwrites" in done.stderr
    assert (tmp_path / "config.ini").read_text() == "mine"


def test_hosts_that_are_none_leave_nothing_behind(tmp_path: Path) -> None:
    done = gpumon("init", tmp_path / "x", "--hosts", "a b", "--no-check")
    assert done.returncode == 2
    assert "is not a host name" in done.stderr
    assert not (tmp_path / "x/config.ini").exists()


def test_without_a_terminal_the_hosts_must_be_given(tmp_path: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "init", tmp_path], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "--hosts" in done.stderr


def test_on_a_terminal_it_asks(tmp_path: Path) -> None:
    control, terminal = pty.openpty()
    running = subprocess.Popen(
        [*PROGRAM, "init", tmp_path, "--no-check"], stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    os.write(control, b"gpu[1-3]\nada\n\n\n")
    shown = b""
    try:
        while chunk := os.read(control, 4096):
            shown += chunk
    except OSError:
        pass
    os.close(control)
    assert running.wait() == 0, shown.decode()
    loaded = config_file.load(tmp_path / "config.ini")
    assert [(h.name, h.user) for h in loaded.hosts] == [("gpu1", "ada"), ("gpu2", "ada"), ("gpu3", "ada")]
