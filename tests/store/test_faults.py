"""Faults of disks, file servers and limits: a line that names them, and nothing is lost."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.command import PROGRAM, gpumon, rows
from tests.faults import environment, gpumon_with, shim


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.mktemp("faults"))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.ini"
    path.write_text("[common]\nhosts = 'localhost'\n")
    assert gpumon("fetch", "-q", "-c", path).returncode == 0
    return path


def events_of(config: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((config.parent / "data/events.json").read_text())
    return found


@pytest.mark.parametrize("call", ["open", "read"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EMFILE])
def test_events_that_cannot_be_read_are_not_begun_anew(
    library: Path, config: Path, call: str, number: int
) -> None:
    before = events_of(config)
    done = gpumon_with(environment(library, call, "/events.json", number), "fetch", "-q", "-c", config)
    assert done.returncode == 0
    words = f"cannot read {config.parent}/data/events.json: {os.strerror(number)}"
    assert (
        done.stderr == f"gpumon-static: events: {words}: the changes of this run are not recorded in them\n"
    )
    assert events_of(config) == before
    assert not list(config.parent.glob("data/*damaged*"))
    assert gpumon("fetch", "-q", "-c", config).stderr == "", "the next run goes on with them"
    assert events_of(config)["feed_id"] == before["feed_id"]


def test_a_page_is_made_while_events_cannot_be_read(library: Path, config: Path) -> None:
    fault = environment(library, "read", "/events.json", errno.EIO)
    assert gpumon_with(fault, "render", "-c", config).returncode == 0
    assert (config.parent / "site/index.html").exists()


@pytest.mark.parametrize("call", ["open", "read", "pread"])
def test_a_history_on_a_broken_disk_is_not_taken_for_damaged(library: Path, config: Path, call: str) -> None:
    folder = config.parent / "data/history"
    (run,) = folder.glob("*/*-*.parquet")
    before = {path: path.read_bytes() for path in folder.rglob("*.parquet")}
    fault = environment(library, call, f"/{run.name}", errno.EIO)
    done = gpumon_with(fault, "history", "sql", "-c", config, "SELECT count(*) FROM readings")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Input/output error" in done.stderr
    assert "damaged" not in done.stderr
    assert gpumon_with(fault, "fetch", "-q", "-c", config).returncode == 0
    assert {path: path.read_bytes() for path in before if path.parent != folder} == {
        path: content for path, content in before.items() if path.parent != folder
    }, "what was recorded stays as it is"
    assert gpumon("history", "sql", "-c", config, "SELECT count(*) FROM readings").returncode == 0


@pytest.mark.parametrize("call", ["open", "write", "flock"])
def test_a_lock_on_a_broken_disk_is_an_error_in_a_line(library: Path, config: Path, call: str) -> None:
    fault = environment(library, call, "/fetch.lock", errno.EIO)
    done = gpumon_with(fault, "fetch", "-q", "-c", config)
    path = config.parent / "data/fetch.lock"
    assert (done.returncode, done.stderr) == (1, f"gpumon-static: cannot lock {path}: Input/output error\n")


def test_without_flock_there_is_another_way_and_a_line_once(library: Path, config: Path) -> None:
    fault = environment(library, "flock", "/fetch.lock", errno.ENOLCK)
    first, second = (gpumon_with(fault, "fetch", "--changes", "-c", config) for _ in range(2))
    told = f"{config.parent}/data: the file system has no locks (flock): fetch.lock.held is used instead"
    assert (first.returncode, first.stderr) == (0, f"gpumon-static: {told}\n")
    assert (second.returncode, second.stderr) == (0, ""), "cron would mail it every five minutes"
    assert not list(config.parent.glob("data/*held*"))
    checked = gpumon_with(environment(library, "flock", " (deleted)", errno.ENOLCK), "check", "-c", config)
    assert f"warning  {told}".replace(": fetch", "; fetch") in checked.stdout


def slow_fetch(fault: dict[str, str], config: Path) -> subprocess.Popen[bytes]:
    """A fetch that is in the middle of its work."""
    slow = config.parent / "bin/nvidia-smi"
    slow.parent.mkdir(exist_ok=True)
    slow.write_text("#!/bin/sh\nsleep 20\n")
    slow.chmod(0o755)
    path = f"{slow.parent}:{os.environ['PATH']}"
    process = subprocess.Popen([*PROGRAM, "fetch", "-q", "-c", str(config)], env=fault | {"PATH": path})
    end = time.monotonic() + 120
    while not (config.parent / "data/fetch.lock.held").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    return process


def test_without_flock_a_second_fetch_still_exits_with_75(library: Path, config: Path) -> None:
    fault = environment(library, "flock", "/fetch.lock", errno.ENOLCK)
    process = slow_fetch(fault, config)
    try:
        done = gpumon_with(fault, "fetch", "-q", "-c", config)
        assert done.returncode == 75
        assert f"process {process.pid}); exiting" in done.stderr
    finally:
        process.kill()
        process.wait()
    # Killed, it could not clean up; the next run is not kept from working by that.
    assert (config.parent / "data/fetch.lock.held").exists()
    assert gpumon_with(fault, "fetch", "-q", "-c", config).returncode == 0


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"pid": "x"}'])
def test_without_flock_whatever_stands_in_the_file_stops_fetch_for_an_hour_at_most(
    library: Path, config: Path, content: bytes
) -> None:
    fault = environment(library, "flock", "/fetch.lock", errno.ENOLCK)
    held = config.parent / "data/fetch.lock.held"
    held.write_bytes(content)
    assert gpumon_with(fault, "fetch", "-q", "-c", config).returncode == 75
    os.utime(held, (time.time() - 4000, time.time() - 4000))
    assert gpumon_with(fault, "fetch", "-q", "-c", config).returncode == 0


# Something else in the place of a file of ours


FILES = ("load_data.csv", "events.json", "fetch.lock", "site-files.json", "slurm.json", "pseudonyms.key")


def put_in_place_of(path: Path, kind: str) -> None:
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path.name)


@pytest.mark.parametrize("kind", ["pipe", "link to itself"])
@pytest.mark.parametrize("name", FILES)
def test_what_is_no_file_is_a_line_and_keeps_no_command_waiting(config: Path, name: str, kind: str) -> None:
    config.write_text(config.read_text() + "[site]\nusers = 'pseudonyms'\n")
    assert gpumon("render", "-c", config).returncode == 0
    path = config.parent / "data" / name
    for command in ("fetch", "render", "show", "free", "check"):
        put_in_place_of(path, kind)
        done = gpumon(command, "-c", config, timeout=120)
        assert done.returncode in (0, 1, 3)
        assert "unexpected" not in done.stderr, (command, done.stderr)


@pytest.mark.parametrize("kind", ["pipe", "link to itself"])
def test_what_is_no_file_in_the_site_is_replaced(config: Path, kind: str) -> None:
    assert gpumon("render", "-c", config).returncode == 0
    for path in (config.parent / "site").iterdir():
        put_in_place_of(path, kind)
    done = gpumon("render", "-c", config, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(path.is_file() and not path.is_symlink() for path in (config.parent / "site").iterdir())


@pytest.mark.parametrize("command", ["fetch", "render", "check"])
def test_a_config_that_is_no_file_is_an_error_in_a_line(config: Path, command: str) -> None:
    put_in_place_of(config, "pipe")
    done = gpumon(command, "-c", config, timeout=120)
    assert (done.returncode, done.stderr) == (
        2,
        f"gpumon-static: {config}: cannot be read: not a regular file\n",
    )


def test_a_config_may_come_from_the_shell(config: Path) -> None:
    words = f"cd {config.parent}; {' '.join(PROGRAM)} fetch -q -c <(cat {config}; echo '[paths]'; echo data = '\"{config.parent}/other\"')"
    assert subprocess.run(["bash", "-c", words], timeout=120).returncode == 0
    assert [row["host"] for row in rows(config.parent / "other/load_data.csv")] == ["localhost"]


@pytest.mark.parametrize("name", ["data", "site"])
def test_a_directory_that_is_a_link_to_itself_is_an_error_in_a_line(tmp_path: Path, name: str) -> None:
    config = tmp_path / "config.ini"
    config.write_text("[common]\nhosts = 'localhost'\n")
    assert gpumon("fetch", "-q", "-c", config).returncode == 0
    (tmp_path / "link").symlink_to("link")
    config.write_text(f"[common]\nhosts = 'localhost'\n[paths]\n{name} = 'link'\n")
    for command in ("fetch", "render", "check"):
        done = gpumon(command, "-c", config)
        assert "unexpected" not in done.stderr, (command, done.stderr)
