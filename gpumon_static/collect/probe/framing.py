"""The probe script as it is sent, and its output cut into sections.

    @@gpumon begin 4 4f1d22ab90c3e7d5
    @@gpumon 4f1d22ab90c3e7d5 probe
    sent
    @@gpumon 4f1d22ab90c3e7d5 smi-status
    0
    @@gpumon 4f1d22ab90c3e7d5 end

The number is the version of the script: one that is installed there may be older than ours, and gets no
settings. Whatever a login shell prints before `begin` is skipped. The token is made on the host each time, so
that no name of a process can be mistaken for a marker. The XML comes packed where the host has gzip: a tenth
of the bytes, and half of our work with them (`python -m bench probe`).
"""

from __future__ import annotations

import re
import shlex
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

from gpumon_static.collect.trace import Trace
from gpumon_static.collect.vendors import READERS
from gpumon_static.config.settings import HostConfig
from gpumon_static.errors import Cause, HostError
from gpumon_static.model import Status
from gpumon_static.text import one_line

PROBE_PATH = "/usr/local/bin/gpumon-probe"
"""Where it is installed on a host, for a key that may run nothing else."""
COMMAND = "sh -s"
ASK_SLURM = "GPUMON_ASK=slurm"
"""In the command too: an installed probe reads no input, but sees with which command it was called."""
LINE = "\n"
"""Between the mount points in GPUMON_DISKS; in a line of authorized_keys, a colon."""
MOST_BYTES = 8 * 1024 * 1024
"""Eight times the largest answer seen of a real host."""
MOST_SLURM_BYTES = 40 * 1024 * 1024
"""Of an answer about Slurm once it is unpacked: more than the probe sends of 20,000 jobs."""

BEGIN_MARK = b"@@gpumon begin"
LONGEST_BEGIN = 100
"""Bytes of the line that begins an answer."""
MOST_SECTIONS = 100

_BEGIN_SENT = re.compile(rb"@@gpumon begin \d{1,9} ([0-9a-f-]{1,64})\r?\n")
_END = re.compile(rb"\n@@gpumon ([0-9a-f-]{1,64}) end\s*$")
_BEGIN = re.compile(r"^@@gpumon begin (?P<version>\d{1,9}) (?P<token>[0-9a-f-]{1,64})\r?$", re.MULTILINE)
SENT = "sent"
LONGEST_COMPLAINT = 4096
"""Characters in which a shell that is none of ours complains."""
# cmd quotes what it does not find, in any language; PowerShell's error has this name in all of them. The
# shells of switches and storage boxes say one of the rest.
_NO_SHELL = re.compile(
    r"['\"\u2018\u201c\u201e\u00ab\ufffd]\s?sh\s?['\"\u2019\u201d\u201c\u00bb\ufffd]|CommandNotFoundException"
    r"|(?:unknown|invalid|unrecognized) (?:command|input)|syntax error: unknown",
    re.IGNORECASE,
)

# util-linux's, and shadow's.
_NO_LOGIN_SHELL = re.compile(r"account is (?:currently )?not available", re.IGNORECASE)


@cache
def script() -> str:
    """The whole probe: probe.sh, the section of each vendor, and the lines that run it."""
    here = Path(__file__).parent
    files = [here / "probe.sh", *(reader.section for reader in READERS.values()), here / "run.sh"]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


@cache
def version() -> int:
    """Of our own script."""
    found = re.search(r"'\\n@@gpumon begin (\d+)", script())
    assert found
    return int(found[1])


@cache
def searched() -> str:
    """The directories in which the probe looks for programs, beside the login's own PATH."""
    found = re.search(r"^  PATH=\$PATH:(/usr/bin\S+)$", script(), re.MULTILINE)
    assert found
    return found[1].replace(":", ", ")


def probe_version_of(text: str) -> int:
    """Of the script that made this answer; 0 where there is none. That of 0.1.0 is 1."""
    begin = _BEGIN.search(text)
    return int(begin["version"]) if begin else 0


def was_sent(found: Mapping[str, str]) -> bool:
    """Whether the sections are from the script that we sent: an installed one does not get this mark."""
    return found.get("probe", "").strip() == SENT


def command(host: HostConfig) -> str:
    """What is run on the host; by `env`, because csh has no assignments before a command."""
    return f"env {ASK_SLURM} {COMMAND}" if host.asks_slurm else COMMAND


def settings(host: HostConfig) -> dict[str, str]:
    """What config.ini sets for the probe. A tool that hangs is ended before the host's time is up."""
    return {
        "GPUMON_TIMEOUT": str(max(1, round(host.command_timeout * 0.8))),
        "GPUMON_DISKS": LINE.join(host.disks),
        "GPUMON_COMMAND_LINES": "yes" if host.command_lines else "",
        # All of them in the probe's own order where it is open which.
        "GPUMON_VENDORS": host.vendor if host.vendor and host.vendor in READERS else "",
        "GPUMON_NVIDIA_SMI": host.nvidia_smi or "",
    }


def received(found: Mapping[str, str]) -> dict[str, str]:
    """The settings that an installed probe reports; none of a version before 4."""
    values: dict[str, list[str]] = {}
    for line in found.get("settings", "").splitlines():
        name, _, value = line.partition("=")
        values.setdefault(name, []).append(value)
    return {name: LINE.join(parts) for name, parts in values.items()}


