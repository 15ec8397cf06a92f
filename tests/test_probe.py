"""The probe, run for real in every shell that a host may have, and its output read back."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon_static.collect import probe, ps, reading
from gpumon_static.errors import HostError
from gpumon_static.model import GONE, Status

NOW = datetime(2025, 1, 1, tzinfo=UTC)
SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]

XML = """<nvidia_smi_log><driver_version>550.1</driver_version><gpu id="0"><product_name>X</product_name>
<processes>
<process_info><pid>{mine}</pid><type>C</type><process_name>python</process_name></process_info>
<process_info><pid>{gone}</pid><type>C</type><process_name>ghost</process_name></process_info>
</processes>
<accounted_processes>
<accounted_process_info><pid>1</pid></accounted_process_info>
</accounted_processes></gpu></nvidia_smi_log>"""


def run(shell: list[str], directory: Path, nvidia_smi: str | None, timeout: int = 5) -> str:
    """The probe as sshd would start it, with this stand-in nvidia-smi."""
    programs = directory / "bin"
    programs.mkdir(exist_ok=True)
    if nvidia_smi is not None:
        (programs / "nvidia-smi").write_text(f"#!/bin/sh\n{nvidia_smi}\n")
        (programs / "nvidia-smi").chmod(0o755)
    done = subprocess.run(
        [*shell, "-s"],
        input=f"GPUMON_TIMEOUT={timeout}\n{probe.script()}",
        env={"PATH": f"{programs}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def a_pid_that_is_gone() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_readings_come_through_in_every_shell(shell: list[str], tmp_path: Path) -> None:
    gone = a_pid_that_is_gone()
    (tmp_path / "xml").write_text(XML.format(mine=os.getpid(), gone=gone))
    output = run(shell, tmp_path, f"[ \"$*\" = '-q -x' ] && cat {tmp_path}/xml")
    found = reading.parse("n", output, NOW)
    mine, ghost = found.gpus[0].processes
    owner = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    assert (mine.pid, mine.user, mine.uid) == (os.getpid(), owner, os.getuid())
    assert mine.elapsed_s is not None
    assert 0 <= mine.elapsed_s < 24 * 3600
    assert (ghost.pid, ghost.user, ghost.state) == (gone, None, GONE)
    assert found.machine.cpu_count == os.cpu_count()
    assert found.machine.load_1m is not None
    assert found.machine.ram_total_mib is not None
    assert found.machine.ram_total_mib > found.machine.ram_used_mib > 0  # type: ignore[operator]


def test_a_host_without_procps_is_read_from_proc(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ps").write_text("#!/bin/sh\necho 'ps: unrecognized option: p' >&2; exit 1\n")
    (tmp_path / "bin" / "ps").chmod(0o755)
    gone = a_pid_that_is_gone()
    (tmp_path / "xml").write_text(XML.format(mine=os.getpid(), gone=gone))
    mine, ghost = reading.parse("n", run(["dash"], tmp_path, f"cat {tmp_path}/xml"), NOW).gpus[0].processes
    assert (mine.uid, mine.elapsed_s) == (os.getuid(), None)
    assert ghost.state == GONE


def test_only_the_processes_that_nvidia_smi_names_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "xml").write_text(XML.format(mine=os.getpid(), gone=a_pid_that_is_gone()))
    listed = ps.parse(probe.sections(run(["dash"], tmp_path, f"cat {tmp_path}/xml"))["ps"])
    assert os.getpid() in listed
    assert 1 not in listed, "PID 1 is only in the list of accounted processes"
    assert len(listed) == 2, "the process and the probe's own shell"


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_a_hung_nvidia_smi_is_given_up(shell: list[str], tmp_path: Path) -> None:
    started = time.monotonic()
    output = run(shell, tmp_path, "trap '' TERM; while :; do sleep 0.2; done", timeout=1)
    assert time.monotonic() - started < 15
    with pytest.raises(HostError) as error:
        reading.parse("n", output, NOW)
    assert error.value.status is Status.TIMEOUT


def test_no_nvidia_smi(tmp_path: Path) -> None:
    assert shutil.which("nvidia-smi") is None, "this test wants a machine without a GPU"
    with pytest.raises(HostError) as error:
        reading.parse("n", run(["dash"], tmp_path, None), NOW)
    assert error.value.status is Status.NO_NVIDIA_SMI


def test_exit_status_and_stderr_come_through(tmp_path: Path) -> None:
    output = run(["dash"], tmp_path, "echo 'Failed to initialize NVML: Unknown Error' >&2; exit 255")
    sections = probe.sections(output)
    assert sections["smi-status"].strip() == "255"
    assert sections["smi-stderr"].strip() == "Failed to initialize NVML: Unknown Error"


def test_the_login_shells_own_talk_is_passed_over(tmp_path: Path) -> None:
    output = run(["dash"], tmp_path, "echo hi")
    noisy = f"Welcome!\r\n@@gpumon is a fine tool\n{output}".replace("\n", "\r\n")
    assert probe.sections(noisy)["smi"].strip() == "hi"


def test_a_process_name_cannot_pass_for_a_marker(tmp_path: Path) -> None:
    output = run(["dash"], tmp_path, "echo '@@gpumon end'; echo '@@gpumon 0123456789abcdef ps'")
    assert "0123456789abcdef ps" in probe.sections(output)["smi"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "said nothing"),
        ("This account is currently not available.\n", "it said: This account is currently not available."),
        ("@@gpumon begin 1 ab\n@@gpumon ab smi\n<nvidia", "cut off in section 'smi'"),
        ("@@gpumon begin 1 ab\n", "cut off in section 'begin'"),
    ],
)
def test_an_answer_that_is_none_is_refused_with_what_it_said(text: str, words: str) -> None:
    with pytest.raises(HostError) as error:
        probe.sections(text)
    assert error.value.status is Status.BAD_OUTPUT
    assert words in error.value.reason


@given(
    st.dictionaries(st.sampled_from(["smi", "ps", "load"]), st.text(st.characters(exclude_characters="\r")))
)
def test_sections_come_back_as_they_were(sections: dict[str, str]) -> None:
    body = "".join(f"\n@@gpumon ab12 {name}\n{text}" for name, text in sections.items())
    found = probe.sections(f"@@gpumon begin 1 ab12\n{body}\n@@gpumon ab12 end\n")
    assert {name: found[name] for name in sections} == {name: text + "\n" for name, text in sections.items()}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:07", 7), ("03:25", 205), ("01:00:00", 3600), ("2-03:04:05", 183845), ("-", None), ("", None)],
)
def test_elapsed_time_of_every_ps(text: str, seconds: int | None) -> None:
    assert ps.elapsed_seconds(text) == seconds


def test_users_of_every_kind_come_through_whole() -> None:
    lines = [
        f"{pid} 1000 00:01 R    {user:32} {command}"
        for pid, user, command in [
            (1, "a-login-of-32-letters-is-allowed", "python3"),
            (2, "LAB\\user1", "a b  c"),
            (3, "user1@lab.example", "x"),
            (4, "4711", "x"),
            (5, "LAB\\two words", "x"),
        ]
    ]
    entries = ps.parse("\n".join(lines))
    assert [entries[pid].user for pid in range(1, 6)] == [
        "a-login-of-32-letters-is-allowed",
        "LAB\\user1",
        "user1@lab.example",
        "4711",
        "LAB\\two words",
    ]
    assert entries[2].command == "a b c"


@given(st.text())
def test_any_ps_text_is_read_without_a_fault(text: str) -> None:
    ps.parse(text)
