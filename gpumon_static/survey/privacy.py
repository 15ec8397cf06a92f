"""How much a page shows about users: names, pseudonyms that stay the same, or only counts.

The tier is applied to readings before anything is built from them: no later step has more than its page
may show.
What each text is:

    text                        names        pseudonyms                 counts
    user, uid                   as it is     a pseudonym                a number, for counting only
    process name                as it is     the program, no names      none
    pid                         as it is     as it is                   none
    when a process started      as it is     as it is                   none
    its memory                  as it is     as it is                   an equal share, rounded
    its state, compute units    as it is     as it is                   only if it has ended or rests
    job, command line           as it is     none                       none
    owner of a Slurm job        as it is     a pseudonym                a number, for counting only
    id, name of a Slurm job     as it is     none                       none
    when it started, ends       as it is     as it is                   none, rounded up
    its partition and account   as it is     none                       none
    reason of a Slurm node      as it is     none                       none
    error, warning              as it is     a sentence of ours         the same
    note, details of faults     as it is     none                       none
    mount points                as it is     /, disk 2, disk 3          the same
    serial numbers              as it is     none                       none
    models, UUIDs, versions     as it is     as it is                   as it is

Host names, groups and titles are the config's, and on every page as they are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from gpumon_static.model import (
    GONE,
    Allocation,
    Disk,
    Fault,
    Gpu,
    HostReading,
    NodeState,
    Process,
    Status,
)
from gpumon_static.model.facts import declared
from gpumon_static.store.pseudonyms import pseudonym, read_key
from gpumon_static.survey.state import is_at_rest

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config, PageConfig
    from gpumon_static.store.slurm.slurm_file import ClusterReport

SOMEONE = "(name)"
WARNED = "The driver reported a warning."
STEP_MIB, STEP_S = 64, 900
"""To which memory and ends of jobs are rounded on a page with counts."""
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


_HIDDEN: dict[type, dict[str, Any]] = {
    record: {one.name: None for one in declared(record) if one.fact.only_names}
    for record in (HostReading, NodeState, Gpu, Fault, Allocation, Process)
}
"""Fields that are for the tier of names only, by their declaration in model/readings.py."""


class Tier(StrEnum):
    NAMES = "names"
    PSEUDONYMS = "pseudonyms"
    COUNTS = "counts"


def key_for(config: Config, pages: Iterable[PageConfig]) -> bytes:
    """The key of pseudonyms, which is made on first use, where one of the pages needs it."""
    return read_key(config.paths.data) if any(page.users == Tier.PSEUDONYMS for page in pages) else b""


def apply_tier(
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
        return [_on_tier(r, lambda who: pseudonym(who, key), _with_pseudonym(key, clean)) for r in readings]
    number = _numbers()
    return [_only_counts(_on_tier(reading, number, _counted(number))) for reading in readings]


def report_on_tier(report: ClusterReport, tier: Tier) -> ClusterReport:
    """How a Slurm answered, as a page of this tier may show it."""
    if tier is Tier.NAMES:
        return report
    return replace(report, error=REASONS.get(report.status), note=None)


def _on_tier(
    reading: HostReading, called: Callable[[str], str], hide: Callable[[Process], Process]
) -> HostReading:
    disks = tuple(_without_path(disk, number) for number, disk in enumerate(reading.machine.disks, start=1))
    return replace(
        reading,
        gpus=tuple(_without_details(gpu, called).with_processes(hide) for gpu in reading.gpus),
        machine=replace(reading.machine, disks=disks),
        error=REASONS.get(reading.status),
        warning=WARNED if reading.warning else None,
        node=replace(reading.node, **_HIDDEN[NodeState]),
        **_HIDDEN[HostReading],
    )


def _without_details(gpu: Gpu, called: Callable[[str], str]) -> Gpu:
    """`called`: what stands for a login."""
    given = gpu.allocation
    return replace(
        gpu,
        faults=tuple(replace(fault, **_HIDDEN[Fault]) for fault in gpu.faults),
        allocation=replace(given, user=called(given.user) if given.user else None, **_HIDDEN[Allocation]),
        **_HIDDEN[Gpu],
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
            name=clean(runs) if runs else None,
            **_HIDDEN[Process],
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
            elapsed_s=None,
            state=GONE if process.state == GONE else None,
            # Whether a GPU at 100 % is stuck goes by that, and by nothing finer.
            compute_units=0 if is_at_rest(process) else None,
            name=None,
            **_HIDDEN[Process],
        )

    return hide


def _only_counts(reading: HostReading) -> HostReading:
    """Without what a user of the host could find again with ps, nvidia-smi or squeue, and so whose it is."""
    return replace(reading, gpus=tuple(map(_evened, reading.gpus)))


def _evened(gpu: Gpu) -> Gpu:
    given = gpu.allocation
    ends_at = given.ends_at and _rounded_up(given.ends_at)
    return replace(
        gpu,
        processes=_even(gpu.processes),
        slices=tuple(replace(mig, processes=_even(mig.processes)) for mig in gpu.slices),
        allocation=replace(given, started_at=None, ends_at=ends_at),
    )


def _even(processes: Sequence[Process]) -> tuple[Process, ...]:
    """Each with the same share of the memory. Whether a GPU is free goes by the sums, which stay."""
    held: dict[tuple[bool, bool], list[float]] = {}
    for process in processes:
        if process.memory_mib is not None:
            held.setdefault(_kind(process), []).append(process.memory_mib)
    shares = {
        kind: round(STEP_MIB * round(sum(all_of_it) / STEP_MIB) / len(all_of_it), 1)
        for kind, all_of_it in held.items()
    }
    return tuple(p if p.memory_mib is None else replace(p, memory_mib=shares[_kind(p)]) for p in processes)


def _kind(process: Process) -> tuple[bool, bool]:
    return process.is_graphics_only, process.state == GONE


def _rounded_up(at: datetime) -> datetime:
    return datetime.fromtimestamp(math.ceil(at.timestamp() / STEP_S) * STEP_S, UTC)


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
