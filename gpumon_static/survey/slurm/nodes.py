"""The state of a node of Slurm in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon_static.text import clip

if TYPE_CHECKING:
    from gpumon_static.model import NodeState

MOST_LETTERS = 120
CLOSED = (
    ("DOWN", "down"),
    ("NOT_RESPONDING", "not responding"),
    ("FAIL", "failing"),
    ("DRAIN", "drained"),
    ("MAINT", "in maintenance"),
    ("REBOOT", "rebooting"),
    ("RESERVED", "reserved"),
)
"""How a flag of a state begins, and what users read; the first that is found counts."""


def closed_words(node: NodeState) -> str | None:
    """drained by Slurm: disk is full; None where it takes jobs, or where that is not known."""
    if node.takes_jobs is not False:
        return None
    flags = (node.state or "").upper().split("+")
    found = (word for start, word in CLOSED if any(flag.startswith(start) for flag in flags))
    word = next(found, (node.state or "closed").lower())
    return clip(f"{word} in Slurm" + (f": {node.reason}" if node.reason else ""), MOST_LETTERS)
