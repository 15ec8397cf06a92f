"""What truly happens in the lab: which card is where, whose job is on it, what is broken; by seconds since 1970."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise

MINUTE, HOUR, DAY = 60, 3600, 86400
ZONE = "Europe/Berlin"
CLOCK_CHANGE = int(datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp())
"""From summer to winter time: 3:00 becomes 2:00."""
SPRING = int(datetime(2027, 3, 28, 1, tzinfo=UTC).timestamp())
"""From winter to summer time: 2:00 becomes 3:00."""
GROUPS = {"v1": "vision", "v2": "vision", "l1": "language", "t1": "teaching", "m1": "teaching"}
SLURM_HOST = "l1"
SHOWN_NAMES = {"alice": "Alice", "alice2": "Alice"}
USERS = ("alice", "alice2", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy")


@dataclass(frozen=True)
class Model:
    name: str
    short: str
    total_mib: int
    limit_w: int


A100 = Model("NVIDIA A100-SXM4-80GB", "A100 80G", 81920, 400)
H100 = Model("NVIDIA H100 80GB HBM3", "H100 80G", 81559, 700)
T4 = Model("Tesla T4", "T4", 15360, 70)
SLICES = (("3g.40gb", 40192), ("2g.20gb", 19968), ("1g.10gb", 9728))


@dataclass(frozen=True)
class Card:
    uuid: str
    model: Model


@dataclass(frozen=True)
class Span:
    """A time from its first second on, without its last."""

    start: int
    end: int

    def has(self, at: int) -> bool:
        return self.start <= at < self.end


@dataclass(frozen=True)
class Stay:
    """A card in a host."""

    card: Card
    host: str
    bus: int
    time: Span


@dataclass(frozen=True)
class Work:
    """One process on one card or slice, or a Slurm job that has the card without one."""

    pid: int
    user: str
    host: str
    card: Card
    slice: int | None
    time: Span
    pattern: str
    """steady; idle; pausing: 10 min at work, then 5 min idle; resting: 18 min at work, then 2 min idle."""
    percent: int
    memory_mib: int
    is_slurm: bool = False
    process_from: int = 0
    """Seconds after its start at which a Slurm job has a process."""

    def computes(self, at: int) -> bool:
        passed = at - self.time.start
        if self.pattern == "pausing":
            return passed % 900 < 600
        if self.pattern == "resting":
            return passed % 1200 < 1080
        return self.pattern == "steady"

    def has_process(self, at: int) -> bool:
        return at >= self.time.start + self.process_from


@dataclass(frozen=True)
class Measured:
    """What nvidia-smi reports of a whole card."""

    percent: int
    used_mib: int
    celsius: int
    watts: int


@dataclass
class Lab:
    start: int
    days: int
    interval: int
    seed: int = 28
    stays: list[Stay] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    down: list[tuple[str, Span]] = field(default_factory=list)
    """Hosts that do not answer."""
    nameless: list[tuple[str, Span]] = field(default_factory=list)
    """UUIDs of cards of which nvidia-smi prints all but the UUID."""
    lost: list[tuple[str, Span]] = field(default_factory=list)
    """Cards that nvidia-smi cannot describe any more: a line around the XML has their bus id."""
    missing: list[tuple[str, Span]] = field(default_factory=list)
    """Cards that are not listed at all; those behind them have a lower number."""
    cut: list[tuple[str, Span]] = field(default_factory=list)
    """Cards that are cut into slices."""
    no_runs: list[Span] = field(default_factory=list)
    slurm_silent: list[Span] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + self.days * DAY

    @property
    def hosts(self) -> list[str]:
        return list(GROUPS)

    @cached_property
    def cards(self) -> dict[str, Card]:
        return {stay.card.uuid: stay.card for stay in self.stays}

    @cached_property
    def _by_card(self) -> dict[str, list[Work]]:
        found: dict[str, list[Work]] = {}
        for work in self.works:
            found.setdefault(work.card.uuid, []).append(work)
        return found

    def runs(self) -> Iterator[int]:
        """When the collector starts to ask; some runs are late by some seconds, as cron is."""
        chance = random.Random(f"{self.seed} runs")
        for at in range(self.start, self.end + 1, self.interval):
            late = chance.randrange(1, 20) if chance.random() < 0.2 else 0
            if not any(span.has(at) for span in self.no_runs):
                yield at + late

    def is_down(self, host: str, at: int) -> bool:
        return _is_in(self.down, host, at)

    def is_cut(self, uuid: str, at: int) -> bool:
        return _is_in(self.cut, uuid, at)

    def slurm_answers(self, at: int) -> bool:
        return not any(span.has(at) for span in self.slurm_silent)

    def there(self, host: str, at: int) -> list[Stay]:
        """The cards that are in a host, by their place on the bus."""
        found = [stay for stay in self.stays if stay.host == host and stay.time.has(at)]
        return sorted(found, key=lambda stay: stay.bus)

    def at_work(self, uuid: str, at: int, slice_: int | None = None) -> list[Work]:
        return [w for w in self._by_card.get(uuid, ()) if w.slice == slice_ and w.time.has(at)]

    def measured(self, card: Card, at: int) -> Measured:
        chance = random.Random(f"{self.seed} {card.uuid} {at}")
        working = [work for work in self.at_work(card.uuid, at) if work.has_process(at)]
        percent = min(
            100, sum(max(5, w.percent + chance.randrange(-4, 5)) for w in working if w.computes(at))
        )
        watts = round(card.model.limit_w * (0.1 + 0.006 * percent)) + chance.randrange(9)
        if percent and chance.random() < 0.01:
            watts = card.model.limit_w
        used = 4 + sum(work.memory_mib for work in working)
        return Measured(percent, used, 30 + percent // 2 + chance.randrange(3), watts)


def _is_in(listed: list[tuple[str, Span]], name: str, at: int) -> bool:
    return any(who == name and span.has(at) for who, span in listed)


def build(start: int, days: int, interval: int, seed: int = 28) -> Lab:
    """A lab of 24 GPUs. `days`: 3 or more; everything that can happen is within them."""
    lab = Lab(start, days, interval, seed)
    end = start + days * DAY + interval

    def at(share: float) -> int:
        """A time, by the part of the whole that has passed; on a minute."""
        return start + round(share * days * DAY / MINUTE) * MINUTE

    def span(share: float, seconds: int) -> Span:
        return Span(at(share), at(share) + seconds)

    for host, model, count in (
        ("v1", A100, 4),
        ("v2", A100, 4),
        ("l1", H100, 8),
        ("t1", T4, 4),
        ("m1", A100, 4),
    ):
        for number in range(count):
            uuid = f"GPU-{host}{number:02}0000-1111-2222-3333-{abs(hash_of(host, number)):012x}"
            lab.stays.append(Stay(Card(uuid, model), host, 16 + number, Span(start, end)))
    # The second card of v1 moves to v2; those behind it get a lower number.
    moved = lab.stays[1]
    lab.stays[1] = replace(moved, time=Span(start, at(0.4)))
    lab.stays.append(Stay(moved.card, "v2", 40, Span(at(0.4) + 2 * HOUR, end)))
    of = {host: [stay.card.uuid for stay in lab.stays if stay.host == host] for host in GROUPS}
    half_day = min(12 * HOUR, days * DAY // 6)
    lab.nameless = [(of["t1"][2], span(0.3, half_day)), (of["v2"][0], span(0.55, HOUR))]
    lab.lost = [(of["t1"][3], span(0.6, half_day))]
    lab.missing = [(of["v2"][1], span(0.15, half_day))]
    lab.cut = [(of["m1"][3], Span(at(0.25), at(0.75)))]
    lab.down = [
        ("v1", span(0.2, 13 * HOUR if days > 3 else 5 * HOUR)),
        ("m1", span(0.5, 2 * HOUR)),
        ("t1", span(0.5, 20 * MINUTE)),
        ("v2", span(0.7, 50 * MINUTE)),
        ("m1", span(0.9, 50 * MINUTE)),
    ]
    lab.no_runs = [
        span(0.45, 9 * HOUR if days > 3 else 3 * HOUR),
        span(0.8, 2 * interval),
        span(0.85, interval),
    ]
    lab.slurm_silent = [span(0.33, DAY if days > 3 else 4 * HOUR), span(0.65, 2 * interval)]
    _add_works(lab)
    return lab


def hash_of(host: str, number: int) -> int:
    return random.Random(f"{host} {number}").randrange(16**12)


def _add_works(lab: Lab) -> None:
    chance = random.Random(f"{lab.seed} works")
    pids = iter(range(1000, 10**6))
    for stay in lab.stays:
        cuts = [span for uuid, span in lab.cut if uuid == stay.card.uuid]
        times = sorted({stay.time.start, stay.time.end, *(t for cut in cuts for t in (cut.start, cut.end))})
        # A card that is missing or lost has no jobs; one that its host does not report goes on.
        gone = [span for uuid, span in (*lab.missing, *lab.lost) if uuid == stay.card.uuid]
        times = sorted({*times, *(t for one in gone for t in (one.start, one.end))})
        for start, end in pairwise(times):
            if any(one.has(start) for one in gone):
                continue
            places: list[int | None] = [*range(len(SLICES))] if lab.is_cut(stay.card.uuid, start) else [None]
            for place in places:
                lab.works += _works(lab, stay, place, Span(start, end), chance, pids)


def _works(
    lab: Lab, stay: Stay, slice_: int | None, time: Span, chance: random.Random, pids: Iterator[int]
) -> Iterator[Work]:
    """One job after another, with pauses; some are shared by a second user."""
    at = time.start + round(chance.expovariate(1 / (3 * HOUR)))
    is_busy_card = stay.bus in (17, 19) and stay.host == "l1"
    user = chance.choice(USERS)
    while at < time.end:
        user = user if chance.random() < 0.3 else chance.choice(USERS)
        length = max(7 * MINUTE, round(chance.expovariate(1 / (7 * HOUR))))
        span = Span(at, min(time.end, at + length))
        pattern = chance.choices(("steady", "pausing", "resting", "idle"), (5, 2, 2, 2))[0]
        total = SLICES[slice_][1] if slice_ is not None else stay.card.model.total_mib
        memory = round(total * chance.uniform(0.05, 0.45))
        is_slurm = stay.host == SLURM_HOST
        wait = chance.choice((0, 0, 0, 40 * MINUTE, 10**7)) if is_slurm else 0
        work = Work(
            next(pids),
            user,
            stay.host,
            stay.card,
            slice_,
            span,
            pattern,
            chance.randrange(20, 95),
            memory,
            is_slurm,
            wait,
        )
        yield work
        if not is_slurm and slice_ is None and chance.random() < 0.2:
            other = chance.choice([name for name in USERS if name != user])
            inside = Span(span.start + (span.end - span.start) // 4, span.end - (span.end - span.start) // 4)
            yield replace(
                work, pid=next(pids), user=other, time=inside, pattern="idle", memory_mib=memory // 2
            )
        pause = 4 * MINUTE if is_busy_card else round(chance.expovariate(1 / (5 * HOUR)))
        at = span.end + pause
