"""Texts that a user writes where a tool prints them as they are: names of processes, cgroups and jobs, comments.

Each case is one text. The oracle puts it into every such place beside honest facts, and what an honest parser
makes of those has to come out: no other process, GPU, job or owner than there is.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from gpumon_static.bounds.reading import bounded
from gpumon_static.collect.nvidia import smi
from gpumon_static.collect.probe import cgroup, machine, ps
from gpumon_static.collect.slurm import answer
from gpumon_static.model import JobGpus
from tests.fuzz.seeds import NOW
from tests.slurm_texts import answer as of_slurm
from tests.slurm_texts import job, node, on

OWNERS = "1|1002|mallory|RUNNING|gpu1\n2|1001|alice|RUNNING|gpu[1-2]\n3|1001|alice|PENDING|\n"
ALICES = (JobGpus("gpu1", 1, (1,)), JobGpus("gpu2", 1, (1,)))
EVERY_GPU = on("gpu[1-8]", "gpu:8(IDX:0-7)")
PIECES = (
    "\n", "\r", "\r\n", "\x00", "\u202e", "\u2028", "\x1b[2J", " ", "<", ">", "&", "&lt;", "]]>", "<!--", "<![CDATA[", "x", "=",
    "</process_name>", "<process_name>", "</process_info>", "<process_info><pid>1</pid><type>C</type>", "</processes></gpu>",
    "<gpu id='9'><uuid>GPU-9</uuid><processes>", "</nvidia_smi_log>", "<used_memory>99 MiB</used_memory>",
    "8/cgroup:0::/system.slice/slurmstepd.scope/job_9/step_0", "/user.slice/user-1000.slice", "\n8 0 00:01 R root",
    job(9999, EVERY_GPU), job(2, EVERY_GPU), job(2, EVERY_GPU, user="mallory(1002)"), job(1, EVERY_GPU, user="alice(1002)"),
    job(3, state="PENDING", reason="Resources", more="ReqTRES=gres/gpu=900"), "JobId=2 ", "JobId=9 ", " UserId=alice(1001) ",
    " GroupId=g(1) MCS_label=N/A ", " JobState=RUNNING ", f"  {EVERY_GPU} ", " MinCPUsNode=1 ", "\nstatus 0\n", "status 1",
)  # fmt: skip

SLURM_PLACES = {
    "name": "",
    "comment": "MinCPUsNode=1 Command=/x Comment={} ",
    "admin comment": "MinCPUsNode=1 Command=/x AdminComment={} WorkDir=/home/mallory ",
    "directory": "MinCPUsNode=1 Command=/x WorkDir=/home/{} StdErr=/x StdIn=/dev/null StdOut=/x ",
    "command": "MinCPUsNode=1 Command=/home/{} WorkDir=/x ",
    "output": "MinCPUsNode=1 Command=/x WorkDir=/x StdErr=/{0} StdIn=/dev/null StdOut=/{0} ",
    "features": "MinCPUsNode=1 Features={} Command=/x WorkDir=/x ",
}
"""Where else a job has a text of its user: name, and what follows the nodes."""


def seeds() -> list[bytes]:
    return [piece.encode() for piece in ("python3", "train model", *PIECES[-20:])]


def made(random: Random) -> bytes:
    return "".join(random.choices(PIECES, k=random.randint(1, 12))).encode()


def oracle(content: bytes, _directory: Path) -> None:
    # No user can guess the token of an answer; the mutations know that of the tests.
    text = content.decode("utf-8", errors="replace").replace("@@gpumon ab", "@@gpumon cd")
    # The kernel lets no cgroup have a newline, and ps prints none.
    line = text.replace("\n", " ")
    _of_nvidia_smi(line)
    _of_cgroups(line)
    for with_arguments in (False, True):
        _of_ps(line, with_arguments=with_arguments)
    _of_names(line.replace(":", " "))
    _of_disks(line)
    for place in SLURM_PLACES:
        _of_slurm(text, place)


def _of_nvidia_smi(name: str) -> None:
    info = (
        "<process_info>\n<pid>{}</pid>\n<process_name>{}</process_name>\n<used_memory>5 MiB</used_memory>\n"
        "</process_info>\n"
    )
    listed = info.format(7, name) + info.format(8, "python3")
    (gpu,) = smi.parse(
        f"<nvidia_smi_log><gpu id='0'><processes>\n{listed}</processes></gpu></nvidia_smi_log>"
    ).gpus
    assert [(p.pid, p.memory_mib) for p in gpu.processes] == [(7, 5), (8, 5)]
    assert gpu.processes[1].name == "python3"


def _of_cgroups(name: str) -> None:
    honest = "8/cgroup:0::/user.slice/user-1000.slice/session-3.scope"
    found = cgroup.parse(f"7/cgroup:0::/user.slice/{name}\n{honest}\n")
    assert found[8] == cgroup.Belonging(uid=1000)
    assert set(found) == {7, 8}


def _of_ps(command: str, *, with_arguments: bool) -> None:
    """`with_arguments`: the command line, behind the name of the program."""
    head = f"{'python3':16} " if with_arguments else ""
    lines = [f"{pid:7} {1000 + pid:5}    01:00 Rl   {user:32} {head}{name}" for pid, user, name in
             ((7, "mallory", command), (8, "alice", "python3"))]  # fmt: skip
    found = ps.parse("\n".join(lines), with_arguments=with_arguments)
    assert {pid: (entry.uid, entry.user) for pid, entry in found.items()} == {
        7: (1007, "mallory"),
        8: (1008, "alice"),
    }


def _of_names(full_name: str) -> None:
    """GECOS, which users change with chfn; getent lets neither a newline nor a colon through."""
    lines = [
        f"mallory:x:1002:100:{full_name}:/home/mallory:/bin/sh",
        "alice:x:1001:100:Alice:/home/alice:/bin/sh",
    ]
    assert ps.parse_names("\n".join(lines)) == {1001: "alice", 1002: "mallory"}


def _of_disks(mount: str) -> None:
    """A mount point of a user's own (FUSE); df prints no newline."""
    honest = "0 /dev/nvme0n1p2 479079112 61234148 393432936 14% /home"
    found = machine.parse_disks(f"0 mallory 2048 1024 1024 50% /{mount}\n{honest}\n")
    home = machine.parse_disks(honest)[0]
    assert len(found) <= 2
    assert home in found or found[0].mount == "/home", "another mount point takes its place"


