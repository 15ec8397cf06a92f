"""SIGTERM and Ctrl-C at any moment: the command ends soon, in a line, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.builders import gpu, reading
from tests.command import PROGRAM, gpumon
from tests.history_lab import START, HistoryLab
from tests.nvidia_xml import xml
from tests.processes import handles_sigterm, processes_with
from tests.sshd import GpuHosts
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("home")

MOMENTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds after our first line: while importing, connecting, asking, waiting."""


def interrupt(
    command: list[str], number: signal.Signals, after: float, happened: Callable[[], bool] = lambda: True
) -> tuple[int, str, float]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: handles_sigterm(process.pid))
    time.sleep(after)
    wait_until(lambda: process.poll() is not None or happened())
    process.send_signal(number)
    sent = time.monotonic()
    try:
        _, errors = process.communicate(timeout=120)
    finally:
        # One that does not end would go on beside all other tests.
        process.kill()
        process.wait()
    return process.returncode, errors, time.monotonic() - sent


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("transport", ["paramiko", "openssh", "local"])
def test_an_interrupted_fetch_leaves_nothing_behind(
    gpu_hosts: GpuHosts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    transport: str,
    number: signal.Signals,
) -> None:
    mark = f"{time.time_ns()}"
    hangs = f"echo $$ >> {tmp_path}/started; exec sleep 300.{mark}"
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{hangs}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    addresses = [gpu_hosts.add(hangs), gpu_hosts.add_xml(xml("good"))]
    config = gpu_hosts.config(tmp_path, *addresses, more=f"transport = '{transport}'\nprocesses = 2\n")
    command = [*PROGRAM, "fetch", "-c", str(config)]
    waits_for_nvidia_smi = (0.0, (tmp_path / "started").exists)
    for after, happened in (*((moment, lambda: True) for moment in MOMENTS), waits_for_nvidia_smi):
        code, errors, seconds = interrupt(command, number, after, happened)
        assert code == 128 + number, (after, errors)
        assert "Traceback" not in errors, (after, errors)
        assert seconds < 60, after
    end = time.monotonic() + 120
    while left := processes_with(mark) | processes_with(str(config)):
        assert time.monotonic() < end, left
        time.sleep(0.1)
    assert not [file for file in tmp_path.rglob("*") if file.name.endswith(".tmp")]


def test_ctrl_c_while_the_worker_process_still_imports_is_one_line(tmp_path: Path) -> None:
    """It reaches the whole group, and Python prints a traceback for an interrupted import."""
    config = tmp_path / "config.ini"
    config.write_text("[common]\nhosts = 'localhost'\n")

    def has_worker(pid: int) -> bool:
        return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text())

    for after in (0.0, 0.03, 0.06, 0.09):
        command = [*PROGRAM, "fetch", "-c", str(config)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        wait_until(partial(has_worker, process.pid))
        time.sleep(after)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (130, "gpumon-static: interrupted\n"), after


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_render_leaves_whole_files_only(tmp_path: Path, number: signal.Signals) -> None:
    config = tmp_path / "config.ini"
    config.write_text("[common]\nhosts = 'localhost'\n")
    assert gpumon("fetch", "-c", config).returncode == 0
    for after in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5):
        code, errors, _ = interrupt([*PROGRAM, "render", "-c", str(config)], number, after)
        # After our last line Python itself ends by the signal.
        assert code in (0, 128 + number, -number)
        assert "Traceback" not in errors, (after, errors)
    page = tmp_path / "site" / "index.html"
    assert not page.exists() or page.read_text().rstrip().endswith("</html>")
    assert not [file for file in tmp_path.rglob("*") if file.name.endswith(".tmp")]


def interrupted_import(tmp_path: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    (tmp_path / "slow.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\n"
        f"end = time.monotonic() + {seconds}\nwhile time.monotonic() < end: time.sleep(0.01)\n"
    )
    code = (
        "import signal, time\nfrom gpumon_static.commands import exits\n"
        "signal.signal(signal.SIGINT, exits._stop)\n"
        "try:\n    import slow\n    print('whole')\n    time.sleep(30)\n"
        "except exits.Stopped: print('stopped')\n"
    )
    words = [sys.executable, "-c", code]
    return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)


def test_an_interrupted_import_is_finished_first(tmp_path: Path) -> None:
    """What is raised within one may be printed and ignored, or come out as another error."""
    done = interrupted_import(tmp_path, 0.1)
    assert (done.stdout.split(), done.stderr) == (["whole", "stopped"], "")


def test_an_import_that_does_not_end_is_interrupted_all_the_same(tmp_path: Path) -> None:
    assert interrupted_import(tmp_path, 60).stdout.split() == ["stopped"]


@pytest.mark.parametrize("where", ["_end_with", "_exit"])
def test_a_signal_after_the_last_line_does_not_make_it_a_failure(tmp_path: Path, where: str) -> None:
    code = (
        "import os, signal\nfrom gpumon_static.commands import exits\n"
        f"exits._run, ending = lambda: 0, exits.{where}\n"
        "def interrupted(code):\n    os.kill(os.getpid(), signal.SIGINT)\n    ending(code)\n"
        f"exits.{where} = interrupted\nexits.run_command()\n"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert done.returncode in (0, 128 + signal.SIGINT)


@pytest.mark.parametrize("after", [0.0, 0.02, 0.05, 0.1, 0.5])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_long_question_to_the_history_is_interrupted(
    tmp_path: Path, number: signal.Signals, after: float
) -> None:
    """DuckDB makes an error of its own of what a signal raises, or waits for ever for its threads."""
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['node1']\n")
    HistoryLab(tmp_path / "data").add(START, reading("node1", [gpu()]))
    question = "SELECT sum(hash(range)) FROM range(1000000000000)"
    command = [*PROGRAM, "history", "sql", question, "-c", str(tmp_path / "config.ini")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        # DuckDB has started its threads: it connects, or the question runs.
        wait_until(lambda: len(list(Path(f"/proc/{process.pid}/task").iterdir())) > 1)
        time.sleep(after)
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, errors) == (128 + number, "gpumon-static: interrupted\n")


def test_closing_that_fails_after_a_signal_is_no_other_error(tmp_path: Path) -> None:
    """A half-written workbook cannot be closed, for one."""
    code = (
        "import os, signal, sys\nfrom gpumon_static.commands import exits\n"
        "def job(context):\n    try: os.kill(os.getpid(), signal.SIGTERM)\n    finally: raise ValueError('not closed')\n"
        "sys.argv[1:] = ['render']\nexits.main.invoke = job\nexits.run_command()\n"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "gpumon-static: interrupted\n")
