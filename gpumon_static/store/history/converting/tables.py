"""The tables of the database in DuckDB, under their own names; those that a version lacks are empty.

They go through CSV to Parquet, a piece at a time, so that a large database needs little memory and room.
`hour` and `day` are hours and days since 1970; `at` is `t` here.
"""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from gpumon_static.model.facts import INDEX, LOAD, MEMORY, PERCENT, POWER, TEMPERATURE
from gpumon_static.store.history.converting.source import names_of_tables
from gpumon_static.store.history.engine import Engine, filled, parquet, quoted, sql
from gpumon_static.text import one_line

PIECE = 1_000_000
"""Rows that are written to CSV before they become Parquet."""
_RANGES = {
    "percent": PERCENT,
    "mib": MEMORY,
    "celsius": TEMPERATURE,
    "watts": POWER,
    "loads": LOAD,
    "slot": INDEX,
}
_MOST = 1e13
"""More than any sum of a day."""
_WITH_SHARES = ("user", "allocated")
"""Tables whose seconds are not whole: shared time is split."""
_NO_HOUR = 1 << 32
"""Later than all of them."""

ShortModel = Callable[[str | None], str]


@dataclass(frozen=True)
class OldNames:
    """What the database does not have: the config and the survey decide it."""

    groups: Mapping[str, str] = field(default_factory=dict)
    """Of hosts by name."""
    short_model: ShortModel | None = None
    """A model's name to what the page calls it; without it, as the database has it."""


class Rollup(NamedTuple):
    """A pair of tables, NAME_hours and NAME_days: their columns after the hour or day."""

    keys: str
    sums: str
    maxes: str = ""


ROLLUPS = {
    "gpu": Rollup(
        "gpu",
        "utilization_n utilization_sum memory_n memory_sum temperature_n temperature_sum power_n power_sum"
        " free_s busy_s held_s unknown_s down_s",
        "utilization_max memory_max temperature_max power_max",
    ),
    "user": Rollup("user gpu", "busy_s held_s utilization_s measured_s"),
    "supply": Rollup(
        "model host_group",
        "counted_s judged_s none_s two_s four_s eight_s free_s busy_s held_s unknown_s",
        "gpus host_gpus",
    ),
    "machine": Rollup("host", "cpu_n cpu_sum ram_n ram_sum disk_n disk_sum load_n load_sum up_s down_s"),
    "allocated": Rollup("user gpu", "allocated_s idle_s"),
    "slurm_supply": Rollup("model host_group", "told_s allocated_s idle_s"),
}
_OTHERS = {
    "gpus": "id key:VARCHAR host position slice model first_at",
    "latest": "gpu present at utilization weight:DOUBLE known_at known_state known_crew since taken_since"
    " memory memory_total",
    "runs": "at",
    "samples": "at gpu state crew utilization memory temperature power",
    "spans": "gpu at state",
    "machine_runs": "at host cpu ram disk load",
    "machine_last": "host at up",
    "supply_models": "model name:VARCHAR counted_as",
}


class Columns(NamedTuple):
    types: dict[str, str]
    """By their names in the database."""
    sums: tuple[str, ...] = ()


def load(engine: Engine, source: sqlite3.Connection, folder: Path, naming: OldNames) -> None:
    """`folder`: for the files of the tables."""
    folder.mkdir(mode=0o700)
    there = names_of_tables(source)
    for name, columns in _all_tables():
        listed = ", ".join(f'"{column}"' for column in columns.types)
        rows = source.execute(f'SELECT {listed} FROM "{name}"') if name in there else iter(())
        _load(engine, folder, name, columns, rows)
    for name, types, pairs in _names(source, naming, there):
        _load(engine, folder, name, Columns(types), pairs)
    for name, bounds in _RANGES.items():
        low, high = int(bounds.least), int(bounds.most)
        engine.do(
            f"CREATE OR REPLACE TEMP MACRO {name}(v) AS CASE WHEN v BETWEEN {low} AND {high} THEN v END"
        )
    engine.do(sql("converting/cards"))


def first_kept(engine: Engine, *names: str) -> int:
    """The first hour from which these tables have all hours of their days; 0: none is gone."""
    found = 0
    for name in names:
        total = " + ".join(column for column in ROLLUPS[name].sums.split() if column.endswith("_s"))
        hours, days = (
            engine.value(f"SELECT coalesce(sum({total}), 0) FROM {name}_{unit}s") for unit in ("hour", "day")
        )
        if days > hours + 1:
            found = max(found, engine.value(f'SELECT coalesce(min("hour"), {_NO_HOUR}) FROM {name}_hours'))
    return found


def bins(name: str, first: int, when: str = "true") -> str:
    """The hours of a pair of tables from `first` on; what its days have more, spread over the hours before.

    `when`: a condition on `"day"`.
    """
    keys, sums, maxes = (part.split() for part in ROLLUPS[name])
    return filled(
        "converting/bins",
        table=name,
        first=str(first),
        when=when,
        of_hours=when.replace('"day"', '"hour" // 24'),
        keys=", ".join(keys),
        of_keys=", ".join(f"d.{key}" for key in keys),
        added=", ".join(f"sum({column}) AS {column}" for column in sums),
        rest=", ".join(f"greatest(0, d.{column} - coalesce(s.{column}, 0)) AS {column}" for column in sums),
        some=" + ".join(sums),
        maxes="".join(f", d.{column}" for column in maxes),
        columns=", ".join((*sums, *maxes)),
        parts=", ".join(
            [f"{_part(name, column)} AS {column}" for column in sums]
            + [f"CASE WHEN k = 0 THEN {column} END AS {column}" for column in maxes]
        ),
    )


