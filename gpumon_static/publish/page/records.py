"""The page as data: every word and number that is shown, and no markup.

`build_page` in view.py makes it, the templates only put it into HTML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2s
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpumon_static.publish.page.thing_records import HealthView, JobRow, SupplyView

WIDEST = 8
"""Columns of the page on the widest screen; page.css knows it too."""


class Kind(StrEnum):
    """How a card looks: its colour, icon and border."""

    FREE = "free"
    BUSY = "busy"
    HELD = "held"
    UNKNOWN = "unknown"
    FAILED = "failed"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Quantity:
    number: str
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.number} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Moment:
    iso: str
    text: str
    """For readers; the browser adds the age."""
    is_old: bool


@dataclass(frozen=True, slots=True)
class Bar:
    percent: int | None
    """Of the bar that is filled; None is an empty, dashed bar."""
    quantity: Quantity


@dataclass(frozen=True, slots=True)
class Fact:
    label: str
    value: str
    can_copy: bool = False


@dataclass(frozen=True, slots=True)
class UserRow:
    name: str
    is_name: bool
    """False for words of ours in the place of a name, such as "ended process"."""
    memory: Quantity
    processes: str


@dataclass(frozen=True, slots=True)
class ProcessRow:
    pid: int
    user: str
    is_name: bool
    name: str
    memory: Quantity
    runtime: str
    job: str | None
    is_gone: bool
    command_line: str | None = None


@dataclass(frozen=True, slots=True)
class FaultRow:
    """A rule of health that this GPU does not pass."""

    word: str
    detail: str
    explanation: str
    is_fault: bool
    """False for a notice: nothing is broken."""


@dataclass(frozen=True, slots=True)
class Tooltip:
    title: str
    model: str
    users: tuple[UserRow, ...]
    more_users: int
    processes: tuple[ProcessRow, ...]
    more_processes: int
    no_processes: str | None
    """The sentence in the place of an empty list."""
    facts: tuple[Fact, ...]
    faults: tuple[FaultRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Holder:
    """The last line of a card: who has it, and since when."""

    text: str
    is_name: bool
    more: str
    runtime: str
    is_unused: bool = False
    """Nothing runs there, and the words only say so."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """What the browser needs of a card to search, sort and pick; bare, where `Card` has the words."""

    utilization: float | None
    used_mib: float | None
    total_mib: float | None
    owners: tuple[str, ...]
    runtime_s: int | None
    temperature_c: float | None
    power_w: float | None
    device: str | None
    """What stands for it in `environment`, where that is not its index: the UUID of a slice."""
    environment: str
    """What chooses devices for a program, and differs by vendor: an assignment without its value."""
    is_offered: bool
    """Free, healthy, and something can be run on it."""


@dataclass(frozen=True, slots=True)
class Since:
    """The words on a card: idle 9 h, since 09:10."""

    text: str
    iso: str | None = None
    """Where the words are a time of day, which is another one where the reader is."""


@dataclass(frozen=True, slots=True)
class Ribbon:
    """The last 24 hours of a card: for each state a letter and the path of its lines."""

    paths: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class LastCard:
    """A GPU as its host described it before it fell silent."""

    index: str
    model: str
    word: str
    utilization: Bar
    memory: Bar
    holder: str
    age: str
    ribbon: Ribbon


@dataclass(frozen=True, slots=True)
class Card:
    anchor: str
    index: str
    model: str
    kind: Kind
    word: str
    utilization: Bar
    memory: Bar
    holder: Holder
    tooltip: Tooltip
    numbers: Numbers
    fault: str = ""
    """The short word of what is wrong with it."""
    shared: str = ""
    """Whose memory it is, where that is not its own."""
    since: Since | None = None
    ribbon: Ribbon | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """The grey card of a host without GPUs to show."""

    kind: Kind
    word: str
    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class Meter:
    """A bar in a host's header: RAM, CPU, a disk."""

    label: str
    bar: Bar
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """How much of a machine is left beside its GPUs, for the picker; None is not known."""

    ssh_port: int | None = None
    load_per_cpu: float | None = None
    ram_free_mib: int | None = None
    against: tuple[str, ...] = ()
    """Whatever is asked: full disks, faults of the host."""
    behind_s: int = field(default=0, repr=False)
    """Its reading is older than the newest by this; it differs from run to run, and changes no card."""


