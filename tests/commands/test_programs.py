"""Programs that we start: everything they wrote is read, and nothing of them is left."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from gpumon_static.system import programs
from gpumon_static.system.programs import Late, Programs


def run(script: str, stdin: bytes = b"", seconds: float = 30, **options: object) -> programs.Finished:
    return Programs().run(["sh", "-c", script], stdin, seconds=seconds, **options)  # type: ignore[arg-type]


def test_what_is_written_just_before_the_end_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a look at the pipes and a look at the program it writes all it has and ends: every time here."""
    look = subprocess.Popen.poll

    def when_it_has_ended(self: subprocess.Popen[bytes]) -> int | None:
        while look(self) is None:
            time.sleep(0.01)
        return look(self)

    monkeypatch.setattr(subprocess.Popen, "poll", when_it_has_ended)
    monkeypatch.setattr(programs, "LOOK_EVERY", 0.05)
    done = run("sleep 0.4; seq 3000; echo the end; echo an error >&2")
    assert done.output.endswith(b"\n3000\nthe end\n")
    assert (done.errors, done.exit_status) == (b"an error\n", 0)


def test_a_program_that_leaves_its_pipes_to_a_child_is_not_waited_for() -> None:
    started = time.monotonic()
    done = run("sleep 60 & echo answer")
    assert (done.output, done.exit_status) == (b"answer\n", 0)
    assert time.monotonic() - started < 30


def test_a_program_that_never_reads_its_input_is_ended_in_time() -> None:
    with pytest.raises(Late):
        run("sleep 60", stdin=bytes(10**7), seconds=0.5)


def test_a_program_gets_all_of_a_long_input() -> None:
    assert run("wc -c", stdin=bytes(10**6)).output.strip() == b"1000000"


def test_an_answer_that_is_complete_ends_the_program() -> None:
    done = run("echo enough; sleep 60", enough=lambda output: b"enough" in output)
    assert (done.output, done.exit_status) == (b"enough\n", None)


@pytest.mark.parametrize(("option", "survives"), [("has_family", False), ("spare_children", True)])
def test_what_a_program_has_started_ends_with_it_or_goes_on(
    tmp_path: Path, option: str, survives: bool
) -> None:
    script = (
        f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 300' & while [ ! -s {tmp_path}/pid ]; do :; done"
    )
    if option == "has_family":
        with pytest.raises(Late):
            run(f"{script}; sleep 60", seconds=1, has_family=True)
    else:
        nowhere = subprocess.DEVNULL
        run(script, spare_children=True, stdout=nowhere, stderr=nowhere)
    process = Path("/proc", (tmp_path / "pid").read_text().strip())
    end = time.monotonic() + 120
    while process.exists() and not survives and time.monotonic() < end:
        time.sleep(0.05)
    assert process.exists() is survives
    if survives:
        subprocess.run(["kill", process.name], check=True)
