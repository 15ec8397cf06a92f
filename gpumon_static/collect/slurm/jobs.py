"""`scontrol -o -d show job`: a line per job, from Slurm 17 to 25.

    JobId=77 ArrayJobId=70 ArrayTaskId=3 JobName=a JobState=PENDING b UserId=alice(1001) GroupId=lab(100)
    MCS_label=N/A ... JobState=RUNNING ... StartTime=... EndTime=... Partition=gpu ... TRES=cpu=1,gres/gpu=2
    ...   Nodes=gpu[1-2] CPU_IDs=0-7 Mem=0 GRES=gpu:h200:2(IDX:0-1) MinCPUsNode=1 ... Command=...

A name is any text, that of other keys too: it ends where `UserId= GroupId= MCS_label=` follow each other.
What is read comes after that, and before Command, WorkDir and Comment, which are any text as well: the first
of each key counts. Only `TresPer...` stands at the end, where the last one counts.

Any text may have newlines too, and a line in it that looks like another job. Where squeue has confirmed which
jobs there are (owners.py), a record goes on until the next of these begins. One that begins twice is believed
as far as both agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gpumon_static.collect.slurm.owners import JobOwner
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
_UID = re.compile(r"(?:.*\()?(\d{1,10})\)?", re.ASCII | re.DOTALL)
_STATE = re.compile(r" JobState=(\S*)")
_ACCOUNT = re.compile(r" Account=(\S*)")
_KEYS = re.compile(
    r" (Reason|TimeLimit|SubmitTime|StartTime|EndTime|Partition|NumNodes|NumTasks|ReqTRES|TRES|Gres)=(\S*)"
)
_LAST_KEYS = re.compile(r" (TresPerJob|TresPerNode|TresPerTask)=(\S*)")
_NODES = re.compile(r" Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES(?:_IDX)?=(\S*)")
_MORE = re.compile(r" MinCPUsNode=")


def records(lines: Iterable[str], owners: Mapping[str, JobOwner] | None) -> Iterator[str]:
    """The lines, each job in one: what follows the line that begins it is text of its user."""
    parts: list[str] = []
    size = 0
    for line in lines:
        start = _JOB.match(line)
        if not parts or owners is None or (start and start[1] in owners):
            if parts:
                yield " ".join(parts)
            parts, size = [line], len(line)
        elif size <= LONGEST_LINE:
            parts.append(line)
            size += len(line)
    if parts:
        yield " ".join(parts)


@dataclass(frozen=True)
class _Record:
    """The parts of a record: where its owner stands, its state, and the first of each key behind that."""

    line: str
    owner: re.Match[str]
    state: re.Match[str]
    first: Mapping[str, str]

    @classmethod
    def of(cls, line: str) -> _Record | None:
        owner = _OWNER.search(line) if len(line) <= LONGEST_LINE else None
        state = _STATE.search(line, owner.end()) if owner else None
        # A second one: a name or a comment that pretends to be another job. None of it can be believed.
        if not owner or not state or _OWNER.search(line, owner.end()) or _STATE.search(line, state.end()):
            return None
        first: dict[str, str] = {}
        for key, value in _KEYS.findall(line, state.end()):
            first.setdefault(key, value)
        return cls(line, owner, state, first)


@dataclass
class JobLines:
    """The jobs with GPUs, and what is waited for, while the records are read."""

    node_lists: NodeLists
    owners: Mapping[str, JobOwner] | None = None
    """By the id of the job; None where nothing confirms them, as with a probe of an older version."""
    holding: dict[str, SlurmJob] = field(default_factory=dict)
    bad_lines: int = 0
    _waits: dict[str, _Record] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def add(self, line: str) -> None:
        start, record = _JOB.match(line), _Record.of(line)
        if not start or (record and not self._is_confirmed(start[1], record)):
            self.bad_lines += 1
            return
        if start[1] in self._seen:
            self._again(start[1], record)
        elif not record:
            self.bad_lines += 1
        elif record.state[1] in HOLDING:
            self._hold(start[1], record)
        elif record.state[1] == "PENDING" and self._is_waiting(start[1], record):
            self._waits[start[1]] = record
        self._seen.add(start[1])

    def _is_confirmed(self, number: str, record: _Record) -> bool:
        """Whether squeue has this job of this user."""
        if self.owners is None:
            return True
        owner, uid = self.owners.get(number), _UID.fullmatch(record.owner[1])
        return owner is not None and uid is not None and int(uid[1]) == owner.uid

    def _is_waiting(self, number: str, record: _Record) -> bool:
        if self.owners is not None and self.owners[number].state != "PENDING":
            return False
        return not record.first.get("Reason", "").startswith(NOT_WAITING)

    def _again(self, number: str, record: _Record | None) -> None:
        """One of two records of a job is a text of some user, and which is not known."""
        self.bad_lines += 1
        self._waits.pop(number, None)
        before = self.holding.pop(number, None)
        if record and record.state[1] in HOLDING:
            self._hold(number, record)
        after = self.holding.pop(number, None)
        if found := before or after:
            self.holding[number] = _agreed(found, after if before else None)

    def _hold(self, number: str, record: _Record) -> None:
        line, start = record.line, record.state.end()
        end = _MORE.search(line, start)
        groups = _NODES.findall(line, start, end.start() if end else len(line))
        gpus = [on_node for nodes, listed in groups for on_node in self._gpus(nodes, listed)]
        owner = self.owners.get(number) if self.owners is not None else None
        if owner and gpus:
            at = set(self.node_lists(owner.nodes)) if owner.nodes else set()
            gpus = [on_node for on_node in gpus if on_node.node in at]
        if not gpus:
            return
        first = record.first
        account = _ACCOUNT.search(line, record.owner.end(), record.state.start())
        self.holding[number] = SlurmJob(
            id=number,
            user=_user(record.owner[1], owner),
            name=_name(line, record.owner.start()),
            started_at=moment(first.get("StartTime")),
            ends_at=moment(first.get("EndTime")) if record.state[1] == "RUNNING" else None,
            gpus=tuple(gpus),
            partition=known(first.get("Partition")),
            account=known(account[1]) if account else None,
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

    def waiting(self) -> list[Waiting]:
        """What the jobs that wait ask for, by kind."""
        found: dict[str | None, Waiting] = {}
        for record in self._waits.values():
            last = dict(_LAST_KEYS.findall(record.line, record.state.end()))
            times = _tasks(record.line)
            since = moment(record.first.get("SubmitTime"))
            for kind, gpus in _wanted(record.first, last).items():
                before = found.get(kind, Waiting(kind, 0, 0))
                found[kind] = Waiting(
                    kind, before.gpus + gpus * times, before.jobs + times, _older(before.oldest_at, since)
                )
        return list(found.values())


def _numbers(entries: Iterable[Gres]) -> tuple[int, ...]:
    return tuple(index for entry in entries for index in entry.indexes or ())


def _older(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((at for at in (one, other) if at), default=None)


def _agreed(one: SlurmJob, other: SlurmJob | None) -> SlurmJob:
    """What both records have of a job, beside its id and owner."""
    same = other or SlurmJob(one.id, one.user)
    gpus = tuple(gpus if gpus in same.gpus else JobGpus(gpus.node, 0) for gpus in one.gpus)
    return SlurmJob(
        id=one.id,
        user=one.user if one.user == same.user else None,
        name=one.name if one.name == same.name else None,
        started_at=one.started_at if one.started_at == same.started_at else None,
        ends_at=one.ends_at if one.ends_at == same.ends_at else None,
        gpus=gpus,
        partition=one.partition if one.partition == same.partition else None,
        account=one.account if one.account == same.account else None,
    )


def _user(text: str, confirmed: JobOwner | None) -> str | None:
    """alice of `alice(1001)`; a bare number is a uid without a name."""
    name = text.partition("(")[0]
    if name.isdecimal():
        return f"uid {name}"
    return (confirmed.user if confirmed else name) or None


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
