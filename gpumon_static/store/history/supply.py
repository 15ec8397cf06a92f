"""What the history knows of supply: each model's time by what was free, and who held it idle.

survey/supply.py makes shares and a verdict of it. The hours of the week are those of this machine's zone.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from gpumon_static.store.history.engine import clean_name, filled
from gpumon_static.store.history.layout import HOUR
from gpumon_static.store.history.reader import LOOK_BACK_S, Period, Reader

_Key = tuple[str, str | None]
"""Model and group."""


class SupplySums(NamedTuple):
    """Seconds, in the order of questions/supply.sql."""

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
    """GPU seconds."""

    reported_s: int
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
    """By the hour of the week, from Monday on."""
    held_by: tuple[tuple[str, float], ...] | None
    """User and seconds held idle, most first. The name is empty for an unknown user. None: not asked for."""
    slurm: SlurmSums | None = None
    """None: no Slurm reported on any of them."""
    held_long_s: int | None = None
    """GPU seconds held idle for `idle_after` or longer at a time. None: not asked for."""


class SupplyAnswer(NamedTuple):
    asked: Period
    """From the first run that was counted on, where that is later."""
    length_s: int
    """Of the period that was asked for."""
    models: list[ModelSupply]


class _Found(NamedTuple):
    sums: SupplySums
    slurm: SlurmSums
    gpus: int
    host_gpus: int
    first_at: int
    last_at: int


def supply(
    reader: Reader, asked: Period, *, by_group: bool = False, idle_after: int | None = HOUR
) -> SupplyAnswer:
    """Each model that is there at the end of the period, in all hosts or in each group."""
    return supplies(reader, asked, [by_group], idle_after=idle_after)[0]


def supplies(
    reader: Reader, asked: Period, kinds: Sequence[bool], *, idle_after: int | None
) -> list[SupplyAnswer]:
    """The same of a period in one go. `kinds`: whether by group, for each answer.

    `idle_after`: with who held them idle, and how much of that in times of at least so many seconds, for
    which the hours of all users and GPUs are gone through. None: without.
    """
    make = "CREATE OR REPLACE TEMP TABLE"
    earlier = Period(2 * asked.since - asked.until, asked.since)
    reader.engine.do(f"{make} supply_asked AS SELECT * FROM {reader.sums('supply', asked)}")
    reader.engine.do(f"{make} supply_before AS SELECT * FROM {reader.sums('supply', earlier)}")
    if idle_after is not None:
        longer = Period(asked.since - max(LOOK_BACK_S, idle_after), asked.until)
        spells = reader.sums("spells", longer, is_exact=False)
        reader.engine.do(f"{make} spells_held AS SELECT * FROM {spells} WHERE state = 'held'")
        reader.engine.do(f"{make} users_held AS SELECT * FROM {reader.sums('users', asked)} WHERE held_s > 0")
    return [_answer(reader, asked, by_group=by_group, idle_after=idle_after) for by_group in kinds]


def _answer(reader: Reader, asked: Period, *, by_group: bool, idle_after: int | None) -> SupplyAnswer:
    length = asked.until - asked.since
    found = _sums(reader, "supply_asked", by_group=by_group)
    if not found:
        return SupplyAnswer(asked, length, [])
    last_at = max(of.last_at for of in found.values())
    there = {key: of for key, of in found.items() if of.last_at > last_at - HOUR}
    known = Period(max(asked.since, min(of.first_at for of in found.values())), asked.until)
    before = _sums(reader, "supply_before", by_group=by_group)
    weeks = _weeks(reader, "supply_asked", by_group=by_group)
    held = _held_by(reader, by_group=by_group) if idle_after is not None else None
    long = _held_long(reader, asked, idle_after, by_group=by_group) if idle_after is not None else None
    models = [
        ModelSupply(
            model=key[0],
            group=key[1],
            gpus=of.gpus,
            host_gpus=of.host_gpus,
            first_at=max(known.since, of.first_at),
            sums=of.sums,
            before=before[key].sums if key in before else None,
            week=weeks.get(key, {}),
            held_by=None if held is None else held.get(key, ()),
            slurm=of.slurm if of.slurm.reported_s else None,
            held_long_s=None if long is None else min(of.sums.held_s, long.get(key, 0)),
        )
        for key, of in there.items()
    ]
    return SupplyAnswer(known, length, models)


def _sums(reader: Reader, table: str, *, by_group: bool) -> dict[_Key, _Found]:
    query = filled("questions/supply", supply=table, not_="NOT" if by_group else "")
    return {
        (model, group): _Found(SupplySums(*numbers[4:14]), SlurmSums(*numbers[14:]), *numbers[:4])
        for model, group, *numbers in reader.engine.rows(query)
    }


def _weeks(reader: Reader, table: str, *, by_group: bool) -> dict[_Key, dict[int, WeekHour]]:
    query = filled("questions/supply_week", supply=table, not_="NOT" if by_group else "")
    return {
        (model, group): {hour: WeekHour(f, k) for hour, f, k in zip(hours, free, known, strict=True)}
        for model, group, hours, free, known in reader.engine.rows(query, {"zone": local_zone()})
    }


def _held_by(reader: Reader, *, by_group: bool) -> dict[_Key, tuple[tuple[str, float], ...]]:
    """Slices are never held idle."""
    query = filled("questions/held_by", users="users_held", group="host_group" if by_group else "NULL")
    seconds: dict[_Key, list[tuple[str, float]]] = defaultdict(list)
    for model, group, user, held in reader.engine.rows(query):
        seconds[model, group].append((clean_name(user), held))
    return {key: tuple(sorted(held, key=lambda item: (-item[1], item[0]))) for key, held in seconds.items()}


def _held_long(reader: Reader, asked: Period, idle_after: int, *, by_group: bool) -> dict[_Key, int]:
    query = filled("questions/held_long", spells="spells_held", group="host_group" if by_group else "NULL")
    given = {"since": asked.since, "until": asked.until, "idle_after": idle_after}
    return {(model, group): seconds for model, group, seconds in reader.engine.rows(query, given)}


def local_zone() -> str:
    """This machine's time zone, by its name where it has one: then hours of last summer are right, too."""
    name = os.environ.get("TZ", "").lstrip(":") or _zone_of_system()
    if name and (Path("/usr/share/zoneinfo") / name).is_file():
        return name
    offset = datetime.now().astimezone().utcoffset()
    hours = round(offset.total_seconds() / HOUR) if offset else 0
    # The sign is the other way round in these names.
    return f"Etc/GMT{-hours:+d}" if hours else "UTC"


def _zone_of_system() -> str:
    try:
        return os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    except OSError:
        return ""
