"""How much a page shows about users: names, pseudonyms that stay the same, or only counts.

Readings are veiled before anything is built from them, so that no later step has more than its page may show.
What each text is:

    text                        names        pseudonyms                 counts
    user, uid                   as it is     a pseudonym                a number, for counting only
    process name                as it is     the program, no names      none
    pid                         as it is     as it is                   none
    job, command line           as it is     none                       none
    owner of a Slurm job        as it is     a pseudonym                a number, for counting only
    id, name of a Slurm job     as it is     none                       none
    its partition and account   as it is     none                       none
    reason of a Slurm node      as it is     none                       none
    error, warning              as it is     a sentence of ours         the same
    note, details of faults     as it is     none                       none
    mount points                as it is     /, disk 2, disk 3          the same
    models, UUIDs, versions     as it is     as it is                   as it is

Host names, groups and titles are the config's, and on every page as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from gpumon_static.model import Disk, Gpu, HostReading, Process, Status
from gpumon_static.survey.pseudonyms import pseudonym

if TYPE_CHECKING:
    from gpumon_static.store.slurm.slurm_file import ClusterReport

SOMEONE = "(name)"
WARNED = "The driver reported a warning."
DISTINCT_LETTERS = 4
"""A login of fewer letters is part of many words, and is found as a word of its own only."""

REASONS = {
    Status.DNS: "The host name could not be resolved.",
    Status.UNREACHABLE: "There is no route to the host.",
    Status.REFUSED: "The host refused the connection.",
    Status.TIMEOUT: "The host did not answer in time.",
    Status.HOST_KEY: "The host's SSH key is unknown or has changed.",
    Status.AUTH: "The login was refused.",
    Status.NO_SHELL: "The host answered, and has no POSIX shell.",
    Status.NO_NVIDIA_SMI: "There is no nvidia-smi on the host.",
    Status.NO_GPU_TOOL: "The host has no GPU with a driver for computing.",
    Status.DRIVER: "The GPU driver does not answer.",
    Status.NO_GPUS: "The host answered, and listed no GPU.",
    Status.BAD_OUTPUT: "The host's answer could not be read.",
    Status.ERROR: "The host could not be read.",
}
"""Why a host has no readings, on a page without names: its own line may hold logins, paths and keys."""


class Tier(StrEnum):
    NAMES = "names"
    PSEUDONYMS = "pseudonyms"
    COUNTS = "counts"


def veil(
    readings: Sequence[HostReading], tier: Tier, key: bytes, other_names: Iterable[str] = ()
) -> list[HostReading]:
    """The readings as a page of this tier may show them."""
    if tier is Tier.NAMES:
        return list(readings)
    gpus = [gpu for reading in readings for gpu in reading.gpus]
    logins = {p.user for gpu in gpus for p in gpu.all_processes if p.user}
    logins |= {gpu.allocation.user for gpu in gpus if gpu.allocation.user}
    clean = _scrubber({*logins, *other_names})
    if tier is Tier.PSEUDONYMS:
        return [_veiled(r, lambda who: pseudonym(who, key), _with_pseudonym(key, clean)) for r in readings]
    number = _numbers()
    return [_veiled(reading, number, _counted(number)) for reading in readings]


def veil_report(report: ClusterReport, tier: Tier) -> ClusterReport:
    """How a Slurm answered, as a page of this tier may show it."""
    if tier is Tier.NAMES:
        return report
    return replace(report, error=REASONS.get(report.status), note=None)


def _veiled(
    reading: HostReading, called: Callable[[str], str], hide: Callable[[Process], Process]
) -> HostReading:
    disks = tuple(_without_path(disk, number) for number, disk in enumerate(reading.machine.disks, start=1))
    return replace(
        reading,
        gpus=tuple(_without_details(gpu, called).with_processes(hide) for gpu in reading.gpus),
        machine=replace(reading.machine, disks=disks),
        error=REASONS.get(reading.status),
        warning=WARNED if reading.warning else None,
        note=None,
        node=replace(reading.node, reason=None),
    )


def _without_details(gpu: Gpu, called: Callable[[str], str]) -> Gpu:
    """`called`: what stands for a login."""
    given = gpu.allocation
    return replace(
        gpu,
        faults=tuple(replace(fault, detail=None) for fault in gpu.faults),
        allocation=replace(
            given,
            job=None,
            job_name=None,
            user=called(given.user) if given.user else None,
            partition=None,
            account=None,
        ),
    )


def _without_path(disk: Disk, number: int) -> Disk:
    """/home/alice is a name as well. The number keeps the disks of a host apart."""
    return disk if disk.mount == "/" else replace(disk, mount=f"disk {number}")


def _with_pseudonym(key: bytes, clean: Callable[[str], str]) -> Callable[[Process], Process]:
    """Hide who runs a process. Paths, arguments and jobs may contain logins: only the program is left."""

    def hide(process: Process) -> Process:
        who, runs = _identity(process), program(process)
        return replace(
            process,
            user=pseudonym(who, key) if who else None,
            uid=None,
            name=clean(runs) if runs else None,
            job=None,
            command_line=None,
        )

    return hide


def program(process: Process) -> str | None:
    """The name of the file that it runs, without directories and arguments."""
    words = process.name.split() if process.name else []
    return words[0].rpartition("/")[2] or None if words else None


def _numbers() -> Callable[[str], str]:
    """Users to numbers, so that the same one is counted once; no page shows the numbers."""
    numbers: dict[str, int] = {}
    return lambda who: str(numbers.setdefault(who, len(numbers) + 1))


def _counted(number: Callable[[str], str]) -> Callable[[Process], Process]:
    def hide(process: Process) -> Process:
        who = _identity(process)
        return replace(
            process,
            pid=0,
            user=number(who) if who else None,
            uid=None,
            name=None,
            job=None,
            command_line=None,
        )

    return hide


def _identity(process: Process) -> str | None:
    return process.user or (f"uid {process.uid}" if process.uid is not None else None)


def _scrubber(names: Iterable[str]) -> Callable[[str], str]:
    listed = sorted((name for name in names if len(name) > 1), key=len, reverse=True)
    if not listed:
        return lambda text: text
    pattern = re.compile("|".join(map(_pattern, listed)), re.IGNORECASE)
    return cache(lambda text: pattern.sub(SOMEONE, text))


def _pattern(name: str) -> str:
    found = re.escape(name)
    return found if len(name) >= DISTINCT_LETTERS else rf"(?<![^\W_]){found}(?![^\W_])"
