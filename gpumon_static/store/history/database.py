"""`history.db`: its tables, how it is opened, and how an older one is brought up to date.

All times are seconds since 1970 (UTC), `hour` and `day` such seconds divided by 3600 and 86400. GPUs, hosts,
models and users are numbers that stand in one table each. What is not known is NULL, as everywhere.

    samples     one row per GPU (or slice) and run              kept for history.keep_raw
    spans       where a GPU's state or owners changed           the same
    pool_runs   one row per host and model and run              the same
    *_hours     sums over an hour: by GPU, user, host, supply   kept for history.keep_hours
    *_days      the same over a day                             kept for history.keep_days
    machine_runs CPU, RAM and fullest disk in percent, load in tenths; by host and run; kept as samples are
    events      what happened to hosts and GPUs                 kept for history.keep_events
    machine_last when each host was last asked, and whether it answered
    latest      of each GPU: its last sample, how far its time is counted, since when it is as it is
    supply_last what the last run saw of each model, in all hosts (group 0) and in each group; models that
                people call the same, as supply_models has it, count as the first of them
    allocated_last  GPUs that Slurm had given to a job in their last sample: whose, and whether idle
    slurm_supply_*  beside supply_*: of the GPUs of a model that Slurm reports on, what jobs had and left idle
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from gpumon_static.errors import GpumonError
from gpumon_static.files import NOT_FOR_OTHERS, make_directory, open_private
from gpumon_static.store.history import consistency

WAIT_S = 20.0
"""For another process that writes: a run, an import."""

GPU_SUMS = (
    "utilization_n utilization_sum memory_n memory_sum temperature_n temperature_sum power_n power_sum"
    " free_s busy_s held_s unknown_s down_s"
).split()
GPU_MAXES = "utilization_max memory_max temperature_max power_max".split()
USER_SUMS = "busy_s held_s utilization_s measured_s".split()
POOL_SUMS = "utilization_n utilization_sum memory_sum memory_total free_s taken_s".split()
POOL_MAXES = ["gpus"]
SUPPLY_SUMS = "counted_s judged_s none_s two_s four_s eight_s free_s busy_s held_s unknown_s".split()
SUPPLY_MAXES = "gpus host_gpus".split()
MACHINE_SUMS = "cpu_n cpu_sum ram_n ram_sum disk_n disk_sum load_n load_sum up_s down_s".split()
MACHINE_MAXES = "cpu_max ram_max disk_max load_max".split()
ALLOCATED_SUMS = "allocated_s idle_s".split()
SLURM_SUPPLY_SUMS = "told_s allocated_s idle_s".split()


def _rollup(name: str, unit: str, keys: str, sums: Sequence[str], maxes: Sequence[str], kind: str) -> str:
    columns = [f"{key} INTEGER NOT NULL" for key in (unit, *keys.split())]
    columns += [f"{column} {kind} NOT NULL" for column in sums]
    columns += [f"{column} {kind}" for column in maxes]
    key = ", ".join((unit, *keys.split()))
    return f"CREATE TABLE {name}_{unit}s ({', '.join(columns)}, PRIMARY KEY ({key})) WITHOUT ROWID"


FIRST = (
    """CREATE TABLE hosts (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, answered_at INTEGER, down_since INTEGER)""",
    """CREATE TABLE models (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, profile TEXT NOT NULL, UNIQUE (name, profile))""",
    "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    "CREATE TABLE crews (id INTEGER PRIMARY KEY, members TEXT NOT NULL UNIQUE)",
    """CREATE TABLE gpus (
        id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, host INTEGER NOT NULL, position INTEGER NOT NULL,
        slice INTEGER, model INTEGER NOT NULL, first_at INTEGER NOT NULL)""",
    """CREATE TABLE latest (
        gpu INTEGER PRIMARY KEY, present INTEGER NOT NULL, at INTEGER NOT NULL, state INTEGER NOT NULL,
        crew INTEGER, utilization INTEGER, weight REAL NOT NULL, counted_to INTEGER NOT NULL,
        known_at INTEGER NOT NULL, known_state INTEGER NOT NULL, known_crew INTEGER, since INTEGER NOT NULL,
        taken_since INTEGER, memory INTEGER, memory_total INTEGER, temperature INTEGER, power INTEGER)""",
    "CREATE TABLE runs (at INTEGER PRIMARY KEY)",
    """CREATE TABLE samples (
        at INTEGER NOT NULL, gpu INTEGER NOT NULL, state INTEGER NOT NULL, crew INTEGER, utilization INTEGER,
        memory INTEGER, temperature INTEGER, power INTEGER, PRIMARY KEY (at, gpu)) WITHOUT ROWID""",
    """CREATE TABLE spans (
        gpu INTEGER NOT NULL, at INTEGER NOT NULL, state INTEGER NOT NULL, crew INTEGER,
        PRIMARY KEY (gpu, at)) WITHOUT ROWID""",
    """CREATE TABLE pool_runs (
        at INTEGER NOT NULL, host INTEGER NOT NULL, model INTEGER NOT NULL, gpus INTEGER NOT NULL,
        free INTEGER NOT NULL, taken INTEGER NOT NULL, utilization_n INTEGER NOT NULL,
        utilization_sum INTEGER NOT NULL, memory_sum INTEGER NOT NULL, memory_total INTEGER NOT NULL,
        PRIMARY KEY (at, host, model)) WITHOUT ROWID""",
    *(_rollup("gpu", unit, "gpu", GPU_SUMS, GPU_MAXES, "INTEGER") for unit in ("hour", "day")),
    *(_rollup("user", unit, "user gpu", USER_SUMS, (), "REAL") for unit in ("hour", "day")),
    *(_rollup("pool", unit, "host model", POOL_SUMS, POOL_MAXES, "INTEGER") for unit in ("hour", "day")),
)

SECOND = ("CREATE INDEX spans_by_time ON spans (at, gpu, state, crew)",)
"""For the page, which asks for all of the last day's, and for retention."""

