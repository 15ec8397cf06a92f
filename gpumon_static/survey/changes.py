"""What changed from one run to the next: hosts down and up, faults, GPUs freed, jobs that do not use theirs.

A state counts once `samples` runs in a row have seen it, so that one lost packet is no news. The first
run that sees a host only records its state: a change needs a state before it. All of it is kept in
`data/events.json`, beside the CSV and apart from the history, which may be thrown away.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from gpumon_static.config.settings import Config, HostConfig
from gpumon_static.model import Allocated, Gpu, HostReading, rules
from gpumon_static.model.states import State
from gpumon_static.store.events import TAKEN, Event, EventGpu, EventMemory, HostMemory, Watched
from gpumon_static.survey.faults import MISSING, missing_gpus
from gpumon_static.survey.state import gpu_state
from gpumon_static.text import one_line

MOST_EVENTS = 200
"""Kept for the feed; the oldest go first, of the host that has the most."""
MOST_FAULTS = 256
"""Of a host, that are watched."""
MOST_USES = 256
"""The same of GPUs: a host may make up a UUID in each answer."""
MOST_NAMED = 16
"""GPUs of an event with name, UUID and details; of the others it has the index and the rules."""
MOST_LETTERS = 300
"""Of the details of a GPU's faults."""
CALM = 6
"""A fault must be gone this many times as long as it had to be there: many come and go with the load."""

UP, DOWN = "up", "down"
FREE = "free"
IDLE, REPORTED = "idle", "told"
PRESENT, ABSENT = "present", "absent"
PAUSE = timedelta(hours=1)
"""A GPU that was in use before and after a time of this length was so all the time."""
GONE_AFTER = timedelta(days=7)
"""A GPU that its host no longer lists is forgotten."""
LOST = "lost"
"""The rule of health; also of a faulty GPU that is no longer listed at all."""


def note_changes(memory: EventMemory, readings: Iterable[HostReading], config: Config) -> list[Event]:
    """Add the readings of one run to the memory; return the new events."""
    memory.feed_id = memory.feed_id or str(uuid.uuid4())
    known = {host.name: host for host in config.hosts}
    _follow_renamed(memory, config.hosts)
    memory.hosts = {name: kept for name, kept in memory.hosts.items() if name in known}
    new: list[Event] = []
    for reading in readings:
        if reading.host in known and not known[reading.host].state_at(reading.fetched_at):
            new += _Observation(memory, known[reading.host], reading, config).events()
    memory.events = _newest([*memory.events, *new])
    return new


def _follow_renamed(memory: EventMemory, hosts: Iterable[HostConfig]) -> None:
    """What is kept of an old name is the new one's; an entry of the feed keeps its id."""
    renamed = {host.was: host.name for host in hosts if host.was}
    for old, new in renamed.items():
        if old in memory.hosts:
            memory.hosts.setdefault(new, memory.hosts.pop(old))
    if any(event.host in renamed for event in memory.events):
        memory.events = [replace(e, host=renamed.get(e.host, e.host)) for e in memory.events]


def _newest(events: list[Event]) -> list[Event]:
    """As many of each host: one that changes all the time pushes out no event of the others."""
    if len(events) <= MOST_EVENTS:
        return events
    counts = Counter(event.host for event in events).values()
    share = MOST_EVENTS
    while share > 1 and sum(min(number, share) for number in counts) > MOST_EVENTS:
        share -= 1
    kept: list[Event] = []
    room = Counter({event.host: share for event in events})
    for event in reversed(events):
        room[event.host] -= 1
        if room[event.host] >= 0:
            kept.append(event)
    return kept[:MOST_EVENTS][::-1]


