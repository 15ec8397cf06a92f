"""What the runs saw, by the rules of the docs (history.md, page.md, slurm.md), kept as a list and added up anew each time."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tests.truth.pipeline import asked_at
from tests.truth.schedule import DAY, GROUPS, HOUR, SLICES, SLURM_HOST, Lab, Stay, Work

BUSY_PERCENT = 5
BUSY_MEMORY = 0.02
LATE = 1.5
BRIDGE_S = HOUR
MISSING_S = 7 * DAY
KNOWN = ("free", "busy", "held")


@dataclass(frozen=True, slots=True)
class Look:
    """One GPU, or one slice of it, in one reading of its host."""

    host: str
    at: int
    run: int
    """The time of the run's last host."""
    uuid: str
    index: int
    slice: int | None
    state: str
    """free, busy, held, unknown."""
    users: tuple[str, ...] = ()
    share: float = 1.0
    percent: int | None = None
    used_mib: int | None = None
    celsius: int | None = None
    watts: int | None = None
    model: str = ""
    name: str = ""
    allocated: bool | None = None
    owner: str = ""
    oldest: int | None = None
    """When the oldest process on it began."""
    is_seen: bool = True
    """The host reported it."""


@dataclass
class Since:
    """How long a GPU or slice is as it is."""

    look: Look
    since: int
    taken: int | None


