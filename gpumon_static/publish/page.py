"""The page as data: every word and number that is shown, and no markup.

`build_page` in view.py makes it, the templates only put it into HTML.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

WIDEST = 10
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
    """For people, and for readers without JavaScript; the browser adds the age."""
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


@dataclass(frozen=True, slots=True)
class UserRow:
    name: str
    is_name: bool
    """False for words of ours in the place of a name, such as "gone"."""
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


@dataclass(frozen=True, slots=True)
class Holder:
    """The last line of a card: who has it, and since when."""

    text: str
    is_name: bool
    more: str
    runtime: str


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


@dataclass(frozen=True, slots=True)
class Notice:
    """The grey card of a host without GPUs to show."""

    kind: Kind
    word: str
    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class HostView:
    anchor: str
    name: str
    domain: str
    """The rest of a long host name, from its first dot; shown in a lighter tone."""
    group: str | None
    note: str | None
    summary: str
    """2 of 8 free"""
    software: tuple[str, ...]
    machine: tuple[Fact, ...]
    faults: tuple[str, ...]
    read_at: Moment | None
    """Only where it differs from the time of the page's data."""
    cards: tuple[Card, ...]
    notice: Notice | None
    columns: int
    """How many cards wide the host may become, from 1 to `WIDEST`."""


@dataclass(frozen=True, slots=True)
class ModelCount:
    model: str
    free: int
    total: int
    bar: Bar


@dataclass(frozen=True, slots=True)
class Tally:
    kind: Kind
    count: int
    word: str


@dataclass(frozen=True, slots=True)
class Attention:
    anchor: str
    host: str
    text: str


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
    tallies: tuple[Tally, ...]
    attention: tuple[Attention, ...]
    more_attention: tuple[Attention, ...]
    """Folded away, so that a bad day does not push the cards off the screen."""
    hosts: tuple[HostView, ...]
    made_at: Moment
    refresh_s: int
    old_after_s: int
