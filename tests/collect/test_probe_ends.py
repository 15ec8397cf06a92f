"""The probe ends whatever hangs, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gpumon_static.collect import reading
from gpumon_static.collect.probe import framing
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from tests.probe_lab import NOW, SHELLS, XML, program, run
from tests.waiting import wait_until


def left_behind(mark: str) -> list[int]:
    """The processes that have this in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and entry.name != str(os.getpid()):
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_nothing_is_left_behind_when_nobody_listens_any_more(shell: list[str], tmp_path: Path) -> None:
    program(tmp_path, "nvidia-smi", f"trap '' TERM\ntouch {tmp_path}/asked\nwhile :; do sleep 0.2; done")
    mark = f"GPUMON_TEST={tmp_path}"
    child = subprocess.Popen(
        [*shell, "-s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "GPUMON_TEST": str(tmp_path)},
        start_new_session=True,
    )
    assert child.stdin
    assert child.stdout
    child.stdin.write(f"GPUMON_TIMEOUT=50\n{framing.script()}".encode())
    child.stdin.close()
    wait_until((tmp_path / "asked").exists)
    assert len(left_behind(mark)) >= 3
    child.stdout.close()
    wait_until(lambda: not left_behind(mark), seconds=40)  # its own limit is 50
    assert child.wait(120) != 0


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_an_nvidia_smi_that_cannot_be_killed_is_told_all_the_same(shell: list[str], tmp_path: Path) -> None:
    """As one that hangs in the kernel: here `kill -9` does nothing."""
    program(tmp_path, "nvidia-smi", "exec sleep 300")
    immortal = 'kill() { [ "$1" = -9 ] || command kill "$@"; }'
    child = subprocess.Popen(
        [*shell, "-s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "GPUMON_TEST": str(tmp_path)},
    )
    assert child.stdin
    assert child.stdout
    child.stdin.write(f"GPUMON_TIMEOUT=1\n{immortal}\n{framing.script()}".encode())
    child.stdin.close()
    output = bytearray()
    while not framing.is_complete(output):
        line = child.stdout.readline()
        assert line, "it ended without an answer"
        output += line
    for pid in left_behind(f"GPUMON_TEST={tmp_path}"):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    child.stdout.close()
    child.wait(120)
    with pytest.raises(HostError) as error:
        reading.parse("n", output.decode(), NOW)
    assert error.value.status is Status.TIMEOUT


HANGS = """
import ctypes, os, sys, time
os.setuid(int(sys.argv[1]))
kernel = ctypes.CDLL(None)
kernel.prctl(15, sys.argv[2].encode())
print(flush=True)
# Whoever waits for a child of vfork is in state D.
kernel.vfork() or time.sleep(60)
"""


@contextmanager
def hanging(uid: int, name: str) -> Iterator[None]:
    """A process in the state in which a driver that hangs keeps its callers."""
    child = subprocess.Popen(
        [sys.executable, "-c", HANGS, str(uid), name], stdout=subprocess.PIPE, start_new_session=True
    )
    assert child.stdout
    try:
        child.stdout.readline()
        end = time.monotonic() + 120
        while Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "D":
            assert time.monotonic() < end
            time.sleep(0.02)
        yield
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.stdout.close()
        child.wait(120)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
@pytest.mark.parametrize(
    ("was_late", "name", "is_ours", "asked"),
    [
        ("yes", "nvidia-smi", True, False),
        ("", "nvidia-smi", True, True),
        ("yes", "nvidia-smi.py", True, True),
        # Any user can have a process of this name and in this state.
        ("yes", "nvidia-smi", False, True),
    ],
)
def test_no_nvidia_smi_joins_one_of_ours_that_hangs_in_the_kernel(
    shell: list[str], tmp_path: Path, was_late: str, name: str, is_ours: bool, asked: bool
) -> None:
    # A login of its own: another test may run at the same time.
    ours = 100_000 + os.getpid()
    program(tmp_path, "id", f"echo {ours}")
    with hanging(ours if is_ours else 65534, name):
        output = run(shell, tmp_path, f"touch {tmp_path}/asked", GPUMON_WAS_LATE=was_late)
    assert (tmp_path / "asked").exists() == asked
    if not asked:
        with pytest.raises(HostError, match="one of an earlier run still hangs in the kernel") as error:
            reading.parse("n", output, NOW)
        assert error.value.status is Status.TIMEOUT


NAMES_WITH_TAGS = [
    "a</process_name></process_info></processes></gpu></nvidia_smi_log>",
    "a</processes>",
    "a<accounted_processes>",
    "a<accounted_processes>\n<accounted_processes>",
    "a\n</processes>\n<accounted_processes>",
    "a<gpu id='1'>",
]


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
@pytest.mark.parametrize("name", NAMES_WITH_TAGS)
def test_tags_in_a_process_name_hide_no_other_process(shell: list[str], tmp_path: Path, name: str) -> None:
    """Of a driver that does not escape them."""
    mine = os.getpid()
    (tmp_path / "xml").write_text(XML.format(mine=mine, gone=mine).replace("python", name, 1))
    output = run(shell, tmp_path, f'[ "$1" = -q ] && cat {tmp_path}/xml')
    (gpu,) = reading.parse("n", output, NOW).gpus
    assert {process.pid for process in gpu.processes} == {mine}
    xml = XML.format(mine=1, gone=mine).replace("python", name, 1)
    (tmp_path / "xml").write_text(xml)
    output = run(shell, tmp_path, f'[ "$1" = -q ] && cat {tmp_path}/xml')
    (gpu,) = reading.parse("n", output, NOW).gpus
    assert [(p.pid, p.user is not None) for p in gpu.processes] == [(1, True), (mine, True)]


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_nothing_runs_on_after_the_end(shell: list[str], tmp_path: Path) -> None:
    run(shell, tmp_path, "echo", GPUMON_TEST=str(tmp_path))
    wait_until(lambda: not left_behind(f"GPUMON_TEST={tmp_path}"), seconds=5)
