"""The command that is run for a change, and for a run that failed."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gpumon_static.config import file as config_file
from gpumon_static.config.settings import Config
from gpumon_static.store import events_file
from gpumon_static.store.events import EventMemory
from gpumon_static.survey.changes import note_changes
from tests.builders import READ_AT
from tests.command import PROGRAM, gpumon
from tests.notify_lab import EXAMPLES, UP, event, lab, told
from tests.places import CAPTURES, ROOT
from tests.sshd import GpuHosts


def with_command(tmp_path: Path, *command: str, **changes: Any) -> Config:
    return replace(lab(command=command, **changes), path=tmp_path / "config.ini")


def test_the_command_gets_the_event_as_json(tmp_path: Path) -> None:
    setup = with_command(tmp_path, "sh", "-c", "cat > event.json; echo noise; echo more >&2")
    assert told(setup, event()) == []
    document = json.loads((tmp_path / "event.json").read_text())
    assert document == {
        "version": 1,
        "site": "GPU Monitor",
        "title": "n1 gives no data: timeout",
        "text": document["text"],
        "id": "id-1",
        "type": "host-down",
        "host": "n1",
        "group": "vision",
        "at": "2025-11-14T09:10:00Z",
        "since": "2025-11-14T09:10:00Z",
        "status": "timeout",
        "gpus": [],
    }
    assert document["text"].startswith("n1 has been failing since 14 Nov ")


def test_a_one_line_command_has_it_in_its_environment(tmp_path: Path) -> None:
    setup = with_command(tmp_path, "sh", "-c", 'echo "$GPUMON_TYPE|$GPUMON_HOST|$GPUMON_TITLE" > said')
    assert told(setup, event()) == []
    assert (tmp_path / "said").read_text() == "host-down|n1|n1 gives no data: timeout\n"


def test_hostile_text_is_no_shell_command(tmp_path: Path) -> None:
    hostile = replace(event(), error="$(touch owned); `touch owned`\n' \" | touch owned")
    setup = with_command(tmp_path, "sh", "-c", 'printf %s "$GPUMON_TEXT" > said')
    assert told(setup, hostile) == []
    assert "$(touch owned)" in (tmp_path / "said").read_text()
    assert not (tmp_path / "owned").exists()


def test_only_the_events_that_were_asked_for(tmp_path: Path) -> None:
    setup = with_command(tmp_path, "sh", "-c", "echo $GPUMON_TYPE >> said")
    told(setup, event(1), event(2, "gpu-freed"), event(3, "gpu-fault"))
    assert sorted((tmp_path / "said").read_text().split()) == ["gpu-fault", "host-down"]
    told(replace(setup, notify=replace(setup.notify, events=("gpu-freed",))), event(4, "gpu-freed"))
    assert (tmp_path / "said").read_text().split()[2:] == ["gpu-freed"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("false",), "the command exited with 1 for host-down of n1"),
        (("sh", "-c", "echo no such list >&2; exit 9"), "exited with 9 for host-down of n1: no such list"),
        (("/nowhere/mail",), "cannot be run for host-down of n1: No such file or directory"),
    ],
)
def test_a_broken_command_is_one_line(tmp_path: Path, command: tuple[str, ...], words: str) -> None:
    (line,) = told(with_command(tmp_path, *command), event())
    assert line.startswith("notify: ")
    assert words in line
    assert "\n" not in line


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    setup = with_command(tmp_path, "sh", "-c", "sleep 1000 & echo $! > child; wait", timeout=0.5)
    started = time.monotonic()
    (line,) = told(setup, event())
    assert time.monotonic() - started < 60
    assert "did not end within" in line
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 120
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(child)


def is_running(pid: int) -> bool:
    try:
        return " Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except FileNotFoundError:
        return False


def test_a_command_may_leave_a_child_behind_as_mail_does(tmp_path: Path) -> None:
    setup = with_command(tmp_path, "sh", "-c", "(sleep 6; echo delivered > said) & exit 0")
    assert told(setup, event()) == []
    assert not (tmp_path / "said").exists(), "nobody waited for the child"
    end = time.monotonic() + 120
    while not (tmp_path / "said").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert (tmp_path / "said").exists()


def test_a_rack_that_goes_down_is_told_at_once(tmp_path: Path) -> None:
    setup = with_command(tmp_path, "sh", "-c", "sleep 3; echo $GPUMON_HOST >> said")
    started = time.monotonic()
    assert told(setup, *(event(number) for number in range(16))) == []
    assert time.monotonic() - started < 16 * 3, "not one after the other"
    assert len((tmp_path / "said").read_text().split()) == 16


# From end to end


def test_fetch_runs_the_command_once_and_ends_well(tmp_path: Path, home: Path, gpu_hosts: GpuHosts) -> None:
    address = gpu_hosts.add("exit 0")
    script = gpu_hosts.answers / address
    good = CAPTURES / "driver-470-rtx-3090-desktop.xml"
    script.write_text(f"cat {good}")
    more = "[notify]\ncommand = \"sh -c 'cat >> events; echo oops >&2; exit 3'\"\n"
    setup = gpu_hosts.config(tmp_path, address, more=more)
    assert gpumon("fetch", "-c", setup).returncode == 0
    script.write_text("echo NVIDIA-SMI has failed; exit 9")
    runs = []
    for _ in range(3):
        time.sleep(1.1)
        runs.append(gpumon("fetch", "-c", setup))
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert [run.stderr.count("notify:") for run in runs] == [0, 1, 0]
    assert "exited with 3 for host-down" in runs[1].stderr
    (line,) = (tmp_path / "events").read_text().splitlines()
    assert json.loads(line)["type"] == "host-down"
    assert json.loads(line)["host"] == address
    assert gpumon("render", "-c", setup).returncode == 0
    assert f"{address} gives no data" in (tmp_path / "site/feed.xml").read_text()


def test_the_config_names_the_events_there_are(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text(
        "[common]\nhosts = 'a'\n[notify]\nevents = ['host-gone']\ncommand = \"'\"\n"
    )
    done = gpumon("fetch", cwd=tmp_path)
    assert done.returncode == 2
    assert "notify.events: 'host-gone' is not an event; choose from: host-down, host-up" in done.stderr
    assert "notify.command: is not a command line" in done.stderr


def failure(directory: Path, more: str, told: str = "") -> subprocess.CompletedProcess[str]:
    (directory / "config.ini").write_text(f"[common]\nhosts = 'a'\n{more}")
    return run_failed(directory, told)


def run_failed(directory: Path, told: str = "") -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, "notify-failure", "gpumon-static.service"]
    return subprocess.run(command, input=told, cwd=directory, capture_output=True, text=True)


def test_a_run_that_failed_is_told_by_the_same_command(tmp_path: Path) -> None:
    more = "[notify]\nevents = ['gpu-freed']\ncommand = \"sh -c 'cat > said'\"\n"
    done = failure(tmp_path, more, "config.ini: 2 problems\n\x1b[31m  - a\n\n")
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads((tmp_path / "said").read_text())
    assert (said["type"], said["version"], said["gpus"]) == ("run-failed", 1, [])
    assert said["title"] == f"{said['host']}: gpumon-static.service failed"
    assert said["text"] == "config.ini: 2 problems\n[31m - a", "no characters that a terminal acts upon"


def test_a_run_that_failed_by_a_wrong_config_is_told_too(tmp_path: Path) -> None:
    more = "[notify]\ncommand = \"sh -c 'echo $GPUMON_TEXT > said'\"\n[busy]\nmemory = 'much'\nwrong = 1\n"
    assert failure(tmp_path, more).returncode == 0
    assert (tmp_path / "said").read_text() == "See: journalctl -u gpumon-static.service\n"


@pytest.mark.parametrize(
    "more",
    [
        "[site]\ntitle = 'Lab\n[notify] # of the lab\ntimeout = 20\ncommand = \"sh -c 'cat > said'\"\n[busy]\nmemory = 3\n",
        "[notify]\ncommand = \"sh -c 'cat > said'\"\n[hosts.a]\nnote = [1\n[users]\nx == 2\n",
        "[notify]\ncommand = sh -c 'cat > said'\n[site]\ntitle = \"Lab\n",
        "[notify]\ncommand = \"sh -c 'cat > said'\"\nevents = [\n  'host-down'\n",
        "[notify]\ntimeout = 2\ntimeout = 20\ncommand = sh -c 'cat > said'\n",
    ],
    ids=["before it", "after it", "bare values", "in it", "twice in it"],
)
def test_a_run_that_failed_by_a_config_that_is_not_toml_is_told_too(tmp_path: Path, more: str) -> None:
    done = failure(tmp_path, more, "config.ini: line 4, column 13\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "said").read_text())["text"] == "config.ini: line 4, column 13"


def test_a_notify_section_that_is_not_toml_is_an_error_with_its_line(tmp_path: Path) -> None:
    done = failure(tmp_path, "[notify]\ncommand = 'sh\n")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "config.ini: line " in done.stderr
    assert done.stderr == gpumon("render", cwd=tmp_path).stderr, "where it is wrong in the whole file"
    assert "no [notify] command" in failure(tmp_path, "[site]\ntitle = 'Lab\n").stderr


def test_a_run_that_failed_by_a_config_that_is_not_utf_8_is_told_too(tmp_path: Path) -> None:
    text = (
        "[common]\nhosts = 'a'\n[site]\ntitle = 'Universität'\n[notify]\ncommand = \"sh -c 'cat > said'\"\n"
    )
    (tmp_path / "config.ini").write_bytes(text.encode("latin-1"))
    done = run_failed(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "said").read_text())["site"] == "Universit\ufffdt"


@pytest.mark.parametrize("text", ["hosts = gpu01\nuser == x\n", "= 1\n", "", "\n\n["])
def test_a_config_without_a_section_is_an_error_in_a_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.ini").write_text(text)
    done = run_failed(tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        "gpumon-static: notify: the config has no [notify] command\n",
    )


def test_a_failure_that_cannot_be_told_is_an_error(tmp_path: Path) -> None:
    done = failure(tmp_path, "[notify]\ncommand = 'false'\n")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "notify: the command exited with 1 for run-failed of " in done.stderr
    assert "has no [notify] command" in failure(tmp_path, "").stderr


def test_times_are_utc(tmp_path: Path) -> None:
    memory = EventMemory()
    note_changes(memory, [UP], lab())
    events_file.save(tmp_path / "events.json", memory)
    stored = json.loads((tmp_path / "events.json").read_text())
    assert stored["hosts"]["n1"]["read_at"] == "2025-11-14T09:10:00Z"
    assert datetime.fromisoformat(stored["hosts"]["n1"]["read_at"]) == READ_AT


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    stand_in = tmp_path / "bin" / {"smtp": "curl"}.get(name, name)
    stand_in.parent.mkdir()
    stand_in.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {tmp_path}/said\ncat >> {tmp_path}/said\n')
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:/usr/bin:/bin")
    written = json.dumps(EXAMPLES[name])
    (tmp_path / "config.ini").write_text(f"[common]\nhosts = 'n1'\n[notify]\ncommand = {written}\n")
    assert told(config_file.load(tmp_path / "config.ini"), event(kind="host-up")) == []
    page = (ROOT / "docs/notifications.md").read_text()
    assert f"command = {written}\n" in page, "as it is on the page"
    said = (tmp_path / "said").read_text()
    assert "n1 is back" in said
    assert "It gave no data for" in said


def test_a_test_message_goes_through_the_command_of_the_config(tmp_path: Path) -> None:
    config_path = tmp_path / "config.ini"
    config_path.write_text("[common]\nhosts = 'a'\n[notify]\ncommand = \"sh -c 'cat > said'\"\nevents = []\n")
    done = gpumon("notify", "--test", "-c", config_path)
    assert (done.returncode, done.stdout) == (0, "sent by sh, which exited with 0\n")
    assert json.loads((tmp_path / "said").read_text())["type"] == "test"
    config_path.write_text(
        "[common]\nhosts = 'a'\n[notify]\ncommand = \"sh -c 'echo no mail >&2; exit 4'\"\n"
    )
    done = gpumon("notify", "--test", "-c", config_path)
    assert done.returncode == 1
    assert "exited with 4" in done.stderr
    assert "no mail" in done.stderr
