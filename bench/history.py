"""The history: what a run costs to add, a month's ranking, bytes per GPU and day.

Every figure stands beside a plain one of the same run, and beside its target where there is one.
"""

from __future__ import annotations

import argparse
import gzip
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench import measure
from bench.past import age, size_of
from bench.targets import compare
from gpumon_static.config.settings import BusyConfig, Config, FetchConfig, HostConfig, PathsConfig, SiteConfig
from gpumon_static.model import Gpu, HostReading, Process
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.view import build_page
from gpumon_static.store import snapshot
from gpumon_static.store.history import questions, record
from gpumon_static.store.history.engine import QUICK, open_engine, parquet, quoted
from gpumon_static.store.history.layout import DAY, HOUR, day_path, hour_path, read_listing
from gpumon_static.store.history.past import read as read_past
from gpumon_static.store.history.reader import Period, Reader, ask
from gpumon_static.survey.sightings import sightings

GPUS_PER_HOST = 8
USERS = 40
START = datetime(2025, 1, 6, tzinfo=UTC)


ADDING_US = 15
"""CPU per GPU that adding a run may cost, without the start of the engine."""
BYTES = 1500
"""Of a GPU and day, with every run kept."""
RANKING_S = 0.3
"""CPU of the month's ranking of 8,000 GPUs."""
START_S = 0.2
"""CPU of the engine's start: its import and a connection."""
LARGE = 8000


def options(parser: argparse.ArgumentParser) -> None:
    sizes = [800, 8000, 80000]
    parser.add_argument("--gpus", type=int, nargs="+", default=sizes, help="[default: %(default)s]")
    parser.add_argument("--runs", type=int, default=8, help="added to each history  [default: %(default)s]")
    parser.add_argument("--days", type=int, default=32, help="of history to ask  [default: %(default)s]")


def run(given: argparse.Namespace) -> None:
    start_s = _engine_start()
    print(f"the engine's start: {1000 * start_s:.0f} ms, {compare('start of DuckDB', start_s, START_S, 's')}")
    print(f"\n{'GPUs':>6} {'adding a run':>12} {'of it, engine':>13} {'per GPU':>8} {'CSV to Parquet':>18}")
    for gpus in given.gpus:
        _adding_beside_plain(gpus, given.runs)
    for gpus in [number for number in given.gpus if number <= LARGE]:
        with tempfile.TemporaryDirectory(prefix="gpumon-bench-") as directory:
            _asking(Path(directory), gpus, given.days)
    print(f"\n{'GPUs':>6} {'page with 24 h of history':>34} {'without':>30}")
    for gpus in [number for number in given.gpus if number < LARGE]:
        with tempfile.TemporaryDirectory(prefix="gpumon-bench-") as directory:
            _page(Path(directory), gpus)


def _engine_start() -> float:
    """Beside a Python that does nothing."""
    usual, with_it = (
        min(measure.run([sys.executable, "-c", code]).cpu_s for _ in range(3))
        for code in ("pass", "import duckdb; duckdb.connect().execute('SELECT 1')")
    )
    return with_it - usual


def _adding_beside_plain(gpus: int, runs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="gpumon-bench-") as directory:
        config = _config(Path(directory))
        costs = [_add(config, gpus, number) for number in range(runs)][1:]
        seconds, opening = statistics.median(costs), statistics.median(_opening(config) for _ in range(5))
        plain = _plain_copy(config)
    per_gpu = 1e6 * (seconds - opening) / gpus
    beside = f"{1e6 * plain / gpus:.2f} µs (x {(seconds - opening) / plain:.1f})"
    target = compare(f"adding a run, per GPU at {gpus:,}", per_gpu, ADDING_US, "µs")
    whole = f"{1000 * seconds:9.1f} ms {1000 * opening:10.1f} ms"
    print(f"{gpus:6} {whole} {per_gpu:5.1f} µs {beside:>18}   {target}")


def _add(config: Config, gpus: int, number: int) -> float:
    at = START + timedelta(minutes=5 * number)
    return record_run(config, list(readings_of(gpus, at, number)), at)


