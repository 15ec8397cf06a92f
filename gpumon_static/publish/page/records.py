"""The page as data: every word and number that is shown, and no markup.

`build_page` in view.py makes it, the templates only put it into HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar, NamedTuple
from urllib.parse import quote

from gpumon_static.model.states import State
from gpumon_static.text import in_gb, natural_key

if TYPE_CHECKING:
    from gpumon_static.publish.page.tabs.held_day import HeldDay
    from gpumon_static.publish.page.thing_records import HealthView, IdlePerson, JobRow, SupplyView

WIDEST = 8
"""Columns of the page on the widest screen; page.css knows it too."""


MOST_MARKS = 24
"""On the tile of a model; more are a bar."""
MOST_STRIP_LINES, STRIP_PX = 5, 1392
"""Of the strip of hosts, in a window of 1440 pixels; longer, it has a block for each host."""
NAME_PX, MARK_PX, GAP_PX = 7, 11, 22
"""Of a letter of a host's name, of the mark of a GPU, and between hosts."""
MOST_LAID_OUT = 40
MOST_SLICES_ABREAST = 4
"""Seven is the most that a GPU can be cut into; where a host lists more, one scrolls to them."""


def _icon(colour: str, sign: str) -> str:
    svg = (
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>"
        f"<rect width='16' height='16' rx='3.5' fill='{colour}'/>"
        f"<path d='{sign}' fill='none' stroke='#fff' stroke-width='2.4' stroke-linecap='round'/></svg>"
    )
    return f"data:image/svg+xml,{quote(svg, safe='=:/')}"


ICONS = {
    "free": _icon("#1f7a43", "M4 8.5 7 11.5 12 5"),
    "none": _icon("#a5231f", "M4.5 8h7"),
    "unknown": _icon("#6b7278", "M8 4v4.5M8 12v.1"),
}


class Kind(StrEnum):
    """How a card looks: its colour, icon and border. The mark of a state, or of a host that was not asked."""

    FREE = State.FREE.mark
    BUSY = State.BUSY.mark
    HELD = State.HELD.mark
    UNKNOWN = State.UNKNOWN.mark
    FAILED = State.DOWN.mark
    WAITING = "waiting"


KIND_OF = {state: Kind(state.mark) for state in State}

PARTLY = "partly"
"""The mark of a GPU that is cut, and of which some slices are free."""


