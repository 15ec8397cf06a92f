"""What scontrol prints, in the forms of Slurm 17 to 25, written by hand."""

from __future__ import annotations

import gzip

HEAD = "GroupId=lab(100) MCS_label=N/A Priority=1 Nice=0 Account=vision QOS=normal"
TIMES = "TimeLimit=1-00:00:00 TimeMin=N/A SubmitTime=2025-11-14T08:00:00"
TAIL = "MinCPUsNode=1 MinMemoryNode=0 Features=(null) Command=/home/alice/run.sh WorkDir=/home/alice"


def job(
    number: int = 12345,
    *groups: str,
    name: str = "train",
    user: str = "alice(1001)",
    state: str = "RUNNING",
    reason: str = "None",
    start: str = "2025-11-14T08:30:00",
    end: str = "2025-11-14T14:30:00",
    ids: str = "",
    more: str = "TRES=cpu=8,mem=64G,node=1,billing=8",
    tail: str = TAIL,
) -> str:
    """`groups`: `Nodes=gpu1 CPU_IDs=0-7 Mem=0 GRES=gpu:a100:1(IDX:0)`, one per group of equal nodes."""
    return (
        f"JobId={number} {ids}JobName={name} UserId={user} {HEAD} JobState={state} Reason={reason}"
        f" Dependency=(null) Requeue=1 {TIMES} EligibleTime=2025-11-14T08:00:00 StartTime={start} EndTime={end}"
        f" Deadline=N/A Partition=gpu NodeList=gpu1 NumNodes=1 NumCPUs=8 NumTasks=1 {more} Socks/Node=*"
        f" CoreSpec=* {''.join(f'  {group} ' for group in groups)}{tail} "
    )


def on(nodes: str, gres: str, key: str = "GRES") -> str:
    return f"Nodes={nodes} CPU_IDs=0-7 Mem=0 {key}={gres}"


def node(
    name: str = "gpu1",
    used: str = "gpu:a100:0(IDX:N/A)",
    state: str = "IDLE",
    gres: str = "gpu:a100:2(S:0-1)",
    reason: str = "",
    host_name: str = "",
    more: str = "",
) -> str:
    return (
        f"NodeName={name} Arch=x86_64 CPUTot=64 CPULoad=1.3 Gres={gres} GresDrain=N/A GresUsed={used}"
        f" NodeAddr={name} NodeHostName={host_name or name} Version=23.11.4 OS=Linux 6.1.0 #1 SMP State={state}"
        f" ThreadsPerCore=2 Partitions=gpu CfgTRES=cpu=64,gres/gpu=2 {more}"
        + (f" Reason={reason} [root@2025-11-13T09:55:44]" if reason else "")
    )


def answer(
    jobs: str = "",
    nodes: str = "",
    owners: str | None = None,
    *,
    status: int = 0,
    errors: str = "",
    packed: bool = False,
) -> bytes:
    """What the probe sends when it is asked for Slurm. `owners`: as squeue prints them; not by older probes."""

    def section(name: str, text: str) -> bytes:
        content = f"{text}\nstatus {status}\n".encode()
        if packed:
            return b"\n@@gpumon ab %b-gz\n%b" % (name.encode(), gzip.compress(content))
        return b"\n@@gpumon ab %b\n%b" % (name.encode(), content)

    return (
        b"\n@@gpumon begin 1 ab\n\n@@gpumon ab clock\n1763111400\n"
        + f"\n@@gpumon ab slurm-stderr\n{errors}\n".encode()
        + section("slurm-jobs", jobs)
        + section("slurm-nodes", nodes)
        + (section("slurm-owners", owners) if owners is not None else b"")
        + b"\n@@gpumon ab slurm-version\nslurm 23.11.4\n\n@@gpumon ab end\n"
    )
