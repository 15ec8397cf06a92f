"""What is needed after the hosts were read: `[notify] command`, the pages, room for the history."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from gpumon_static.check.findings import Finding, Mark
from gpumon_static.config.settings import Config, HistoryConfig
from gpumon_static.errors import GpumonError
from gpumon_static.store import site_files
from gpumon_static.text import count

TryRender = Callable[[], object]
"""Renders all pages as `render` does, and writes nothing; raises `GpumonError`."""
CRON_PATH = "/usr/bin:/bin"
RAW_BYTES, HOUR_BYTES, DAY_BYTES = 10_400, 2_400, 720
"""Of a GPU and day: docs/history.md has these numbers, at their most."""
USUAL_GPUS = 8
"""Of a host that has not been read yet."""
OWN_WORD = b"gpumon"
GONE = ("partials/card.html.j2", "partials/tooltip.html.j2", "partials/bar.html.j2")
"""Templates of release 0.1.0 that nothing includes any more."""


def look_at_notify(config: Config) -> Iterator[Finding]:
    """The program of the command, as cron will find it: with a short PATH, from the config's directory."""
    if not config.notify.command:
        return
    program, base = config.notify.command[0], config.path.absolute().parent
    named = str(base / program) if "/" in program else program
    if shutil.which(named, path=CRON_PATH):
        yield Finding("notify", Mark.OK, f"{program}, for {', '.join(config.notify.events) or 'no event'}")
    elif found := shutil.which(named):
        told = f"{program} is not on the PATH that cron has, {CRON_PATH}"
        yield Finding("notify", Mark.WARNING, told, (f"in [notify] command, write {found}",))
    else:
        told = f"[notify] command: there is no program {program} that can be run"
        yield Finding("notify", Mark.FAILED, told, (f"command -v {program}",))


def look_at_pages(config: Config, try_render: TryRender | None) -> Iterator[Finding]:
    names = [page.file for page in config.pages]
    strangers = [name for name in names if _is_a_strangers(config, name)]
    for name in strangers:
        told = f"{config.paths.site / name} is not a page of gpumon-static: render would replace it"
        yield Finding(
            "pages", Mark.WARNING, told, ("another directory for [paths] site, or another page name",)
        )
    templates = config.site.templates
    for name in GONE if templates else ():
        if templates and (templates / name).exists():
            told = f"{templates / name} has no effect any more"
            yield Finding("pages", Mark.WARNING, told, ("cards are made in partials/host.html.j2 now",))
    if try_render is None:
        return
    try:
        try_render()
    except GpumonError as error:
        yield Finding("pages", Mark.FAILED, str(error))
    else:
        if not strangers:
            yield Finding("pages", Mark.OK, f"{', '.join(names)}: can be rendered")


def _is_a_strangers(config: Config, name: str) -> bool:
    path = config.paths.site / name
    try:
        is_page = path.is_file() and OWN_WORD in path.read_bytes()
        return path.is_file() and not is_page and not site_files.is_known(config.paths.data, path)
    except OSError:
        return False


def look_at_room(config: Config, least: int) -> Iterator[Finding]:
    """Whether the disk has room for what retention lets the history grow to.

    `least`: bytes; with fewer the disk is full, which is reported elsewhere.
    """
    if not config.history.enabled:
        return
    data = config.paths.data
    there = next(d for d in (data, *data.absolute().parents) if d.exists())
    gpus = _number_of_gpus(config)
    needed = gpus * _bytes_of_a_gpu(config.history)
    has = config.history_path.stat().st_size if config.history_path.exists() else 0
    free = shutil.disk_usage(there).free
    if free >= least and needed - has > free:
        told = f"history.db will need about {_size(needed)} for {count(gpus, 'GPU')}; {_size(free)} are free"
        lower = "lower keep_raw, keep_hours or keep_days in [history], or give it more room"
        yield Finding("history", Mark.WARNING, told, (lower,))


def _bytes_of_a_gpu(keep: HistoryConfig) -> int:
    return keep.keep_raw * RAW_BYTES + keep.keep_hours * HOUR_BYTES + keep.keep_days * DAY_BYTES


def _size(number: float) -> str:
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.0f} MB"


def _number_of_gpus(config: Config) -> int:
    """GPUs and slices of the last run; where a host was never read, what the config expects."""
    seen = _seen(config.csv_path)
    unread = [host for host in config.hosts if host.name not in {name for name, *_ in seen}]
    return len(seen) + sum(USUAL_GPUS if host.gpus is None else host.gpus for host in unread)


def _seen(csv_path: Path) -> set[tuple[str, ...]]:
    try:
        with csv_path.open(newline="", encoding="utf-8") as file:
            keys = ("host", "gpu_index", "mig_device")
            return {tuple(row[key] for key in keys) for row in csv.DictReader(file) if row["gpu_index"]}
    except (OSError, ValueError, KeyError, csv.Error):
        return set()
