"""What a GPU costs, from 80 to 80,000 of them: reading of answers, CSV, history, render."""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import tempfile
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

from bench import measure, smi_xml, targets
from bench.history import GPUS_PER_HOST, START, made_up_host, readings_of, record_run, timed
from bench.lab import FETCH
from gpumon_static.collect import reading
from gpumon_static.collect.engines.threads import fan_out
from gpumon_static.collect.probe import framing
from gpumon_static.config import file as config_file
from gpumon_static.config.settings import HostConfig
from gpumon_static.model import HostReading
from gpumon_static.store import snapshot
from tests.builders import host_config

SIZES = (80, 800, 8000, 80_000)
FLAT = 1.25
"""How much more a GPU of the largest site may cost than one of a site of 800."""
STAGES = ("reading answers", "CSV", "history", "render")


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpus", type=int, nargs="+", default=SIZES, help="[default: %(default)s]")


def run(given: argparse.Namespace) -> None:
    print(f"\ngrowth: CPU per GPU, {GPUS_PER_HOST} GPUs per host; render with two runs of history\n")
    print(f"{'GPUs':>7} " + " ".join(f"{stage:>16}" for stage in STAGES) + f" {'render, peak':>14}")
    costs: dict[int, list[float]] = {}
    answer = _answer()
    for gpus in given.gpus:
        with tempfile.TemporaryDirectory(prefix="gpumon-bench-") as directory:
            costs[gpus], peak_mb = _costs(Path(directory), gpus, answer)
        told = " ".join(f"{1e6 * cost / gpus:13.0f} µs" for cost in costs[gpus])
        print(f"{gpus:7} {told} {peak_mb:11.0f} MB")
    few, many = min((n for n in costs if n >= 800), default=min(costs)), max(costs)
    if few < many:
        for stage, small, large in zip(STAGES, costs[few], costs[many], strict=True):
            growth = (large / many) / (small / few)
            figure = targets.compare(f"{stage}: a GPU at {many:,} to one at {few:,}", growth, FLAT, "x")
            print(f"{stage:16} per GPU from {few:,} to {many:,}: x {growth:.2f}, {figure}")


def _costs(directory: Path, gpus: int, answer: bytes) -> tuple[list[float], float]:
    hosts = gpus // GPUS_PER_HOST
    names = f'["node[{0:04}-{hosts - 1:04}]"]' if hosts > 1 else '["node0000"]'
    (directory / "config.ini").write_text(f"[common]\nhosts = {names}\n")
    config = config_file.load(directory / "config.ini")
    asking = timed(lambda: _ask([made_up_host(f"node{number:04}") for number in range(hosts)], answer))
    runs = [list(readings_of(gpus, START + timedelta(minutes=5 * number), number)) for number in range(2)]
    writing = timed(lambda: snapshot.write(config.csv_path, runs[1]))
    keeping = [record_run(config, readings, readings[0].fetched_at) for readings in runs]
    usage = measure.run([FETCH, "render", "--config", config.path])
    # What a run does before its first GPU is not the question.
    empty = measure.run([FETCH, "--version"]).cpu_s
    return [asking, writing, keeping[1], max(0.0, usage.cpu_s - empty)], usage.peak_mb


def _ask(hosts: Iterable[HostConfig], answer: bytes) -> None:
    """As a worker process does it, with an answer that is there already."""

    def read(host: HostConfig) -> HostReading:
        return reading.parse(host.name, framing.decoded(answer), START)

    for found in fan_out(tuple(hosts), read, workers=64, deadline=3600, clock=lambda: START):
        pickle.loads(pickle.dumps(found, pickle.HIGHEST_PROTOCOL))


def _answer() -> bytes:
    """What the probe prints on a host with 8 GPUs."""
    with tempfile.TemporaryDirectory(prefix="gpumon-bench-") as name:
        home = Path(name)
        (home / "smi.xml").write_text(smi_xml.document(GPUS_PER_HOST, [1, os.getpid()]))
        (home / "nvidia-smi").write_text(f"#!/bin/sh\nexec cat {home}/smi.xml\n")
        (home / "nvidia-smi").chmod(0o755)
        environment = {"PATH": f"{home}:/usr/bin:/bin", "HOME": name}
        probe = framing.stdin(host_config("bench", command_timeout=60.0))
        done = subprocess.run(["sh", "-s"], input=probe, stdout=subprocess.PIPE, env=environment, check=True)
    return done.stdout
