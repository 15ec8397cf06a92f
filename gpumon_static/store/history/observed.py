"""What a run saw of each GPU and slice, as the history keeps it; survey/sightings.py makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

NOBODY = ""
"""In the place of a user: memory or a process that belongs to an unknown user."""

FREE, BUSY, HELD, UNKNOWN, DOWN, MISSED = range(6)
"""States as numbers. DOWN: the host did not answer. MISSED: there was no run; only spans have it."""

TAKEN = (BUSY, HELD)


class Values(NamedTuple):
    """What is measured of a GPU, rounded: percent, MiB, °C, W."""

    utilization: int | None = None
    memory: int | None = None
    temperature: int | None = None
    power: int | None = None


class Observed(NamedTuple):
    uuid: str | None
    position: int
    """The GPU's index."""
    slice: int | None
    model: str
    profile: str
    """Of a slice; empty for a whole GPU."""
    weight: float
    state: int
    users: tuple[str, ...]
    """Empty unless it is taken."""
    values: Values
    memory_total: int | None
    allocated_to: str | None = None
    """The owner of the Slurm job that has it; empty: an unknown one; None: no job is known to have it."""
    is_told: bool = False
    """Slurm reports whether a job has it."""


class MachineValues(NamedTuple):
    """What is measured of a host beside its GPUs, rounded."""

    cpu: int | None = None
    """Percent, as the next two."""
    ram: int | None = None
    disk: int | None = None
    """The fullest one."""
    load: int | None = None
    """Of one minute, in tenths."""


class HostSighting(NamedTuple):
    """One host in one run."""

    host: str
    at: int
    """Seconds since 1970."""
    gpus: Sequence[Observed] | None
    """None: the host did not answer."""
    machine: MachineValues = MachineValues()
