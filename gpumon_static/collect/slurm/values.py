"""Single values as scontrol prints them: times, GRES lists, lists of numbers and of nodes.

EndTime=2026-11-16T11:25:26         in UTC, because scontrol is run with TZ=UTC
GRES=gpu:a100:1(IDX:0),gpu:v100:2(IDX:1-2)
GRES_IDX=gpu(IDX:2,4)               before Slurm 20
TresPerNode=gres:gpu:a100:2         gres/gpu:a100:2 since Slurm 23
ReqTRES=cpu=8,node=1,gres/gpu=2,gres/gpu:a100=2
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from gpumon_static.config.hostlist import BadHost, expand_nodeset, nodeset_size, split_commas
from gpumon_static.model.facts import INDEX

NOT_KNOWN = {"", "(null)", "None", "N/A", "n/a", "Unknown", "UNKNOWN", "NONE", "INVALID"}
MOST_DIGITS = 9
PARTS = ("shard", "mps")
"""Names of GRES that are parts of GPUs."""

_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)", re.ASCII)
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Gres:
    """GPUs, or parts of them, as one entry of a GRES list."""

    name: str
    """`gpu`, `shard`, `mps`."""
    kind: str | None = None
    count: int | None = None
    indexes: tuple[int, ...] | None = None
    """None where it reports none."""


def known(text: str | None) -> str | None:
    return None if text is None or text in NOT_KNOWN else text


def moment(text: str | None) -> datetime | None:
    found = _TIME.fullmatch(text or "")
    if not found:
        return None
    year, month, day, hour, minute, second = map(int, found.groups())
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None


def whole(text: str | None) -> int | None:
    """The first number of `2` and of `2-4`."""
    found = _RANGE.match(text or "")
    return int(found[1]) if found else None


def indexes(text: str) -> tuple[int, ...] | None:
    """`0-1,3`; None for what is no list of GPU numbers, such as `N/A`."""
    found: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if not match:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if not (INDEX.takes(first) and INDEX.takes(last)) or len(found) > INDEX.most:
            return None
        found += range(first, last + 1)
    return tuple(dict.fromkeys(found))


def gres(text: str | None) -> Iterator[Gres]:
    """The entries of a GRES list, in the form that jobs and nodes have: `gpu:a100:2(IDX:0-1)`."""
    for entry in _entries(text or ""):
        plain, _, inside = entry.partition("(")
        parts = plain.removeprefix("gres:").removeprefix("gres/").split(":")
        label, _, numbers = inside.rstrip(")").partition(":")
        count = int(parts[-1]) if len(parts) > 1 and _is_number(parts[-1]) else None
        kind = parts[1] if len(parts) > 2 or (len(parts) == 2 and count is None) else None
        at = indexes(numbers) if label == "IDX" else None
        yield Gres(parts[0], kind or None, count if count is not None else len(at) if at else None, at)


def tres(text: str | None) -> dict[str | None, int]:
    """The GPUs in a TRES list by kind; those of any kind have None."""
    found: dict[str | None, int] = {}
    for entry in (text or "").split(","):
        name, _, amount = entry.partition("=")
        if name == "gres/gpu" and _is_number(amount):
            found[None] = int(amount)
        elif name.startswith("gres/gpu:") and _is_number(amount):
            found[name.removeprefix("gres/gpu:")] = int(amount)
    return found


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) <= MOST_DIGITS


def _entries(text: str) -> list[str]:
    """Split at the commas outside brackets."""
    entries, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        if letter in "()":
            depth = 1 if letter == "(" else 0
        elif letter == "," and not depth:
            entries.append(text[start:place])
            start = place + 1
    return [*entries, text[start:]]


class NodeLists:
    """Expand lists of nodes, each once; together they are no more than `most` nodes."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._found: dict[str, list[str]] = {}
        self.left_out = 0
        """Lists that were too long, or no lists."""

    def __call__(self, text: str) -> list[str]:
        size = len(self._found[text]) if text in self._found else _size(text)
        # Counted before anything is expanded: each list may be as long as one may be, and there may be many.
        if not size or size > self._left:
            self.left_out += 1
            return []
        self._left -= size
        if text not in self._found:
            self._found[text] = _nodes(text)
        self.left_out += not self._found[text]
        return self._found[text]


def _size(text: str) -> int:
    try:
        return nodeset_size(text)
    except BadHost:
        return 0


def _nodes(text: str) -> list[str]:
    try:
        return [node for part in split_commas(text) for node in expand_nodeset(part)]
    except BadHost:
        return []
