"""What the survey decided about a run, as the history keeps it; survey/sightings.py makes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpumon_static.model.states import State

NOBODY = ""
"""In the place of a user: memory or a process that belongs to an unknown user."""
_RECORD, _FIELD, _USER = "\x1e", "\x1f", "\x1d"
"""No text of a reading has control characters."""


class GpuSighting(NamedTuple):
    """A GPU, or a slice of one."""

    number: int
    """The GPU's index."""
    slice: int | None
    state: State
    gpu_state: State
    """Of the whole GPU."""
    is_cut: bool
    """It is the whole of a GPU that is cut into slices."""
    share: float
    """1 for a GPU; for a slice its share of the card, so that slices of a card add up to one."""
    is_offered: bool
    model: str
    """Its short name."""
    users: tuple[str, ...]
    """Empty unless it is taken."""


class HostSighting(NamedTuple):
    """One host in one run."""

    host: str
    at: int
    """Seconds since 1970."""
    group: str
    gpus: Sequence[GpuSighting] | None
    """None: the host did not answer."""
    disks: str = ""
    """As a cell of the CSV, used space in whole percents."""
    disk_percent: int | None = None
    """Of the fullest one."""


class Run(NamedTuple):
    at: int
    """The time of its last host."""
    hosts: Sequence[HostSighting]
    interval_s: int
    """The usual time until the next one."""


def hosts_text(runs: Iterable[Run]) -> str:
    """The fields of sql/seen.sql."""
    return _RECORD.join(
        _FIELD.join(
            (h.host, str(h.at), str(run.at), h.group, h.disks, _number(h.disk_percent), str(run.interval_s))
        )
        for run in runs
        for h in run.hosts
    )


def gpus_text(runs: Iterable[Run]) -> str:
    """The fields of sql/seen_gpus.sql."""
    return _RECORD.join(
        f"{host.host}{_FIELD}{host.at}{_FIELD}{_gpu_text(gpu)}"
        for run in runs
        for host in run.hosts
        for gpu in host.gpus or ()
    )


def _gpu_text(gpu: GpuSighting) -> str:
    users = "".join([_USER + user for user in gpu.users])
    slice_ = -1 if gpu.slice is None else gpu.slice
    return (
        f"{gpu.number}{_FIELD}{slice_}{_FIELD}{gpu.state}{_FIELD}{gpu.gpu_state}{_FIELD}{gpu.is_cut:d}{_FIELD}"
        f"{gpu.share}{_FIELD}{gpu.is_offered:d}{_FIELD}{gpu.model}{_FIELD}{users}"
    )


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
