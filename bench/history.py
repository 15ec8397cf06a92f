"""The history: what a run costs to add, a month's ranking with a year behind it, bytes per GPU and day.

Every figure stands beside a plain one of the same run, and beside its target where there is one.
"""

from __future__ import annotations

import argparse
import gzip
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.targets import compare
from gpumon_static.config.settings import BusyConfig, Config, FetchConfig, HostConfig, PathsConfig, SiteConfig
from gpumon_static.model import Gpu, HostReading, Process
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.view import build_page
from gpumon_static.store.history import questions, record
from gpumon_static.store.history.database import reading, writing
from gpumon_static.store.history.names import Names
from gpumon_static.store.history.past import timelines
from gpumon_static.store.history.rollups import DAY, HOUR
from gpumon_static.survey.sightings import observed, sightings

GPUS_PER_HOST = 8
USERS = 40
START = datetime(2025, 1, 6, tzinfo=UTC)


ADDING_US = 40
"""CPU per GPU that adding a run may cost at 8,000 GPUs."""
FLAT = 1.25
"""How much more a GPU of the largest site may cost than one of the smallest."""
RANKING_S = 1.0
"""CPU of the month's ranking with a year of 8,000 GPUs."""
LARGE = 8000


def options(parser: argparse.ArgumentParser) -> None:
    sizes = [800, 8000, 80000]
    parser.add_argument("--gpus", type=int, nargs="+", default=sizes, help="[default: %(default)s]")
    parser.add_argument("--runs", type=int, default=8, help="added to each database  [default: %(default)s]")
    parser.add_argument("--days", type=int, default=365, help="of history to ask  [default: %(default)s]")


def run(given: argparse.Namespace) -> None:
    print(f"{'GPUs':>6} {'adding a run':>12} {'per GPU':>8} {'a plain INSERT per GPU':>23} {'target':>9}")
    costs = {gpus: _adding_beside_plain(gpus, given.runs) for gpus in given.gpus}
    if len(costs) > 1:
        growth = costs[max(costs)] / costs[min(costs)]
        figure = compare("adding a run: a GPU at most to one at least", growth, FLAT, "x")
        print(f"per GPU from {min(costs)} to {max(costs)}: x {growth:.2f}, {figure}")
    for gpus in [number for number in given.gpus if number <= LARGE]:
        with tempfile.TemporaryDirectory(prefix="gpumon-bench-") as directory:
            _asking(Path(directory), gpus, given.days)
    with tempfile.TemporaryDirectory(prefix="gpumon-bench-") as directory:
        _size(Path(directory))
    print(f"\n{'GPUs':>6} {'page with 24 h of history':>34} {'without':>30}")
    for gpus in [number for number in given.gpus if number < LARGE]:
        with tempfile.TemporaryDirectory(prefix="gpumon-bench-") as directory:
            _page(Path(directory), gpus)


def _adding_beside_plain(gpus: int, runs: int) -> float:
    with tempfile.TemporaryDirectory(prefix="gpumon-bench-") as directory:
        seconds = _adding(Path(directory), gpus, runs)
        plain = _plain_insert(Path(directory) / "plain.db", gpus)
    per_gpu = 1e6 * seconds / gpus
    beside = f"{1e6 * plain / gpus:.2f} µs (x {seconds / plain:.1f})"
    target = compare(f"adding a run, per GPU at {LARGE:,}", per_gpu, ADDING_US, "µs") if gpus == LARGE else ""
    print(f"{gpus:6} {1000 * seconds:9.1f} ms {per_gpu:5.1f} µs {beside:>23}   {target}")
    return per_gpu


def _adding(directory: Path, gpus: int, runs: int) -> float:
    config = _config(directory)
    costs = []
    for number in range(runs):
        at = START + timedelta(minutes=5 * number)
        seen = sightings(readings_of(gpus, at, number), config.busy)
        # The first one makes all the names; cron adds to what is there.
        spent = timed(lambda s=seen, t=at: record.record(config, s, t, complain))  # type: ignore[misc]
        costs += [spent] if number else []
    return statistics.median(costs)


