"""The last day of every GPU: in which states it was, and means by the hour.

There are millions of these numbers at 80,000 GPUs. They are kept as small as they are.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpumon_static.model.states import State
from gpumon_static.store.history.engine import clean_name, filled
from gpumon_static.store.history.layout import DAY, HOUR
from gpumon_static.store.history.reader import LOOK_BACK_S, Period, Reader

SLOT_S = 15 * 60
HOURS = 24
NO_BYTE = 255
"""In the place of what is not known: more than any percentage and any temperature."""
NO_WATTS = 65_535

Users = tuple[str, ...]
CardKey = tuple[str, str, int]
"""Host, card and slice; -1 is the whole GPU."""


class Spell(NamedTuple):
    """A time in one state, with the same users."""

    start: int
    stop: int
    state: str
    users: Users


class Spans:
    """The spells of one GPU in the last day, and the slots that they fill."""

    __slots__ = ("_first", "_starts", "_states", "_stops", "_until", "_users")

    def __init__(
        self,
        first: int,
        starts: Sequence[int],
        stops: Sequence[int],
        states: Sequence[str],
        users: Sequence[Users],
        until: int = 0,
    ) -> None:
        """`first`: of the slots. `until`: the end of the day."""
        self._first = first
        self._until = until
        self._starts = array("q", starts)
        self._stops = array("q", stops)
        self._states = states
        self._users = users

    def follows(self, other: Spans) -> bool:
        """Whether it begins after the other ends: of one card, in two hosts, that it was moved.

        A host that lists the card of another one, too, does so at the same time.
        """
        return bool(len(self._starts) and len(other._starts)) and max(other._stops) <= self._starts[0]

    def after(self, other: Spans) -> Spans:
        """With the spells before it."""
        spells = [*other.spells(), *self.spells()]
        starts, stops, states, users = zip(*spells, strict=True)
        return Spans(self._first, starts, stops, states, users, self._until)

    def spells(self) -> Iterator[Spell]:
        return map(Spell, self._starts, self._stops, self._states, self._users)

    def minutes(self) -> list[int]:
        """Of the last 24 hours: busy, held idle, free. The rest is unknown."""
        seconds: dict[str, int] = dict.fromkeys((State.BUSY, State.HELD, State.FREE), 0)
        for start, stop, state in zip(self._starts, self._stops, self._states, strict=True):
            if state in seconds:
                seconds[state] += max(0, min(stop, self._until) - max(start, self._until - DAY))
        return [round(spent / 60) for spent in seconds.values()]

    def __iter__(self) -> Iterator[tuple[int, int, str, Users]]:
        """First slot, the one after the last, state and users: each slot as it was for most of its time."""
        return iter(_joined(self._runs()))

    def _runs(self) -> Iterator[tuple[int, int, str, Users]]:
        """Slots of one spell, and slots that several share. Spells do not overlap, and come in order."""
        slot = -1
        shares: dict[str, dict[Users, int]] = {}
        for start, stop, state, users in zip(
            self._starts, self._stops, self._states, self._users, strict=True
        ):
            at = max(start, self._first * SLOT_S)
            while at < stop:
                number = at // SLOT_S
                if number != slot and shares:
                    yield slot - self._first, slot - self._first + 1, *_longest(shares)
                    shares = {}
                slot, whole = number, stop // SLOT_S
                if at % SLOT_S == 0 and whole > number:
                    yield number - self._first, whole - self._first, state, users
                    at = whole * SLOT_S
                    continue
                end = min(stop, (number + 1) * SLOT_S)
                of_state = shares.setdefault(state, {})
                of_state[users] = of_state.get(users, 0) + end - at
                at = end
        if shares:
            yield slot - self._first, slot - self._first + 1, *_longest(shares)


def _longest(shares: dict[str, dict[Users, int]]) -> tuple[str, Users]:
    """The state that took most of the time, and its users who took most of that."""
    if len(shares) == 1:
        ((state, of_state),) = shares.items()
    else:
        state, of_state = max(shares.items(), key=lambda item: sum(item[1].values()))
    return state, next(iter(of_state)) if len(of_state) == 1 else max(of_state, key=of_state.__getitem__)


def _joined(runs: Iterator[tuple[int, int, str, Users]]) -> list[tuple[int, int, str, Users]]:
    found: list[tuple[int, int, str, Users]] = []
    for first, last, state, users in runs:
        if found and found[-1][1:] == (first, state, users):
            found[-1] = (found[-1][0], last, state, users)
        else:
            found.append((first, last, state, users))
    return found


NO_SPANS = Spans(0, (), (), (), ())


def first_slot(now: int) -> int:
    """Of the last day, counted from 1970."""
    return (now - DAY) // SLOT_S + 1


def read_spans(reader: Reader, now: int, until: int) -> Iterator[tuple[CardKey, Spans]]:
    """`until`: the end of what is known."""
    first = first_slot(now)
    # Whole, with those that reach into the day: a spell has no seconds that could be cut off.
    spells = reader.sums("spells", Period(now - DAY - LOOK_BACK_S, max(now, until)), is_exact=False)
    known: dict[tuple[str, int], Users] = {}
    rows = reader.engine.rows(filled("questions/spells", spells=spells), {"since": now - DAY})
    for host, card, slice_, starts, stops, states, names, numbers in rows:
        users = [known.setdefault(key, _users(*key)) for key in zip(names, numbers, strict=True)]
        yield (host, card, slice_), Spans(first, starts, stops, states, users, until)


def _users(names: str | None, number: int) -> Users:
    return tuple(map(clean_name, (names or "").split("\x1d"))) if number else ()


class LastDay:
    """The hours of one GPU, the oldest first; `NO_BYTE` and `NO_WATTS` where there was no run.

    An hour is one whole number with a byte or two for each mean: half the time of a number for each.
    """

    __slots__ = ("_hours", "most")

    def __init__(self, hours: array[int], most: tuple[int | None, ...] = (None,) * 4) -> None:
        self._hours = hours
        self.most = most
        """The largest single readings: utilization and memory in percent, temperature, power."""

    def joined(self, other: LastDay | None) -> LastDay:
        """With the hours of the same card in another host."""
        if other is None:
            return self
        pairs = zip(self._hours, other._hours, strict=True)
        hours = array("Q", (theirs if ours == _NO_HOUR else ours for ours, theirs in pairs))
        levels = zip(self.most, other.most, strict=True)
        return LastDay(hours, tuple(map(_most, levels)))

    @property
    def utilization(self) -> bytes:
        return self._bytes(0)

    @property
    def memory(self) -> bytes:
        """In percent of all it has."""
        return self._bytes(1)

    @property
    def temperature(self) -> bytes:
        """In degrees; frost is 0."""
        return self._bytes(2)

    @property
    def power(self) -> list[int]:
        return [hour >> 24 for hour in self._hours]

    def _bytes(self, number: int) -> bytes:
        offset = number if sys.byteorder == "little" else self._hours.itemsize - 1 - number
        return self._hours.tobytes()[offset :: self._hours.itemsize]


def _most(levels: Iterable[int | None]) -> int | None:
    return max((level for level in levels if level is not None), default=None)


_NO_HOUR = NO_BYTE + (NO_BYTE << 8) + (NO_BYTE << 16) + (NO_WATTS << 24)
_NO_HOURS = array("Q", [_NO_HOUR]) * HOURS


def first_hour(now: int) -> int:
    """Of the last day, counted from 1970."""
    return now // HOUR - HOURS + 1


def read_days(reader: Reader, now: int, newest: int) -> Iterator[tuple[CardKey, LastDay]]:
    first = first_hour(now)
    gpus = reader.sums("gpus_by_hour", Period(first * HOUR, max(now, newest)), is_exact=False)
    for host, card, slice_, hours, packed, *most in reader.engine.rows(
        filled("questions/gpu_hours", gpus=gpus), {"first": first}
    ):
        day = _NO_HOURS[:]
        for hour, value in zip(hours, packed, strict=True):
            if 0 <= hour < HOURS:
                day[hour] = value
        yield (host, card, slice_), LastDay(day, tuple(most))
