"""Run gpumon-static as a person does: as a program of its own."""

from __future__ import annotations

import csv
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.warm_program import WarmProgram

PROGRAM = [sys.executable, "-m", "gpumon_static"]


def gpumon(
    *arguments: str | Path, cwd: Path | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    words = [*PROGRAM, *map(str, arguments)]
    if _warm().fits():
        status, output, errors = _warm().run(words[len(PROGRAM) :], cwd, timeout)
        return subprocess.CompletedProcess(words, status, output, errors)
    return subprocess.run(
        words,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@cache
def _warm() -> WarmProgram:
    return WarmProgram()


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