@dataclass(frozen=True, slots=True)
class HostView:
    anchor: str
    full_name: str
    name: str
    domain: str
    """The rest of a long host name, from its first dot; shown in a lighter tone."""
    group: str | None
    note: str | None
    summary: str
    """2 of 8 free"""
    software: tuple[str, ...]
    machine: tuple[Fact, ...]
    meters: tuple[Meter, ...]
    room: Room
    faults: tuple[str, ...]
    read_at: Moment | None
    """Only where it differs from the time of the page's data."""
    cards: tuple[Card, ...]
    notice: Notice | None
    columns: int
    """How many cards wide the host may become, from 1 to `WIDEST`."""
    reading_note: str | None = None
    """How its reading was made, where that is not as usual: what was left out of it."""
    gpu_faults: tuple[Attention, ...] = ()
    last_cards: tuple[LastCard, ...] = ()
    """Of a host that does not answer; they count nowhere."""

    @property
    def pips(self) -> list[tuple[Kind, int]]:
        """Its GPUs as runs of the same kind, in order: 3 free, 1 busy, 4 free."""
        kinds = [card.kind for card in self.cards] or ([self.notice.kind] if self.notice else [])
        return [(kind, len(list(run))) for kind, run in groupby(kinds)]

    @property
    def digest(self) -> str:
        """Changes when anything of the host does: the browser replaces what has changed."""
        return blake2s(repr(self).encode(errors="replace"), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True)
class ModelCount:
    model: str
    free: int
    total: int
    bar: Bar
    memory: str
    """That of the free ones together: 160 GB free"""


@dataclass(frozen=True, slots=True)
class Person:
    """A row of the users' table."""

    name: str
    is_name: bool
    gpus: int
    memory: Quantity
    memory_mib: float
    processes: int
    where: str
    """node1: 0, 1; node2: 3"""


@dataclass(frozen=True, slots=True)
class People:
    rows: tuple[Person, ...]
    total: Person
    count: int
    """Of those rows that are users: what an ended process holds belongs to none."""


@dataclass(frozen=True, slots=True)
class StateCount:
    kind: Kind
    count: int
    word: str


@dataclass(frozen=True, slots=True)
class Attention:
    anchor: str
    host: str
    text: str


@dataclass(frozen=True, slots=True)
class IdleRow:
    """A GPU that is held without work."""

    host: str
    anchor: str
    index: str
    model: str
    holder: str
    memory: str
    idle: str
    idle_s: int
    message: str | None
    """A polite one, to copy."""


@dataclass(frozen=True, slots=True)
class UsageRow:
    """GPU hours of a user, for the table: in the last 24 hours, 7 and 30 days."""

    name: str
    hours: tuple[float, float, float]
    held: float
    """Of those of the 30 days, held without work."""
    efficiency: Quantity
    ranges: tuple[tuple[float, float, int | None], ...] = ()
    """Of each of the three: hours, of these held without work, efficiency in percent."""


@dataclass(frozen=True, slots=True)
class HistoryView:
    idle: tuple[IdleRow, ...]
    idle_after: str
    usage: tuple[UsageRow, ...]
    summaries: tuple[tuple[str, str], ...]
    """The charts in words: range or model, sentence."""
    data: str
    """JSON for the browser, escaped for a script element."""


@dataclass(frozen=True, slots=True)
class Headline:
    number: str
    """Empty where there is nothing to count."""
    text: str
    hint: str


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    tab_title: str
    headline: Headline
    data_time: Moment | None
    models: tuple[ModelCount, ...]
    tallies: tuple[StateCount, ...]
    attention: tuple[Attention, ...]
    more_attention: tuple[Attention, ...]
    """Folded away, so that a bad day does not push the cards off the screen."""
    hosts: tuple[HostView, ...]
    people: People | None
    """None where the page shows no names."""
    tells_names: bool
    logins: Mapping[str, str]
    """The logins behind shown names, for who searches by theirs."""
    footer: str | None
    made_at: Moment
    is_stale: bool
    """As seen when the page is made; the browser goes on watching."""
    refresh_s: int
    interval_s: int
    stale_after_s: int
    history: HistoryView | None = None
    jobs: tuple[JobRow, ...] = ()
    more_jobs: int = 0
    supply: SupplyView | None = None
    reports: tuple[str, ...] = ()
    """Months, as 2026-10, whose reports are beside the page; the newest first."""
    health: HealthView | None = None
    things: str = "{}"
    """JSON for the panels of the browser, escaped for a script element."""

    @property
    def worries(self) -> int:
        """What needs attention: each host that is down, each fault, and all that is held idle as one."""
        idle = bool(self.history and self.history.idle)
        return len(self.attention) + len(self.more_attention) + idle
