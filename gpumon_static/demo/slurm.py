"""The Slurm of the demo lab: what scontrol and squeue print of its hosts, and what a fetch makes of that.

It manages the groups in `SLURM_GROUPS`. One node is drained, nodes that are down are so in Slurm too, a job
has a GPU and runs nothing on it, and two jobs wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple

from gpumon_static.demo import models
from gpumon_static.demo.chance import dice
from gpumon_static.demo.jobs import DAY, HOUR, DemoJob, Habit, Lane, running
from gpumon_static.demo.lab import SLURM_GROUPS, DemoHost
from gpumon_static.demo.people import GROUPS, DemoUser
from gpumon_static.model import Allocated, Allocation, HostReading, NodeState, Status

LOGIN = "login-01"
"""The host that has scontrol."""
VERSION = "slurm 23.11.4"
KINDS = {
    models.A100_SXM: "a100",
    models.RTX_3090: "rtx3090",
    models.H100: "h100",
    models.L40S: "l40s",
    models.V100_SXM: "v100",
    models.V100_PCIE: "v100",
    models.MI300X: "mi300x",
}
DRAINED = {"chem-02": "GPU 1 has ECC errors, replacement is ordered"}
LIMITS_H = (4, 12, 24, 48, 168)
WAITING = ((39_901, "jonas(1002)", "a100", 4, 5 * HOUR), (39_902, "amara(1012)", "h100", 8, 26 * HOUR))
"""Job, user, kind, GPUs, and for how long it has waited."""


class SlurmGpus(NamedTuple):
    """The GPUs of a job on one host."""

    id: int
    person: DemoUser
    started_at: int
    ends_at: int
    host: DemoHost
    gpus: tuple[int, ...]


def is_managed(host: DemoHost) -> bool:
    return host.group in SLURM_GROUPS


def with_slurm(reading: HostReading, host: DemoHost, at: int) -> HostReading:
    """The reading as a fetch joins it with what Slurm answers at that time."""
    if not is_managed(host):
        return reading
    is_down = reading.status is Status.REFUSED
    held = [] if is_down else list(_held(host, at))
    last = sorted(held, key=lambda one: one.ends_at)
    given = {index: _allocation(one) for one in last for index in one.gpus}
    free = Allocation(Allocated.NO)
    gpus = tuple(replace(gpu, allocation=given.get(gpu.index, free)) for gpu in reading.gpus)
    return replace(reading, gpus=gpus, node=_node_state(host, held, is_down=is_down))


def files(hosts: Iterable[DemoHost], at: int) -> dict[str, str]:
    """What scontrol and squeue print."""
    managed = [host for host in hosts if is_managed(host)]
    held = {host.name: [] if _is_down(host) else list(_held(host, at)) for host in managed}
    everything = sorted((one for some in held.values() for one in some), key=lambda one: one.id)
    running_jobs = [list(parts) for _, parts in groupby(everything, key=lambda one: one.id)]
    jobs = [*map(_job_line, running_jobs), *(_waiting_line(*one, at) for one in WAITING)]
    owners = [*map(_owner_line, running_jobs), *(_waiting_owner(*one[:2]) for one in WAITING)]
    nodes = [_node_line(host, held[host.name], at) for host in managed]
    return {"scontrol.jobs": "".join(jobs), "scontrol.nodes": "".join(nodes), "squeue": "".join(owners)}


def _held(host: DemoHost, at: int) -> Iterator[SlurmGpus]:
    for lane in host.lanes:
        if lane.habit is Habit.ALLOCATED:
            yield _unused(host, lane, at)
        for job in running(lane, at) if lane.habit is not Habit.GONE else ():
            indexes = tuple(place.gpu for place in job.places)
            yield SlurmGpus(job.slurm_id, job.person, job.start, _limit(job), host, indexes)


def _unused(host: DemoHost, lane: Lane, at: int) -> SlurmGpus:
    """A job of a day that runs nothing."""
    day = (at - 7 * HOUR) // DAY
    people = GROUPS[lane.group].people
    start = day * DAY + 7 * HOUR
    number = 60_000 + dice(lane.key, "unused", day).randrange(30_000)
    indexes = tuple(place.gpu for place in lane.places)
    return SlurmGpus(number, people[day % len(people)], start, start + DAY, host, indexes)


def _limit(job: DemoJob) -> int:
    """When it ends at the latest: it may end earlier."""
    lasts = job.end - job.start
    return job.start + next((hours for hours in LIMITS_H if hours * HOUR >= lasts), LIMITS_H[-1]) * HOUR


def _allocation(one: SlurmGpus) -> Allocation:
    started, ends = (datetime.fromtimestamp(at, UTC) for at in (one.started_at, one.ends_at))
    of_group = {"partition": one.host.group, "account": one.host.group}
    return Allocation(Allocated.YES, str(one.id), None, one.person.login, started, ends, **of_group)


def _is_down(host: DemoHost) -> bool:
    """Now; in the past of the lab it was up."""
    return host.fate is Status.REFUSED


def _node_state(host: DemoHost, held: list[SlurmGpus], *, is_down: bool) -> NodeState:
    state = "MIXED" if held else "IDLE"
    reason = DRAINED.get(host.name)
    if is_down:
        state, reason = "DOWN*", "Not responding"
    elif reason:
        state += "+DRAIN"
    return NodeState(host.name, state, reason, reason is None, KINDS[host.gpus[0].model])


def _node_line(host: DemoHost, held: list[SlurmGpus], at: int) -> str:
    node = _node_state(host, held, is_down=_is_down(host))
    used = sorted({index for one in held for index in one.gpus})
    indexes = ",".join(map(str, used)) or "N/A"
    reason = f" Reason={node.reason} [root@{_time(at // DAY * DAY)}]" if node.reason else ""
    return (
        f"NodeName={host.name} Arch=x86_64 CPUTot={host.cpus} Gres=gpu:{node.kind}:{len(host.gpus)}"
        f" GresDrain=N/A GresUsed=gpu:{node.kind}:{len(used)}(IDX:{indexes}) NodeAddr={host.name}"
        f" NodeHostName={host.name} Version=23.11.4 OS=Linux State={node.state} ThreadsPerCore=2"
        f" Partitions={host.group}{reason}\n"
    )


def _job_line(parts: list[SlurmGpus]) -> str:
    """`parts`: one per host."""
    first = parts[0]
    groups = "".join(f"  {_group(one.host, one.gpus)} " for one in parts)
    total = sum(len(one.gpus) for one in parts)
    return (
        f"{_head(first.id, f'{first.person.login}({first.person.uid})')} Account={first.host.group}"
        f" JobState=RUNNING Reason=None"
        f" TimeLimit=1-00:00:00 SubmitTime={_time(first.started_at)} StartTime={_time(first.started_at)}"
        f" EndTime={_time(first.ends_at)} Partition={first.host.group} NumNodes={len(parts)}"
        f" TRES=cpu=8,gres/gpu={total} Socks/Node=* CoreSpec=* {groups}MinCPUsNode=1 Command=train.sh\n"
    )


def _owner_line(parts: list[SlurmGpus]) -> str:
    first = parts[0]
    nodes = ",".join(dict.fromkeys(one.host.name for one in parts))
    return f"{first.id}|{first.person.uid}|{first.person.login}|RUNNING|{nodes}\n"


def _waiting_owner(number: int, user: str) -> str:
    login, _, uid = user.rstrip(")").partition("(")
    return f"{number}|{uid}|{login}|PENDING|\n"


def _group(host: DemoHost, gpus: tuple[int, ...]) -> str:
    listed = ",".join(map(str, gpus))
    kind = KINDS[host.gpus[0].model]
    return f"Nodes={host.name} CPU_IDs=0-7 Mem=0 GRES=gpu:{kind}:{len(gpus)}(IDX:{listed})"


def _waiting_line(number: int, user: str, kind: str, gpus: int, waited_s: int, at: int) -> str:
    submitted = at - waited_s
    return (
        f"{_head(number, user)} JobState=PENDING Reason=Resources TimeLimit=1-00:00:00"
        f" SubmitTime={_time(submitted)} StartTime=Unknown EndTime=Unknown NumNodes=1"
        f" ReqTRES=cpu=8,gres/gpu={gpus},gres/gpu:{kind}={gpus} MinCPUsNode=1 Command=train.sh\n"
    )


def _head(number: int, user: str) -> str:
    return f"JobId={number} JobName=train UserId={user} GroupId=lab(100) MCS_label=N/A"


def _time(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}"