def record_run(config: Config, readings: Sequence[HostReading], at: datetime) -> float:
    """CPU of adding it, without its CSV, which `fetch` writes anyway."""
    snapshot.write(config.csv_path, readings)
    seen = sightings(readings, config.busy, config.groups)
    return timed(lambda: record.record(config, seen, at, complain))


def _opening(config: Config) -> float:
    def opened() -> None:
        with open_engine(config.history_path) as engine:
            engine.rows("SELECT 1")

    return timed(opened)


def _plain_copy(config: Config) -> float:
    """The same CSV as a Parquet file, as DuckDB reads and writes it by itself."""
    target = config.paths.data / "plain.parquet"

    def copied() -> None:
        with open_engine(config.history_path) as engine:
            engine.do(f"COPY (FROM read_csv({quoted(config.csv_path)})) TO {quoted(target)} ({QUICK})")

    return min(timed(copied) for _ in range(3))


def _asking(directory: Path, gpus: int, days: int) -> None:
    """Two whole days of runs, each made of one of its hours; then the days before them."""
    config = _config(directory)
    first = START - timedelta(days=2)
    for number in range(40):
        at = first + timedelta(minutes=5 * number)
        record_run(config, list(readings_of(gpus, at, number)), at)
    _fill_days(config.history_path, int(first.timestamp()))
    closed = [day for day in read_listing(config.history_path).days.values() if day.start < START.timestamp()]
    per_day = sum(size_of(day) for day in closed) / len(closed) / gpus
    figure = compare(f"bytes per GPU and day, {gpus:,} GPUs", per_day, BYTES, "B")
    print(f"\n{gpus} GPUs: {per_day:.0f} bytes per GPU and day, {figure}")
    age(config.history_path, days)
    ask(config.history_path, lambda reader: _questions(reader, gpus, days))


def _fill_days(folder: Path, first: int) -> None:
    """The second hour of the first day, in the place of all hours of two days."""
    with open_engine(folder) as engine:
        hour = hour_path(folder, first + HOUR)
        for day in range(first, first + 2 * DAY, DAY):
            moves = ", ".join(
                f"{name} + to_seconds({day - first - HOUR} + {HOUR} * n) AS {name}"
                for name in ("fetched_at", "run_at")
            )
            rows = f"SELECT r.* REPLACE ({moves}) FROM {parquet([hour])} AS r, range(24) AS _(n)"
            order = "n, host, gpu_index NULLS FIRST, mig_device NULLS FIRST, fetched_at, level DESC, pid"
            engine.write(f"{rows} ORDER BY {order}", day_path(folder, day))


def _questions(reader: Reader, gpus: int, days: int) -> None:
    newest = reader.newest_run() or 0
    month = Period(newest - 30 * DAY + 5 * HOUR, newest)
    users = timed(lambda: questions.users(reader, month))
    parts = timed(lambda: questions.users(reader, month, "host"))
    hosts = timed(lambda: questions.hosts(reader, month))
    print(
        f"{gpus} GPUs, {days} days of history, the month: by user {1000 * users:.0f} ms, by user and host"
        f" {1000 * parts:.0f} ms, by host {1000 * hosts:.0f} ms"
    )
    if gpus == LARGE:
        print(compare(f"the month's ranking, {LARGE:,} GPUs", users, RANKING_S, "s"))


def _page(directory: Path, gpus: int) -> None:
    """Bytes and CPU per GPU, of the page alone: the CSV is read already."""
    config = _config(directory)
    hosts = [f"node{number:04}" for number in range(gpus // GPUS_PER_HOST)]
    config = replace(config, hosts=tuple(made_up_host(name) for name in hosts))
    for number in range(97):
        at = START + timedelta(minutes=15 * number)
        readings = list(readings_of(gpus, at, number))
        record_run(config, readings, at)

    def make(*, with_past: bool) -> str:
        past = ask(config.history_path, lambda reader: read_past(reader, at)) if with_past else None
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
