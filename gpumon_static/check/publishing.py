"""What is needed after the hosts were read: `[notify] command`, the pages, room for the history."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

from gpumon_static.check.findings import Finding, Hint, Mark
from gpumon_static.config.settings import Config
from gpumon_static.errors import GpumonError
from gpumon_static.store import site_files, snapshot
from gpumon_static.store.history.engine import HistoryError
from gpumon_static.store.history.moving.convert import check_database
from gpumon_static.store.history.upkeep.checksums import damaged_files
from gpumon_static.system.command import Command
from gpumon_static.system.files import read_file
from gpumon_static.text import count

TryRender = Callable[[], object]
"""Renders all pages as `render` does, and writes nothing; raises `GpumonError`."""
CRON_PATH = "/usr/bin:/bin"
BYTES_PER_GPU_DAY = 1_400
"""docs/history.md has this number: every run, whole, and the sums of the day."""
MOST_NAMED = 3
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
        message = f"{program} is not on the PATH that cron has, {CRON_PATH}"
        yield Finding("notify", Mark.WARNING, message, (Hint(f"in [notify] command, write {found}"),))
    else:
        message = f"[notify] command: there is no program {program} that can be run"
        yield Finding("notify", Mark.FAILED, message, (Hint(command=Command.of("command", "-v", program)),))


def look_at_pages(config: Config, try_render: TryRender | None) -> Iterator[Finding]:
    names = [page.file for page in config.pages]
    strangers = [name for name in names if _is_a_strangers(config, name)]
    for name in strangers:
        message = f"{config.paths.site / name} is not a page of gpumon-static: render would replace it"
        yield Finding(
            "pages",
            Mark.WARNING,
            message,
            (Hint("another directory for [paths] site, or another page name"),),
        )
    templates = config.site.templates
    for name in GONE if templates else ():
        if templates and (templates / name).exists():
            message = f"{templates / name} has no effect any more"
            yield Finding(
                "pages", Mark.WARNING, message, (Hint("cards are made in partials/host.html.j2 now"),)
            )
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
        return OWN_WORD not in read_file(path) and not site_files.is_known(config.paths.data, path)
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
    needed = gpus * config.history.keep * BYTES_PER_GPU_DAY
    has = sum(path.stat().st_size for path in config.history_path.rglob("*.parquet") if path.is_file())
    free = shutil.disk_usage(there).free
    if free >= least and needed - has > free:
        message = (
            f"the history will need about {_size(needed)} for {count(gpus, 'GPU')}; {_size(free)} are free"
        )
        lower = Hint("lower keep in [history], or give it more room")
        yield Finding("history", Mark.WARNING, message, (lower,))


def look_at_history(config: Config) -> Iterator[Finding]:
    """Files of the history that readers leave out; all of them are read."""
    if not config.history.enabled or not config.history_path.is_dir():
        return
    try:
        bad = damaged_files(config.history_path)
    except (HistoryError, OSError) as error:
        yield Finding("history", Mark.WARNING, str(error))
        return
    if bad:
        more = f" and {len(bad) - MOST_NAMED} more" if len(bad) > MOST_NAMED else ""
        words = f"damaged, and left out: {', '.join(bad[:MOST_NAMED])}{more}"
        hint = Hint(f"restore from a backup, or remove: nothing else in {config.history_path} depends on it")
        yield Finding("history", Mark.WARNING, words, (hint,))


def look_at_old_history(config: Config) -> Iterator[Finding]:
    """The database of a version before 0.2, as long as it is not converted."""
    path = config.old_history_path
    if not config.history.enabled or not path.exists():
        return
    try:
        check_database(path)
    except HistoryError as error:
        aside = "restore it from a backup, or move it out of the data directory: runs are recorded without it"
        yield Finding("history", Mark.WARNING, f"not converted: {error}", (Hint(aside),))
    else:
        yield Finding("history", Mark.OK, f"{path.name} of an older version: the next fetch converts it")


def _size(number: float) -> str:
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.0f} MB"


def _number_of_gpus(config: Config) -> int:
    """GPUs and slices of the last run; where a host was never read, what the config expects."""
    seen = snapshot.seen_gpus(config.csv_path)
    unread = [host for host in config.hosts if host.name not in {name for name, *_ in seen}]
    return len(seen) + sum(USUAL_GPUS if host.gpus is None else host.gpus for host in unread)
