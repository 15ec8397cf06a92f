"""Run gpumon-static as a person does: as a program of its own."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

PROGRAM = [sys.executable, "-m", "gpumon_static"]


def gpumon(
    *arguments: str | Path, cwd: Path | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