def stdin(host: HostConfig, *, was_late: bool = False) -> bytes:
    """The script with its settings before it.

    `was_late`: the last run timed out here, so the probe looks first for a tool that hangs.
    """
    more = {"GPUMON_GZIP": "yes", "GPUMON_WAS_LATE": "yes" if was_late else "", "GPUMON_SENT": SENT}
    if host.asks_slurm:
        more["GPUMON_ASK"] = "slurm"
    given = settings(host) | more
    assignments = "".join(f"{name}={shlex.quote(value)}\n" for name, value in given.items())
    return f"{assignments}{script()}".encode()


def is_complete(output: bytearray) -> bool:
    """Whether the last marker has come: there is no need to wait for the connection to close."""
    return Arrival().is_complete(output)


class Arrival:
    """An answer while it comes in: each time only what is new is looked at."""

    def __init__(self) -> None:
        self._token: bytes | None = None
        self._looked_at = 0

    def is_complete(self, output: bytearray) -> bool:
        """`output`: all that has come so far."""
        if self._token is None:
            self._token, self._looked_at = _token(output, self._looked_at)
        end = _END.search(output, max(0, len(output) - LONGEST_BEGIN)) if self._token else None
        return end is not None and end[1] == self._token


def _token(output: bytes | bytearray, start: int = 0) -> tuple[bytes | None, int]:
    """The token of the first line that begins an answer, and where to look again once more has come."""
    at = output.find(BEGIN_MARK, start)
    while at >= 0:
        is_a_line = at == 0 or output[at - 1 : at] == b"\n"
        if is_a_line and (match := _BEGIN_SENT.match(output, at)):
            return bytes(match[1]), at
        if len(output) - at < LONGEST_BEGIN:
            return None, at
        at = output.find(BEGIN_MARK, at + 1)
    return None, max(start, len(output) - len(BEGIN_MARK))


def arrived(trace: Trace) -> Callable[[bytearray], bool]:
    """Whether the whole answer has come; raises `HostError` for one that is too long."""
    arrival = Arrival()

    def is_enough(output: bytearray) -> bool:
        trace.received(output)
        if len(output) > MOST_BYTES:
            raise too_much()
        return arrival.is_complete(output)

    return is_enough


def too_much(most: int = MOST_BYTES) -> HostError:
    return HostError(Status.BAD_OUTPUT, f"cut off: it sent more than {most // 1024**2} MiB")


def decoded(output: bytes, packed: Sequence[str] = ("smi",), most: int = MOST_BYTES) -> str:
    """The answer as text, with the packed ones of these sections unpacked; raises `HostError`.

    `most`: bytes of the whole answer once they are.
    """
    token, _ = _token(output)
    for name in packed if token else ():
        marker = b"\n@@gpumon %b " % token if token else b""
        head, header, rest = output.partition(marker + name.encode() + b"-gz\n")
        end = rest.find(marker) if header else -1
        if end >= 0:
            unpacked = _unpacked(rest[:end], most - len(output) + end, most)
            output = b"".join((head, marker, name.encode(), b"\n", unpacked, rest[end:]))
    return output.decode("utf-8", errors="replace")


def _unpacked(content: bytes, left: int, most: int) -> bytes:
    """`left`: bytes that are left to it, so that the whole answer is not longer than `most`."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        xml = unpacker.decompress(content, max(1, left))
    except zlib.error as error:
        raise HostError(Status.BAD_OUTPUT, f"the packed answer is damaged: {error}") from error
    if unpacker.unconsumed_tail:
        raise too_much(most)
    return xml


def sections(text: str) -> dict[str, str]:
    begin = _BEGIN.search(text)
    if not begin:
        raise _no_probe(text)
    marker = re.compile(rf"\n@@gpumon {begin['token']} ([a-z-]{{1,40}})(?=\r?\n|\r?\Z)")
    marks = list(islice(marker.finditer(text, begin.end()), MOST_SECTIONS + 1))
    if len(marks) > MOST_SECTIONS:
        raise HostError(Status.BAD_OUTPUT, f"the answer has more than {MOST_SECTIONS} sections")
    # The line's end before a marker belongs to the section before it.
    ends = [*(mark.start() + 1 for mark in marks[1:]), len(text)]
    found = {mark[1]: _content(text, mark.end(), end) for mark, end in zip(marks, ends, strict=False)}
    if "end" not in found:
        last = marks[-1][1] if marks else "begin"
        raise HostError(Status.BAD_OUTPUT, f"the answer was cut off in section {last!r}")
    return found


def _no_probe(text: str) -> HostError:
    printed = one_line(text)
    message = f"it printed: {printed}" if printed else "it printed nothing"
    if _NO_SHELL.search(text[:LONGEST_COMPLAINT]):
        return HostError(Status.NO_SHELL, f"it answers, but has no POSIX shell; {message}")
    if _NO_LOGIN_SHELL.search(text[:LONGEST_COMPLAINT]):
        message = f"the account may not log in: its shell is nologin; {message}"
        return HostError(Status.BAD_OUTPUT, message, cause=Cause.NO_LOGIN_SHELL)
    return HostError(Status.BAD_OUTPUT, f"the host did not run the probe; {message}")


def _content(text: str, start: int, end: int) -> str:
    """Without the end of the marker's own line."""
    start += text.startswith("\r", start)
    start += text.startswith("\n", start)
    return text[start:end]
