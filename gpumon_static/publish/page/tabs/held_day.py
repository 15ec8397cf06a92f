"""What each user held in the last 24 hours, as the areas of a small picture: by quarters of an hour."""

from __future__ import annotations

from collections.abc import Collection
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, NamedTuple

from gpumon_static.model.states import TAKEN, State
from gpumon_static.store.history.last_day import SLOT_S, first_slot

if TYPE_CHECKING:
    from gpumon_static.publish.page.past import PastView

SLOTS = 96


class HeldDay(NamedTuple):
    held: str
    """The outline of all that was held, as the path of an SVG that is 96 wide and `top` high."""
    busy: str
    """Of these, what computed."""
    top: int
    """Most at once."""


def held_days(view: PastView, names: Collection[str], hosts: Collection[str]) -> dict[str, HeldDay]:
    """Of these users, by shown name, on these hosts. A GPU that two share counts for both."""
    if view.who is None:
        return {}
    first = first_slot(view.past.now)
    cut = {(host, index.partition(":")[0]) for host, index in view.past.gpus if ":" in index}
    changes = {name: ([0] * (SLOTS + 1), [0] * (SLOTS + 1)) for name in names}
    for key, gpu in view.past.gpus.items():
        if key in cut or key[0] not in hosts:
            continue
        for start, stop, state, users in gpu.spans.spells():
            if state not in TAKEN:
                continue
            begin, end = (min(SLOTS, max(0, round(at / SLOT_S) - first)) for at in (start, stop))
            if begin == end:
                continue
            for name in {view.who(user) for user in users} & changes.keys():
                for of_kind in changes[name][: 2 if state == State.BUSY else 1]:
                    of_kind[begin] += 1
                    of_kind[end] -= 1
    days = {name: _day(*of_user) for name, of_user in changes.items()}
    return {name: day for name, day in days.items() if day.top}


def _day(held: list[int], busy: list[int]) -> HeldDay:
    at_once = list(accumulate(held[:SLOTS]))
    top = max(at_once)
    return HeldDay(_outline(at_once, top), _outline(list(accumulate(busy[:SLOTS])), top), top)


def _outline(counts: list[int], top: int) -> str:
    """M8 6v-4h12v4z: an area for each stretch in which there was something."""
    parts = []
    slot = 0
    for is_something, stretch in groupby(counts, key=bool):
        steps = [(number, len(list(run))) for number, run in groupby(stretch)]
        if is_something:
            levels = [0, *(number for number, _ in steps)]
            drawn = (f"v{levels[at] - number}h{length}" for at, (number, length) in enumerate(steps))
            parts.append(f"M{slot} {top}{''.join(drawn)}V{top}z")
        slot += sum(length for _, length in steps)
    return "".join(parts)
