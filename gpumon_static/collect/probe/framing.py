"""The probe script as it is sent, and its output cut into sections.

    @@gpumon begin 1 4f1d22ab90c3e7d5
    @@gpumon 4f1d22ab90c3e7d5 smi-status
    0
    @@gpumon 4f1d22ab90c3e7d5 end

Whatever a login shell prints before `begin` is passed over. The token is made anew on the host each
time, so that nothing a process calls itself can pass for a marker. The XML comes packed where the host has
gzip: a tenth of the bytes, and half of our work with them (`python -m bench probe`).
"""

from __future__ import annotations

import re
import shlex
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from gpumon_static.collect.trace import Trace
from gpumon_static.config.settings import HostConfig
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from gpumon_static.text import one_line

COMMAND = "sh -s"
MOST_BYTES = 8 * 1024 * 1024
"""Eight times what the most talkative real host was seen to say."""

BEGIN_MARK = b"@@gpumon begin"
_PACKED = re.compile(
    rb"^@@gpumon (?P<token>[0-9a-f-]+) (?P<name>smi-gz\n)(?P<content>.*?)(?=\n@@gpumon (?P=token) )",
    re.DOTALL | re.MULTILINE,
)
_BEGIN_SENT = re.compile(rb"^@@gpumon begin \d+ ([0-9a-f-]+)\r?$", re.MULTILINE)
_END = re.compile(rb"\n@@gpumon ([0-9a-f-]+) end\s*$")
_BEGIN = re.compile(r"^@@gpumon begin (\d+) ([0-9a-f-]+)\r?$", re.MULTILINE)


@cache
def script() -> str:
    return Path(__file__).with_name("probe.sh").read_text(encoding="utf-8")


def stdin(host: HostConfig) -> bytes:
    """The script with its settings before it. nvidia-smi is given up before we give up the host."""
    settings = {
        "GPUMON_TIMEOUT": str(max(1, round(host.command_timeout * 0.8))),
        "GPUMON_DISKS": "\n".join(host.disks),
        "GPUMON_COMMAND_LINES": "yes" if host.command_lines else "",
        "GPUMON_GZIP": "yes",
        "GPUMON_WAS_LATE": "yes" if host.was_late else "",
    }
    assignments = "".join(f"{name}={shlex.quote(value)}\n" for name, value in settings.items())
    return f"{assignments}{script()}".encode()


def is_complete(output: bytearray) -> bool:
    """Whether the last marker has come: there is no need to wait for the connection to close."""
    end = _END.search(output, max(0, len(output) - 80))
    begin = _BEGIN_SENT.search(output) if end else None
    return bool(begin and end and begin[1] == end[1])


def arrived(trace: Trace) -> Callable[[bytearray], bool]:
    """Whether the whole answer has come; raises `HostError` for one that is too long."""

    def is_enough(output: bytearray) -> bool:
        trace.received(output)
        if len(output) > MOST_BYTES:
            raise too_much()
        return is_complete(output)

    return is_enough


def too_much() -> HostError:
    return HostError(Status.BAD_OUTPUT, f"cut off: it sent more than {MOST_BYTES // 1024**2} MiB")


def decoded(output: bytes) -> str:
    """The answer as text, with its XML unpacked; raises `HostError`."""
    packed = _PACKED.search(output)
    if packed:
        head, tail = output[: packed.start("name")], output[packed.end("content") :]
        output = head + b"smi\n" + _unpacked(packed["content"]) + tail
    return output.decode("utf-8", errors="replace")


def _unpacked(content: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        xml = unpacker.decompress(content, MOST_BYTES)
    except zlib.error as error:
        raise HostError(Status.BAD_OUTPUT, f"the packed answer is damaged: {error}") from error
    if unpacker.unconsumed_tail:
        raise too_much()
    return xml


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
