"""Questions to the history: who used how much, how busy were the hosts.

Answers come from the sums over hours and days, never from single samples: whole days by the day, the
first day of a period, where it is cut, by the hour.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gpumon_static.bounds.tables import INDEX, MEMORY, PERCENT, POWER, TEMPERATURE
from gpumon_static.store.history.database import ALLOCATED_SUMS, USER_SUMS
from gpumon_static.store.history.rollups import DAY, HOUR
from gpumon_static.store.slurm import allocated
from gpumon_static.store.slurm.allocated import AllocatedTime
from gpumon_static.text import natural_key, one_line

_USER_COLUMNS = " ".join(USER_SUMS)
_GPU_COLUMNS = (
    "utilization_n utilization_sum memory_n memory_sum temperature_n temperature_sum power_n power_sum"
    " free_s busy_s held_s"
).split()
MEASURED = {"utilization": PERCENT, "memory": MEMORY, "temperature": TEMPERATURE, "power": POWER}
"""The ranges of what is measured of a GPU, in the order of the columns: older databases hold worse."""
_GPU_MAXES = "utilization_max memory_max temperature_max power_max".split()


@dataclass(frozen=True, slots=True)
class Period:
    """From the beginning of an hour, or of a day where there are no hours any more, to the last run."""

    since: int
    until: int


@dataclass(frozen=True, slots=True)
class UserUse:
    user: str
    """Empty: an unknown user."""
    part: str | None
    """A host, group or model, where it was asked for."""
    busy_s: float
    held_s: float
    efficiency: float | None
    """Mean utilization in percent, while held."""
    allocated_s: float = 0.0
    """Given to jobs of the user by Slurm."""
    allocated_idle_s: float = 0.0
    """Of that, not computing."""

    @property
    def total_s(self) -> float:
        return self.busy_s + self.held_s


@dataclass(frozen=True, slots=True)
class Level:
    mean: float | None
    most: int | None


@dataclass(frozen=True, slots=True)
class GpuUse:
    host: str
    index: str
    """3, or 3:1 for a slice; for a whole host how many there are."""
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


Naming = Callable[[str, str], str]
"""Host and model to the part that a user's hours are listed by."""


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """A database that was not written to since an update has not all of them."""
    query = "SELECT count(*) FROM sqlite_schema WHERE name = ?"
    return bool(connection.execute(query, (name,)).fetchone()[0])


def newest_run(connection: sqlite3.Connection) -> int | None:
    newest: int | None = connection.execute("SELECT max(at) FROM latest").fetchone()[0]
    return newest


def period(connection: sqlite3.Connection, since: int, now: int) -> Period:
    first_hour = connection.execute("SELECT min(hour) FROM gpu_hours").fetchone()[0]
    hour = since // HOUR
    in_hours = first_hour is None or hour >= first_hour
    start = hour * HOUR if in_hours else since // DAY * DAY
    return Period(start, min(now, newest_run(connection) or now))


def users(
    connection: sqlite3.Connection,
    asked: Period,
    part: Naming | None = None,
    *,
    with_allocated: bool = True,
) -> list[UserUse]:
    """Those with the most hours first; with `part` each of their parts.

    `with_allocated`: also what Slurm had given to them, which takes as long again.
    """
    sums: dict[tuple[str, str | None], list[float]] = defaultdict(lambda: [0.0] * 4)
    rows = _rows_by_user(connection, asked) if part is None else _rows_by_part(connection, asked, part)
    for user, where, *numbers in rows:
        total = sums[user, where]
        for place, number in enumerate(numbers):
            total[place] += number
    given = _allocated(connection, asked, part) if with_allocated else {}
    for key in given:
        sums[key]
    none = AllocatedTime(0.0, 0.0)
    used = [
        UserUse(*key, busy, held, worked / measured if measured else None, *given.get(key, none))
        for key, (busy, held, worked, measured) in sums.items()
    ]
    return sorted(used, key=lambda use: (-use.total_s, use.user, use.part or ""))


def names_of(connection: sqlite3.Connection, table: str) -> dict[int, str]:
    """Names by their numbers, clean: older databases have others."""
    rows = connection.execute(f"SELECT id, name FROM {table}")  # noqa: S608 (our own names)
    return {number: one_line(name) or "" for number, name in rows}


def _allocated(
    connection: sqlite3.Connection, asked: Period, part: Naming | None
) -> dict[tuple[str, str | None], AllocatedTime]:
    if not allocated.is_known(connection):
        return {}
    columns = " ".join(ALLOCATED_SUMS)
    if part is None:
        return allocated.summed(_rows_by_user(connection, asked, "allocated", columns))
    return allocated.summed(_rows_by_part(connection, asked, part, "allocated", columns))


def _rows_by_user(
    connection: sqlite3.Connection, asked: Period, name: str = "user", columns: str = _USER_COLUMNS
) -> Iterator[tuple[Any, ...]]:
    """In the order of the tables, so that nothing has to be sorted: a month of 8,000 GPUs is 240,000 rows."""
    names = names_of(connection, "users")
    for table, unit, low, high in _tables(name, asked):
        rows = connection.execute(
            f"SELECT user, {_summed(columns)} FROM {table}"  # noqa: S608
            f" WHERE {unit} >= ? AND {unit} < ? GROUP BY {unit}, user",
            (low, high),
        )
        yield from ((names[user], None, *numbers) for user, *numbers in rows)


