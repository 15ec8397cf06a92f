"""What runs amount to, gone through one by one without a database: slow and simple on purpose.

`Recount` keeps a list of everything that was read. Each question adds it up from the beginning. What a reading
means (free, busy, whose) is the survey's, as for the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpumon_static.config.settings import BusyConfig
from gpumon_static.model import Allocated, Gpu, HostReading, Process
from gpumon_static.store.history.observed import GpuSighting
from gpumon_static.survey.sightings import sightings

INTERVAL, HOUR, DAY = 300, 3600, 86400
MISSING_S = 7 * DAY


class Place(NamedTuple):
    """A GPU of a host, or a slice of it."""

    host: str
    card: str
    slice: int | None


class Entry(NamedTuple):
    """One GPU or slice in one reading."""

    place: Place
    group: str
    t: int
    run_at: int
    number: int
    name: str
    model: str
    profile: str
    state: str
    users: tuple[str, ...] = ()
    share: float = 0.0
    levels: tuple[int | None, int | None, int | None, int | None] = (None, None, None, None)
    """Utilization, memory, temperature and power."""
    memory_total: int | None = None
    allocated: bool | None = None
    """By Slurm; None: not reported."""
    owner: str = ""
    oldest: int | None = None
    """When the oldest process on it began."""


class Reading(NamedTuple):
    host: str
    t: int
    run_at: int
    ok: bool
    measured: tuple[float | None, float | None, float | None, float | None]
    """CPU, RAM and fullest disk in percent, load."""


@dataclass
class Known:
    """The last that was seen of a GPU or slice."""

    entry: Entry
    bus_id: str | None
    first_at: int
    since: int
    taken_since: int | None
    looks: int = 1
    """In its state, with these users, one after the other."""


def stands_for(t: int, following: int | None, newest: int) -> int:
    if following is not None and following - t <= 1.5 * INTERVAL:
        return following - t
    return INTERVAL if newest - t > 1.5 * INTERVAL else 0


@dataclass
class Recount:
    configured: Sequence[str]
    groups: Mapping[str, str]
    entries: list[Entry] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    full_runs: list[int] = field(default_factory=list)
    newest: int = 0
    known: dict[Place, Known] = field(default_factory=dict)
    host_since: dict[str, tuple[int, bool]] = field(default_factory=dict)

    def add_run(self, seen: Sequence[HostReading]) -> None:
        """Those that were not read again have the time of an earlier run."""
        last_read = {reading.host: reading.t for reading in self.readings}
        new = [r for r in seen if r.fetched_at.timestamp() > last_read.get(r.host, 0)]
        if not new:
            return
        self.newest = max(int(reading.fetched_at.timestamp()) for reading in new)
        if len(new) == len(seen):
            self.full_runs.append(self.newest)
        cards = {reading.host: self._cards(reading) for reading in new if reading.ok}
        before = dict(self.known)
        for reading in new:
            self._read(reading)
            if reading.ok:
                self._lose(reading, cards, before)
            else:
                self._down(reading)
        self._follow(cards, before)
        for reading in new:
            if reading.ok:
                self._see(reading, cards[reading.host])

    # Which GPU is which

    def _cards(self, reading: HostReading) -> dict[int, str]:
        """By index: the UUID, or the card that was last known at its bus id, then at its index."""
        uuids = [gpu.uuid for gpu in reading.gpus]
        cards = {gpu.index: gpu.uuid for gpu in reading.gpus if gpu.uuid and uuids.count(gpu.uuid) == 1}
        there = [k for k in self.known.values() if k.entry.place[::2] == (reading.host, None)]
        there.sort(key=lambda k: (k.entry.t, k.entry.place.card), reverse=True)
        nameless = [gpu for gpu in reading.gpus if gpu.index not in cards]
        for gpu in nameless:
            self._remember(cards, gpu, [k for k in there if k.bus_id and k.bus_id == gpu.bus_id])
        for gpu in nameless:
            if gpu.index not in cards:
                self._remember(cards, gpu, [k for k in there if k.entry.number == gpu.index])
        return {gpu.index: cards.get(gpu.index, f"#{gpu.index}") for gpu in reading.gpus}

    @staticmethod
    def _remember(cards: dict[int, str], gpu: Gpu, candidates: Iterable[Known]) -> None:
        for known in candidates:
            if known.entry.place.card not in cards.values():
                cards[gpu.index] = known.entry.place.card
                return

    def _follow(self, cards: Mapping[str, Mapping[int, str]], before: Mapping[Place, Known]) -> None:
        """A card that is new in a host, and that its old host no longer has; one that gets its UUID."""
        moved: set[Place] = set()
        for host, of_host in sorted(cards.items()):
            for index, card in of_host.items():
                if Place(host, card, None) in before:
                    continue
                old = [p for p in before if p.card == card and p.slice is None and p not in moved]
                old = [p for p in old if not card.startswith("#") and self._has_left(p, cards)]
                old.sort(key=lambda place: (-before[place].entry.t, place.host))
                if (numbered := Place(host, f"#{index}", None)) in before:
                    old.append(numbered)
                if old:
                    moved.add(old[0])
                    self._move(before, old[0], Place(host, card, None))

    def _has_left(self, place: Place, cards: Mapping[str, Mapping[int, str]]) -> bool:
        if place.host not in self.configured:
            return True
        return place.host in cards and place.card not in cards[place.host].values()

    def _move(self, before: Mapping[Place, Known], old: Place, new: Place) -> None:
        for place, known in before.items():
            if place[:2] == old[:2]:
                self.known.pop(place, None)
                first = known.first_at if old.host == new.host else 10**12
                self.known[Place(new.host, new.card, place.slice)] = Known(
                    known.entry, known.bus_id, first, known.since, known.taken_since, known.looks
                )

    # What was read

    def _read(self, reading: HostReading) -> None:
        at, machine = int(reading.fetched_at.timestamp()), reading.machine
        ram = None
        if machine.ram_used_mib is not None and machine.ram_total_mib:
            ram = min(100.0, 100.0 * machine.ram_used_mib / machine.ram_total_mib)
        fullest = max(
            (round(100 * d.used_mib / d.total_mib) for d in machine.disks if d.used_mib and d.total_mib),
            default=None,
        )
        measured = (machine.cpu_utilization, ram, fullest, machine.load_1m) if reading.ok else (None,) * 4
        self.readings.append(Reading(reading.host, at, self.newest, reading.ok, measured))
        since, was_ok = self.host_since.get(reading.host, (at, reading.ok))
        self.host_since[reading.host] = (since if was_ok == reading.ok else at, reading.ok)

    def _lose(
        self, reading: HostReading, cards: Mapping[str, Mapping[int, str]], before: Mapping[Place, Known]
    ) -> None:
        """GPUs that the host no longer has are unknown for a week, unless they are elsewhere or replaced."""
        at, own = int(reading.fetched_at.timestamp()), cards[reading.host]
        elsewhere = {card for of_host in cards.values() for card in of_host.values()}
        for place, known in before.items():
            if place.host != reading.host or place.card in own.values():
                continue
            now_there = own.get(known.entry.number)
            is_replaced = now_there and Place(reading.host, now_there, None) not in before
            is_unknown = not (is_replaced or place.card in elsewhere or known.entry.t <= at - MISSING_S)
            if is_unknown and place.slice is None:
                self._note(reading, known, "unknown")
            else:
                del self.known[place]

    def _down(self, reading: HostReading) -> None:
        for known in [k for k in self.known.values() if k.entry.place.host == reading.host]:
            self._note(reading, known, "down")

    def _note(self, reading: HostReading, known: Known, state: str) -> None:
        at = int(reading.fetched_at.timestamp())
        self.entries.append(
            known.entry._replace(
                t=at, run_at=self.newest, state=state, users=(), share=0.0, levels=(None,) * 4,
                allocated=None, owner="", group=self.groups.get(reading.host, ""), memory_total=None,
            )
        )  # fmt: skip

    def _see(self, reading: HostReading, cards: Mapping[int, str]) -> None:
        (sighting,) = sightings([reading], BusyConfig(), self.groups)
        by_index = {gpu.index: gpu for gpu in reading.gpus}
        seen = set()
        for one in sighting.gpus or ():
            entry = self._entry(sighting.at, reading, by_index[one.number], one, cards[one.number])
            self.entries.append(entry)
            seen.add(entry.place)
            self._remember_state(entry, by_index[one.number].bus_id)
        for place in [p for p in self.known if p.host == reading.host and p.slice is not None]:
            if place not in seen:
                del self.known[place]

    def _entry(self, at: int, reading: HostReading, gpu: Gpu, one: GpuSighting, card: str) -> Entry:
        mig = next((mig for mig in gpu.slices if mig.index == one.slice), None)
        allocation = gpu.allocation.allocated if not gpu.slices else None
        levels = (gpu.utilization, gpu.memory_used_mib, gpu.temperature_c, gpu.power_w)
        if mig:
            levels = (None, mig.memory_used_mib, None, None)
        total = mig.memory_total_mib if mig and mig.memory_total_mib is not None else gpu.memory_total_mib
        return Entry(
            Place(reading.host, card, one.slice), self.groups.get(reading.host, ""), at, self.newest,
            gpu.index, gpu.name or "", one.model, (mig.profile or "MIG") if mig else "", one.state, one.users,
            one.share, tuple(None if v is None else int(v) for v in levels),  # type: ignore[arg-type]
            None if total is None else int(total),
            None if allocation in (None, Allocated.UNKNOWN) else allocation is Allocated.YES,
            gpu.allocation.user or "", _oldest(at, mig.processes if mig else gpu.processes),
        )  # fmt: skip

    def _remember_state(self, entry: Entry, bus_id: str | None) -> None:
        """A pause of up to an hour does not restart "since", unless all that runs there began in it."""
        before = self.known.get(entry.place)
        if before is None:
            taken = entry.t if entry.state in ("busy", "held") else None
            self.known[entry.place] = Known(entry, bus_id, entry.t, entry.t, taken)
            return
        gap = entry.t - before.entry.t
        is_new = gap > 1.5 * INTERVAL and entry.oldest is not None and entry.oldest > before.entry.t
        is_joined = gap <= HOUR and not is_new
        since = before.since if is_joined and before.entry.state == entry.state else entry.t
        taken = None
        if entry.state in ("busy", "held"):
            is_same = is_joined and before.taken_since and before.entry.users == entry.users
            taken = before.taken_since if is_same else entry.t
        is_alike = (before.entry.state, before.entry.users) == (entry.state, entry.users)
        looks = before.looks + 1 if is_joined and is_alike else 1
        self.known[entry.place] = Known(entry, bus_id, min(before.first_at, entry.t), since, taken, looks)

    # How time is counted

    def seconds(self) -> dict[tuple[str, int], int]:
        """By host and time of a reading: what it stands for."""
        times: dict[str, list[int]] = {}
        for reading in self.readings:
            times.setdefault(reading.host, []).append(reading.t)
        return {
            (host, t): stands_for(t, following, self.newest)
            for host, of_host in times.items()
            for t, following in zip(of_host, [*of_host[1:], None], strict=True)
        }

    def run_seconds(self) -> dict[int, int]:
        following = [*self.full_runs[1:], None]
        return {t: stands_for(t, n, self.newest) for t, n in zip(self.full_runs, following, strict=True)}

    def counted(self, since: int, until: int) -> Iterator[tuple[Entry, int]]:
        """The entries of a period, and how much of their time is in it."""
        seconds = self.seconds()
        for entry in self.entries:
            inside = _inside(entry, seconds[entry.place.host, entry.t], since, until)
            if inside is not None:
                yield entry, inside

    def from_run(self, first_run: int, last_run: int) -> Iterator[tuple[Entry, int]]:
        """The entries of runs from then to then, whole: as charts count them."""
        seconds = self.seconds()
        for entry in self.entries:
            if first_run <= entry.run_at <= last_run:
                yield entry, seconds[entry.place.host, entry.t]

    def read(self, since: int, until: int) -> Iterator[tuple[Reading, int]]:
        seconds = self.seconds()
        for reading in self.readings:
            inside = _inside(reading, seconds[reading.host, reading.t], since, until)
            if inside is not None:
                yield reading, inside


def _oldest(at: int, processes: Iterable[Process]) -> int | None:
    passed = [p.elapsed_s for p in processes if p.elapsed_s is not None and not p.is_graphics_only]
    return at - max(passed) if passed else None


def _inside(one: Entry | Reading, seconds: int, since: int, until: int) -> int | None:
    """A reading that reaches over the beginning or end of a period counts for the part inside.

    A run that ended in the period counts from its first reading on.
    """
    if one.run_at > until or (one.run_at < since and one.t + seconds <= since):
        return None
    start = one.t if one.run_at >= since else max(one.t, since)
    return max(0, min(one.t + seconds, until) - start)
