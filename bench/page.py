"""The page in Chromium: weight, render, first paint, search, refresh; beside a table row per GPU."""

from __future__ import annotations

import argparse
import gzip
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from bench.ancestor import ancestor_page
from bench.targets import compare
from gpumon_static.commands.render import render
from gpumon_static.config.settings import BusyConfig, Config, FetchConfig, HostConfig, PathsConfig, SiteConfig
from gpumon_static.demo import lab, workload
from gpumon_static.demo.lab import DemoSpec
from gpumon_static.model import HostReading
from gpumon_static.store import snapshot
from gpumon_static.store.history import record
from gpumon_static.survey.sightings import sightings
from gpumon_static.system.files import FOR_READERS

NOW = datetime(2026, 11, 16, 15, 0, tzinfo=UTC)
GPUS_PER_HOST = 8
LARGE = 8000
RUNS = 48
"""Of the last day, half an hour apart."""
TYPED = "jonas"
SETTLE_MS = 4000
OURS, ANCESTOR = "gpumon-static", "a table row per GPU"
SLOWED = 6

# From the letter to the frame that shows what it found: the next one is drawn, then this runs. Then clearing.
KEYSTROKES = """async (text) => {
  const input = document.querySelector("[name=q]");
  const times = [];
  for (const value of [...text].map((_, place) => text.slice(0, place + 1)).concat("")) {
    await new Promise((done) => setTimeout(done, 400));
    const started = performance.now();
    input.value = value;
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
WATCH = """() => {
  window.blocks = [0];
  new PerformanceObserver((list) => list.getEntries().forEach((one) => window.blocks.push(one.duration)))
    .observe({ type: "longtask" });
}"""


@dataclass(frozen=True)
class Measured:
    """Milliseconds."""

    paint: float
    letter: float
    clearing: float


@dataclass(frozen=True)
class Made:
    file: Path
    render_s: float

    @property
    def content(self) -> bytes:
        return self.file.read_bytes()


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpus", type=int, nargs="+", default=[80, 800, 8000], help="[default: 80 800 8000]")
    parser.add_argument(
        "--rounds", type=int, default=3, help="medians are of so many  [default: %(default)s]"
    )
    parser.add_argument("--chromium", default="/usr/bin/chromium", help="[default: %(default)s]")


def run(given: argparse.Namespace) -> None:
    print(
        f"page: the demo's lab, {GPUS_PER_HOST} GPUs per host, 24 h of history, from disk, 1440 x 900, median"
        f" of {given.rounds}; search: a letter of {TYPED!r}, until the frame with the result is drawn; slow:"
        f" with the CPU slowed {SLOWED} times.\n"
    )
    with chromium(given.chromium) as browser:
        for gpus in given.gpus:
            with TemporaryDirectory() as folder:
                _compare(browser, Path(folder), gpus, given.rounds)


def _compare(browser: Browser, folder: Path, gpus: int, rounds: int) -> None:
    config, readings = _lab(folder, gpus)
    pages = {OURS: _ours(config), ANCESTOR: _table(folder, readings)}
    heads = f"{'bytes':>11} {'packed':>9} {'elements/GPU':>13} {'no JS':>7} {'CPU':>7}"
    print(f"{'GPUs':>6} {'page':22} {heads}")
    for name, made in pages.items():
        packed = len(gzip.compress(made.content, FOR_READERS, mtime=0))
        with_js, without = (_elements(browser, made.file, javascript=on) / gpus for on in (True, False))
        print(
            f"{gpus:6} {name:22} {len(made.content):11,} {packed:9,} {with_js:13.1f} {without:7.1f}"
            f" {made.render_s:5.2f} s"
        )
        if name == OURS and gpus == LARGE:
            for what, value, most, unit in (
                ("bytes", len(made.content) / 1e6, 6.0, "MB"),
                ("packed", packed / 1e3, 900.0, "kB"),
                ("elements per GPU", max(with_js, without), 9.0, ""),
                ("render", made.render_s, 4.0, "s"),
            ):
                print("      ", what, compare(f"page of {LARGE:,} GPUs, {what}", value, most, unit))
    for slowed in (1, SLOWED):
        _print_times(browser, pages, gpus, rounds, slowed)
    block, slow = (_longest_block(browser, config, slowed) for slowed in (1, SLOWED))
    print(f"{gpus:6} longest block of a refresh in which all changed: {block:.0f} ms, slow {slow:.0f} ms")
    if gpus == LARGE:
        print("      ", compare(f"refresh of {LARGE:,} GPUs, longest block", block, 200, "ms"))
    print()


def _print_times(browser: Browser, pages: dict[str, Made], gpus: int, rounds: int, slowed: int) -> None:
    measured: dict[str, list[Measured]] = {name: [] for name in pages}
    for _ in range(rounds):
        for name, made in pages.items():
            measured[name].append(_measure(browser, made.file, slowed))
    medians = {
        name: {
            field.name: statistics.median(getattr(m, field.name) for m in found) for field in fields(Measured)
        }
        for name, found in measured.items()
    }
    for name, found in medians.items():
        told = "  ".join(f"{what} {value:6.0f} ms" for what, value in found.items())
        print(f"{gpus:6} {name:22} {told}{'  slow' if slowed > 1 else ''}")
    if gpus == LARGE and slowed == 1:
        for what, most in (("paint", 1.0), ("letter", 2.0), ("clearing", 2.0)):
            ratio = medians[OURS][what] / medians[ANCESTOR][what]
            print("      ", compare(f"{what}, {LARGE:,} GPUs, to the table", ratio, most, "x"))


def open_in(browser: Browser, address: str, at: datetime = NOW, slowed: int = 1) -> Page:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.clock.set_system_time(at)
    if slowed > 1:
        page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slowed})
    page.goto(address, wait_until="load", timeout=240_000)
    return page


def _measure(browser: Browser, file: Path, slowed: int) -> Measured:
    page = open_in(browser, file.as_uri(), slowed=slowed)
    paint = page.evaluate(PAINT)
    page.wait_for_timeout(SETTLE_MS)
    *letters, clearing = page.evaluate(KEYSTROKES, TYPED)
    page.context.close()
    return Measured(paint, statistics.median(letters), clearing)


def _elements(browser: Browser, file: Path, *, javascript: bool) -> int:
    context = browser.new_context(java_script_enabled=javascript)
    page = context.new_page()
    page.goto(file.as_uri(), timeout=240_000)
    counted = context.new_cdp_session(page).send("DOM.getDocument", {"depth": -1})
    context.close()
    return _count(counted["root"])


def _count(root: dict[str, Any]) -> int:
    found, waiting = 0, [root]
    while waiting:
        node = waiting.pop()
        found += node["nodeType"] == 1
        waiting += node.get("children", ())
    return found


def _longest_block(browser: Browser, config: Config, slowed: int) -> float:
    """The page is served, and replaced by one of half an hour later."""
    config = replace(config, site=replace(config.site, refresh=5))
    render(config, NOW)
    handler = partial(_Silent, directory=str(config.paths.site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = open_in(browser, f"http://127.0.0.1:{server.server_port}/", slowed=slowed)
    page.wait_for_timeout(SETTLE_MS)
    page.evaluate(WATCH)
    later = NOW + timedelta(minutes=30)
    readings = [replace(reading, fetched_at=later) for reading in _run(config, later)]
    before = config.csv_path.read_text(encoding="utf-8")
    config.csv_path.write_text(snapshot.to_csv(readings), encoding="utf-8")
    render(config, later)
    config.csv_path.write_text(before, encoding="utf-8")
    page.wait_for_function(
        "made => document.body.dataset.made === made", arg=later.isoformat(), timeout=120_000
    )
    page.wait_for_timeout(SETTLE_MS)
    longest = float(page.evaluate("Math.max(...window.blocks)"))
    page.context.close()
    server.shutdown()
    server.server_close()
    return longest


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def chromium(path: str) -> Iterator[Browser]:
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


def _ours(config: Config) -> Made:
    started = time.process_time()
    file = render(config, NOW)
    return Made(file, time.process_time() - started)


def _table(folder: Path, readings: list[HostReading]) -> Made:
    started = time.process_time()
    html = ancestor_page(readings)
    spent = time.process_time() - started
    file = folder / "table.html"
    file.write_text(html, encoding="utf-8")
    return Made(file, spent)


def _lab(folder: Path, gpus: int) -> tuple[Config, list[HostReading]]:
    """The demo's lab with a day of history, as `fetch` leaves it."""
    hosts = lab.build(DemoSpec(1, gpus // GPUS_PER_HOST, GPUS_PER_HOST))
    config = Config(
        path=folder / "config.ini",
        hosts=tuple(_host(host.name) for host in hosts),
        fetch=FetchConfig(),
        paths=PathsConfig(folder / "data", folder / "site"),
        busy=BusyConfig(),
        site=SiteConfig(refresh=0),
    )
    config.paths.data.mkdir()
    config.paths.site.mkdir()
    for number in range(RUNS, -1, -1):
        at = NOW - timedelta(minutes=30 * number)
        readings = _run(config, at)
        snapshot.write(config.csv_path, readings)
        record.record(config, sightings(readings, config.busy), at, _complain)
    return config, readings


def _run(config: Config, at: datetime) -> list[HostReading]:
    hosts = lab.build(DemoSpec(1, len(config.hosts), GPUS_PER_HOST))
    return [workload.healthy_reading(host, at) for host in hosts]


def _host(name: str) -> HostConfig:
    return HostConfig(name, name, None, None, None, 10.0, 30.0, "paramiko", "strict", Path("known_hosts"))


def _complain(text: str) -> None:
    raise RuntimeError(text)
