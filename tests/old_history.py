"""Databases of versions before 0.2: where they come from, and what they answer in plain SQL."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from gpumon_static.store.history.moving.convert import OldNames
from gpumon_static.survey.names import short_model
from tests.history_lab import HistoryLab

HERE = Path(__file__).parent
RELEASE = HERE / "releases/0.1.0/data/history.db"
ADDED = {
    6: ("slurm_supply_hours", "slurm_supply_days"),
    5: ("allocated_last", "allocated_hours", "allocated_days"),
    4: ("machine_runs", "machine_last", "machine_hours", "machine_days", "events"),
    3: ("host_groups", "supply_models", "supply_last", "supply_hours", "supply_days"),
}
"""Tables by the version that brought them; version 2 brought an index."""


def make_database(path: Path, version: int = 6) -> Path:
    """40 days of a lab, as an older version would have recorded them."""
    text = gzip.decompress((HERE / "old_histories/version6.sql.gz").read_bytes()).decode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(text)
        for later in range(version + 1, 7):
            for table in ADDED[later]:
                connection.execute(f"DROP TABLE {table}")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()
    return path


def ask(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def user_days(path: Path, first: int, end: int) -> dict[str, tuple[float, ...]]:
    """Busy, held, worked and measured seconds by user, of days from `first` up to `end`."""
    rows = ask(
        path,
        "SELECT name, sum(busy_s), sum(held_s), sum(utilization_s), sum(measured_s) FROM user_days"
        f" JOIN users ON users.id = user WHERE day >= {first} AND day < {end} GROUP BY name",
    )
    return {name: tuple(sums) for name, *sums in rows}


def gpu_days(path: Path, first: int, end: int) -> dict[tuple[str, str], tuple[float, ...]]:
    """Seconds free, busy and held, mean and largest utilization, by host and index."""
    rows = ask(
        path,
        "SELECT hosts.name, position || coalesce(':' || slice, ''), sum(free_s), sum(busy_s), sum(held_s),"
        " 1.0 * sum(utilization_sum) / sum(utilization_n), max(utilization_max) FROM gpu_days"
        " JOIN gpus ON gpus.id = gpu JOIN hosts ON hosts.id = gpus.host"
        f" WHERE day >= {first} AND day < {end} GROUP BY gpu",
    )
    return {(host, index): tuple(sums) for host, index, *sums in rows}


def supply_days(
    path: Path, first: int, end: int, *, by_group: bool
) -> dict[tuple[str, str | None], list[int]]:
    columns = "counted_s judged_s none_s two_s four_s eight_s free_s busy_s held_s unknown_s".split()
    rows = ask(
        path,
        f"SELECT m.name, g.name, {', '.join(f'sum({column})' for column in columns)} FROM supply_days AS s"
        " JOIN supply_models AS m ON m.model = s.model LEFT JOIN host_groups AS g ON g.id = host_group"
        f" WHERE day >= {first} AND day < {end} AND (host_group <> 0) = {int(by_group)} GROUP BY s.model, host_group",
    )
    return {(model, group if by_group else None): sums for model, group, *sums in rows}


def host_days(path: Path, first: int, end: int) -> dict[str, tuple[int, int]]:
    rows = ask(
        path,
        "SELECT name, sum(up_s), sum(down_s) FROM machine_days JOIN hosts ON hosts.id = host"
        f" WHERE day >= {first} AND day < {end} GROUP BY name",
    )
    return {host: (up, down) for host, up, down in rows}


GROUPS = {"a1": "vision", "a2": "vision", "b1": "language"}
HOSTS = ("a1", "a2", "b1", "c1", "door")
NAMING = OldNames(GROUPS, short_model)


def lab_of(data: Path) -> HistoryLab:
    return HistoryLab(data, *HOSTS, groups=GROUPS)
