"""Processes of this machine, as /proc has them."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def processes_with(word: str) -> set[str]:
    found = set()
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in cmdline.read_bytes() and cmdline.parent.name != str(os.getpid()):
                found.add(cmdline.parent.name)
        except OSError:
            continue
    return found


def handles_sigterm(pid: int) -> bool:
    """Python itself does not, so our code runs by then."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
