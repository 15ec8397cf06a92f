"""The answers of a recount, as the questions of the history give them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import nan
from typing import Any

from gpumon_static.store.history.last_day import SLOT_S
from gpumon_static.store.history.machines import Availability
from gpumon_static.store.history.pools import Grid
from gpumon_static.store.history.questions import PARTS, GpuUse, Level
from gpumon_static.store.history.supply import SlurmSums, SupplySums, WeekHour
from tests.store.history.recount import DAY, HOUR, Entry, Place, Recount

Sums = dict[Any, list[float]]


def users(recount: Recount, since: int, until: int, part: str | None) -> Sums:
    """By user and part: busy, held, work, measured, allocated, allocated idle."""
    sums: Sums = defaultdict(lambda: [0.0] * 6)
    assert part in PARTS
    for entry, seconds in recount.counted(since, until):
        where = {None: None, "host": entry.place.host, "group": entry.group, "model": entry.name}[part]
        for user in entry.users if seconds else ():
            own = seconds * entry.share / len(entry.users)
            row, utilization = sums[user, where], entry.levels[0]
            row[0 if entry.state == "busy" else 1] += own
            if utilization is not None:
                row[2] += own * utilization
                row[3] += own
        if entry.allocated and seconds:
            sums[entry.owner, where][4] += seconds
            sums[entry.owner, where][5] += seconds * (entry.state == "held")
    return sums


def gpus(recount: Recount, since: int, until: int) -> dict[Place, GpuUse]:
    by_place: dict[Place, list[tuple[Entry, int]]] = defaultdict(list)
    for entry, seconds in recount.counted(since, until):
        by_place[entry.place].append((entry, seconds))
    return {place: _use(recount, place, found, since, until) for place, found in by_place.items()}


def _use(recount: Recount, place: Place, found: list[tuple[Entry, int]], since: int, until: int) -> GpuUse:
    last, last_s = max(found, key=lambda pair: pair[0].t)
    name = f"{max(entry.name for entry, _ in found)} {max(entry.profile for entry, _ in found)}".rstrip()
    index = str(last.number) if place.slice is None else f"{last.number}:{place.slice}"
    states = {
        state: sum(s for entry, s in found if entry.state == state) for state in ("free", "busy", "held")
    }
    start = max(since, first_at(recount, place, found))
    end = until if place in recount.known else min(until, max(last.t, since) + last_s)
    utilization, memory, temperature, power = (level(found, number) for number in range(4))
    return GpuUse(
        place.host, index, place.card, name, utilization, memory, temperature, power,
        free_s=states["free"], busy_s=states["busy"], held_s=states["held"],
        unknown_s=max(0, end - start - sum(states.values())),
    )  # fmt: skip


def first_at(recount: Recount, place: Place, found: Iterable[tuple[Entry, int]]) -> int:
    known = recount.known.get(place)
    first = min(entry.t for entry, _ in found)
    return min(first, known.first_at) if known else first


def level(found: Iterable[tuple[Entry, int]], number: int) -> Level:
    """The last reading of all, which stands for no time yet, weighs a second."""
    values = [(value, max(1, s)) for entry, s in found if (value := entry.levels[number]) is not None]
    if not values:
        return Level(None, None)
    return Level(sum(v * w for v, w in values) / sum(w for _, w in values), max(v for v, _ in values))


def hosts(recount: Recount, since: int, until: int) -> dict[str, tuple[int, ...]]:
    """By host: GPUs, and seconds free, busy, held and unknown of them."""
    found: dict[str, list[GpuUse]] = defaultdict(list)
    for place, use in gpus(recount, since, until).items():
        if place.slice is None:
            found[place.host].append(use)
    return {
        host: (len(uses), *(sum(getattr(u, n) for u in uses) for n in ("free_s", "busy_s", "held_s", "unknown_s")))
        for host, uses in found.items()
    }  # fmt: skip


class SupplyOf:
    """What the runs of a period say about the GPUs of one model, in all hosts or in one group."""

    def __init__(self, recount: Recount, since: int, until: int, model: str, group: str | None) -> None:
        self.sums = [0] * 10
        self.slurm = [0] * 3
        self.week: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        self.runs: list[tuple[int, int, int]] = []
        """Time, GPUs, and most in one host."""
        for at, seconds in recount.run_seconds().items():
            inside = max(0, min(at + seconds, until) - max(at, since)) if at <= until else 0
            cards = [
                entry
                for entry in recount.entries
                if entry.run_at == at and entry.place.slice is None and entry.model == model
                and group in (None, entry.group)
            ]  # fmt: skip
            if inside and cards:
                self._add(at, inside, cards)

    def _add(self, at: int, seconds: int, cards: list[Entry]) -> None:
        states = [sum(card.state == state for card in cards) for state in ("free", "busy", "held")]
        hosts = {card.place.host for card in cards}
        free_in = [sum(c.state == "free" for c in cards if c.place.host == host) for host in hosts]
        is_judged = 2 * sum(states) >= len(cards)
        conditions = [True, is_judged, is_judged and states[0] == 0]
        conditions += [is_judged and max(free_in) >= number for number in (2, 4, 8)]
        added = [seconds * condition for condition in conditions]
        added += [seconds * number for number in (*states, len(cards) - sum(states))]
        self.sums = [a + b for a, b in zip(self.sums, added, strict=True)]
        reported = [card for card in cards if card.allocated is not None]
        given = [card for card in reported if card.allocated]
        idle = [card for card in given if card.state == "held"]
        self.slurm = [a + seconds * len(b) for a, b in zip(self.slurm, (reported, given, idle), strict=True)]
        hour = self.week[(at // HOUR + 72) % 168]
        hour[0] += seconds * states[0]
        hour[1] += seconds * sum(states)
        self.runs.append((at, len(cards), max(sum(c.place.host == h for c in cards) for h in hosts)))


def supply(
    recount: Recount, since: int, until: int, *, by_group: bool
) -> dict[tuple[str, str | None], dict[str, Any]]:
    groups = {entry.group for entry in recount.entries} if by_group else {None}
    models = {entry.model for entry in recount.entries}
    keys = [(model, group) for model in models for group in groups]
    all_of = {key: SupplyOf(recount, since, until, *key) for key in keys}
    found = {key: of for key, of in all_of.items() if of.runs}
    last = max((of.runs[-1][0] for of in found.values()), default=0)
    first = max(since, min((of.runs[0][0] for of in found.values()), default=0))
    return {
        key: {
            "gpus": of.runs[-1][1:],
            "first_at": max(first, of.runs[0][0]),
            "sums": SupplySums(*of.sums),
            "before": _before(recount, since, until, key),
            "week": {hour: WeekHour(*numbers) for hour, numbers in of.week.items()},
            "slurm": SlurmSums(*of.slurm) if of.slurm[0] else None,
            "held_by": _holders(recount, since, until, key),
        }
        for key, of in found.items()
        if of.runs[-1][0] > last - HOUR
    }


def _before(recount: Recount, since: int, until: int, key: tuple[str, str | None]) -> SupplySums | None:
    earlier = SupplyOf(recount, 2 * since - until, since, *key)
    return SupplySums(*earlier.sums) if earlier.runs else None


def _holders(recount: Recount, since: int, until: int, key: tuple[str, str | None]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for entry, seconds in recount.counted(since, until):
        if entry.model == key[0] and key[1] in (None, entry.group) and entry.state == "held" and seconds:
            for user in entry.users:
                found[user] += seconds * entry.share / len(entry.users)
    return found


def availability(recount: Recount, now: int) -> dict[str, Availability]:
    since = (now // DAY - 29) * DAY
    found: dict[str, list[int]] = {}
    for reading, seconds in recount.read(since, max(now, recount.newest)):
        row = found.setdefault(reading.host, [0, 0, reading.t])
        row[not reading.ok] += seconds
        row[2] = min(row[2], reading.t)
    return {
        host: Availability(up, down, now - max(first, since)) for host, (up, down, first) in found.items()
    }


def machines(recount: Recount, step: int, count: int, now: int) -> dict[tuple[str, int], list[float]]:
    """By host and point: means of CPU, RAM, disk and load; NaN is not known."""
    first = now // step - count + 1
    values: dict[tuple[str, int], list[list[tuple[float, int]]]] = defaultdict(lambda: [[], [], [], []])
    seconds = recount.seconds()
    for reading in recount.readings:
        point, weight = reading.run_at // step, max(1, seconds[reading.host, reading.t])
        for number, value in enumerate(reading.measured):
            if value is not None and first <= point <= now // step:
                values[reading.host, point][number].append((value, weight))
    return {key: [_mean(of) for of in lists] for key, lists in values.items()}


def _mean(values: list[tuple[float, int]]) -> float:
    return sum(v * w for v, w in values) / sum(w for _, w in values) if values else nan


def pools(recount: Recount, grid: Grid, now: int) -> dict[tuple[Any, ...], list[float]]:
    """By host, model, profile and point: the numbers of `PointColumn`."""
    first = grid.first(now)
    found: dict[tuple[Any, ...], list[tuple[Entry, int]]] = defaultdict(list)
    for entry, seconds in recount.from_run(first * grid.step, now):
        key = entry.place.host, entry.name, entry.profile, entry.run_at // grid.step
        found[key].append((entry, max(1, seconds)))
    return {key: _point(entries) for key, entries in found.items()}


def _point(found: list[tuple[Entry, int]]) -> list[float]:
    read = sum({entry.t: w for entry, w in found}.values())
    both = [(e.levels[1], e.memory_total, w) for e, w in found]
    memory = [(used, total, w) for used, total, w in both if used is not None and total is not None]
    measured = [(e.levels[0], w) for e, w in found if e.levels[0] is not None]
    free = sum(w for entry, w in found if entry.state == "free")
    known = sum(w for entry, w in found if entry.state in ("free", "busy", "held"))
    return [
        sum(value * w for value, w in measured),
        sum(w for _, w in measured),
        sum(used * w for used, _, w in memory),
        sum(total * w for _, total, w in memory),
        free / read,
        float(known > 0),
    ]


def week(recount: Recount, now: int) -> dict[tuple[Any, ...], tuple[int, int]]:
    """By pool and hour of the week: GPU seconds free, and known."""
    found: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    since, until = (now - 28 * DAY) // HOUR * HOUR, now // HOUR * HOUR
    for entry, seconds in recount.from_run(since, until):
        if entry.state in ("free", "busy", "held"):
            row = found[entry.place.host, entry.name, entry.profile, (entry.run_at // HOUR + 72) % 168]
            row[0] += max(1, seconds) * (entry.state == "free")
            row[1] += max(1, seconds)
    return {key: (free, known) for key, (free, known) in found.items()}


def slots(recount: Recount, now: int) -> dict[Place, dict[int, dict[tuple[str, tuple[str, ...]], int]]]:
    """Of each GPU, by slot of the last day: how long it was in which state, with whom."""
    first = (now - DAY) // SLOT_S + 1
    found: dict[Place, dict[int, dict[Any, int]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for entry, seconds in recount.counted(first * SLOT_S, max(now, recount.newest)):
        start = max(entry.t, first * SLOT_S)
        for at in range(start, start + seconds):
            found[entry.place][at // SLOT_S - first][entry.state, entry.users] += 1
    return found


def day_most(recount: Recount, now: int, place: Place) -> tuple[int | None, ...]:
    """The largest readings of the last day: utilization, memory in percent, temperature and power."""
    entries = [e for e, _ in recount.from_run((now // HOUR - 23) * HOUR, now) if e.place == place]
    levels = [[e.levels[n] for e in entries] for n in range(4)]
    levels[1] = [
        None if e.levels[1] is None or not e.memory_total else min(100, 100 * e.levels[1] // e.memory_total)
        for e in entries
    ]
    return tuple(max((v for v in of if v is not None), default=None) for of in levels)


def day_hours(recount: Recount, now: int) -> Mapping[tuple[Place, int], list[float | None]]:
    """By GPU and hour of the last day: means of utilization, memory in percent, temperature and power."""
    first = now // HOUR - 23
    by_hour: dict[tuple[Place, int], list[tuple[Entry, int]]] = defaultdict(list)
    for entry, seconds in recount.from_run(first * HOUR, now):
        by_hour[entry.place, entry.run_at // HOUR - first].append((entry, seconds))
    return {key: [level(found, number).mean for number in range(4)] for key, found in by_hour.items()}
