"""Run a program and say what it cost: its CPU, its time, its memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

SAMPLE_S = 0.05
LONGEST_S = 1800
# As under cron: a program that was run before is not compiled again.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


class BenchError(Exception):
    """Why a bench has no result."""


@dataclass(frozen=True)
class Usage:
    cpu_s: float
    """User and system time of the program and of the children it waited for."""
    wall_s: float
    peak_mb: float
    output: str = ""


def run(arguments: Sequence[str | Path]) -> Usage:
    """The peak is that of the program and all its children together, by samples: what the kernel reports is
    never less than what this bench itself occupied when it started the program."""
    started = time.monotonic()
    words = [str(a) for a in arguments]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert process.stdout
    alarm = threading.Timer(LONGEST_S, process.kill)
    alarm.start()
    try:
        with _peak_of_tree(process.pid) as peak:
            output = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        raise
    finally:
        alarm.cancel()
        process.stdout.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.monotonic() - started
    if process.returncode:
        raise BenchError(f"exit status {process.returncode} from: {' '.join(words)[:200]}")
    return Usage(usage.ru_utime + usage.ru_stime, wall_s, peak[0], output)


def in_turn(jobs: Mapping[str, Callable[[], Usage]], rounds: int) -> dict[str, Usage]:
    """The median of each job. They take turns, so that a busy moment of the machine hits all alike."""
    usages: dict[str, list[Usage]] = {name: [] for name in jobs}
    for number in range(rounds):
        for name, job in jobs.items():
            _tell(f"round {number + 1} of {rounds}: {name}")
            usages[name].append(job())
    _tell("")
    return {name: _median(all_rounds) for name, all_rounds in usages.items()}


def _median(usages: Sequence[Usage]) -> Usage:
    return Usage(
        statistics.median(u.cpu_s for u in usages),
        statistics.median(u.wall_s for u in usages),
        statistics.median(u.peak_mb for u in usages),
    )


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


@contextmanager
def _peak_of_tree(pid: int) -> Iterator[list[float]]:
    """A list that ends up with the largest sum of memory seen; shared pages are counted once."""
    samples = [0.0]
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(SAMPLE_S):
            samples[0] = max(samples[0], sum(_pss_mb(p) for p in _tree(pid)))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()


def _tree(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):  # it may end while we look
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in _read(task / "children").split():
                yield from _tree(int(child))


def _pss_mb(pid: int) -> float:
    lines = _read(Path(f"/proc/{pid}/smaps_rollup")).splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
