"""The tabs People, Supply and Health as data: every word and number that is shown, and no markup."""

from __future__ import annotations

from dataclasses import dataclass

from gpumon_static.publish.page.records import IdleRow, Quantity, Since
from gpumon_static.system.command import Command
from gpumon_static.text import DASH


@dataclass(frozen=True, slots=True)
class JobRow:
    address: str
    id: str
    """A dash where it has none."""
    users: tuple[str, ...]
    program: str
    places: tuple[tuple[str, str, str], ...]
    """Host, its short name, and its GPUs: vision-01, 0–3."""
    more_hosts: int
    size: str
    """6 GPUs on 2 hosts"""
    gpus: int
    utilization: Quantity
    memory: Quantity
    since: Since | None
    unused: int = 0
    """Of its GPUs, those that Slurm has given it and where it has no process."""
    ends: Since | None = None


@dataclass(frozen=True, slots=True)
class SupplyLine:
    """A model, or a model in a group, over one period. Shares are texts without the sign: 84."""

    model: str
    group: str
    gpus: int
    busy: str
    held: str
    free: str
    bar: tuple[tuple[str, float], ...]
    """The parts of all the time: busy, held, free, unknown; percent."""
    coverage: str
    none_free: str
    two: str
    four: str
    eight: str
    worst: str
    worst_hour: int | None
    """Of the week, in the zone of the collector; the browser turns it into the reader's."""
    change: str
    idle_days: str
    held_by: str
    verdict: str
    """One word, for its look."""
    words: str
    held_long: str = ""
    """Of the held time: in stretches of `idle_after` or longer; empty where that is not known."""
    queue: str = ""
    """What waits for it in Slurm now, where the words above do not have it."""
    allocated_idle: str = DASH
    """Of the time that Slurm reported on."""
    allocated_days: str = ""
    """4.2 of 30.1 allocated GPU days; empty where no Slurm reported."""


@dataclass(frozen=True, slots=True)
class SupplyTable:
    key: str
    label: str
    note: str
    """What there is of the period, where that is not all of it."""
    summary: str
    """Which models are short, and which are held idle."""
    lines: tuple[SupplyLine, ...]
    group_lines: tuple[SupplyLine, ...]
    more: int
    """Lines that are left out."""

    @property
    def is_slurm(self) -> bool:
        """Whether Slurm reported on any of them."""
        return any(line.allocated_days for line in (*self.lines, *self.group_lines))


@dataclass(frozen=True, slots=True)
class SupplyView:
    tables: tuple[SupplyTable, ...]
    zone: str
    """Of the worst hours."""
    offset_min: int
    """Of that zone, east of UTC."""


@dataclass(frozen=True, slots=True)
class DownRow:
    host: str
    anchor: str
    status: str
    reason: str
    down: str
    """2 h; empty where it is not known."""
    action: str = ""
    """What to do about it."""
    command: Command | None = None
    """To paste on the collector, after the action."""


@dataclass(frozen=True, slots=True)
class FaultLine:
    host: str
    """Or what concerns all of them: the collector, Slurm; then there is no anchor."""
    gpu: str
    """Its index; empty for the whole host."""
    anchor: str
    word: str
    explanation: str
    """What it means."""
    action: str
    """What to do about it."""
    command: Command | None = None
    """To paste, after the action."""


@dataclass(frozen=True, slots=True)
class DriverRow:
    version: str
    cuda: str
    group: str
    hosts: int
    named: str
    names: tuple[str, ...] = ()
    """The same as a list; `more`: how many it leaves out."""
    more: int = 0


@dataclass(frozen=True, slots=True)
class DiskRow:
    host: str
    mount: str
    percent: int
    amount: str


@dataclass(frozen=True, slots=True)
class UpkeepRow:
    """A host that answers, with something to be put right."""

    host: str
    what: str


@dataclass(frozen=True, slots=True)
class EventRow:
    at: str
    """ISO 8601."""
    text: str
    """For readers without JavaScript."""
    kind: str
    host: str
    title: str
    lasted: str = ""
    """Of an outage that is over."""


@dataclass(frozen=True, slots=True)
class AvailabilityRow:
    host: str
    share: str
    percent: float | None
    coverage: str
    up: str = ""
    """The last 30 days as a path, each day one wide; `down`: the same of when it did not answer."""
    down: str = ""


@dataclass(frozen=True, slots=True)
class IdlePerson:
    """What one user, or several together, hold without work."""

    users: tuple[tuple[str, bool], ...]
    holder: str
    """In the place of users, where the page shows no names."""
    gpus: tuple[IdleRow, ...]
    more: int
    number: int
    longest: str
    idle_s: int
    idle: str
    """Of all of them together."""
    message: str
    write: str
    """The address for it; empty where there is none."""


@dataclass(frozen=True, slots=True)
class HealthView:
    down: tuple[DownRow, ...]
    faults: tuple[FaultLine, ...]
    drivers: tuple[DriverRow, ...]
    """Of groups in which they differ."""
    disks: tuple[DiskRow, ...]
    events: tuple[EventRow, ...]
    """The newest; the browser has them all."""
    events_in_all: int
    availability: tuple[AvailabilityRow, ...]
    """The lowest first."""
    always_up: int
    """Hosts that answered all the time, and are left out of these."""
    clocks: tuple[UpkeepRow, ...] = ()
    """That differ from the collector's."""
    probes: tuple[UpkeepRow, ...] = ()
    acknowledged: tuple[UpkeepRow, ...] = ()
    """That are installed, and older than ours."""
    unread: int = 0
    """Hosts that no fetch has asked yet."""
    summary: str = ""
    """What needs attention, in one sentence."""
    hosts_down: int = 0
    listed: int = 0
    """How many hosts that are down and faults there are: all of them, also where a table is cut."""
