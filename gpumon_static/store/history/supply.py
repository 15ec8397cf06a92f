"""What the history knows of supply: each model's time by what was free, and who held it idle.

Answers come from the sums over hours and days, as in questions.py; survey/supply.py makes shares and a
verdict of them. The hours of the week are those of this machine's time zone.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from gpumon_static.store.history.database import SLURM_SUPPLY_SUMS, SUPPLY_SUMS, HistoryError
from gpumon_static.store.history.questions import Period, has_table, names_of
from gpumon_static.store.history.rollups import DAY, HOUR
from gpumon_static.store.history.supply_count import ALL_HOSTS
from gpumon_static.text import one_line

_Key = tuple[int, int]
"""Model and group, as numbers."""


class SupplySums(NamedTuple):
    """Seconds, in the order of the tables' columns."""

    counted_s: int
    """That runs stand for."""
    judged_s: int
    """Of these: with at least half of the GPUs known. The next four are parts of it."""
    none_s: int
    """None free."""
    two_s: int
    """Two or more free on one host."""
    four_s: int
    eight_s: int
    free_s: int
    """GPU seconds, as the next three."""
    busy_s: int
    held_s: int
    unknown_s: int

    @property
    def known_s(self) -> int:
        return self.free_s + self.busy_s + self.held_s

    @property
    def gpu_s(self) -> int:
        return self.known_s + self.unknown_s


class SlurmSums(NamedTuple):
    """GPU seconds, in the order of the tables' columns."""

    told_s: int
    """In which Slurm reported whether a job has the GPU."""
    allocated_s: int
    """Of these: a job had it."""
    idle_s: int
    """Of these: and it was held idle."""


class WeekHour(NamedTuple):
    free_s: int
    known_s: int


@dataclass(frozen=True, slots=True)
class ModelSupply:
    model: str
    group: str | None
    """None: all hosts; empty: hosts without a group."""
    gpus: int
    """At the end of the period."""
    host_gpus: int
    """Most in one host."""
    first_at: int
    """In the period."""
    sums: SupplySums
    before: SupplySums | None
    """The period of the same length before it."""
    week: Mapping[int, WeekHour]
    """By the hour of the week, from Monday on; hours are kept for history.keep_hours."""
    held_by: tuple[tuple[str, float], ...] | None
    """User and seconds held idle, most first. The name is empty for an unknown user. None: not asked for."""
    slurm: SlurmSums | None = None
    """None: no Slurm reported on any of them."""


class SupplyAnswer(NamedTuple):
    asked: Period
    """From the first run that was counted on, where that is later."""
    length_s: int
    """Of the period that was asked for."""
    models: list[ModelSupply]


def supply(
    connection: sqlite3.Connection,
    asked: Period,
    groups: Mapping[str, str] | None = None,
    *,
    with_holders: bool = True,
) -> SupplyAnswer:
    """Each model that is there at the end of the period. `groups`: by group, of hosts by name, too.

    `with_holders`: with who held them idle, for which the days of all users and GPUs are gone through.
    """
    if not has_table(connection, "supply_days"):
        raise HistoryError("supply is not counted yet: the next `gpumon-static fetch` begins with it")
    length = asked.until - asked.since
    first = _first_at(connection, asked)
    if first is None:
        return SupplyAnswer(asked, length, [])
    known = Period(max(asked.since, first), asked.until)
    before = _sums(connection, _earlier(connection, asked))
    sums, firsts, weeks = _sums(connection, known), _firsts(connection, known), _weeks(connection, known)
    slurm = _slurm_sums(connection, known)
    held = _held_by(connection, known, groups) if with_holders else None
    models = dict(connection.execute("SELECT model, name FROM supply_models"))
    group_names = dict(connection.execute("SELECT id, name FROM host_groups"))
    found = [
        ModelSupply(
            one_line(models[key[0]]) or "",
            None if groups is None else group_names[key[1]],
            *sizes,
            first_at=max(known.since, firsts[key]),
            sums=sums[key],
            before=before.get(key),
            week=weeks.get(key, {}),
            held_by=None
            if held is None
            else held.get((key[0], "" if groups is None else group_names[key[1]]), ()),
            slurm=slurm.get(key),
        )
        for key, sizes in _sizes(connection, known).items()
        if key in sums and key[0] in models and key[1] in (group_names if groups is not None else {ALL_HOSTS})
    ]
    return SupplyAnswer(known, length, found)


def _first_at(connection: sqlite3.Connection, asked: Period) -> int | None:
    """The first hour that was counted, or the first day where its hours are gone; None: after the period."""
    (hour,) = connection.execute("SELECT min(hour) FROM supply_hours").fetchone()
    (day,) = connection.execute("SELECT min(day) FROM supply_days").fetchone()
    if day is None:
        return None
    first: int = hour * HOUR if hour is not None and hour // 24 <= day else day * DAY
    return first if first < asked.until else None


