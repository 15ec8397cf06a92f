"""Our own limits, read before the hosts are asked: how many at once there is room for.

`ulimit -n`, `-u` and `-v` of the collector must not look like faults of its hosts.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpumon_static.config.settings import HostConfig

MIB = 1 << 20
STACK_BYTES = 2 * MIB
"""Of a thread; the usual 8 MiB of each are a quarter of a small limit."""


@dataclass(frozen=True)
class Cost:
    files: int
    tasks: int
    """Processes and threads."""
    memory: int
    """Bytes of address space."""


PER_HOST = {
    # Our thread, paramiko's, and a timer during the handshake.
    "paramiko": Cost(3, 3, 3 * STACK_BYTES),
    # A pipe for each stream; ssh, and a ProxyJump of its own.
    "openssh": Cost(5, 3, STACK_BYTES),
    # The probe runs several programs at once.
    "local": Cost(5, 8, STACK_BYTES),
}
BESIDE = Cost(12, 6, 64 * MIB)
"""For all hosts together: known_hosts, keys, a jump host, one answer that is being read."""
OF_A_WORKER = Cost(8, 4, 128 * MIB)
"""What a worker process has in use before it asks a host."""


@dataclass(frozen=True)
class Limit:
    name: str
    words: str
    option: str
    """Of the shell's ulimit."""
    setting: str
    """Of a systemd unit."""
    kind: int
    unit: int = 1
    """That of the option, in bytes."""

    @property
    def value(self) -> int | None:
        most, _ = resource.getrlimit(self.kind)
        # The system does not count what root starts.
        is_counted = self.kind != resource.RLIMIT_NPROC or os.geteuid() != 0
        return most if most != resource.RLIM_INFINITY and is_counted else None


LIMITS = (
    Limit("files", "open files", "-n", "LimitNOFILE", resource.RLIMIT_NOFILE),
    Limit("tasks", "processes and threads", "-u", "LimitNPROC", resource.RLIMIT_NPROC),
    Limit("memory", "memory", "-v", "LimitAS", resource.RLIMIT_AS, 1024),
)


@dataclass(frozen=True)
class Capacity:
    workers: int
    """Hosts at once."""
    line: str | None = None
    """The limit that leaves no room for more."""
    fix: str | None = None


def room(hosts: Iterable[HostConfig], wanted: int, used: Cost, processes: int = 1) -> Capacity:
    """How many of the hosts can be asked at once by a process that has this much in use.

    `wanted`: as many as the config allows it. `processes`: those that share what a user may start.
    """
    costs = [PER_HOST[transport] for transport in {host.transport for host in hosts}] or [Cost(1, 1, 1)]
    found = Capacity(wanted)
    for limit in LIMITS:
        most = limit.value
        if most is None:
            continue
        cost = max(getattr(one, limit.name) for one in costs)
        taken = getattr(used, limit.name) + getattr(BESIDE, limit.name)
        sharing = processes if limit.name == "tasks" else 1
        fitting = max(1, (most - taken) // (cost * sharing))
        if fitting < found.workers:
            found = Capacity(fitting, *_words(limit, most, taken + wanted * cost * sharing, fitting))
    return found


def _words(limit: Limit, most: int, needed: int, fitting: int) -> tuple[str, str]:
    unit = " kB" if limit.unit > 1 else ""
    line = (
        f"the limit of {limit.words} is {most // limit.unit}{unit} (ulimit {limit.option}):"
        f" {fitting} at a time are asked"
    )
    wanted = -(-needed // limit.unit)
    in_unit = f"{limit.setting}={wanted}{'K' if limit.unit > 1 else ''}"
    return line, f"ulimit {limit.option} {wanted}, in a systemd unit {in_unit}; or lower workers in [fetch]"


def in_use() -> Cost:
    """Of this process; tasks are those of all processes of its user."""
    files, memory = OF_A_WORKER.files, OF_A_WORKER.memory
    with suppress(OSError):
        files = sum(1 for _ in Path("/proc/self/fd").iterdir())
    with suppress(OSError, ValueError):
        memory = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return Cost(files, _tasks_of_user(), memory)


def _tasks_of_user() -> int:
    count = 0
    if LIMITS[1].value is not None:
        for directory in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if directory.stat().st_uid == os.getuid():
                    count += sum(1 for _ in (directory / "task").iterdir())
    return count


NO_THREAD = "no more threads can be started on the collector"
_ERRORS = {
    errno.EMFILE: "too many open files on the collector",
    errno.ENFILE: "too many open files on the collector",
    errno.EAGAIN: "no more processes can be started on the collector",
    errno.ENOMEM: "no more memory on the collector",
}


def own_limit(error: BaseException | None) -> str | None:
    """The limit of ours that is behind an error, however it was wrapped; None: it is another."""
    while error:
        if isinstance(error, OSError) and error.errno in _ERRORS:
            return _ERRORS[error.errno]
        # All that the module threading reports of it.
        if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
            return NO_THREAD
        error = error.__cause__ or error.__context__
    return None