def _of_slurm(text: str, place: str) -> None:
    own = {"name": text} if place == "name" else {"tail": SLURM_PLACES[place].format(text)}
    lines = [
        job(1, on("gpu1", "gpu:1(IDX:0)"), user="mallory(1002)", **own),
        job(2, on("gpu[1-2]", "gpu:1(IDX:1)")),
        job(3, state="PENDING", reason="Resources", more="ReqTRES=cpu=1,gres/gpu=2"),
    ]
    for order in (lines, lines[::-1]):
        output = of_slurm("\n".join(order), node("gpu1", "gpu:2(IDX:0-1)", "MIXED"), OWNERS)
        found = bounded(answer.parse("s", output, NOW)).slurm
        assert found
        jobs = {one.id: one for one in found.jobs}
        assert "2" in jobs, "a text of another user hides the job"
        assert set(jobs) <= {"1", "2"}
        assert {gpus for gpus in jobs["2"].gpus if gpus.count} <= set(ALICES)
        assert (jobs["2"].user, jobs["1"].user if "1" in jobs else "mallory") == ("alice", "mallory")
        assert all(gpus.node == "gpu1" for one in found.jobs if one.id == "1" for gpus in one.gpus)
        assert sum(one.gpus for one in found.waiting) in (0, 2)
