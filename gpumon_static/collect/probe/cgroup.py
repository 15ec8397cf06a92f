"""What a process belongs to, by its cgroups: a job of Slurm, a container, a pod, the login of a user.

    1234/cgroup:0::/system.slice/slurmstepd.scope/job_123/step_0/user/task_0           slurm:123
    1234/cgroup:4:memory:/slurm/uid_1000/job_123/step_0                                slurm:123, of uid 1000
    1234/cgroup:0::/system.slice/docker-3f2a....scope                                  docker:3f2a90c3e7d5
    1234/cgroup:0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod4c1e_....slice/...
    1234/cgroup:0::/user.slice/user-1000.slice/session-3.scope                         of uid 1000

Many of these are names that a user can choose, so what is found is a label, and nothing is granted by it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gpumon_static.collect.values import lines
from gpumon_static.text import one_line

MOST_LINES = 50_000
"""2,000 processes with a dozen groups each, twice."""
LONGEST_PATH = 4096
LONGEST_NAME = 64

_LINE = re.compile(r"^(\d{1,10})/cgroup:\d*:[^:]*:(/.*)$")
_ID = r"([0-9a-f]{12})[0-9a-f]{52}"
_UID = r"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}"

# Where something is called so, what stands below it counts. Apart from it, because one pattern for both
# tries each place of the one with each place of the other.
_SLURM = re.compile("slurm")
_DOCKER = re.compile("docker[-/]")

# The outermost counts most: a container inside a Slurm job is that job's, one in a pod that pod's.
_JOBS = (
    ("slurm", _SLURM, re.compile(r"/job_(\d{1,20})(?:/|$)")),
    ("pod", None, re.compile(rf"(?:^|[/-])pod({_UID})(?:\.slice|[/:]|$)")),
    ("podman", None, re.compile(rf"libpod-(?:conmon-)?{_ID}")),
    ("docker", _DOCKER, re.compile(rf"(?:docker-|/){_ID}")),
    ("containerd", None, re.compile(rf"(?:nerdctl|cri-containerd)[-:]{_ID}")),
    ("crio", None, re.compile(rf"crio[-:](?:conmon-)?{_ID}")),
    ("lxc", None, re.compile(r"/lxc(?:\.payload)?[./](?!monitor)([^/]+)")),
    # Docker with a cgroup parent of its own, ECS, and what else names a group by the container alone.
    ("docker", None, re.compile(rf"/{_ID}(?:/|$)")),
)
_SLURM_USER = re.compile(r"/uid_(\d{1,10})/")
_LOGIN = re.compile(r"/user-(\d{1,10})\.slice(?:/|$)")


@dataclass(frozen=True, slots=True)
class Belonging:
    job: str | None = None
    uid: int | None = None
    """Of the user, also where the process is root in a container."""


def parse(text: str) -> dict[int, Belonging]:
    paths: dict[int, dict[str, None]] = {}
    for line in lines(text, MOST_LINES):
        if match := _LINE.match(line):
            paths.setdefault(int(match[1]), {})[match[2][:LONGEST_PATH]] = None
    return {pid: belonging(mine) for pid, mine in paths.items()}


def belonging(paths: Collection[str]) -> Belonging:
    """From all the groups of a process: cgroup v1 has one for each resource, and not all of them have it."""
    found = ((kind, _tidy(_named(paths, below, form))) for kind, below, form in _JOBS)
    job = next((f"{kind}:{name}" for kind, name in found if name), None)
    person = _named(paths, _SLURM, _SLURM_USER) or _named(paths, None, _LOGIN)
    return Belonging(job, int(person) if person else None)


def _named(paths: Iterable[str], below: re.Pattern[str] | None, form: re.Pattern[str]) -> str | None:
    for path in paths:
        above = below.search(path) if below else None
        if below is None or above:
            match = form.search(path, above.start() if above else 0)
            if match:
                return str(match[1])
    return None


def _tidy(name: str | None) -> str:
    """systemd writes the dashes of a pod's uid as underscores."""
    plain = name.replace("_", "-") if name and re.fullmatch(_UID, name) else name
    return (one_line(plain) or "")[:LONGEST_NAME].rstrip()
