"""The probe in the shells that a host may have."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from gpumon_static.collect.probe import framing

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


def program(directory: Path, name: str, script: str) -> None:
    """A stand-in that is found before the real one."""
    (directory / "bin").mkdir(exist_ok=True)
    (directory / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / "bin" / name).chmod(0o755)


def run(shell: list[str], directory: Path, nvidia_smi: str | None, timeout: int = 5, **settings: str) -> str:
    """The probe as sshd would start it, with this stand-in nvidia-smi."""
    programs = directory / "bin"
    programs.mkdir(exist_ok=True)
    if nvidia_smi is not None:
        program(directory, "nvidia-smi", nvidia_smi)
    done = subprocess.run(
        [*shell, "-s"],
        input=f"GPUMON_TIMEOUT={timeout}\n{framing.script()}",
        env={"PATH": f"{programs}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def packed_answer(content: bytes) -> bytes:
    return b"@@gpumon begin 1 ab\n\n@@gpumon ab smi-gz\n" + content + b"\n@@gpumon ab end\n"
