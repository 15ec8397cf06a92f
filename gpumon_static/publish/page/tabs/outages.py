"""What happened, a row each: an outage from its begin to its end, faults, and days of hosts as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

from gpumon_static.publish.page.thing_records import EventRow
from gpumon_static.survey.news import tell
from gpumon_static.survey.privacy import Tier
from gpumon_static.text import clip
from gpumon_static.times import duration, utc_text

if TYPE_CHECKING:
    from gpumon_static.store.events import Event

FREED = "gpu-freed"
"""No worry, and one of every day: only the browser lists it, if asked."""
DOWN, UP = "host-down", "host-up"
TEXT_LETTERS = 160
BEAT_HEIGHT = 9


def event_rows(events: Sequence[Event], tier: Tier) -> list[EventRow]:
    """`events`: the newest first. A host that came back ends the row of its outage; as assets/events.js."""
    rows: list[EventRow] = []
    back: dict[str, Event] = {}
    for event in events:
        if event.type == UP:
            if event.host in back:
                rows.append(_row(back[event.host], None, tier))
            back[event.host] = event
        elif event.type != FREED:
            rows.append(_row(event, back.pop(event.host, None) if event.type == DOWN else None, tier))
    rows += [_row(event, None, tier) for event in back.values()]
    return sorted(rows, key=lambda row: row.at, reverse=True)


def title_of(event: Event, tier: Tier) -> str:
    """What happened, without the host's name, which is beside it; that of a Dask worker is not."""
    title = tell(event, with_error=tier is Tier.NAMES).title
    if event.type == FREED:
        # Not now: it was so then.
        title = title.replace(" are free", " became free").replace(" is free", " became free")
    if not event.is_of_worker:
        title = title.removeprefix(event.host).removeprefix(":").strip()
    return clip(title, TEXT_LETTERS)


def _row(event: Event, end: Event | None, tier: Tier) -> EventRow:
    at = event.at.astimezone(UTC)
    text = _day(at)
    if end:
        until = end.at.astimezone(UTC)
        text += f" to {until:%H:%M}" if until.date() == at.date() else f" to {_day(until)}"
    return EventRow(
        at=utc_text(at),
        text=f"{text} UTC",
        kind=event.type,
        host="" if event.is_of_worker else event.host,
        title=title_of(event, tier),
        lasted=duration((end.at - event.at).total_seconds()) if end else "",
    )


def _day(at: datetime) -> str:
    return f"{at:%a} {at.day} {at:%b %Y, %H:%M}"


def beat_paths(days: str) -> tuple[str, str]:
    """Days of a host to two paths, each day one wide: when it answered, and below it when it did not.

    `days`: a letter each, as store/history/machines.py writes them.
    """
    up, down = [], []
    for letter, first, length in _runs(days):
        tenths = int(letter) if letter.isdigit() else 0
        low = 0 if tenths == 0 else max(2, round(BEAT_HEIGHT * tenths / 9))
        if low < BEAT_HEIGHT:
            up.append(f"M{first} 0h{length}v{BEAT_HEIGHT - low}h-{length}z")
        if low:
            down.append(f"M{first} {BEAT_HEIGHT - low}h{length}v{low}h-{length}z")
    return "".join(up), "".join(down)


def _runs(days: str) -> Iterator[tuple[str, int, int]]:
    first = 0
    for letter, run in groupby(days):
        length = len(list(run))
        if letter != " ":
            yield letter, first, length
        first += length