def _earlier(connection: sqlite3.Connection, asked: Period) -> Period:
    start = 2 * asked.since - asked.until
    (hour,) = connection.execute("SELECT min(hour) FROM supply_hours").fetchone()
    return Period(start // DAY * DAY if hour is None or start < hour * HOUR else start, asked.since)


def _pieces(name: str, asked: Period) -> Iterator[tuple[str, str, int, int]]:
    """Table, unit, and which of its rows: from, and up to but not with. Whole days by the day."""
    first_day, end_day = -(-asked.since // DAY), asked.until // DAY
    first_hour, end_hour = asked.since // HOUR, -(-asked.until // HOUR)
    if first_day > end_day:
        yield f"{name}_hours", "hour", first_hour, end_hour
        return
    yield f"{name}_hours", "hour", first_hour, first_day * 24
    yield f"{name}_days", "day", first_day, end_day
    yield f"{name}_hours", "hour", end_day * 24, end_hour


def _sums(connection: sqlite3.Connection, asked: Period) -> dict[_Key, SupplySums]:
    rows = _added_up(connection, asked, "supply", SUPPLY_SUMS)
    return {key: SupplySums(*numbers) for key, numbers in rows.items()}


def _slurm_sums(connection: sqlite3.Connection, asked: Period) -> dict[_Key, SlurmSums]:
    """Nothing of a history that no run of this version has added to yet."""
    if not has_table(connection, "slurm_supply_days"):
        return {}
    rows = _added_up(connection, asked, "slurm_supply", SLURM_SUPPLY_SUMS)
    return {key: SlurmSums(*numbers) for key, numbers in rows.items()}


def _added_up(
    connection: sqlite3.Connection, asked: Period, name: str, sums: Sequence[str]
) -> dict[_Key, list[int]]:
    columns = ", ".join(f"sum({column})" for column in sums)
    found: dict[_Key, list[int]] = {}
    for table, unit, low, high in _pieces(name, asked):
        rows = connection.execute(
            f"SELECT model, host_group, {columns} FROM {table} WHERE {unit} >= ? AND {unit} < ?"  # noqa: S608
            " GROUP BY model, host_group",
            (low, high),
        )
        for model, group, *numbers in rows:
            before = found.get((model, group), [0] * len(sums))
            found[model, group] = [*map(sum, zip(before, numbers, strict=True))]
    return found


def _firsts(connection: sqlite3.Connection, asked: Period) -> dict[_Key, int]:
    """When each was first counted in the period; by the day where the hours are gone."""
    found: dict[_Key, int] = {}
    for unit, seconds in (("hour", HOUR), ("day", DAY)):
        rows = connection.execute(
            f"SELECT model, host_group, min({unit}) FROM supply_{unit}s WHERE {unit} >= ? AND {unit} < ?"  # noqa: S608
            " GROUP BY model, host_group",
            (asked.since // seconds, -(-asked.until // seconds)),
        )
        for model, group, first in rows:
            at = found.setdefault((model, group), first * seconds)
            if first * seconds < at // DAY * DAY:
                found[model, group] = first * seconds
    return found


def _sizes(connection: sqlite3.Connection, asked: Period) -> dict[_Key, tuple[int, int]]:
    """GPUs, and most in one host, in the last hour or day that was counted in the period."""
    for unit, seconds in (("hour", HOUR), ("day", DAY)):
        rows = connection.execute(
            f"SELECT model, host_group, gpus, host_gpus FROM supply_{unit}s WHERE {unit} ="  # noqa: S608
            f" (SELECT max({unit}) FROM supply_{unit}s WHERE {unit} >= ? AND {unit} < ?)",
            (asked.since // seconds, -(-asked.until // seconds)),
        ).fetchall()
        if rows:
            return {(model, group): (gpus, host_gpus) for model, group, gpus, host_gpus in rows}
    return {}


def _weeks(connection: sqlite3.Connection, asked: Period) -> dict[_Key, dict[int, WeekHour]]:
    rows = connection.execute(
        "SELECT model, host_group, hour, free_s, free_s + busy_s + held_s FROM supply_hours"
        " WHERE hour >= ? AND hour < ?",
        (asked.since // HOUR, -(-asked.until // HOUR)),
    )
    places: dict[int, int] = {}
    found: dict[_Key, dict[int, WeekHour]] = defaultdict(dict)
    for model, group, hour, free, known in rows:
        if hour not in places:
            local = datetime.fromtimestamp(hour * HOUR).astimezone()
            places[hour] = local.weekday() * 24 + local.hour
        week = found[model, group]
        before = week.get(places[hour], WeekHour(0, 0))
        week[places[hour]] = WeekHour(before.free_s + free, before.known_s + known)
    return found


def _held_by(
    connection: sqlite3.Connection, asked: Period, groups: Mapping[str, str] | None
) -> dict[tuple[int, str], tuple[tuple[str, float], ...]]:
    """By model and the group that the host has today. Slices are never held idle."""
    users, hosts = names_of(connection, "users"), dict(connection.execute("SELECT id, name FROM hosts"))
    seconds: dict[tuple[int, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for table, unit, low, high in _pieces("user", asked):
        rows = connection.execute(
            f"SELECT user, host, counted_as, sum(held_s) FROM {table} JOIN gpus ON gpus.id = gpu"  # noqa: S608
            f" JOIN supply_models AS m ON m.model = gpus.model WHERE {unit} >= ? AND {unit} < ?"
            " AND held_s > 0 GROUP BY user, host, counted_as",
            (low, high),
        )
        for user, host, model, held in rows:
            group = "" if groups is None else groups.get(hosts[host], "")
            seconds[model, group][users[user]] += held
    return {
        key: tuple(sorted(held.items(), key=lambda item: (-item[1], item[0])))
        for key, held in seconds.items()
    }
