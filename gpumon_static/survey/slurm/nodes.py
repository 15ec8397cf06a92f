"""The state of a node of Slurm in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon_static.system.command import Command
from gpumon_static.text import clip, split_name

if TYPE_CHECKING:
    from gpumon_static.config.settings import HostConfig
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

RESUMED = ("DOWN", "DRAIN", "FAIL")
"""What `state=resume` ends; maintenance and reservations are ended otherwise."""


def closed_words(node: NodeState) -> str | None:
    """drained by Slurm: disk is full; None where it takes jobs, or where that is not known."""
    if node.takes_jobs is not False:
        return None
    flags = _flags(node)
    found = (word for start, word in CLOSED if any(flag.startswith(start) for flag in flags))
    word = next(found, (node.state or "closed").lower())
    return clip(f"{word} in Slurm" + (f": {node.reason}" if node.reason else ""), MOST_LETTERS)


def resume_command(node: NodeState, host: HostConfig) -> Command | None:
    """What an admin pastes when the node is ready again; None where that would not open it.

    With the node's name as the config has it: Slurm's answer is a text of the host that was asked.
    """
    is_closed = node.takes_jobs is False and any(flag.startswith(RESUMED) for flag in _flags(node))
    is_ours = node.node is not None and node.node in (host.slurm, host.name, split_name(host.name)[0])
    if not is_closed or not is_ours:
        return None
    return Command.of("scontrol", "update", f"nodename={node.node}", "state=resume")


def _flags(node: NodeState) -> list[str]:
    return (node.state or "").upper().split("+")