def _plain_insert(path: Path, gpus: int) -> float:
    """What it costs to put as many rows into a table, without any sum."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE samples (at, gpu, state, crew, utilization, memory, temperature, power)")

    def insert() -> None:
        with connection:
            rows = ((1, gpu, 1, 1, 50, 40000, 60, 300) for gpu in range(gpus))
            connection.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    spent = statistics.median(timed(insert) for _ in range(5))
    connection.close()
    return spent


def _asking(directory: Path, gpus: int, days: int) -> None:
    path = _config(directory).history_path
    newest = int(START.timestamp()) + days * DAY
    _fill_sums(path, gpus, days, newest)
    with reading(path) as connection:
        month = questions.period(connection, newest - 30 * DAY + 5 * HOUR, newest)
        users = timed(lambda: questions.users(connection, month))
        parts = timed(lambda: questions.users(connection, month, lambda host, _model: host))
        hosts = timed(lambda: questions.hosts(connection, month))
        scan = "SELECT count(*), sum(busy_s) FROM user_days WHERE day >= ?"
        plain = timed(lambda: connection.execute(scan, (month.since // DAY,)).fetchall())
    print(
        f"\n{gpus} GPUs, {days} days of history, the month: by user {1000 * users:.0f} ms, by user and host"
        f" {1000 * parts:.0f} ms, by host {1000 * hosts:.0f} ms; a plain sum of them {1000 * plain:.0f} ms"
        f" (x {users / plain:.1f}, {parts / plain:.1f}, {hosts / plain:.1f})"
    )
    if gpus == LARGE:
        print(compare(f"the month's ranking, {LARGE:,} GPUs", users, RANKING_S, "s"))


def _fill_sums(path: Path, gpus: int, days: int, newest: int) -> None:
    """Sums as `days` days of runs would have left them; by the hour those of the first day that is asked."""
    with writing(path) as connection:
        names = Names(connection)
        for number in range(USERS):
            names.crew((f"user{number}",))
        for host in readings_of(gpus, START, 0):
            for seen in observed(host, BusyConfig()):
                names.gpu(host.host, seen, int(START.timestamp()), set())
        for unit, size, count, end in (("day", DAY, days, newest), ("hour", HOUR, 24, newest - 29 * DAY)):
            last = end // size - 1
            numbers = (
                f"WITH RECURSIVE n(at) AS (SELECT {last - count + 1}"
                f" UNION ALL SELECT at + 1 FROM n WHERE at < {last})"
            )
            user = f"(gpus.id * 7 + n.at * 13) % {USERS} + 1"
            used = f"{size} / 2, {size} / 4, 50.0 * {size}, {size}"
            connection.execute(
                f"{numbers} INSERT INTO user_{unit}s SELECT at, {user}, id, {used} FROM n, gpus"
            )
            values = "12, 600, 12, 480000, 12, 700, 12, 3600"
            states = f"{size} / 4, {size} / 2, {size} / 4, 0, 0, 99, 80000, 80, 390"
            connection.execute(
                f"{numbers} INSERT INTO gpu_{unit}s SELECT at, id, {values}, {states} FROM n, gpus"
            )


def _size(directory: Path) -> None:
    """A day of runs, then what each kind of row takes."""
    gpus, config = 80, _config(directory)
    for number in range(289):
        at = START + timedelta(minutes=5 * number)
        seen = sightings(readings_of(gpus, at, number), config.busy)
        record.record(config, seen, at, complain)
    with reading(config.history_path) as connection:
        sizes = dict(connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))
    kinds = {
        "raw": ("samples", "spans", "spans_by_time", "pool_runs", "runs"),
        "hours": "_hours",
        "days": "_days",
    }
    per_day = {
        kind: sum(n for name, n in sizes.items() if name in tables or name.endswith(str(tables))) / gpus
        for kind, tables in kinds.items()
    }
    told = ", ".join(f"{kind} {size:.0f}" for kind, size in per_day.items())
    keep = config.history
    kept = {"raw": keep.keep_raw, "hours": min(365, keep.keep_hours), "days": min(365, keep.keep_days)}
    year = {kind: LARGE * per_day[kind] * days / 1e9 for kind, days in kept.items()}
    parts = ", ".join(f"{kind} {year[kind]:.2f} ({days} days)" for kind, days in kept.items())
    print(f"\nbytes per GPU and day: {told}")
    print(f"history.db after a year of {LARGE} GPUs: {sum(year.values()):.1f} GB: {parts}")


def _page(directory: Path, gpus: int) -> None:
    """Bytes and CPU per GPU, of the page alone: the CSV is read already."""
    config = _config(directory)
    hosts = [f"node{number:04}" for number in range(gpus // GPUS_PER_HOST)]
    config = replace(config, hosts=tuple(made_up_host(name) for name in hosts))
    for number in range(97):
        at = START + timedelta(minutes=15 * number)
        seen = sightings(readings_of(gpus, at, number), config.busy)
        record.record(config, seen, at, complain)
    readings = list(readings_of(gpus, at, number))

    def make(*, with_past: bool) -> str:
        past = None
        if with_past:
            with reading(config.history_path) as connection:
                past = timelines.read(connection, at)
        return render_page(build_page(readings, config, at, past=past))

    make(with_past=False)
    told = []
    for with_past in (True, False):
        pages: list[str] = []
        seconds = timed(lambda w=with_past, p=pages: p.append(make(with_past=w)))  # type: ignore[misc]
        zipped = len(gzip.compress(pages[0].encode(), 6))
        told.append(
            f"{len(pages[0]) / gpus:5.0f} B, {zipped / gpus:4.0f} zipped, {1e6 * seconds / gpus:4.0f} µs"
        )
    print(f"{gpus:6} {told[0]:>34} {told[1]:>30}   per GPU")


def made_up_host(name: str) -> HostConfig:
    return HostConfig(name, name, None, None, None, 10, 30, "paramiko", "strict", Path("known_hosts"))


def readings_of(gpus: int, at: datetime, number: int) -> Iterator[HostReading]:
    chance = random.Random(number // 6)
    for first in range(0, gpus, GPUS_PER_HOST):
        yield HostReading(
            host=f"node{first // GPUS_PER_HOST:04}",
            fetched_at=at,
            gpus=tuple(_gpu(first + index, index, chance) for index in range(GPUS_PER_HOST)),
        )


def _gpu(number: int, index: int, chance: random.Random) -> Gpu:
    busy = chance.random() < 0.6
    owner = Process(100, "C", "python", 40000.0, f"user{chance.randrange(USERS)}")
    return Gpu(
        index,
        uuid=f"GPU-{number:08}",
        name="NVIDIA A100-SXM4-80GB",
        utilization=chance.uniform(20, 100) if busy else 0.0,
        memory_used_mib=chance.uniform(10000, 80000) if busy else 4.0,
        memory_total_mib=81920.0,
        temperature_c=chance.uniform(40, 80),
        power_w=chance.uniform(60, 390),
        processes=(owner,) if busy else (),
    )


def _config(directory: Path) -> Config:
    paths = PathsConfig(directory, directory)
    return Config(directory / "config.ini", (), FetchConfig(), paths, BusyConfig(), SiteConfig())


def timed(job: Callable[[], object]) -> float:
    """CPU time: what else the machine does is not the question."""
    started = time.process_time()
    job()
    return time.process_time() - started


def complain(text: str) -> None:
    raise RuntimeError(text)
