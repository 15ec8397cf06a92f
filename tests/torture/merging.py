"""kill -9 while hours and days are closed and summed up: no run is lost, none is there twice."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from gpumon_static.model import HostReading
from gpumon_static.store.history.layout import read_listing
from tests.builders import busy_gpu, gpu, reading
from tests.history_lab import DAY, START, HistoryLab
from tests.torture.lab import Result

RUNS = 8
STEP = 900
LATER = START + 3 * DAY
"""When the day of these runs is closed."""


def merges(directory: Path, times: int) -> Result:
    """At so many moments of the run that closes the hours and the day."""
    result = Result("kill -9 while a day is closed")
    good, data = directory / "good", directory / "data"
    prepare(good)
    shutil.copytree(good, data)
    started = time.monotonic()
    subprocess.run(command(data), check=True)
    usual = time.monotonic() - started
    for number in range(times):
        shutil.rmtree(data)
        shutil.copytree(good, data)
        process = subprocess.Popen(command(data))
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=usual * 1.1 * (number + 1) / times)
        process.kill()
        process.wait()
        told = damage(data) or after_the_next_run(data)
        result.note(told and f"moment {number} of {times}: {told}")
    return result


def prepare(data: Path) -> None:
    """Runs that are not closed yet."""
    _lab(data).every(START, START + (RUNS - 1) * STEP, *_readings(), step=STEP)


def damage(data: Path) -> str | None:
    lab = _lab(data)
    ((readings, different),) = lab.rows(
        "SELECT count(*), count(DISTINCT (host, fetched_at)) FROM rows"
        f" WHERE level = 3 AND fetched_at < to_timestamp({LATER})"
    )
    if lab.lines or (readings, different) != (2 * RUNS, 2 * RUNS):
        return f"{readings} readings, {different} different ones of {2 * RUNS}; {lab.lines}"
    return None


def after_the_next_run(data: Path) -> str | None:
    """It closes what is left to close."""
    subprocess.run(command(data, LATER + STEP), check=True)
    day = next(iter(read_listing(_lab(data).config.history_path).days.values()))
    return damage(data) or (None if day.whole else "the day is not closed")


def _lab(data: Path) -> HistoryLab:
    return HistoryLab(data, "node1", "node2")


def _readings() -> list[HostReading]:
    return [reading("node1", [busy_gpu(0), gpu(1)]), reading("node2", [gpu(0, uuid="GPU-9")])]


def command(data: Path, at: int = LATER) -> list[str]:
    return [sys.executable, "-m", "tests.torture.merging", str(data), str(at)]


if __name__ == "__main__":
    lab = _lab(Path(sys.argv[1]))
    lab.add(int(sys.argv[2]), *_readings())
    sys.exit("; ".join(lab.lines) or None)
