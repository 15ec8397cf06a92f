"""kill -9, SIGTERM and Ctrl-C at graded moments of fetch and render; twenty runs at once."""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress
from itertools import cycle
from pathlib import Path

from tests.processes import handles_sigterm
from tests.torture.lab import Lab, Result, first
from tests.waiting import wait_until

PIPELINES = (("fetch",), ("render",))


def kills(directory: Path, times: int) -> Result:
    """kill -9 at so many moments: no torn file, no damaged history, nothing counted twice, no process left."""
    lab, result = Lab(directory), Result("kill -9 of fetch and render")
    usual = {words: lab.seconds(*words) for words in PIPELINES}
    for number, words in zip(range(times), cycle(PIPELINES), strict=False):
        process = lab.start(*words)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=usual[words] * 1.1 * (number + 1) / times)
        process.kill()
        process.communicate()
        told = first(lab.damage, lab.leftovers)
        result.note(told and f"{words[0]}, moment {number} of {times}: {told}")
    result.note(lab.goes_on())
    return result


def signals(directory: Path, times: int) -> Result:
    """TERM and INT: exit 143 or 130 soon, a line, no traceback, nothing left."""
    lab, result = Lab(directory, fetch="processes = 2\n"), Result("SIGTERM and Ctrl-C")
    usual = {words: lab.seconds(*words) for words in PIPELINES}
    numbers = cycle((signal.SIGTERM, signal.SIGINT))
    for moment, words, number in zip(range(times), cycle(PIPELINES), numbers, strict=False):
        result.note(_interrupted(lab, words, number, usual[words] * (moment + 1) / times))
    result.note(lab.goes_on())
    return result


def _interrupted(lab: Lab, words: tuple[str, ...], number: signal.Signals, after: float) -> str | None:
    process = lab.start(*words)
    wait_until(lambda: process.poll() is not None or handles_sigterm(process.pid))
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=after)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    told = first(lab.damage, lab.leftovers, lab.temporary_files)
    # Python itself, before our first line and after our last one, ends by the signal.
    if process.returncode not in (0, 128 + number, -number):
        told = f"exit {process.returncode}: {errors}"
    elif "Traceback" in errors:
        told = errors
    return told and f"{words[0]}, {number.name} after {after:.2f} s: {told}"


def crowds(directory: Path, times: int) -> Result:
    """Twenty fetches at once: one does it, the others exit with 75, and all files are whole."""
    lab, result = Lab(directory), Result("20 fetches at once")
    lab.run("fetch")
    for _ in range(times):
        started = [lab.start("fetch") for _ in range(20)]
        codes = []
        for process in started:
            process.communicate(timeout=120)
            codes.append(process.returncode)
        odd = [code for code in codes if code not in (0, 75)]
        told = f"exit statuses {codes}" if odd or 0 not in codes else first(lab.damage, lab.leftovers)
        result.note(told)
    result.note(lab.goes_on())
    return result
