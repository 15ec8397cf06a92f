"""The rows of the page's data for the browser: arrays with the fields of these classes in their order.

Their names are sent once, beside the rows, and scripts read by name: a field is added here, filled in data.py
and used in assets/, and no order is known in two places. past_data.py and things_data.py have their own rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class ModelColumns(NamedTuple):
    short: str
    name: str
    environment: str
    """What chooses devices for a program."""
    vendor: str


class HostColumns(NamedTuple):
    anchor: str
    name: str
    group: str
    note: str
    notice: NoticeColumns | int
    """Why it shows no GPUs, or 0."""
    port: int | None
    """Of SSH, where that is not the usual one."""
    load: float | None
    """Per CPU."""
    ram: int | None
    """Free, MiB."""
    against: tuple[str, ...]
    """Reasons to avoid it."""
    behind: int
    """Seconds that its reading is older than the newest."""
    faults: tuple[str, ...]
    facts: list[tuple[int, str]]
    """Name, by its place, and value, for its panel and the search."""
    gpus: Any
    """Rows; on an overview those of split/overview_data.py."""
    slurm: tuple[str, str] | int = 0
    """What srun's options are made of, only where programs are started so."""
    part: int = 0
    """Of an overview: the page that has its cards."""


class NoticeColumns(NamedTuple):
    kind: str
    word: str
    status: str
    reason: str


class GpuColumns(NamedTuple):
    index: str  # type: ignore[assignment]  # the tuple's own `index` is not used
    kind: int
    model: int
    utilization: int | None
    used: int | None
    """MiB, as `total`."""
    total: int | None
    users: list[int] | int
    """On a page without names, how many there are."""
    runtime: int | None
    """Seconds; 0: that of the one process."""
    temperature: int | None
    power: int | None
    offered: int
    device: str | int
    """What chooses it where that is not the index, as the UUID of a slice; else 0."""
    since: int | None
    """Minutes that it has been in its state."""
    detail: list[Any]


class DetailColumns(NamedTuple):
    uuid: str | None
    """As it is, or, of the usual kind, ~ and its 16 bytes in base64."""
    fan: int | None
    limit: int | None
    """W"""
    slowdown: int | None
    """°C"""
    processes: list[list[Any]] | int
    sentence: str | int | None
    """In the place of processes."""
    facts: list[list[str]] | int
    """Name and value."""
    faults: list[FaultColumns] | int
    more: MoreColumns | int
    """Where not all processes are listed."""
    job: list[Any] | int
    """Of Slurm."""


class ProcessColumns(NamedTuple):
    pid: int
    owner: int
    program: int
    rest: int | str
    """MiB in use on the GPU that it does not have: of a single process a small number. Empty: not known."""
    elapsed: int | None
    job: str | int
    """1: the Slurm job that has the GPU."""
    ended: int
    line: str | int


class FaultColumns(NamedTuple):
    word: str
    detail: str
    explanation: str
    broken: int


class MoreColumns(NamedTuple):
    processes: int
    users: int
    listed: list[UserColumns]


class UserColumns(NamedTuple):
    owner: int
    mib: int | None
    least: int
    """It is at least that."""
    number: int
    """Of processes."""


class JobColumns(NamedTuple):
    id: str
    whose: int
    """Its name and its owner."""
    ends: int | None = None
    """Seconds since 1970."""
    offered: int = 0
    """The GPU is offered then."""


Rows = dict[str, type[NamedTuple]]

ROWS: Rows = {
    "model": ModelColumns,
    "host": HostColumns,
    "notice": NoticeColumns,
    "gpu": GpuColumns,
    "detail": DetailColumns,
    "process": ProcessColumns,
    "fault": FaultColumns,
    "more": MoreColumns,
    "user": UserColumns,
    "job": JobColumns,
}


def columns_of(rows: Rows) -> dict[str, tuple[str, ...]]:
    """Kind of row to the names of its columns."""
    return {kind: row._fields for kind, row in rows.items()}
