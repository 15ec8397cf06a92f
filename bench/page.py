"""The page in Chromium: bytes per GPU, first paint, a letter in the search; beside a table row per GPU."""

from __future__ import annotations

import argparse
import gzip
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, sync_playwright

from bench.ancestor import ancestor_page
from gpumon_static.config.settings import BusyConfig, Config, FetchConfig, HostConfig, PathsConfig, SiteConfig
from gpumon_static.model import Gpu, HostReading, Machine, Process
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.view import build_page

NOW = datetime(2025, 11, 14, 9, 12, tzinfo=UTC)
GPUS_PER_HOST = 8
TYPED = "alice"
USERS = ("alice", "bob", "carol", "dmitri", "eve", "farid", "grace", "heidi", "ivan", "judy")
MODELS = (("NVIDIA A100-SXM4-80GB", 81920.0), ("NVIDIA GeForce RTX 3090", 24576.0), ("NVIDIA L40S", 46068.0))
SETTLE_MS = 500
OURS, ANCESTOR = "gpumon-static", "a table row per GPU"

# From the letter to the frame that shows what it found: the next frame is drawn, then this runs.
KEYSTROKE = """async (text) => {
  const input = document.querySelector("[name=q]");
  const times = [];
  for (let letters = 1; letters <= text.length; letters += 1) {
    await new Promise((done) => setTimeout(done, 50));
    const started = performance.now();
    input.value = text.slice(0, letters);
    input.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    times.push(performance.now() - started);
  }
  return times;
}"""
PAINT = """() => new Promise((done) => new PerformanceObserver((list) => {
  const paint = list.getEntriesByName("first-contentful-paint")[0];
  if (paint) done(paint.startTime);
}).observe({ type: "paint", buffered: true }))"""


@dataclass(frozen=True)
class Measured:
    paint_ms: float
    loaded_ms: float
    keystroke_ms: float


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpus", type=int, nargs="+", default=[80, 800, 8000], help="[default: 80 800 8000]")
    parser.add_argument(
        "--rounds", type=int, default=3, help="medians are of so many  [default: %(default)s]"
    )
    parser.add_argument("--chromium", default="/usr/bin/chromium", help="[default: %(default)s]")


def run(given: argparse.Namespace) -> None:
    print(
        f"page: 6 of 10 GPUs busy, {GPUS_PER_HOST} per host, from disk, 1440 x 900, median of {given.rounds};"
        f" search: a letter of {TYPED!r}, until the frame with the result is drawn.\n"
    )
    print(
        f"{'GPUs':>6} {'page':22} {'bytes':>11} {'gzip':>9} {'gzip/GPU':>9} {'made in':>9}"
        f" {'first paint':>12} {'loaded':>9} {'search':>9}"
    )
    with _chromium(given.chromium) as browser, TemporaryDirectory() as folder:
        for gpus in given.gpus:
            _compare(browser, Path(folder), gpus, given.rounds)


def _compare(browser: Browser, folder: Path, gpus: int, rounds: int) -> None:
    config, readings = _lab(gpus)
    makers: dict[str, Callable[[], str]] = {
        OURS: lambda: render_page(build_page(readings, config, NOW)),
        ANCESTOR: lambda: ancestor_page(readings),
    }
    files, made = {}, {}
    for name, make in makers.items():
        started = time.perf_counter()
        html = make()
        made[name] = time.perf_counter() - started
        files[name] = folder / f"{gpus}-{name.split()[0]}.html"
        files[name].write_text(html, encoding="utf-8")
    measured: dict[str, list[Measured]] = {name: [] for name in makers}
    for _ in range(rounds):
        for name, file in files.items():
            measured[name].append(_measure(browser, file))
    for name, file in files.items():
        _print(gpus, name, file.read_bytes(), made[name], measured[name])
    print()


def _measure(browser: Browser, file: Path) -> Measured:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(file.as_uri(), wait_until="load", timeout=120_000)
    loaded = page.evaluate("performance.timing.loadEventStart - performance.timing.navigationStart")
    paint = page.evaluate(PAINT)
    page.wait_for_timeout(SETTLE_MS)
    times: list[float] = page.evaluate(KEYSTROKE, TYPED)
    context.close()
    return Measured(paint, loaded, statistics.median(times))


def _print(gpus: int, name: str, content: bytes, made_s: float, rounds: Sequence[Measured]) -> None:
    packed = len(gzip.compress(content, 6, mtime=0))
    print(
        f"{gpus:6} {name:22} {len(content):11,} {packed:9,} {packed / gpus:9.0f} {made_s:7.2f} s"
        f" {statistics.median(m.paint_ms for m in rounds):9.0f} ms"
        f" {statistics.median(m.loaded_ms for m in rounds):6.0f} ms"
        f" {statistics.median(m.keystroke_ms for m in rounds):6.0f} ms"
    )


@contextmanager
def _chromium(path: str) -> Iterator[Browser]:
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


def _lab(gpus: int) -> tuple[Config, list[HostReading]]:
    chance = random.Random(1)
    names = [f"node{number:04}" for number in range(gpus // GPUS_PER_HOST)]
    readings = [_reading(name, MODELS[place % len(MODELS)], chance) for place, name in enumerate(names)]
    config = Config(
        path=Path("config.ini"),
        hosts=tuple(_host(name) for name in names),
        fetch=FetchConfig(),
        paths=PathsConfig(Path("data"), Path("site")),
        busy=BusyConfig(),
        site=SiteConfig(refresh=0),
    )
    return config, readings


def _host(name: str) -> HostConfig:
    return HostConfig(name, name, None, None, None, 10.0, 30.0, "paramiko", "strict", Path("known_hosts"))


def _reading(name: str, model: tuple[str, float], chance: random.Random) -> HostReading:
    return HostReading(
        name,
        NOW - timedelta(minutes=2),
        driver_version="550.90.07",
        cuda_version="12.4",
        gpus=tuple(_gpu(index, model, chance) for index in range(GPUS_PER_HOST)),
        machine=Machine(128, chance.uniform(0, 99), 9.0, 8.0, 1032192.0, chance.uniform(1e5, 9e5)),
    )


def _gpu(index: int, model: tuple[str, float], chance: random.Random) -> Gpu:
    name, total_mib = model
    is_busy = chance.random() < 0.6
    used_mib = total_mib * chance.uniform(0.2, 0.97) if is_busy else 4.0
    job = Process(
        chance.randint(1000, 99999),
        "C",
        "python",
        used_mib,
        chance.choice(USERS),
        elapsed_s=chance.randint(60, 400_000),
    )
    return Gpu(
        index,
        uuid=f"GPU-{chance.getrandbits(64):016x}-{chance.getrandbits(32):08x}",
        name=name,
        utilization=float(chance.randint(20, 100)) if is_busy else 0.0,
        memory_used_mib=used_mib,
        memory_total_mib=total_mib,
        temperature_c=float(chance.randint(30, 85)),
        power_w=float(chance.randint(50, 390)),
        power_limit_w=400.0,
        processes=(job,) if is_busy else (),
    )
