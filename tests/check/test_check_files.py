"""`gpumon-static check` and `fetch` where root was at work before, and what comes after the hosts."""

from __future__ import annotations

import os
import pwd
import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpumon_static.check import publishing, surroundings
from gpumon_static.check.findings import Finding, Mark
from gpumon_static.commands.fetch import fetch
from gpumon_static.commands.render import render, render_only
from gpumon_static.config.file import load
from gpumon_static.store import snapshot
from gpumon_static.system.resources import own_command
from tests.builders import NOW, busy_gpu, gpu, reading
from tests.places import ROOT

NOBODY = 65534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that others may enter, which pytest's own they may not."""
    with TemporaryDirectory(prefix="gpumon-check-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        set_up(directory)
        yield directory


def set_up(directory: Path, more: str = "") -> None:
    (directory / "config.ini").write_text(f"[common]\nhosts = ['127.0.0.1:1']\n{more}")


def found(directory: Path, step: str, *, with_pages: bool = False) -> list[Finding]:
    config = load(directory / "config.ini")
    try_render = partial(render_only, config, NOW) if with_pages else None
    return [f for f in surroundings.look(config, config.hosts, try_render, now=NOW) if f.step == step]


def found_by_nobody(directory: Path) -> list[str]:
    """As another user of the machine, in a process of its own: mark, words and fix of each finding."""
    program = f"""
import os
from pathlib import Path
from gpumon_static.check import surroundings
from gpumon_static.config.file import load
from gpumon_static.times import parse_utc
now = parse_utc("{NOW.isoformat()}")
config = load(Path("{directory}/config.ini"))
surroundings.look(config, [], now=now)  # everything is imported while this is allowed
os.setgroups([]), os.setgid({NOBODY}), os.setuid({NOBODY})
os.environ.update(LOGNAME="nobody", HOME="/nonexistent")
for f in surroundings.look(config, [], now=now):
    print(f.step, f.mark, f.message, *f.next, sep="|")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@root_only
def test_files_that_an_earlier_run_by_root_left_fail_the_check(folder: Path) -> None:
    config = load(folder / "config.ini")
    fetch(config, clock=lambda: NOW)
    render(config, NOW)
    for path in (config.paths.data, config.paths.site):
        os.chown(path, NOBODY, NOBODY)
    before = {path: path.stat().st_ctime_ns for path in folder.rglob("*")}
    data, site = (
        [line for line in found_by_nobody(folder) if line.startswith(step)] for step in ("data", "site")
    )
    assert data[0].startswith("data|ok|")
    fix = f"as root:  chown -R nobody: {config.paths.data}"
    assert data[1].startswith(
        "data|failed|nobody cannot write events.json (of root), fetch.lock (of root), history (of root)"
    )
    assert data[1].endswith(fix)
    assert (
        data[2]
        == f"data|warning|nobody cannot write load_data.csv (of root), site-files.json (of root) in {config.paths.data}|{fix}"
    )
    assert site[1].startswith(
        "site|warning|nobody cannot write index.html (of root), index.html.gz (of root), "
    )
    assert site[1].endswith(f"as root:  chown -R nobody: {config.paths.site}")
    assert {path: path.stat().st_ctime_ns for path in folder.rglob("*")} == before
    # The line that is named fixes it.
    for line in (data[1], site[1]):
        subprocess.run(["sh", "-c", line.rpartition("|")[2].removeprefix("as root:  ")], check=True)
    assert [line.split("|")[1] for line in found_by_nobody(folder) if line[:4] in ("data", "site")] == [
        "ok",
        "ok",
    ]


@root_only
def test_root_is_told_whose_data_it_is_and_leaves_it_theirs(folder: Path) -> None:
    os.chown(folder, NOBODY, NOBODY)
    (folder / "data").mkdir(mode=0o700)
    os.chown(folder / "data", NOBODY, NOBODY)
    config = load(folder / "config.ini")
    said: list[str] = []
    user = pwd.getpwuid(NOBODY).pw_name
    fetch(config, clock=lambda: NOW, say=said.append)
    render(config, NOW)
    told = f"root is at work in {folder}/data, which belongs to {user}: its files stay {user}'s"
    assert said[0] == told
    assert {path.stat().st_uid for path in folder.rglob("*") if path.name != "config.ini"} == {NOBODY}
    *_, check = found(folder, "data")
    assert (check.mark, str(check.next[0])) == (
        Mark.WARNING,
        f"as {user}:  {own_command('check', '-c', folder / 'config.ini')}",
    )


def test_a_notify_command_that_cannot_be_run_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bin_ = folder / "bin"
    bin_.mkdir()
    (bin_ / "tell").write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
    cases = [
        ("sh -c true", Mark.OK),
        ("nosuch -x", Mark.FAILED),
        ("tell", Mark.FAILED),
        ("bin/tell", Mark.FAILED),
    ]
    for command, mark in cases:
        set_up(folder, f"[notify]\ncommand = '{command}'\n")
        assert [f.mark for f in found(folder, "notify")] == [mark], command
    (bin_ / "tell").chmod(0o755)
    set_up(folder, "[notify]\ncommand = 'bin/tell'\n")
    assert [f.mark for f in found(folder, "notify")] == [Mark.OK]
    set_up(folder, "[notify]\ncommand = 'tell'\n")
    (cron,) = found(folder, "notify")
    assert (cron.mark, [*map(str, cron.next)]) == (Mark.WARNING, [f"in [notify] command, write {bin_}/tell"])
    set_up(folder)
    assert found(folder, "notify") == []


def test_a_template_that_does_not_render_is_found_before_cron_meets_it(folder: Path) -> None:
    set_up(folder, "[site]\ntemplates = 'own'\n")
    (folder / "own").mkdir()
    assert [f.mark for f in found(folder, "pages", with_pages=True)] == [Mark.OK]
    for name, text in (("index.html.j2", "{{ nosuch.thing }}"), ("report.html.j2", "{% if %}")):
        (folder / "own" / name).write_text(text)
        (pages,) = found(folder, "pages", with_pages=True)
        assert pages.mark is Mark.FAILED
        assert name in pages.message
        (folder / "own" / name).unlink()
    assert not (folder / "site").exists()
    assert not (folder / "data").exists()


def test_a_page_that_would_replace_a_strangers_is_named(folder: Path) -> None:
    (folder / "site").mkdir()
    (folder / "site/index.html").write_text("<h1>Institute of Ducks</h1>")
    (pages,) = found(folder, "pages", with_pages=True)
    assert pages.mark is Mark.WARNING
    assert pages.message.startswith(f"{folder}/site/index.html is not a page of gpumon-static")
    (folder / "site/index.html").unlink()
    config = load(folder / "config.ini")
    snapshot.write(config.csv_path, [reading("127.0.0.1", [gpu()])])
    render(config, NOW)
    (folder / "site/index.html").write_text("<p>a lab's own template without our name</p>")
    assert [f.mark for f in found(folder, "pages", with_pages=True)] == [Mark.OK]


def test_a_template_that_nothing_includes_any_more_is_named(folder: Path) -> None:
    with (folder / "config.ini").open("a") as file:
        file.write("[site]\ntemplates = 'mine'\n")
    (folder / "mine/partials").mkdir(parents=True)
    (folder / "mine/partials/own.html.j2").write_text("a part of the lab's own")
    assert [f.mark for f in found(folder, "pages", with_pages=True)] == [Mark.OK]
    (folder / "mine/partials/card.html.j2").write_text("{% macro gpu_card(card) %}{% endmacro %}")
    warning, rendered = found(folder, "pages", with_pages=True)
    assert (warning.mark, rendered.mark) == (Mark.WARNING, Mark.OK)
    assert warning.message == f"{folder}/mine/partials/card.html.j2 has no effect any more"


def test_room_for_what_retention_will_need(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(folder / "config.ini")
    snapshot.write(config.csv_path, [reading("127.0.0.1", [gpu(0), busy_gpu(1)])])
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 2_000_000_000}))
    assert found(folder, "history") == []
    set_up(folder, "[history]\nkeep = 36600\n")
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 100_000_000}))
    (history,) = found(folder, "history")
    # Two GPUs: 2 x 36600 x 1,400 bytes.
    assert history.message == "the history will need about 102 MB for 2 GPUs; 100 MB are free"
    set_up(folder, "[history]\nenabled = false\nkeep = 36600\n")
    assert found(folder, "history") == []


def test_keys_that_have_lost_their_meaning_are_accepted_and_named(folder: Path) -> None:
    """By `check` at any time, and by the first fetch that makes a history."""
    set_up(folder, "[history]\nkeep_raw = 7\nkeep_days = 1826\n")
    note = "[history] keep_raw, keep_days: without effect since 0.2; every run is kept for 400 days (keep)"
    assert [finding.message for finding in found(folder, "config")][1:] == [note]
    lines: list[str] = []
    for _ in range(2):
        fetch(load(folder / "config.ini"), clock=lambda: NOW, say=lines.append)
    assert lines.count(note) == 1


def test_more_hosts_at_once_than_files_may_be_open(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "config.ini").write_text("[common]\nhosts = ['n[1-100]']\n[fetch]\nworkers = 80\n")
    limits = {resource.RLIMIT_NOFILE: 1024}
    monkeypatch.setattr(
        "resource.getrlimit", lambda kind: (limits.get(kind, resource.RLIM_INFINITY), resource.RLIM_INFINITY)
    )
    assert found(folder, "engine") == []
    limits[resource.RLIMIT_NOFILE] = 140
    (engine,) = found(folder, "engine")
    assert engine.message == "the limit of open files is 140 (ulimit -n): 40 at a time are asked"
    limits[resource.RLIMIT_NOFILE] = 256
    limits[resource.RLIMIT_AS] = 300 << 20
    (engine,) = found(folder, "engine")
    assert [str(hint) for hint in engine.next] == [
        "ulimit -v 688128, in a systemd unit LimitAS=688128K; or lower workers in [fetch]"
    ]


def test_the_estimate_is_the_one_of_the_docs() -> None:
    table = (ROOT / "docs/history.md").read_text()
    assert f" to {publishing.BYTES_PER_GPU_DAY:,} |" in table
