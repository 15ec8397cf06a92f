"""What a process belongs to, by its cgroups: a job of Slurm, a container, a pod, the login of a person.

    1234/cgroup:0::/system.slice/slurmstepd.scope/job_123/step_0/user/task_0           slurm:123
    1234/cgroup:4:memory:/slurm/uid_1000/job_123/step_0                                slurm:123, of uid 1000
    1234/cgroup:0::/system.slice/docker-3f2a....scope                                  docker:3f2a90c3e7d5
    1234/cgroup:0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod4c1e_....slice/...
    1234/cgroup:0::/user.slice/user-1000.slice/session-3.scope                         of uid 1000

Many of these are names that a user can choose, so what is found is a label and never a right to anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_LINE = re.compile(r"^(\d+)/cgroup:\d*:[^:]*:(/.*)$")
_ID = r"([0-9a-f]{12})[0-9a-f]{52}"
_UID = r"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}"

# The outermost counts most: a container inside a Slurm job is that job's, one in a pod that pod's.
_JOBS = (
    ("slurm", re.compile(r"slurm[^/]*/(?:[^/]+/)*?job_(\d+)(?:/|$)")),
    ("pod", re.compile(rf"(?:^|[/-])pod({_UID})(?:\.slice|[/:]|$)")),
    ("podman", re.compile(rf"libpod-(?:conmon-)?{_ID}")),
    ("docker", re.compile(rf"docker[-/](?:[^/]+/)*?{_ID}")),
    ("containerd", re.compile(rf"(?:nerdctl|cri-containerd)[-:]{_ID}")),
    ("crio", re.compile(rf"crio[-:](?:conmon-)?{_ID}")),
    ("lxc", re.compile(r"/lxc(?:\.payload)?[./](?!monitor)([^/]+)")),
    # Docker with a cgroup parent of its own, ECS, and what else names a group by the container alone.
    ("docker", re.compile(rf"/{_ID}(?:/|$)")),
)
_SLURM_USER = re.compile(r"slurm[^/]*/(?:[^/]+/)*?uid_(\d{1,10})/")
_LOGIN = re.compile(r"/user-(\d{1,10})\.slice(?:/|$)")


@dataclass(frozen=True)
class Belonging:
    job: str | None = None
    uid: int | None = None
    """Of the person, also where the process is root in a container."""


def parse(text: str) -> dict[int, Belonging]:
    paths: dict[int, list[str]] = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            paths.setdefault(int(match[1]), []).append(match[2])
    return {pid: belonging(mine) for pid, mine in paths.items()}


def belonging(paths: Iterable[str]) -> Belonging:
    """From all the groups of a process: cgroup v1 has one for each resource, and not all of them tell."""
    every = "\n".join(paths)
    job = next((f"{kind}:{_tidy(match[1])}" for kind, form in _JOBS if (match := form.search(every))), None)
    person = _SLURM_USER.search(every) or _LOGIN.search(every)
    return Belonging(job, int(person[1]) if person else None)


def _tidy(name: str) -> str:
    """systemd writes the dashes of a pod's uid as underscores."""
    return name.replace("_", "-")[:64] if re.fullmatch(_UID, name) else name[:64]