THIRD = (
    "CREATE TABLE host_groups (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    """CREATE TABLE supply_models (
        model INTEGER PRIMARY KEY, name TEXT NOT NULL, counted_as INTEGER NOT NULL)""",
    """CREATE TABLE supply_last (
        model INTEGER NOT NULL, host_group INTEGER NOT NULL, at INTEGER NOT NULL, gpus INTEGER NOT NULL,
        host_gpus INTEGER NOT NULL, free INTEGER NOT NULL, busy INTEGER NOT NULL, held INTEGER NOT NULL,
        most_free INTEGER NOT NULL, PRIMARY KEY (model, host_group)) WITHOUT ROWID""",
    *(
        _rollup("supply", unit, "model host_group", SUPPLY_SUMS, SUPPLY_MAXES, "INTEGER")
        for unit in ("hour", "day")
    ),
)
"""How many GPUs of a model are free at once, and on one host: supply_count.py fills these tables."""

FOURTH = (
    """CREATE TABLE machine_runs (
        at INTEGER NOT NULL, host INTEGER NOT NULL, cpu INTEGER, ram INTEGER, disk INTEGER, load INTEGER,
        PRIMARY KEY (at, host)) WITHOUT ROWID""",
    "CREATE TABLE machine_last (host INTEGER PRIMARY KEY, at INTEGER NOT NULL, up INTEGER NOT NULL)",
    *(_rollup("machine", unit, "host", MACHINE_SUMS, MACHINE_MAXES, "INTEGER") for unit in ("hour", "day")),
    """INSERT INTO machine_days SELECT day, host, 0, 0, 0, 0, 0, 0, 0, 0,
        up, min(down, 86400 - min(up, 86400)), NULL, NULL, NULL, NULL FROM (
            SELECT day, host, max(free_s + busy_s + held_s + unknown_s) AS up, max(down_s) AS down
            FROM gpu_days JOIN gpus ON gpus.id = gpu
            WHERE slice IS NULL AND day > (SELECT max(day) FROM gpu_days) - 31 GROUP BY day, host)""",
    """INSERT INTO machine_last SELECT id, answered_at, 1 FROM hosts
        WHERE answered_at IS NOT NULL AND down_since IS NULL""",
    """CREATE TABLE events (
        id TEXT PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL, host INTEGER NOT NULL,
        told TEXT NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX events_by_time ON events (at)",
    "CREATE INDEX events_by_host ON events (host, at)",
)
"""The hosts around the GPUs, and events. When hosts answered is taken from what their GPUs' days have."""

ALLOCATED_TABLES = (
    """CREATE TABLE allocated_last (
        gpu INTEGER PRIMARY KEY, at INTEGER NOT NULL, user INTEGER NOT NULL, is_idle INTEGER NOT NULL)""",
    *(_rollup("allocated", unit, "user gpu", ALLOCATED_SUMS, (), "REAL") for unit in ("hour", "day")),
)
"""What Slurm had given to jobs: allocated.py fills these tables."""

SLURM_SUPPLY_TABLES = (
    *(
        f"ALTER TABLE supply_last ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0"
        for column in ("told", "allocated", "idle")
    ),
    *(
        _rollup("slurm_supply", unit, "model host_group", SLURM_SUPPLY_SUMS, (), "INTEGER")
        for unit in ("hour", "day")
    ),
)
"""The same by model, for the supply: of earlier time it is not known which GPUs Slurm reported on."""

MIGRATIONS: list[Sequence[str]] = [FIRST, SECOND, THIRD, FOURTH, ALLOCATED_TABLES, SLURM_SUPPLY_TABLES]
"""What leads from version 0, an empty file, to 1, from 1 to 2 and so on. Once released, it stays as it is."""


class HistoryError(GpumonError):
    """Why the history could not be written or read. A run goes on without it."""


class DamagedHistory(HistoryError):
    """The file is not a valid database, or its rows do not fit together."""


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """One transaction: all of it or nothing."""
    try:
        make_directory(path.parent, private=True)
        if not os.path.lexists(path):
            # Its log and index, which SQLite makes, get the same mode.
            os.close(open_private(path, os.O_RDWR))
        connection = _open_for_writing(path)
        try:
            connection.execute("BEGIN IMMEDIATE")
            with _fitting(path, connection):
                yield connection
            connection.execute("COMMIT")
        finally:
            # Without a COMMIT this undoes everything.
            connection.close()
    except (sqlite3.Error, OSError) as error:
        kind = DamagedHistory if _is_damage(error) else HistoryError
        raise kind(f"cannot write {path}: {reason(error)}") from error


@contextmanager
def _fitting(path: Path, connection: sqlite3.Connection) -> Iterator[None]:
    """Turn what rows of a damaged file cause into `DamagedHistory`; an error of our own stays as it is."""
    try:
        yield
    except consistency.ODD as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if told := consistency.problem(connection):
            raise DamagedHistory(f"{path} is damaged: {told}") from error
        raise


def put_aside(path: Path, now: datetime) -> Path:
    """With its log, which may hold what is missing in it."""
    aside = path.with_name(f"{path.name}.damaged-{now:%Y%m%dT%H%M%S}")
    try:
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    except OSError as error:
        raise HistoryError(f"{path} is damaged and cannot be put aside: {error.strerror}") from error
    return aside


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        path.stat()
    except FileNotFoundError:
        told = f"no history yet: {path} does not exist; `gpumon-static fetch` adds to it"
        raise HistoryError(told) from None
    except OSError as error:
        raise HistoryError(f"cannot read {path}: {reason(error)}") from error
    if not os.access(path, os.R_OK):
        raise HistoryError(f"cannot read {path}: {NOT_FOR_OTHERS}")
    try:
        connection = _open_for_reading(path)
        try:
            _check_version(path, connection)
            with _fitting(path, connection):
                yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise HistoryError(f"cannot read {path}: {reason(error)}") from error


def migrate(path: Path, connection: sqlite3.Connection) -> None:
    version = _check_version(path, connection)
    for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have done it while this one waited.
            if _version(connection) < number:
                for statement in statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def _open_for_writing(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # In WAL mode a power cut may take the last run with it, and never the file.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -65536")
        migrate(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _open_for_reading(path: Path) -> sqlite3.Connection:
    """Where the directory is not ours to write to, WAL's own files cannot be made: read the file as it is."""
    uri = path.absolute().as_uri()
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        connection = sqlite3.connect(f"{uri}?{mode}", uri=True, timeout=WAIT_S, isolation_level=None)
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            # The page asks for many of the same rows several times.
            connection.execute("PRAGMA cache_size = -16384")
            return connection
        except sqlite3.OperationalError as error:
            connection.close()
            if _code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
            problem = error
    raise problem


def _check_version(path: Path, connection: sqlite3.Connection) -> int:
    version = _version(connection)
    if version > len(MIGRATIONS):
        raise HistoryError(
            f"{path} was written by a newer gpumon-static (version {version} of it, this one knows"
            f" {len(MIGRATIONS)}); it is left as it is"
        )
    return version


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _is_damage(error: Exception) -> bool:
    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _code(error: Exception) -> int | None:
    """The kind of error; the other bits of SQLite's number are details."""
    number = getattr(error, "sqlite_errorcode", None)
    return None if number is None else number & 0xFF


def reason(error: Exception) -> str:
    if _code(error) == sqlite3.SQLITE_FULL:
        return "the disk is full"
    if isinstance(error, PermissionError):
        return NOT_FOR_OTHERS
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)