class _Observation:
    """One host in one fetch."""

    def __init__(self, memory: EventMemory, host: HostConfig, reading: HostReading, config: Config) -> None:
        self._feed_id = memory.feed_id
        self._host = host
        self._reading = reading
        self._config = config
        self._at = reading.fetched_at
        self._needed = config.notify.samples
        self._is_new = host.name not in memory.hosts
        state = UP if reading.ok else DOWN
        self._kept = memory.hosts.setdefault(host.name, HostMemory(self._at, Watched(state, self._at)))

    def events(self) -> list[Event]:
        if not self._is_new and self._at <= self._kept.read_at:
            return []
        self._kept.read_at = self._at
        found = self._of_host()
        if self._reading.ok and self._kept.host.state == UP:
            found += [*self._of_faults(), *self._of_uses(), *self._of_jobs()]
        elif self._reading.ok:
            self._bridge_uses()
        return found

    def _of_host(self) -> list[Event]:
        watched = self._kept.host
        left = watched.see(UP if self._reading.ok else DOWN, self._at, self._needed)
        if left is None:
            return []
        lasted = (watched.since - left).total_seconds()
        if watched.state == UP:
            return [self._event("host-up", watched.since, lasted_s=lasted)]
        status, error = self._reading.status.value, self._reading.error
        return [self._event("host-down", watched.since, status=status, error=error)]

    def _of_uses(self) -> list[Event]:
        """Events of GPUs freed after long use; a GPU whose state is not known keeps the one it had."""
        freed: list[tuple[EventGpu, datetime, float]] = []
        for key, gpu in self._by_card():
            state = gpu_state(gpu, self._config.busy)
            if state is State.UNKNOWN or gpu.slices:
                continue
            now = TAKEN if state.is_taken else FREE
            watched = self._watch(self._kept.uses, key, now, FREE)
            watched.place = _place(gpu)
            self._leave_out(watched, now)
            left = watched.see(now, self._at, self._needed)
            if left is not None and now == FREE:
                known = EventGpu(gpu.index, gpu.name, None if key == watched.place else key)
                freed.append((known, watched.since, (watched.since - left).total_seconds()))
            self._forget(self._kept.uses, key, FREE)
        long = [entry for entry in freed if entry[2] >= self._config.notify.long_use * 3600]
        if not long:
            return []
        gpus = tuple(gpu for gpu, _, _ in long)
        since, lasted = max(at for _, at, _ in long), min(seconds for _, _, seconds in long)
        return [self._event("gpu-freed", since, lasted_s=lasted, gpus=gpus)]

    def _bridge_uses(self) -> None:
        """A host answers that still counts as down: its GPUs were not seen until now, not until it is up."""
        for key, gpu in self._by_card():
            state = gpu_state(gpu, self._config.busy)
            if key in self._kept.uses and state.is_taken and not gpu.slices:
                self._leave_out(self._kept.uses[key], TAKEN)

    def _leave_out(self, watched: Watched, now: str) -> None:
        usual = timedelta(seconds=self._config.site.interval)
        watched.leave_out(now, self._at, max(PAUSE, 1.5 * usual), usual)

    def _by_card(self) -> Iterator[tuple[str, Gpu]]:
        """By UUID, because numbers shift when a GPU is taken out.

        One without, or with that of another, is the one that was last in its place, as in the history.
        """
        uses = self._kept.uses
        times = Counter(gpu.uuid for gpu in self._reading.gpus)
        there = {watched.place: key for key, watched in uses.items() if watched.place and not times[key]}
        for gpu in self._reading.gpus:
            place = _place(gpu)
            key = gpu.uuid if gpu.uuid and times[gpu.uuid] == 1 else there.get(place, place)
            # What is kept by its place, or by its index in a file of an older version.
            for unnamed in {place, str(gpu.index)} & uses.keys() - {key}:
                uses.setdefault(key, uses[unnamed])
                del uses[unnamed]
            yield key, gpu
        seen = sorted(((w.seen_at or self._at, key) for key, w in uses.items()), reverse=True)
        for number, (at, key) in enumerate(seen):
            if number >= MOST_USES or self._at - at > GONE_AFTER:
                del uses[key]

    def _of_jobs(self) -> list[Event]:
        """Events of Slurm jobs that have GPUs and do not use them, once for each GPU and job."""
        by_card = ((f"{gpu.allocation.job} {card}", gpu) for card, gpu in self._by_card())
        idle = {key: gpu for key, gpu in by_card if self._is_idle(gpu)}
        kept = self._kept.idle
        # By index in a file of an older version.
        before = {key: kept.get(f"{gpu.allocation.job} {gpu.index}") for key, gpu in idle.items()}
        self._kept.idle = {key: kept.get(key) or before[key] or Watched(IDLE, self._at) for key in idle}
        long: dict[str, list[str]] = {}
        for key, watched in self._kept.idle.items():
            lasted = (self._at - watched.since).total_seconds()
            if watched.state == IDLE and lasted >= self._config.history.idle_after:
                watched.state = REPORTED
                long.setdefault(key.split()[0], []).append(key)
        return [self._idle_job(job, keys, idle) for job, keys in long.items()]

    def _is_idle(self, gpu: Gpu) -> bool:
        is_given = gpu.allocation.allocated is Allocated.YES and gpu.allocation.job is not None
        return is_given and gpu_state(gpu, self._config.busy) is State.HELD

    def _idle_job(self, job: str, keys: Sequence[str], idle: Mapping[str, Gpu]) -> Event:
        since = max(self._kept.idle[key].since for key in keys)
        gpus = tuple(EventGpu(idle[key].index, idle[key].name, idle[key].uuid) for key in keys)
        lasted = (self._at - since).total_seconds()
        user = idle[keys[0]].allocation.user
        return self._event("job-idle", since, lasted_s=lasted, gpus=gpus, job=job, user=user)

    def _of_faults(self) -> list[Event]:
        self._follow_moved()
        self._forget_quiet()
        gone = self._gone()
        present = self._present_faults() | self._lost(gone)
        appeared: list[str] = []
        mended: dict[str, datetime] = {}
        for key in [*present, *(k for k in self._kept.faults if k not in present)]:
            if key not in present and key.split()[0] in gone:
                continue
            now = PRESENT if key in present else ABSENT
            watched = self._watch(self._kept.faults, key, now, ABSENT)
            needed = self._needed if now == PRESENT else CALM * self._needed
            if watched.see(now, self._at, needed) is not None:
                if now == PRESENT:
                    appeared.append(key)
                else:
                    mended[key] = watched.since
            self._forget(self._kept.faults, key, ABSENT)
        still = {key.split()[0] for key in self._kept.faults}
        healthy = [key for key in mended if key.split()[0] not in still]
        found = []
        if appeared:
            gpus = self._faulty(appeared, present, gone)
            found.append(self._event("gpu-fault", self._kept.faults[appeared[0]].since, gpus=gpus))
        if healthy:
            since = max(map(mended.__getitem__, healthy))
            found.append(self._event("gpu-recovered", since, gpus=self._faulty(healthy, {}, gone)))
        self._leave_place_to_others(gone)
        return found

    def _follow_moved(self) -> None:
        """Move the faults of a GPU that has another number after a reboot."""
        listed = {gpu.uuid: str(gpu.index) for gpu in self._reading.gpus if gpu.uuid}
        moved = {old: listed.get(uuid, old) for old, uuid in self._kept.faulty.items()}
        # One that is no longer listed leaves its number to another faulty one, for one that is left over.
        places = [moved[old] for old, card in self._kept.faulty.items() if card in listed]
        left = (old for old in moved if old not in places)
        for old, card in self._kept.faulty.items():
            if card not in listed and old in places:
                moved[old] = next(left)

        def place(key: str) -> str:
            index, rule = key.split()
            return f"{moved.get(index, index)} {rule}"

        self._kept.faults = {place(key): watched for key, watched in self._kept.faults.items()}
        self._kept.faulty = {moved[old]: uuid for old, uuid in self._kept.faulty.items()}

    def _gone(self) -> dict[str, list[str]]:
        """Faulty GPUs that are no longer listed, which is worse than the fault: index to their faults."""
        listed = {str(gpu.index): gpu.uuid for gpu in self._reading.gpus}
        gone: dict[str, list[str]] = {}
        for key, watched in self._kept.faults.items():
            index, rule = key.split()
            uuid_now, uuid_then = listed.get(index), self._kept.faulty.get(index)
            replaced = uuid_now is not None and uuid_then is not None and uuid_now != uuid_then
            if watched.state == PRESENT and index.isdecimal() and (index not in listed or replaced):
                gone.setdefault(index, []).append(rule)
        return gone

    def _lost(self, gone: Mapping[str, Sequence[str]]) -> dict[str, str | None]:
        lost: dict[str, str | None] = {}
        for index, broken in gone.items():
            if self._is_quiet(LOST, index):
                continue
            had = ", ".join(rules.word(rule) for rule in broken if rule != LOST)
            lost[f"{index} {LOST}"] = f"no longer listed; it had: {had}" if had else "no longer listed"
        return lost

    def _leave_place_to_others(self, gone: Collection[str]) -> None:
        """Remove the faults of a lost GPU, so that the one that has its number now starts without them."""
        listed = {str(gpu.index): gpu.uuid for gpu in self._reading.gpus}
        reported = {
            index
            for index in gone
            if self._is_quiet(LOST, index) or self._kept.faults[f"{index} {LOST}"].state == PRESENT
        }
        left = reported & listed.keys()
        self._kept.faults = {k: w for k, w in self._kept.faults.items() if k.split()[0] not in left}
        broken = {key.split()[0] for key in self._kept.faults}
        here = {index: found for index, found in listed.items() if found and index not in gone}
        self._kept.faulty = {i: u for i, u in (self._kept.faulty | here).items() if i in broken}

    def _present_faults(self) -> dict[str, str | None]:
        present = {
            f"{gpu.index} {fault.rule}": fault.detail
            for gpu in self._reading.gpus
            for fault in rules.marked(gpu.faults)
            if not self._is_quiet(fault.rule, str(gpu.index))
        }
        present = dict(islice(present.items(), MOST_FAULTS))
        missing = missing_gpus(self._host, self._reading, ())
        if missing and not self._is_quiet(MISSING, "-"):
            present["- gpus-missing"] = f"{missing} of {self._host.gpus}"
        return present

    def _is_quiet(self, rule: str, index: str) -> bool:
        """The config ignores it, or knows of it."""
        gpu = int(index) if index.isdecimal() else None
        return rule in self._config.site.ignore_faults or bool(self._host.known(rule, gpu, self._at))

    def _forget_quiet(self) -> None:
        """One that is acknowledged now has not recovered."""
        quiet = [key for key in self._kept.faults if self._is_quiet(key.split()[1], key.split()[0])]
        self._kept.faults = {key: w for key, w in self._kept.faults.items() if key not in quiet}

    def _faulty(
        self, keys: Iterable[str], details: Mapping[str, str | None], gone: Collection[str]
    ) -> tuple[EventGpu, ...]:
        by_index: dict[str, list[str]] = {}
        for key in keys:
            index, rule = key.split()
            by_index.setdefault(index, []).append(rule)
        gpus = {str(gpu.index): gpu for gpu in self._reading.gpus}
        found = []
        for index, broken in by_index.items():
            gpu = None if index in gone else gpus.get(index)
            seen = [d for d in (details.get(f"{index} {rule}") for rule in broken) if d]
            found.append(
                EventGpu(
                    int(index) if index.isdecimal() else None,
                    gpu.name if gpu else None,
                    gpu.uuid if gpu else self._kept.faulty.get(index),
                    tuple(broken),
                    one_line("; ".join(seen), MOST_LETTERS),
                )
            )
        return tuple(found)

    def _watch(self, kept: dict[str, Watched], key: str, now: str, usual: str) -> Watched:
        """The kept state. What a new host shows was so before its first run, and is no change."""
        return kept.setdefault(key, Watched(now if self._is_new else usual, self._at))

    def _forget(self, kept: dict[str, Watched], key: str, usual: str) -> None:
        if kept[key].state == usual and kept[key].next is None:
            del kept[key]

    def _event(
        self, kind: str, since: datetime, *, gpus: tuple[EventGpu, ...] = (), **values: object
    ) -> Event:
        others = (replace(gpu, name=None, uuid=None, detail=None) for gpu in gpus[MOST_NAMED:])
        values["gpus"] = (*gpus[:MOST_NAMED], *others)
        of_job = f" {values['job']}" if values.get("job") else ""
        name = f"{kind} {self._host.name} {self._at.isoformat()}{of_job}"
        key = str(uuid.uuid5(uuid.UUID(self._feed_id), name))
        return Event(key, kind, self._host.name, self._host.group, self._at, since, **values)  # type: ignore[arg-type]


def _place(gpu: Gpu) -> str:
    """Where a GPU is in its host."""
    return gpu.bus_id or str(gpu.index)
