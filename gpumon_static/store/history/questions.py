"""Questions to the history: who used how much, how busy were the hosts. The SQL of each is in questions/."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpumon_static.store.history.engine import clean_name, filled, parquet
from gpumon_static.store.history.layout import LAST_FILE
from gpumon_static.store.history.reader import Period, Reader, can_be_read
from gpumon_static.text import natural_key

PARTS = {None: "NULL", "host": "host", "group": "host_group", "model": "coalesce(gpu_name, '')"}
"""What a user's hours may be listed by, in SQL."""


@dataclass(frozen=True, slots=True)
class UserUse:
    user: str
    """Empty: an unknown user."""
    part: str | None
    """A host, group or model, where it was asked for."""
    busy_s: float
    held_s: float
    work_s: float
    """Utilization in percent times seconds, while held."""
    measured_s: float
    """Seconds of that for which the utilization is known."""
    allocated_s: float = 0.0
    """Given to jobs of the user by Slurm."""
    allocated_idle_s: float = 0.0
    """Of that, not computing."""

    @property
    def total_s(self) -> float:
        return self.busy_s + self.held_s

    @property
    def efficiency(self) -> float | None:
        """Kernel active: mean sampled utilization in percent, while held."""
        return self.work_s / self.measured_s if self.measured_s else None


@dataclass(frozen=True, slots=True)
class Level:
    mean: float | None
    most: int | None


@dataclass(frozen=True, slots=True)
class GpuUse:
    host: str
    index: str
    """3, or 3:1 for a slice; for a whole host how many there are."""
    card: str
    """Its UUID; empty for a whole host."""
    model: str
    utilization: Level
    memory: Level
    temperature: Level
    power: Level
    free_s: int
    busy_s: int
    held_s: int
    unknown_s: int
    """No run, or no answer."""

    @property
    def uuid(self) -> str | None:
        """None where the GPU never had one."""
        return None if self.card.startswith("#") else self.card or None


def period(reader: Reader, since: int, now: int) -> Period:
    """What was asked, up to the last run, or up to now where the next run is overdue."""
    return Period(since, max(since, reader.until(now)))


class RunCount(NamedTuple):
    """Runs of a period: those that came, and how many there would have been since the first of them."""

    seen: int
    expected: int

    @property
    def words(self) -> str:
        return f"{self.seen:,} of {self.expected:,} runs"


def run_count(reader: Reader, asked: Period) -> RunCount:
    seen, first = reader.engine.row(filled("questions/runs", hosts=reader.sums("hosts", asked)))
    if not seen:
        return RunCount(0, 0)
    # A reading from before the period reaches into it, and is one of its runs.
    length = asked.until - max(asked.since, first)
    return RunCount(seen, max(seen, round(length / max(1, reader.interval_s())) + 1))


def users(reader: Reader, asked: Period, part: str | None = None) -> list[UserUse]:
    """Those with the most hours first; with `part` each of their parts."""
    query = filled("questions/users", users=reader.sums("users", asked), part=PARTS[part])
    found = [
        UserUse(clean_name(user), name if name is None else clean_name(name), *sums)
        for user, name, *sums in reader.engine.rows(query)
    ]
    return sorted(found, key=lambda use: (-use.total_s, use.user, use.part or ""))


def gpus(reader: Reader, asked: Period) -> list[GpuUse]:
    """Every GPU and slice of which something is known in that time, by host and index."""
    rows = _gpu_rows(reader, asked)
    found = [_gpu_use([row], _index(row)) for row in rows]
    return sorted(found, key=lambda use: (natural_key(use.host), natural_key(use.index), use.card))


def hosts(reader: Reader, asked: Period) -> list[GpuUse]:
    """The same for whole hosts, slices left out: their card counts once."""
    by_host: dict[str, list[_GpuRow]] = {}
    for row in _gpu_rows(reader, asked):
        if row.slice is None:
            by_host.setdefault(row.host, []).append(row)
    return [_gpu_use(by_host[host], str(len(by_host[host]))) for host in sorted(by_host, key=natural_key)]


@dataclass(frozen=True, slots=True)
class _GpuRow:
    host: str
    card: str
    index: int
    slice: int | None
    model: str
    profile: str
    alive_s: int
    """For which the host had it."""
    free_s: int
    busy_s: int
    held_s: int
    levels: tuple[tuple[int, int, int | None], ...]
    """Of utilization, memory, temperature and power: value times seconds, seconds, and the largest one."""


def _gpu_rows(reader: Reader, asked: Period) -> list[_GpuRow]:
    firsts = _first_seen(reader)
    query = filled("questions/gpus", gpus=reader.sums("gpus", asked))
    found = []
    for host, card, index, slice_, name, profile, first, last, last_s, *rest in reader.engine.rows(query):
        free, busy, held = (value or 0 for value in rest[:3])
        levels = tuple((rest[n] or 0, rest[n + 1] or 0, rest[n + 2]) for n in range(3, 15, 3))
        known = firsts.get((host, card, -1 if slice_ is None else slice_))
        # One that is no longer there was there until its last reading.
        end = asked.until if known is not None else min(asked.until, max(last, asked.since) + last_s)
        alive = max(0, end - max(asked.since, min(first, known or first)))
        found.append(
            _GpuRow(
                host, card or "", index, slice_, name or "", profile or "", alive, free, busy, held, levels
            )
        )
    return found


def _first_seen(reader: Reader) -> dict[tuple[Any, ...], int]:
    """When each GPU that is known today was first seen."""
    path = reader.folder / LAST_FILE
    if not can_be_read(reader.engine, path, ("host", "first_at")):
        return {}
    rows = reader.engine.rows(
        f"SELECT host, card, mig_device, first_at FROM {parquet([path])} WHERE card <> ''"
    )
    return {(host, card, slice_): first for host, card, slice_, first in rows}


def _gpu_use(rows: Sequence[_GpuRow], index: str) -> GpuUse:
    levels = [_level([row.levels[number] for row in rows]) for number in range(4)]
    alive = sum(row.alive_s for row in rows)
    free, busy, held = (sum(getattr(row, name) for row in rows) for name in ("free_s", "busy_s", "held_s"))
    return GpuUse(
        rows[0].host,
        index,
        rows[0].card if len(rows) == 1 else "",
        " + ".join(sorted({f"{row.model} {row.profile}".rstrip() for row in rows})),
        utilization=levels[0],
        memory=levels[1],
        temperature=levels[2],
        power=levels[3],
        free_s=free,
        busy_s=busy,
        held_s=held,
        unknown_s=max(0, alive - free - busy - held),
    )


def _level(parts: Iterable[tuple[int, int, int | None]]) -> Level:
    listed = list(parts)
    seconds = sum(number for _, number, _ in listed)
    total = sum(value for value, _, _ in listed)
    most = max((largest for _, _, largest in listed if largest is not None), default=None)
    return Level(total / seconds if seconds else None, most)


def _index(row: _GpuRow) -> str:
    return str(row.index) if row.slice is None else f"{row.index}:{row.slice}"