def _part(name: str, column: str) -> str:
    """Of hour `k` of `n`: seconds that are whole stay so, and add up to what they were."""
    if column.endswith("_s") and name not in _WITH_SHARES:
        return f"floor({column} * (k + 1) / n) - floor({column} * k / n)"
    return f"{column} / n"


def _all_tables() -> Iterator[tuple[str, Columns]]:
    for name, listed in _OTHERS.items():
        pairs = (column.partition(":") for column in listed.split())
        yield name, Columns({column: kind or "BIGINT" for column, _, kind in pairs})
    for name, (keys, sums, maxes) in ROLLUPS.items():
        kind = dict.fromkeys(keys.split(), "BIGINT") | dict.fromkeys(sums.split(), "DOUBLE")
        kind |= dict.fromkeys(maxes.split(), "BIGINT")
        for unit in ("hour", "day"):
            yield f"{name}_{unit}s", Columns({unit: "BIGINT", **kind}, tuple(sums.split()))


def _names(
    source: sqlite3.Connection, naming: OldNames, there: set[str]
) -> Iterator[tuple[str, dict[str, str], Iterable[Sequence[Any]]]]:
    """Names are cleaned here: what older versions took from hosts was not."""
    number = {"id": "BIGINT"}
    known = dict(source.execute("SELECT model, name FROM supply_models")) if "supply_models" in there else {}

    def short(id_: int, name: str | None) -> str:
        if naming.short_model:
            return naming.short_model(name)
        return one_line(known.get(id_)) or name or "unknown model"

    hosts = source.execute("SELECT id, name, answered_at, down_since FROM hosts").fetchall()
    yield (
        "hosts",
        number
        | {"name": "VARCHAR", "answered_at": "BIGINT", "down_since": "BIGINT", "host_group": "VARCHAR"},
        ((id_, name, *rest, naming.groups.get(name, "")) for id_, name, *rest in hosts),
    )
    models = source.execute("SELECT id, name, profile FROM models").fetchall()
    clean = [(id_, one_line(name) or None, one_line(profile) or None) for id_, name, profile in models]
    yield (
        "models",
        number | {"name": "VARCHAR", "profile": "VARCHAR", "short": "VARCHAR"},
        ((*model, short(model[0], model[1])) for model in clean),
    )
    users = {id_: one_line(name) or "" for id_, name in source.execute("SELECT id, name FROM users")}
    yield "users", number | {"name": "VARCHAR"}, users.items()
    crews = source.execute("SELECT id, members FROM crews").fetchall()
    yield (
        "crews",
        number | {"names": "VARCHAR"},
        (
            (id_, "".join(f"\x1d{users.get(int(user), '')}" for user in members.split()))
            for id_, members in crews
        ),
    )
    groups = source.execute("SELECT id, name FROM host_groups") if "host_groups" in there else ()
    yield "host_groups", number | {"name": "VARCHAR"}, groups


def _load(engine: Engine, folder: Path, name: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> None:
    paths: list[Path] = []
    rows = iter(rows)
    while piece := list(islice(rows, PIECE)):
        paths.append(_piece(engine, folder / f"{name}.{len(paths)}.parquet", columns, piece))
    if paths:
        found = f"SELECT * FROM {parquet(paths)}"
    else:
        found = f"SELECT {_listed(columns, lambda _, kind: f'NULL::{kind}')} WHERE false"
    engine.do(f'CREATE OR REPLACE TEMP VIEW "{name}" AS {found}')


def _piece(engine: Engine, path: Path, columns: Columns, rows: Iterable[Sequence[Any]]) -> Path:
    """Rows that are not what the columns hold, as a damaged database has them, are left out."""
    text = path.with_suffix(".csv")
    with text.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    types = ", ".join(f"{quoted(column)}: {quoted(kind)}" for column, kind in columns.types.items())
    table = (
        f"read_csv({quoted(text)}, header = false, auto_detect = false, delim = ',', quote = '\"',"
        f" escape = '\"', nullstr = '', ignore_errors = true, max_line_size = 10000000,"
        f" columns = {{{types}}})"
    )
    right = " AND ".join(f'"{column}" BETWEEN -{_MOST} AND {_MOST}' for column in columns.sums) or "true"
    listed = _listed(columns, lambda column, _: f'"{column}"')
    engine.write(f"SELECT {listed} FROM {table} WHERE {right}", path)
    text.unlink()
    return path


def _listed(columns: Columns, value: Callable[[str, str], str]) -> str:
    return ", ".join(
        f'{value(column, kind)} AS "{"t" if column == "at" else column}"'
        for column, kind in columns.types.items()
    )
