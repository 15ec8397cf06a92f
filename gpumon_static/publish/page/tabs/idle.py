"""What is held idle, summed by person, with a message that can be sent to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpumon_static.publish.page.records import IdleRow
from gpumon_static.publish.page.thing_records import IdlePerson
from gpumon_static.text import count
from gpumon_static.times import duration

if TYPE_CHECKING:
    from gpumon_static.publish.page.tabs.contact import Writer

MOST_GPUS = 8
"""Named in one row, and in one message."""


def idle_people(rows: Iterable[IdleRow], write: Writer | None = None) -> tuple[IdlePerson, ...]:
    """Whoever holds most idle GPU hours first. `rows`: the longest first."""
    by_holder: dict[tuple[str, tuple[tuple[str, bool], ...]], list[IdleRow]] = {}
    for row in rows:
        by_holder.setdefault((row.holder, row.users), []).append(row)
    people = [_person(list(held), write) for held in by_holder.values()]
    return tuple(sorted(people, key=lambda person: -person.idle_s))


def _person(held: list[IdleRow], write: Writer | None) -> IdlePerson:
    first = held[0]
    message = _message(held) if any(row.message for row in held) else ""
    named = [name for name, is_name in first.users if is_name]
    link = ""
    if write and message and named:
        link = write(named[0], f"Held idle: {_where(held)}", message)
    idle_s = sum(row.idle_s for row in held)
    return IdlePerson(
        users=first.users,
        holder=first.holder,
        gpus=tuple(held[:MOST_GPUS]),
        more=max(0, len(held) - MOST_GPUS),
        number=len(held),
        longest=first.idle,
        idle_s=idle_s,
        idle=duration(idle_s),
        message=message,
        write=link,
    )


def _where(held: list[IdleRow]) -> str:
    more = f" and {len(held) - 1} more" if len(held) > 1 else ""
    return f"{held[0].host} GPU {held[0].index}{more}"


def _message(held: list[IdleRow]) -> str:
    """Of one GPU its own; of several what was seen of each."""
    if len(held) == 1:
        return held[0].message or ""
    seen = [
        f"- {row.host} GPU {row.index} ({row.model}): {row.memory} of memory, {row.looks}"
        for row in held[:MOST_GPUS]
    ]
    more = [f"- and {len(held) - MOST_GPUS} more"] if len(held) > MOST_GPUS else []
    lines = [
        f"Hi {held[0].holder}, your processes hold {count(len(held), 'GPU')} that were idle at each look:",
        *seen,
        *more,
        "Work between two looks is not seen. If you no longer need them, could you please stop these"
        " processes, so that others can run there? Thank you!",
    ]
    return "\n".join(lines)
