"""`scontrol -o -d show job`: a line per job, from Slurm 17 to 25.

    JobId=77 ArrayJobId=70 ArrayTaskId=3 JobName=a JobState=PENDING b UserId=alice(1001) GroupId=lab(100)
    MCS_label=N/A ... JobState=RUNNING ... StartTime=... EndTime=... Partition=gpu ... TRES=cpu=1,gres/gpu=2
    ...   Nodes=gpu[1-2] CPU_IDs=0-7 Mem=0 GRES=gpu:h200:2(IDX:0-1) MinCPUsNode=1 ... Command=...

A name is any text, that of other keys too: it ends where `UserId= GroupId= MCS_label=` follow each other.
What is read comes after that, and before Command, WorkDir and Comment, which are any text as well: the first
of each key counts. Only `TresPer...` stands at the end, where the last one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gpumon_static.collect.slurm.values import PARTS, Gres, NodeLists, gres, known, moment, tres, whole
from gpumon_static.model import JobGpus, SlurmJob, Waiting

HOLDING = {"RUNNING", "SUSPENDED", "COMPLETING"}
NOT_WAITING = ("JobHeld", "Dependency", "BeginTime")
"""Reasons of pending jobs that would not start on a free GPU either."""
MOST_TASKS = 100_000
LONGEST_LINE = 1024 * 1024

_JOB = re.compile(r"JobId=(\d{1,20}) ", re.ASCII)
_ARRAY = re.compile(r"JobId=\d{1,20} ArrayJobId=\d{1,20} ArrayTaskId=([0-9,\-%.:]{1,4000})", re.ASCII)
_NAME = re.compile(r" JobName=")
# No blank may be missing, and each part is short: what does not match costs little, wherever it stands.
_OWNER = re.compile(r" UserId=([^=]{1,100}?) GroupId=[^=]{1,100}? MCS_label=")
_KEYS = re.compile(
    r" (JobState|Reason|TimeLimit|SubmitTime|StartTime|EndTime|Partition|Account"
    r"|NumNodes|NumTasks|ReqTRES|TRES|Gres)=(\S*)"
)
_LAST_KEYS = re.compile(r" (TresPerJob|TresPerNode|TresPerTask)=(\S*)")
_NODES = re.compile(r" Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES(?:_IDX)?=(\S*)")
_MORE = re.compile(r" MinCPUsNode=")


@dataclass
class JobLines:
    """The jobs with GPUs, and what is waited for, while the lines are read."""

    node_lists: NodeLists
    holding: dict[str, SlurmJob] = field(default_factory=dict)
    waiting: dict[str | None, Waiting] = field(default_factory=dict)
    bad_lines: int = 0

    def add(self, line: str) -> None:
        start, owner = _JOB.match(line), _OWNER.search(line) if len(line) <= LONGEST_LINE else None
        # A second owner: a name or a comment that pretends to be another job. None of it can be believed.
        if not start or not owner or _OWNER.search(line, owner.end()):
            self.bad_lines += 1
            return
        first: dict[str, str] = {}
        for key, value in _KEYS.findall(line, owner.end()):
            first.setdefault(key, value)
        state = first.get("JobState", "")
        if state in HOLDING:
            self._hold(start[1], line, owner, first)
        elif state == "PENDING" and not first.get("Reason", "").startswith(NOT_WAITING):
            self._wait(line, owner.end(), first)

    def _hold(self, number: str, line: str, owner: re.Match[str], first: Mapping[str, str]) -> None:
        end = _MORE.search(line, owner.end())
        groups = _NODES.findall(line, owner.end(), end.start() if end else len(line))
        gpus = tuple(on_node for nodes, listed in groups for on_node in self._gpus(nodes, listed))
        if not gpus:
            return
        is_running = first["JobState"] == "RUNNING"
        self.holding[number] = SlurmJob(
            id=number,
            user=_user(owner[1]),
            name=_name(line, owner.start()),
            started_at=moment(first.get("StartTime")),
            ends_at=moment(first.get("EndTime")) if is_running else None,
            gpus=gpus,
            partition=known(first.get("Partition")),
            account=known(first.get("Account")),
        )

    def _gpus(self, nodes: str, listed: str) -> Iterator[JobGpus]:
        entries = list(gres(known(listed)))
        whole_ones = [entry for entry in entries if entry.name == "gpu"]
        parts = [entry for entry in entries if entry.name in PARTS and entry.count]
        count = sum(entry.count or 0 for entry in whole_ones)
        if not count and not parts:
            return
        at = _numbers(whole_ones)
        for node in self.node_lists(nodes):
            yield JobGpus(node, count, at if len(at) == count else (), _numbers(parts))

    def _wait(self, line: str, start: int, first: Mapping[str, str]) -> None:
        last = dict(_LAST_KEYS.findall(line, start))
        times = _tasks(line)
        since = moment(first.get("SubmitTime"))
        for kind, gpus in _wanted(first, last).items():
            before = self.waiting.get(kind, Waiting(kind, 0, 0))
            self.waiting[kind] = Waiting(
                kind, before.gpus + gpus * times, before.jobs + times, _older(before.oldest_at, since)
            )


def _numbers(entries: Iterable[Gres]) -> tuple[int, ...]:
    return tuple(index for entry in entries for index in entry.indexes or ())


def _older(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((at for at in (one, other) if at), default=None)


def _user(text: str) -> str | None:
    """alice of `alice(1001)`; a bare number is a uid without a name."""
    name = text.partition("(")[0]
    return (f"uid {name}" if name.isdecimal() else name) or None


def _name(line: str, end: int) -> str | None:
    start = _NAME.search(line)
    return known(line[start.end() : end].strip()) if start and start.end() <= end else None


def _tasks(line: str) -> int:
    """Tasks of an array that are still to start: `1-2`, `3,7,10-50%4`."""
    found = _ARRAY.match(line)
    if not found:
        return 1
    count = 0
    for part in found[1].partition("%")[0].split(","):
        first, dash, last = part.partition("-")
        if dash and whole(first) is not None and whole(last) is not None:
            step = whole(last.partition(":")[2]) or 1
            count += max(1, ((whole(last) or 0) - (whole(first) or 0)) // step + 1)
        else:
            count += 1
    return min(max(1, count), MOST_TASKS)


def _wanted(first: Mapping[str, str], last: Mapping[str, str]) -> dict[str | None, int]:
    """GPUs by kind: what Slurm has added up, else what was asked for, per job, node or task."""
    added_up = tres(first.get("ReqTRES") or first.get("TRES"))
    if len(added_up) > 1:
        # The sum beside the kinds.
        added_up.pop(None, None)
    if added_up:
        return added_up
    nodes, tasks = whole(first.get("NumNodes")) or 1, whole(first.get("NumTasks")) or 1
    for asked, times in (
        (last.get("TresPerJob"), 1),
        (last.get("TresPerNode") or first.get("Gres"), nodes),
        (last.get("TresPerTask"), tasks),
    ):
        found: dict[str | None, int] = {}
        for entry in gres(known(asked)):
            if entry.name == "gpu":
                found[entry.kind] = found.get(entry.kind, 0) + (entry.count or 1) * times
        if found:
            return found
    return {}