@dataclass
class Reference:
    lab: Lab
    runs: list[int] = field(default_factory=list)
    """By the time of their last host."""
    looks: list[Look] = field(default_factory=list)
    of_card: dict[tuple[str, int | None], list[Look]] = field(default_factory=lambda: defaultdict(list))
    """By UUID and slice, wherever it was."""
    readings: dict[str, list[tuple[int, bool]]] = field(default_factory=lambda: defaultdict(list))
    """By host: when it was asked, and whether it answered."""
    last: dict[str, dict[tuple[str, int | None], Since]] = field(default_factory=lambda: defaultdict(dict))
    """By host: what it has, as far as it is known."""
    gone: dict[tuple[str, str, int | None], int] = field(default_factory=dict)
    """What a host had once: until when."""
    first: dict[tuple[str, str, int | None], int] = field(default_factory=dict)

    def add(self, start: int) -> None:
        """One run that began then."""
        run = max(asked_at(host, start) for host in GROUPS)
        self.runs.append(run)
        self.__dict__.pop("seconds", None)
        arrived: set[str] = set()
        by_host = {}
        for host in GROUPS:
            at = asked_at(host, start)
            is_up = not self.lab.is_down(host, at)
            self.readings[host].append((at, is_up))
            by_host[host] = list(self._seen(host, at, run, start)) if is_up else None
            arrived |= {look.uuid for look in by_host[host] or ()}
        # A card that arrives in a host brings its past along.
        for host, seen in by_host.items():
            for look in seen or ():
                key = (look.uuid, look.slice)
                for other, known in self.last.items():
                    if other != host and key in known and key not in self.last[host]:
                        self.last[host][key] = known.pop(key)
                        self.gone[other, *key] = self._end_of(other, key)
        for host, seen in by_host.items():
            self._keep(host, asked_at(host, start), run, seen, arrived)

    def _append(self, look: Look) -> None:
        self.looks.append(look)
        self.of_card[look.uuid, look.slice].append(look)

    def _end_of(self, host: str, key: tuple[str, int | None]) -> int:
        return max(look.at for look in self.of_card[key] if look.host == host)

    def _keep(self, host: str, at: int, run: int, seen: list[Look] | None, arrived: set[str]) -> None:
        known = self.last[host]
        if seen is None:
            for entry in known.values():
                self._append(_unseen(entry.look, at, run))
            return
        keys = {(look.uuid, look.slice) for look in seen}
        for key, entry in list(known.items()):
            if key in keys:
                continue
            if key[1] is None and key[0] not in arrived and at - entry.look.at < MISSING_S:
                self._append(_unseen(entry.look, at, run))
            else:
                del known[key]
                self.gone[host, *key] = self._end_of(host, key)
        for look in seen:
            self._append(look)
            self.first.setdefault((host, look.uuid, look.slice), look.at)
            known[look.uuid, look.slice] = self._since(known.get((look.uuid, look.slice)), look)

    def _since(self, before: Since | None, look: Look) -> Since:
        """A pause of up to an hour does not restart it, unless what runs there now began in that pause."""
        if before is None:
            return Since(look, look.at, look.at if look.users else None)
        gap = look.at - before.look.at
        is_joined = gap <= max(BRIDGE_S, LATE * self.lab.interval)
        is_new = gap > LATE * self.lab.interval and look.oldest is not None and look.oldest > before.look.at
        since = before.since if is_joined and before.look.state == look.state and not is_new else look.at
        taken = None
        if look.state in ("busy", "held"):
            is_same = (
                is_joined and not is_new and before.taken is not None and before.look.users == look.users
            )
            taken = before.taken if is_same else look.at
        return Since(look, since, taken)

    # What a reading shows

    def _seen(self, host: str, at: int, run: int, start: int) -> Iterator[Look]:
        missing = {uuid for uuid, span in self.lab.missing if span.has(at)}
        listed = [stay for stay in self.lab.there(host, at) if stay.card.uuid not in missing]
        for index, stay in enumerate(listed):
            whole = self._whole(stay, index, at, run, start)
            yield whole
            if self.lab.is_cut(stay.card.uuid, at):
                yield from self._slices(whole, at)

    def _whole(self, stay: Stay, index: int, at: int, run: int, start: int) -> Look:
        card = stay.card
        look = Look(
            stay.host, at, run, card.uuid, index, None, "free", model=card.model.short, name=card.model.name
        )
        if any(uuid == card.uuid and span.has(at) for uuid, span in self.lab.lost):
            return replace(look, state="unknown")
        measured = self.lab.measured(card, at)
        look = replace(look, celsius=measured.celsius, watts=measured.watts)
        if self.lab.is_cut(card.uuid, at):
            working = [
                work for number in range(len(SLICES)) for work in self.lab.at_work(card.uuid, at, number)
            ]
            state = "busy" if working else "free"
            return replace(
                look, state=state, share=0.0, used_mib=4 + sum(work.memory_mib for work in working)
            )
        works = self.lab.at_work(card.uuid, at)
        return self._taken(replace(look, percent=measured.percent, used_mib=measured.used_mib), works, start)

    def _taken(self, look: Look, works: list[Work], start: int) -> Look:
        there = [work for work in works if work.has_process(look.at)]
        percent, used = look.percent or 0, look.used_mib or 0
        total = self.lab.cards[look.uuid].model.total_mib
        state = (
            "busy" if percent >= BUSY_PERCENT else "held" if there or used > BUSY_MEMORY * total else "free"
        )
        users = tuple(sorted({work.user for work in there}))
        oldest = min((work.time.start + work.process_from for work in there), default=None)
        look = replace(look, state=state, users=users, oldest=oldest)
        if look.host != SLURM_HOST:
            return look
        if not self.lab.slurm_answers(start):
            return replace(look, state="unknown") if state == "free" else look
        # Slurm was asked when the run began.
        given = self.lab.at_work(look.uuid, start)
        if not given:
            is_left = bool(there)
            return replace(look, allocated=is_left)
        owner = given[0].user
        look = replace(look, allocated=True, owner=owner)
        return look if there else replace(look, state="held", users=(owner,))

    def _slices(self, whole: Look, at: int) -> Iterator[Look]:
        for number, (_, total) in enumerate(SLICES):
            works = self.lab.at_work(whole.uuid, at, number)
            used = 4 + sum(work.memory_mib for work in works)
            yield replace(
                whole, slice=number, state="busy" if works else "free", percent=None, celsius=None, watts=None,
                used_mib=used, users=tuple(sorted({work.user for work in works})),
                share=total / self.lab.cards[whole.uuid].model.total_mib,
                oldest=min((work.time.start for work in works), default=None),
            )  # fmt: skip

    # How time is counted

    def length(self, at: int, following: int | None, now: int) -> int:
        """What a reading stands for: until the next one, if that came as usual; else one interval."""
        if following is not None and following - at <= LATE * self.lab.interval:
            return following - at
        return self.lab.interval if following is not None or now - at > LATE * self.lab.interval else 0

    @cached_property
    def seconds(self) -> dict[tuple[str, int], tuple[int, int | None]]:
        """By host and time of a reading: the next one."""
        found = {}
        for host, asked in self.readings.items():
            for (at, _), following in zip(asked, [*(at for at, _ in asked[1:]), None], strict=True):
                found[host, at] = (at, following)
        return found

    def counted(self, since: int, now: int, looks: list[Look] | None = None) -> Iterator[tuple[Look, int]]:
        """Looks of a period, with the seconds of theirs that are in it. `looks`: in order; all if not given."""
        seconds, looks = self.seconds, self.looks if looks is None else looks
        first = bisect_left(looks, since - 2 * self.lab.interval - 60, key=lambda look: look.run)
        for look in looks[first:]:
            if look.at <= now:
                end = look.at + self.length(*seconds[look.host, look.at], now)
                inside = min(end, now) - max(look.at, since)
                if inside > 0 or since <= look.at:
                    yield look, max(0, inside)

    def run_lengths(self, now: int) -> dict[int, int]:
        return {
            run: self.length(run, following, now)
            for run, following in zip(self.runs, [*self.runs[1:], None], strict=True)
        }

    def in_use_before(self, host: str, uuid: str, since: int) -> int:
        """Seconds that a GPU was seen in use until then. A pause of up to an hour counts, and one look that finds it free."""
        looks = [look for look in self.of_card[uuid, None] if look.host == host and look.at <= since]
        known = [look for look in looks if look.state in KNOWN]
        used, following, is_over = 0, since, False
        for look in reversed(known[:-1]):
            if look.state == "free":
                if is_over:
                    break
                is_over = True
                continue
            is_over = False
            gap = following - look.at
            used += gap if gap <= max(BRIDGE_S, LATE * self.lab.interval) else self.lab.interval
            following = look.at
        return used

    # Answers

    def users(
        self, since: int, now: int, part: Callable[[Look], str] | None = None
    ) -> dict[Any, list[float]]:
        """By user, and part: seconds busy, held, percent times seconds, seconds measured, allocated, of it idle."""
        sums: dict[Any, list[float]] = defaultdict(lambda: [0.0] * 6)
        for look, seconds in self.counted(since, now):
            where = part(look) if part else None
            for user in look.users if seconds and look.state in ("busy", "held") else ():
                row, own = sums[user, where], seconds * look.share / len(look.users)
                row[0 if look.state == "busy" else 1] += own
                if look.percent is not None:
                    row[2] += own * look.percent
                    row[3] += own
            if look.allocated and seconds:
                row = sums[look.owner, where]
                row[4] += seconds
                row[5] += seconds if look.state == "held" else 0
        return {key: row for key, row in sums.items() if any(row)}

    def gpus(self, since: int, now: int) -> dict[tuple[str, str, int | None], dict[str, Any]]:
        """By host, UUID and slice: seconds in each state, levels and their maximum."""
        found: dict[Any, dict[str, Any]] = {}
        for look, seconds in self.counted(since, now):
            key = (look.host, look.uuid, look.slice)
            row = found.setdefault(
                key,
                {
                    "free": 0,
                    "busy": 0,
                    "held": 0,
                    "index": look.index,
                    "name": look.name,
                    "levels": [],
                    "first": look.at,
                },
            )
            row["index"] = look.index
            if look.state in KNOWN:
                row[look.state] += seconds
            row["levels"].append((look.percent, look.used_mib, look.celsius, look.watts, max(seconds, 1)))
        for key, row in found.items():
            # One that is gone counts from its first reading in the period on.
            is_gone = key[1:] not in self.last[key[0]]
            first = row["first"] if is_gone else self.first[key]
            end = self.gone.get(key) if is_gone else None
            until = now if end is None else min(now, end + self.length(*self.seconds[key[0], end], now))
            alive = until - max(since, first)
            row["unknown"] = max(0, alive - row["free"] - row["busy"] - row["held"])
        return found

    def last_day(self, now: int) -> dict[tuple[str, str, int | None], dict[str, int]]:
        """By host, UUID and slice, of those that are there: seconds of the last 24 h in each state; the rest is unknown.

        It is the record of the card, wherever it was.
        """
        found = {}
        for host, known in self.last.items():
            for key in known:
                row = found[host, *key] = {"free": 0, "busy": 0, "held": 0}
                for look, seconds in self.counted(now - DAY, now, self.of_card[key]):
                    if look.state in KNOWN:
                        row[look.state] += seconds
        return found

    def supply(self, since: int, now: int, by_group: bool) -> dict[tuple[str, str | None], dict[str, Any]]:
        """By model and group: what was free at once, weighed by the time of runs."""
        lengths = self.run_lengths(now)
        by_run: dict[Any, list[Look]] = defaultdict(list)
        for look in self.looks:
            if look.slice is None and look.run <= now and look.run + lengths[look.run] > since:
                by_run[look.run, look.model, GROUPS[look.host] if by_group else None].append(look)
        found: dict[Any, dict[str, Any]] = {}
        for (run, model, group), looks in by_run.items():
            seconds = min(run + lengths[run], now) - max(run, since)
            row = found.setdefault((model, group), defaultdict(float) | {"first": max(run, since)})
            _add_run(row, looks, seconds, run)
        newest = max((row["last"] for row in found.values()), default=0)
        return {key: row for key, row in found.items() if row["last"] > newest - HOUR}

    def held_long(self, since: int, now: int, idle_after: int = HOUR) -> dict[tuple[str, str], int]:
        """By model and group: seconds of GPUs held idle by the same users for that long or longer at a time.

        A time without an answer of up to an hour does not end it.
        """
        stretches: dict[Any, list[tuple[int, int, Look]]] = defaultdict(list)
        for look in self.looks:
            if look.state == "held" and look.slice is None and look.at <= now:
                end = look.at + self.length(*self.seconds[look.host, look.at], now)
                stretches[look.host, look.uuid, look.users].append((look.at, end, look))
        found: dict[tuple[str, str], int] = defaultdict(int)
        for times in stretches.values():
            for stretch in _joined(times):
                if stretch[-1][1] - stretch[0][0] >= idle_after:
                    for start, end, look in stretch:
                        key = look.model, GROUPS[look.host]
                        found[key] += max(0, min(end, now) - max(start, since))
        return found

    def availability(self, now: int) -> dict[str, tuple[int, int, int]]:
        """By host: seconds up and down of the last 30 UTC days, and since when it was asked in these."""
        since = (now // DAY - 29) * DAY
        found = {}
        for host, asked in self.readings.items():
            up = down = 0
            for at, is_up in asked:
                if at > now:
                    continue
                inside = min(now, at + self.length(*self.seconds[host, at], now)) - max(since, at)
                up, down = (up + max(0, inside), down) if is_up else (up, down + max(0, inside))
            found[host] = (up, down, max(since, asked[0][0]))
        return found


def _joined(times: list[tuple[int, int, Look]]) -> Iterator[list[tuple[int, int, Look]]]:
    stretch: list[tuple[int, int, Look]] = []
    for one in times:
        if stretch and one[0] > stretch[-1][1] + BRIDGE_S:
            yield stretch
            stretch = []
        stretch.append(one)
    yield stretch


def _add_run(row: dict[str, Any], looks: list[Look], seconds: int, run: int) -> None:
    states = [look.state for look in looks]
    known = sum(state in KNOWN for state in states)
    row["last"], row["gpus"] = run, len(looks)
    row["most"] = max(Counter(look.host for look in looks).values())
    row["counted"] += seconds
    for state in ("free", "busy", "held"):
        row[state] += seconds * states.count(state)
    row["all"] += seconds * len(looks)
    row["reported"] += seconds * sum(look.allocated is not None for look in looks)
    row["allocated"] += seconds * sum(look.allocated is True for look in looks)
    row["idle"] += seconds * sum(look.allocated is True and look.state == "held" for look in looks)
    if 2 * known >= len(looks):
        free_by_host: dict[str, int] = defaultdict(int)
        for look in looks:
            free_by_host[look.host] += look.state == "free"
        row["judged"] += seconds
        row["none"] += seconds if not any(free_by_host.values()) else 0
        for name, number in (("two", 2), ("four", 4), ("eight", 8)):
            row[name] += seconds if max(free_by_host.values()) >= number else 0


def _unseen(look: Look, at: int, run: int) -> Look:
    return replace(
        look, at=at, run=run, state="unknown", users=(), percent=None, used_mib=None, celsius=None, watts=None,
        allocated=None, owner="", is_seen=False,
    )  # fmt: skip
