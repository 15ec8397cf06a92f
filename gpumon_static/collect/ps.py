"""The probe's `ps` section to a table by PID.

1234  1000    03:25:11 Rl   alice                            python3
pid   uid     elapsed  state user, padded to 32              command, which may have blanks
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpumon_static.collect.text import known

_LINE = re.compile(r"^\s*(\d+)\s+(\d+|-)\s+(\S+)\s+(\S+)\s+(.{32}) ?(.*)$")
_ELAPSED = re.compile(r"^(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)$")


@dataclass(frozen=True)
class PsEntry:
    uid: int | None
    elapsed_s: int | None
    state: str | None
    user: str | None
    command: str | None


def parse(text: str) -> dict[int, PsEntry]:
    """Empty where the host has no usable ps: then nothing is known, and no PID is gone."""
    entries = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            pid, uid, elapsed, state, user, command = match.groups()
            entries[int(pid)] = PsEntry(
                uid=int(uid) if uid != "-" else None,
                elapsed_s=elapsed_seconds(elapsed),
                state=known(state),
                user=known(user) or (uid if uid != "-" else None),
                command=known(command),
            )
    return entries


def elapsed_seconds(text: str) -> int | None:
    """`[[days-]hours:]minutes:seconds`, which every ps has, to seconds."""
    match = _ELAPSED.match(text)
    if not match:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
