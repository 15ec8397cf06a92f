"""`gpumon-static top`: readings come from threads, keys from the terminal, and one loop draws."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Container
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from gpumon_static.collect.slurm.join import join
from gpumon_static.config.settings import Config, HostConfig
from gpumon_static.errors import GpumonError
from gpumon_static.store.snapshot import slurm_nodes
from gpumon_static.survey.survey import Survey
from gpumon_static.terminal.rntop_log import RntopLog
from gpumon_static.terminal.rows import Look
from gpumon_static.terminal.screen import Screen
from gpumon_static.terminal.show import survey_of
from gpumon_static.terminal.top_view import View, frame, press
from gpumon_static.terminal.watch import Watch
from gpumon_static.times import Clock

TICK = 0.2
"""Seconds between two checks for new readings."""
DRAW_EVERY = 0.5


def top(
    config: Config, hosts: list[HostConfig], look: Look, interval: float, output: Path | None, clock: Clock
) -> None:
    is_dumb = os.environ.get("TERM", "dumb") == "dumb"
    if is_dumb or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise GpumonError("top needs a terminal; for a pipe there is: gpumon-static show --live")
    config = replace(config, hosts=tuple(hosts))
    log = RntopLog(output) if output else None
    nodes = slurm_nodes(config.csv_path) if config.clusters else {}
    asked = [cluster.asked for cluster in config.clusters]
    watch = Watch(config.path, [*asked, *hosts], config.fetch.workers, interval, clock)
    try:
        with Screen() as screen:
            watch.start()
            _loop(screen, watch, View(look, interval, nodes=nodes), config, log, clock)
    finally:
        watch.stop()
        if log:
            log.close()


def _loop(
    screen: Screen, watch: Watch, view: View, config: Config, log: RntopLog | None, clock: Clock
) -> None:
    drawn_at, drawn_size = 0.0, (0, 0)
    while not view.has_ended:
        before = view
        view = with_news(view, watch, log, {cluster.asked.name for cluster in config.clusters})
        age = time.monotonic() - drawn_at
        # Not for each of a thousand hosts: twice a second is live enough.
        is_due = age >= 1.0 or (age >= DRAW_EVERY and view != before)
        if is_due or screen.was_away or screen.size != drawn_size:
            drawn_size = screen.size
            lines, scroll = frame(view, survey_now(view, config, clock()), *drawn_size)
            view = replace(view, scroll=scroll)
            screen.was_away = False
            screen.draw(lines)
            drawn_at = time.monotonic()
        for key in screen.keys(TICK):
            view = press(view, key, max(1, drawn_size[1] - 6))
            drawn_at = 0.0
        watch.pause(view.is_paused)


def survey_now(view: View, config: Config, now: datetime) -> Survey:
    """The last readings, with what each Slurm reports of their GPUs."""
    return survey_of(join(list(view.readings.values()), view.slurm, config, view.nodes), config, now)


def with_news(view: View, watch: Watch, log: RntopLog | None, clusters: Container[str] = ()) -> View:
    """`clusters`: the names under which each Slurm is asked."""
    all_news = [] if view.is_paused else list(watch.news())
    if not all_news:
        return view
    slurm = {**view.slurm, **{r.host: r for r in all_news if r.host in clusters}}
    news = [reading for reading in all_news if reading.host not in clusters]
    problem = view.problem
    for reading in news:
        try:
            if log:
                log.add(reading)
        except OSError as error:
            problem = f"--output: {error.strerror or error}"
    readings = {**view.readings, **{r.host: r for r in news}}
    return replace(view, readings=readings, slurm=slurm, problem=problem)
