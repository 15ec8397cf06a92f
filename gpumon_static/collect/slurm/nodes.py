"""`scontrol -o -d show node`: a line per node, from Slurm 17 to 25.

    NodeName=gpu1 ... Gres=gpu:a100:4(S:0-1) ... GresUsed=gpu:a100:1(IDX:0) NodeAddr=10.0.0.1
    NodeHostName=gpu1 ... State=MIXED+DRAIN ... AllocTRES=cpu=1,gres/gpu=1 ... Reason=disk full [root@2026...]

`State` has flags behind a plus sign, and letters of its own behind all (`DOWN*`: it does not respond).
"""

from __future__ import annotations

import re

from gpumon_static.collect.slurm.values import PARTS, Gres, gres, known, tres
from gpumon_static.model import SlurmNode

LONGEST_LINE = 64 * 1024
LONGEST_REASON = 400
TAKES_JOBS = {"IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED", "CLOUD", "POWERED_DOWN"}
"""States and flags with which a node takes jobs of everybody; POWERED_DOWN: Slurm starts it for them."""

_NODE = re.compile(r"NodeName=(\S{1,64}) ")
_KEYS = re.compile(r" (Gres|GresUsed|NodeHostName|State|AllocTRES)=(\S*)")
_REASON = re.compile(r" Reason=")
_AFTER_REASON = re.compile(r" \[[^\]]{0,120}@[^\]]{0,40}\]| (?:Comment|Extra|ResumeAfterTime|InstanceId)=")
_LETTERS = "*~#!%$@^-+"


def parse_node(line: str) -> SlurmNode | None:
    """The node, if it has GPUs."""
    start = _NODE.match(line)
    if not start or len(line) > LONGEST_LINE:
        return None
    first: dict[str, str] = {}
    for key, value in _KEYS.findall(line, start.end() - 1):
        first.setdefault(key, value)
    has = [entry for entry in gres(known(first.get("Gres"))) if entry.name == "gpu"]
    if not has:
        return None
    kinds = {entry.kind for entry in has}
    used = list(gres(known(first.get("GresUsed"))))
    whole = [entry for entry in used if entry.name == "gpu"]
    count = _used(whole, first.get("AllocTRES"))
    at = [index for entry in whole for index in entry.indexes or ()]
    state = known(first.get("State"))
    return SlurmNode(
        name=start[1],
        host_name=known(first.get("NodeHostName")),
        state=state,
        reason=_reason(line),
        takes_jobs=takes_jobs(state),
        kind=kinds.pop() if len(kinds) == 1 else None,
        gpus_used=count,
        used=tuple(at) if count == len(at) else None,
        is_shared=any(entry.name in PARTS and entry.count for entry in used),
    )


def takes_jobs(state: str | None) -> bool | None:
    """Whether Slurm starts jobs of everybody on a node in this state."""
    if state is None:
        return None
    # $: maintenance, *: does not respond, !: is being powered down.
    if state.rstrip(_LETTERS) != state and set(state) & set("*$!@"):
        return False
    return all(flag.rstrip(_LETTERS) in TAKES_JOBS for flag in state.split("+"))


def _used(entries: list[Gres], allocated: str | None) -> int | None:
    if entries:
        return sum(entry.count or 0 for entry in entries)
    found = tres(allocated)
    return found.get(None, sum(found.values())) if found else None


def _reason(line: str) -> str | None:
    """Without who wrote it, and when."""
    start = _REASON.search(line)
    if not start:
        return None
    text = line[start.end() : start.end() + LONGEST_REASON]
    end = _AFTER_REASON.search(text)
    return known((text[: end.start()] if end else text).strip())
