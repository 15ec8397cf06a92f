"""The probe script as it is sent, and its output cut into sections.

    @@gpumon begin 1 4f1d22ab90c3e7d5
    @@gpumon 4f1d22ab90c3e7d5 smi-status
    0
    @@gpumon 4f1d22ab90c3e7d5 end

Whatever a login shell prints before `begin` is passed over. The token is made anew on the host each
time, so that nothing a process calls itself can pass for a marker.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from gpumon_static.collect.text import one_line
from gpumon_static.errors import HostError
from gpumon_static.model import Status

COMMAND = "sh -s"
MOST_BYTES = 8 * 1024 * 1024
"""Eight times what the most talkative real host was seen to say."""

BEGIN_MARK = b"@@gpumon begin"
_BEGIN = re.compile(r"^@@gpumon begin (\d+) ([0-9a-f-]+)\r?$", re.MULTILINE)


@cache
def script() -> str:
    return Path(__file__).with_name("probe.sh").read_text(encoding="utf-8")


def stdin(command_timeout: float) -> bytes:
    """The script with its settings before it. nvidia-smi is given up before we give up the host."""
    limit = max(1, round(command_timeout * 0.8))
    return f"GPUMON_TIMEOUT={limit}\n{script()}".encode()


def is_complete(output: bytearray) -> bool:
    """Whether the last marker has come: there is no need to wait for the connection to close."""
    tail = bytes(output[-64:]).rstrip()
    return tail.endswith(b" end") and b"@@gpumon " in tail


def too_much() -> HostError:
    return HostError(Status.BAD_OUTPUT, f"cut off: it sent more than {MOST_BYTES // 1024**2} MiB")


def sections(text: str) -> dict[str, str]:
    begin = _BEGIN.search(text)
    if not begin:
        said = one_line(text)
        told = f"it said: {said}" if said else "it said nothing"
        raise HostError(Status.BAD_OUTPUT, f"the host did not run the probe; {told}")
    marker = re.compile(rf"^@@gpumon {begin[2]} ([a-z-]+)\r?\n?", re.MULTILINE)
    parts = marker.split(text[begin.end() :])
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    if "end" not in found:
        last = parts[-2] if len(parts) > 1 else "begin"
        raise HostError(Status.BAD_OUTPUT, f"the answer was cut off in section {last!r}")
    return found
