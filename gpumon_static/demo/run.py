"""`gpumon-static demo`: start the lab, then run the usual fetch and render."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gpumon_static.config import file as config_file
from gpumon_static.config.settings import Config
from gpumon_static.demo import DEFAULT_DIRECTORY, past
from gpumon_static.demo.cluster import DemoCluster
from gpumon_static.demo.lab import DemoSpec
from gpumon_static.demo.site import serve_site
from gpumon_static.errors import GpumonError
from gpumon_static.model import HostReading
from gpumon_static.system.resources import own_command
from gpumon_static.text import Say, count
from gpumon_static.times import Clock

MARKER = ".gpumon-demo"
REFRESH_SECONDS = 60.0


@dataclass(frozen=True)
class Pipelines:
    """The same fetch and render as everywhere; the command hands them in."""

    fetch: Callable[..., Sequence[HostReading]]
    render: Callable[[Config, datetime], Path]


def demo(
    spec: DemoSpec,
    directory: Path,
    pipelines: Pipelines,
    *,
    clock: Clock,
    say: Say,
    port: int | None = None,
    days: int = 0,
) -> None:
    """Run the demo. With a port (0: any that is free) the page is served and updated until Ctrl-C.

    `days`: how much of a past the lab has.
    """
    with _own(directory), DemoCluster(spec, directory, clock()) as cluster:
        config_path = directory / "config.ini"
        config_path.write_text(cluster.config_text(), encoding="utf-8")
        config = config_file.load(config_path, need_keys=True)
        say(f"lab      {len(cluster.hosts)} SSH hosts on 127.0.0.1, seed {spec.seed}")
        if days:
            _make_past(config, cluster, clock(), days, say)
        if port is None:
            _update(config, cluster, pipelines, clock, say)
            _say_what_next(config, say)
            return
        # Before the first fetch: a port that is taken is an error at once.
        with serve_site(config.paths.site, port) as url:
            _update(config, cluster, pipelines, clock, say)
            _keep_fresh(config, cluster, pipelines, clock, url, say)


def _make_past(config: Config, cluster: DemoCluster, now: datetime, days: int, say: Say) -> None:
    started = time.monotonic()
    if runs := past.fill(config, cluster.hosts, now, days):
        say(f"history  {runs} runs of the last {days} days in {time.monotonic() - started:.1f} s")


def _update(config: Config, cluster: DemoCluster, pipelines: Pipelines, clock: Clock, say: Say) -> None:
    started = time.monotonic()
    readings = pipelines.fetch(config, clock=clock)
    fetched = time.monotonic()
    page = pipelines.render(config, clock())
    answered = sum(reading.ok for reading in readings)
    gpus = sum(len(reading.gpus) for reading in readings)
    say(f"fetch    {answered} hosts answered, with {gpus} GPUs, in {fetched - started:.1f} s")
    _say_failed(readings, cluster, say)
    size_kb = page.stat().st_size / 1000
    say(f"render   one page of {size_kb:.0f} kB in {time.monotonic() - fetched:.1f} s")


def _say_failed(readings: Sequence[HostReading], cluster: DemoCluster, say: Say) -> None:
    wanted = {host.name: host.fate for host in cluster.failing}
    on_purpose = [r for r in readings if not r.ok and wanted.get(r.host) is r.status]
    if on_purpose:
        named = ", ".join(f"{reading.host} ({reading.status})" for reading in on_purpose)
        hosts = count(len(on_purpose), "host fails", "hosts fail")
        say(f"         {hosts} on purpose: {named}")
    for reading in readings:
        if not reading.ok and reading not in on_purpose:
            say(f"         {reading.host}: {reading.status}: {reading.error}")


def _say_what_next(config: Config, say: Say) -> None:
    directory = config.path.parent
    where = () if directory == Path(DEFAULT_DIRECTORY) else ("--dir", directory)
    say("")
    say(f"next     {own_command('demo', *where, '--serve')}    keeps the hosts up and the page fresh")
    say(f"         {own_command('render', '-c', config.path)}")
    say(f"         {own_command('history', 'users', '-c', config.path)}")
    say(f"page     {config.page_path}")


def _keep_fresh(
    config: Config, cluster: DemoCluster, pipelines: Pipelines, clock: Clock, url: str, say: Say
) -> None:
    say("")
    say(f"next     {own_command('fetch', '-v', '-c', config.path)}    in another terminal")
    say(f"page     {url}    fresh every {REFRESH_SECONDS:.0f} s; Ctrl-C ends it")
    try:
        while True:
            time.sleep(REFRESH_SECONDS)
            refresh(config, cluster, pipelines, clock, say)
    except KeyboardInterrupt:
        # The usual way to end this; not a failure.
        say("stopped")


def refresh(config: Config, cluster: DemoCluster, pipelines: Pipelines, clock: Clock, say: Say) -> None:
    cluster.refresh(clock())
    try:
        pipelines.fetch(config, clock=clock)
        pipelines.render(config, clock())
    except GpumonError as error:
        # A `fetch` by hand is running: the next minute will do.
        say(f"not refreshed: {error}")


@contextmanager
def _own(directory: Path) -> Iterator[None]:
    """Claim the directory: only a demo's files are overwritten, and no two demos share one."""
    marker = directory / MARKER
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not marker.exists() and any(directory.iterdir()):
            raise GpumonError(f"{directory} is not empty and not a demo's: choose another with --dir")
        file = marker.open("a", encoding="utf-8")
    except OSError as error:
        raise GpumonError(f"cannot use {directory}: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GpumonError(f"another demo is running in {directory}: choose another with --dir") from None
        yield