def _abreast(slices: Sequence[object]) -> int:
    """Columns of the slices of a card, which has two lines for them."""
    return min(-(-len(slices) // 2), MOST_SLICES_ABREAST)


def _levels(utilization: int | None, memory: int | None) -> str:
    return f" u{'x' if utilization is None else utilization} m{'x' if memory is None else memory}"


class Quantity(NamedTuple):
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
    is_ahead: bool = False
    """Of the collector's clock: then it is old, too."""


class Bar(NamedTuple):
    percent: int | None
    """Of the bar that is filled; None is an empty, dashed bar."""
    quantity: Quantity


class Fact(NamedTuple):
    label: str
    value: str
    is_odd: bool = False
    """Other hosts have another value, and it is worth a look."""


class UserRow(NamedTuple):
    name: str
    is_name: bool
    """False for words of ours in the place of a name, such as "unknown user"."""
    memory_mib: int | None
    """Of those of the processes that report it."""
    is_least: bool
    """Some do not."""
    processes: int


class ProcessRow(NamedTuple):
    pid: int
    user: str
    is_name: bool
    name: str
    memory_mib: int | None
    elapsed_s: int | None
    job: str | None
    is_gone: bool
    command_line: str | None = None


class FaultRow(NamedTuple):
    """A rule of health that this GPU does not pass."""

    word: str
    detail: str
    explanation: str
    is_fault: bool
    """False for a notice: nothing is broken."""


class JobFact(NamedTuple):
    """The Slurm job that has a GPU."""

    id: str
    whose: str
    """(train) of jonas"""
    ends_at: int | None
    """At the latest, in seconds since 1970."""

    @property
    def words(self) -> str:
        """8841 (train) of jonas"""
        return " ".join(filter(None, (self.id, self.whose))) or "yes"


class Tooltip(NamedTuple):
    """What the browser cannot work out from the other numbers of a card; details.js makes elements of it."""

    model: str
    users: tuple[UserRow, ...]
    more_users: int
    processes: tuple[ProcessRow, ...]
    more_processes: int
    no_processes: str | None
    """The sentence in the place of an empty list."""
    uuid: str | None
    fan_percent: float | None
    power_limit_w: float | None
    temperature_limit_c: float | None
    facts: tuple[Fact, ...]
    """Only those that few cards have."""
    faults: tuple[FaultRow, ...] = ()
    job: JobFact | None = None


class Holder(NamedTuple):
    """The last line of a card: who has it, and since when."""

    text: str
    is_name: bool
    more: str
    runtime: str
    is_unused: bool = False
    """Nothing runs there, and the words only say so."""
    is_nobody: bool = False
    """The words are in the place of a user."""


class Numbers(NamedTuple):
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
    vendor: str
    """As it writes itself."""
    is_offered: bool
    """Free, healthy, and something can be run on it."""
    ends_at: int | None = None
    """When its Slurm job ends at the latest, in seconds since 1970; only where it can be offered then."""


class Since(NamedTuple):
    """The words on a card: idle 9 h, since 09:10."""

    text: str
    iso: str | None = None
    """Where the words are a time of day, which is another one where the reader is."""


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
    ribbon: str
    profile: str = ""
    """Of a slice."""
    is_cut: ClassVar = False

    @property
    def levels(self) -> str:
        return _levels(self.utilization.percent, self.memory.percent)


@dataclass(frozen=True, slots=True)
class LastCut:
    """A GPU that was cut into slices when its host fell silent."""

    index: str
    model: str
    age: str
    slices: tuple[LastCard, ...]
    is_cut: ClassVar = True

    @property
    def columns(self) -> int:
        return _abreast(self.slices)


@dataclass(frozen=True, slots=True)
class Card:
    anchor: str
    index: str
    model: str
    state: State
    """As users see it."""
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
    ribbon: str = ""
    """The last 24 hours, as runs of slots in one state: f12b40, free for 12, then busy for 40."""
    ends: Since | None = None
    """By when its Slurm job ends at the latest; shown in the place of `since`."""
    profile: str = ""
    """Of a slice: 1g.10gb"""
    since_s: int | None = None
    """How long it has been in its state."""
    is_cut: ClassVar = False

    @property
    def kind(self) -> Kind:
        return KIND_OF[self.state]

    @property
    def word(self) -> str:
        return self.state.word

    @property
    def levels(self) -> str:
        """Its bars as classes, which levels.css gives a width: elements and styles cost more."""
        return _levels(self.utilization.percent, self.memory.percent)

    @property
    def who(self) -> str:
        """Beside the sign of its state: who has it, else the state itself."""
        if self.state.is_taken and not self.holder.is_nobody:
            return f"{self.holder.text} {self.holder.more}".rstrip()
        return self.word

    @property
    def state_words(self) -> str:
        """Its state where a time follows that is not of the state: busy, or idle 13 h."""
        return self.since.text if self.state is State.HELD and self.since else self.word

    @property
    def label(self) -> str:
        """Its name for readers without JavaScript, where a title would be taken for one."""
        number, _, part = self.index.partition(":")
        slot = f"GPU {number} slice {part}" if part else f"GPU {number}"
        return ", ".join(dict.fromkeys((slot, self.model, self.word, self.who)))

    @property
    def clock(self) -> tuple[str, str] | None:
        """The class and the time of the last line, where that is a time of day, for the reader's own zone."""
        if self.ends and self.ends.iso:
            return "ends", self.ends.iso
        return ("since", self.since.iso) if self.since and self.since.iso else None

    @property
    def when(self) -> str:
        """The last line: its state in words, and for how long, since when or until when."""
        if self.ends:
            return f"{self.state_words} · {self.ends.text}"
        if not self.state.is_taken or self.holder.is_nobody:
            return self.since.text if self.since else self.holder.text
        if self.since:
            return f"busy {self.since.text}" if self.since.iso else self.since.text
        return f"{self.word}, {self.holder.runtime}" if self.holder.runtime else self.word

    @property
    def title(self) -> str:
        """Users and memory, for readers without JavaScript; of one user the card itself has both."""
        if len(self.tooltip.users) < 2:
            return ""
        total = self.numbers.total_mib
        users = ", ".join(
            user.name if user.memory_mib is None else f"{user.name} {in_gb(user.memory_mib, total):.1f} GB"
            for user in self.tooltip.users
        )
        return f"{users} + {self.tooltip.more_users} more" if self.tooltip.more_users else users


@dataclass(frozen=True, slots=True)
class CutGpu:
    """The card of a GPU that is cut: its slices are inside."""

    anchor: str
    index: str
    model: str
    utilization: Bar
    memory: Bar
    fault: str
    slices: tuple[Card, ...]
    is_cut: ClassVar = True

    @property
    def summary(self) -> str:
        """2 of 7 free"""
        return f"{sum(card.kind is Kind.FREE for card in self.slices)} of {len(self.slices)} free"

    @property
    def columns(self) -> int:
        return _abreast(self.slices)


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

    @property
    def level(self) -> str:
        return "" if self.bar.percent is None else f" u{self.bar.percent}"


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
    slurm: tuple[str, str] | None = None
    """`gpu:a100` and the node, where programs are started with srun."""


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
    software: tuple[Fact, ...]
    machine: tuple[Fact, ...]
    meters: tuple[Meter, ...]
    room: Room
    faults: tuple[str, ...]
    read_at: Moment | None
    """Only where it differs from the time of the page's data."""
    cards: tuple[Card, ...]
    """One for each GPU, and in the place of one that is cut one for each slice: what is counted and found."""
    boxes: tuple[Card | CutGpu, ...]
    """The same as they stand on the page."""
    notice: Notice | None
    columns: int
    """How many cards wide the host may become, from 1 to `WIDEST`."""
    reading_note: str | None = None
    """How its reading was made, where that is not as usual: what was left out of it."""
    gpu_faults: tuple[Attention, ...] = ()
    last_cards: tuple[LastCard, ...] = ()
    last_boxes: tuple[LastCard | LastCut, ...] = ()
    """The same as they stand on the page: slices in the card of their GPU."""
    """Of a host that does not answer; they count nowhere."""
    page: str = ""
    """The file with its cards, where that is another one; then `kinds` has how they look, and no more."""
    kinds: tuple[Kind, ...] = ()
    marks: tuple[str, ...] = ()
    """One for each GPU, on the strip."""
    unreachable: tuple[str, ...] = ()
    """Of a host that does not answer: the model of each GPU that it has, empty where that is not known."""

    @property
    def facts(self) -> list[Fact]:
        """Of its panel, and for the search: driver 550.90, CUDA 12.4, CPUs 64, RAM 120 / 512 GB."""
        meters = (Fact(meter.label, str(meter.bar.quantity)) for meter in self.meters)
        return [*self.software, *self.machine, *meters]

    @property
    def about(self) -> str:
        """As own templates of 0.1.0 have it."""
        return self.summary

    @property
    def in_short(self) -> str:
        """3 of 8 free, or why there is nothing to count."""
        if self.summary or self.notice:
            return self.summary or (self.notice.word if self.notice else "")
        return self.cards[0].word if self.cards else self.kinds[0]

    def name_in(self, group: str) -> str:
        """vision-01 in the group vision is 01."""
        rest = self.name.removeprefix(f"{group}-")
        return rest if group and rest else self.name

    @property
    def looks(self) -> list[Kind]:
        return [card.kind for card in self.cards] or list(self.kinds)

    @property
    def block(self) -> str:
        """As one mark among a thousand: how much of it is free."""
        kinds = self.looks
        if not kinds:
            return self.notice.kind if self.notice else "waiting"
        return f"u{round(100 * kinds.count(Kind.FREE) / len(kinds))}"

    @property
    def pips(self) -> list[tuple[str, int]]:
        """Its GPUs as runs of the same mark, in order: 3 free, 1 busy, 4 free."""
        marks = self.marks or ([self.notice.kind] if self.notice else [])
        return [(mark, len(list(run))) for mark, run in groupby(marks)]


@dataclass(frozen=True, slots=True)
class ModelCount:
    model: str
    free: int
    total: int
    bar: Bar
    memory: str
    """That of the free ones together: 160 GB free"""

    @property
    def marks(self) -> tuple[tuple[str, int], ...]:
        """One for each GPU, the free ones first; none where there are too many to count them."""
        if self.total > MOST_MARKS:
            return ()
        return tuple(run for run in (("free", self.free), ("rest", self.total - self.free)) if run[1])


@dataclass(frozen=True, slots=True)
class GivenView:
    """What a user's Slurm jobs have."""

    gpus: int
    jobs: str
    """in 2 jobs; empty where it is not known."""
    used: int
    efficiency: Quantity


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
    places: tuple[tuple[str, str, str], ...] = ()
    """The same as parts: host, its short name, and its GPUs."""
    more_hosts: int = 0
    given: GivenView | None = None
    """Where Slurm has given them GPUs."""
    write: str = ""
    """The address to write to them; empty where there is none."""
    day: HeldDay | None = None
    """The last 24 hours."""
    percent: int = 0
    """Of the GPUs of the user who has most."""


@dataclass(frozen=True, slots=True)
class People:
    rows: tuple[Person, ...]
    """All of them; a page shows the first, and has the rest for the browser."""
    total: Person
    count: int
    """Of those rows that are users: what an ended process holds belongs to none."""
    first: tuple[Person, ...] = ()
    rest: tuple[Person, ...] = ()

    @property
    def summary(self) -> str:
        """11 users hold 29 GPUs and slices; yusuf has most, 6."""
        somebody = [row for row in self.rows if row.is_name]
        if not somebody:
            return ""
        many = somebody[0].gpus
        most = [row.name for row in somebody if row.gpus == many]
        who = " and ".join(most) if len(most) < 3 else f"{len(most)} users"
        of_most = (
            f"{who} {'has' if len(most) == 1 else 'have'} most, {many}{'' if len(most) == 1 else ' each'}"
        )
        held = f"{self.count} users hold {self.total.gpus} GPUs"
        return (
            f"{held}; {of_most}."
            if len(somebody) > 1
            else f"{who} holds {many} GPU{'' if many == 1 else 's'}."
        )

    @property
    def left_out(self) -> int:
        return len(self.rows) - len(self.first) - len(self.rest)

    @property
    def is_slurm(self) -> bool:
        return self.total.given is not None


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
    page: str = ""
    """The file with the host, where that is another one."""


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
    looks: str = ""
    """idle at each of 720 looks since Sun 25 Oct 01:10 CET"""
    users: tuple[tuple[str, bool], ...] = ()
    """Who holds it, and whether that is the name of a user; empty where the page shows no names."""


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
    is_name: bool = True
    """False for the words in the place of a user whose name is not known."""


@dataclass(frozen=True, slots=True)
class HistoryView:
    idle: tuple[IdleRow, ...]
    """Longest first."""
    idle_after: str
    usage: tuple[UsageRow, ...]
    summaries: tuple[tuple[str, str], ...]
    """The charts in words: range or model, sentence."""
    data: str
    """JSON for the browser, escaped for a script element."""
    runs: str = ""
    """Of the hours of users: how many runs there were, of how many."""
    idle_people: tuple[IdlePerson, ...] = ()
    """The same by person."""


@dataclass(frozen=True, slots=True)
class Headline:
    number: str
    """Empty where there is nothing to count."""
    text: str
    hint: str
    of: str = ""
    """of 57 GPUs"""
    more: str = ""
    """+ 3 slices"""


@dataclass(frozen=True, slots=True)
class PartRow:
    """A page of its own for some of the hosts, as the overview lists it."""

    file: str
    name: str
    hosts: int
    down: int
    gpus: int
    free: int


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
    no_history: str = ""
    """Why there is none, where that is known."""
    jobs: tuple[JobRow, ...] = ()
    more_jobs: int = 0
    supply: SupplyView | None = None
    reports: tuple[str, ...] = ()
    """Months, as 2026-10, whose reports are beside the page; the newest first."""
    health: HealthView | None = None
    things: str = "{}"
    """JSON for the panels of the browser, escaped for a script element."""
    demand: tuple[str, ...] = ()
    """What is allocated by Slurm and idle, and what its pending jobs wait for, a line per kind of GPU."""
    parts: tuple[PartRow, ...] = ()
    """Of an overview, whose hosts have their cards there."""
    part: str = ""
    """The name of this part of a site."""
    home: str = ""
    """The file of the overview that this page is a part of."""
    data: str = ""
    """JSON in the place of that of data.py, escaped for a script element."""
    url: str = ""
    """Its address, where the config has it."""
    has_gpufree: bool = False

    @property
    def is_long(self) -> bool:
        """So many hosts that a browser should lay out only those on the screen."""
        return len(self.hosts) > MOST_LAID_OUT

    @property
    def is_crowd(self) -> bool:
        """The strip would take too many lines with a name and marks for each host."""
        wide = sum(
            NAME_PX * len(host.name) + MARK_PX * (len(host.marks) or 1) + GAP_PX for host in self.hosts
        )
        return wide > MOST_STRIP_LINES * STRIP_PX

    @property
    def strip(self) -> list[tuple[str, list[HostView]]]:
        """The hosts by group, those without one last."""
        groups: dict[str, list[HostView]] = {}
        for host in self.hosts:
            groups.setdefault(host.group or "", []).append(host)
        return sorted(groups.items(), key=lambda item: (not item[0], natural_key(item[0])))

    @property
    def worries(self) -> int:
        """What needs attention: each host that is down, each fault, and all that is held idle as one."""
        idle = bool(self.history and self.history.idle)
        return (self.health.listed if self.health else 0) + idle

    @property
    def icon(self) -> str:
        """Of the window: green where some are free, red where none are, grey where it is unknown."""
        number = "" if self.is_stale else self.headline.number
        return ICONS["none" if number == "0" else "free" if number else "unknown"]

    @property
    def was_title(self) -> str:
        """Of the tab, once the data is stale."""
        head = self.headline
        headline = f"{head.number} {head.of} were free{head.more}" if head.of else head.text
        return f"{headline} – {self.title}"