def _rows_by_part(
    connection: sqlite3.Connection,
    asked: Period,
    part: Naming,
    name: str = "user",
    columns: str = _USER_COLUMNS,
) -> Iterator[tuple[Any, ...]]:
    """Summed up by number; the names come last, for what is left."""
    names = names_of(connection, "users")
    hosts = dict(connection.execute("SELECT id, name FROM hosts"))
    models = names_of(connection, "models")
    for table, unit, low, high in _tables(name, asked):
        rows = connection.execute(
            f"SELECT user, host, model, {_summed(columns)} FROM {table}"  # noqa: S608
            f" JOIN gpus ON gpus.id = gpu WHERE {unit} >= ? AND {unit} < ? GROUP BY user, host, model",
            (low, high),
        )
        for user, host, model, *numbers in rows:
            yield names[user], part(hosts[host], models[model]), *numbers


def gpus(connection: sqlite3.Connection, asked: Period) -> list[GpuUse]:
    """Every GPU and slice of which something is known in that time, by host and index."""
    grouped = _grouped(_gpu_rows(connection, asked), lambda row: (row.host, row.position, row.slice, row.id))
    return [_gpu_use(rows, asked, _index(rows[0])) for rows in grouped]


def hosts(connection: sqlite3.Connection, asked: Period) -> list[GpuUse]:
    """The same for whole hosts, slices left out: their card counts once."""
    whole = (row for row in _gpu_rows(connection, asked) if row.slice is None)
    grouped = _grouped(whole, lambda row: (row.host,))
    return [_gpu_use(rows, asked, str(len({row.id for row in rows}))) for rows in grouped]


@dataclass(frozen=True, slots=True)
class _GpuRow:
    id: int
    host: str
    position: int
    slice: int | None
    model: str
    profile: str
    first_at: int
    sums: tuple[int, ...]
    maxes: tuple[int | None, ...]


def _gpu_rows(connection: sqlite3.Connection, asked: Period) -> Iterator[_GpuRow]:
    maxes = ", ".join(f"max({column})" for column in _GPU_MAXES)
    for table, unit, low, high in _tables("gpu", asked):
        rows = connection.execute(
            "SELECT gpus.id, hosts.name, position, slice, models.name, profile, first_at,"  # noqa: S608
            f" {_summed(' '.join(_GPU_COLUMNS))}, {maxes} FROM {table} AS u JOIN gpus ON gpus.id = u.gpu"
            " JOIN hosts ON hosts.id = gpus.host JOIN models ON models.id = gpus.model"
            f" WHERE {unit} >= ? AND {unit} < ? GROUP BY u.gpu",
            (low, high),
        )
        for number, host, position, slice_, model, profile, first_at, *values in rows:
            if is_place(position, slice_):
                names = one_line(model) or "", one_line(profile) or ""
                sums, maxes_seen = tuple(values[:-4]), tuple(values[-4:])
                yield _GpuRow(number, host, position, slice_, *names, first_at, sums, maxes_seen)


def is_place(position: int, slice_: int | None) -> bool:
    """Whether a GPU or slice has a number that one can have; older databases have others."""
    return INDEX.takes(position) and (slice_ is None or INDEX.takes(slice_))


def _grouped(rows: Iterable[_GpuRow], key: Callable[[_GpuRow], tuple[object, ...]]) -> list[list[_GpuRow]]:
    grouped: dict[tuple[object, ...], list[_GpuRow]] = defaultdict(list)
    for row in rows:
        grouped[key(row)].append(row)
    return [
        grouped[name]
        for name in sorted(
            grouped, key=lambda parts: [natural_key("" if part is None else str(part)) for part in parts]
        )
    ]


def _gpu_use(rows: list[_GpuRow], asked: Period, index: str) -> GpuUse:
    sums = [sum(column) for column in zip(*(row.sums for row in rows), strict=True)]
    maxes = [
        max((value for value in column if value is not None), default=None)
        for column in zip(*(row.maxes for row in rows), strict=True)
    ]
    levels = [
        Level(bounds.known(total / number if number else None), bounds.known(most))
        for bounds, number, total, most in zip(MEASURED.values(), sums[:8:2], sums[1:8:2], maxes, strict=True)
    ]
    free, busy, held = sums[8:]
    first_seen = {row.id: row.first_at for row in rows}
    alive = sum(max(0, asked.until - max(asked.since, at)) for at in first_seen.values())
    return GpuUse(
        host=rows[0].host,
        index=index,
        model=" + ".join(sorted({f"{row.model} {row.profile}".rstrip() for row in rows})),
        utilization=levels[0],
        memory=levels[1],
        temperature=levels[2],
        power=levels[3],
        free_s=free,
        busy_s=busy,
        held_s=held,
        unknown_s=max(0, alive - free - busy - held),
    )


def _index(row: _GpuRow) -> str:
    return str(row.position) if row.slice is None else f"{row.position}:{row.slice}"


def _tables(name: str, asked: Period) -> Iterator[tuple[str, str, int, int]]:
    """Which tables hold the period, by which unit, and which of their rows: from, and up to but not with."""
    first_whole_day = -(-asked.since // DAY)
    if first_whole_day * DAY > asked.since:
        yield f"{name}_hours", "hour", asked.since // HOUR, first_whole_day * 24
    yield f"{name}_days", "day", first_whole_day, asked.until // DAY + 1


def _summed(columns: str) -> str:
    return ", ".join(f"sum({column})" for column in columns.split())
