"""A site of 80,000 GPUs with a day and a month of history: all its files, and the overview in Chromium."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import measure
from bench.history import record_run
from bench.lab import FETCH
from bench.page import GPUS_PER_HOST, PAINT, RUNS, chromium, open_in
from bench.past import age
from bench.targets import compare
from gpumon_static.config import file as config_file
from gpumon_static.demo import lab, workload
from gpumon_static.demo.lab import DemoSpec
from gpumon_static.model import Gpu, HostReading
from gpumon_static.times import utc_now

COPIES = 10
"""Of each host, with numbers of their own: to make up readings takes longer than to render them."""
LARGE = 80_000
MOST_CPU_S, MOST_MB, MOST_PACKED_KB, MOST_PAINT_S = 40.0, 1000.0, 600.0, 1.0
MOST_OF_A_YEAR = 1.1
_NUMBER = re.compile(r"[0-9]+\Z")


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpus", type=int, default=LARGE, help="[default: %(default)s]")
    parser.add_argument("--runs", type=int, default=RUNS, help="of the last day  [default: %(default)s]")
    parser.add_argument("--days", type=int, default=31, help="of the month  [default: %(default)s]")
    parser.add_argument("--year", type=int, default=366, help="days of the year  [default: %(default)s]")
    parser.add_argument(
        "--rounds", type=int, default=3, help="the least of so many counts  [default: %(default)s]"
    )
    parser.add_argument("--chromium", default="/usr/bin/chromium", help="[default: %(default)s]")


def run(given: argparse.Namespace) -> None:
    print(f"\nsite: {given.gpus:,} GPUs, {GPUS_PER_HOST} per host, {given.runs} runs in the last 24 h\n")
    with TemporaryDirectory(prefix="gpumon-bench-") as name:
        folder = Path(name)
        _fill(folder, given.gpus, given.runs)
        least = _render(folder, given.rounds)
        packed_kb = (folder / "site/index.html.gz").stat().st_size / 1000
        with chromium(given.chromium) as browser:
            page = open_in(browser, (folder / "site/index.html").as_uri(), utc_now())
            paint_s = page.evaluate(PAINT) / 1000
        age(folder / "data/history", given.days)
        later = _render(folder, given.rounds)
        age(folder / "data/history", given.year)
        year = _render(folder, given.rounds)
    print(
        f"render: {least.wall_s:.1f} s of time, with {given.days} days of history {later.wall_s:.1f} s;"
        " memory is that of all processes together"
    )
    for what, value, most, unit in (
        ("render", least.cpu_s, MOST_CPU_S, "s"),
        ("memory", least.peak_mb, MOST_MB, "MB"),
        ("render, a month", later.cpu_s, MOST_CPU_S, "s"),
        ("memory, a month", later.peak_mb, MOST_MB, "MB"),
        ("a year to a month", year.cpu_s / later.cpu_s, MOST_OF_A_YEAR, "x"),
        ("overview, packed", packed_kb, MOST_PACKED_KB, "kB"),
        ("overview, painted", paint_s, MOST_PAINT_S, "s"),
    ):
        figure = f"{value:.2f} {unit}"
        if given.gpus == LARGE:
            figure += f", {compare(f'site of {LARGE:,} GPUs, {what}', value, most, unit)}"
        print(f"{what:18} {figure}")


def _render(folder: Path, rounds: int) -> measure.Usage:
    usages = [measure.run([FETCH, "render", "--config", folder / "config.ini"]) for _ in range(rounds)]
    return min(usages, key=lambda usage: usage.cpu_s)


def _fill(folder: Path, gpus: int, runs: int) -> None:
    """A config, the last readings and the history of a day, as `fetch` leaves them."""
    count = gpus // GPUS_PER_HOST // COPIES
    names = [reading.host for reading in _readings(count, utc_now())]
    paths = f'[paths]\ndata = "{folder / "data"}"\nsite = "{folder / "site"}"\n'
    (folder / "config.ini").write_text(f"[common]\nhosts = {json.dumps(names)}\n{paths}")
    config = config_file.load(folder / "config.ini")
    newest = utc_now()
    # Two days: one of them is whole, in UTC.
    for number in range(2 * runs, -1, -1):
        at = newest - number * timedelta(days=1) / runs
        readings = list(_readings(count, at))
        record_run(config, readings, at)


def _readings(count: int, at: datetime) -> Iterator[HostReading]:
    for host in lab.build(DemoSpec(1, count, GPUS_PER_HOST)):
        reading = workload.healthy_reading(host, at)
        for copy in range(COPIES):
            yield _copied(reading, copy) if copy else reading


def _copied(reading: HostReading, copy: int) -> HostReading:
    """Another host with the same load: its GPUs and jobs are its own."""

    def gpu(given: Gpu) -> Gpu:
        own = replace(given, uuid=f"{given.uuid}-{copy}")
        if given.allocation.job:
            own = replace(own, allocation=replace(given.allocation, job=f"{copy}{given.allocation.job}"))
        return own.with_processes(
            lambda process: replace(process, job=process.job and process.job.replace(":", f":{copy}"))
        )

    name = _NUMBER.sub(lambda found: str(1000 * copy + int(found[0])), reading.host)
    return replace(reading, host=name, gpus=tuple(map(gpu, reading.gpus)))
