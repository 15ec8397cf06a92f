"""`was` of `[hosts.NAME]`: rows of a host's old name become its own, once, in the files themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gpumon_static.store.history.engine import Engine, open_engine, parquet, quoted
from gpumon_static.store.history.layout import EVENTS, LAST_FILE, SUFFIX, read_listing
from gpumon_static.store.history.notes import FolderNotes
from gpumon_static.store.history.reader import skipped_if_damaged
from gpumon_static.store.history.upkeep import checksums
from gpumon_static.text import Say, count

if TYPE_CHECKING:
    from pathlib import Path

    from gpumon_static.config.settings import Config, HostConfig


def rename_hosts(config: Config, say: Say) -> None:
    """Raises `HistoryError`. Sums are made again, since their sources are other files then."""
    folder = config.history_path
    if not folder.is_dir() or not any(host.was for host in config.hosts):
        return
    notes = FolderNotes.read(folder)
    names = {host.was: host.name for host in config.hosts if host.was and _pair(host) not in notes.renamed}
    if not names:
        return
    done = 0
    with open_engine(folder) as engine:
        for path in _files(folder):
            with skipped_if_damaged():
                if _has(engine, path, names):
                    _rewrite(engine, path, names)
                    checksums.forget(folder, path)
                    done += 1
    replace(notes, renamed=tuple(_pair(host) for host in config.hosts if host.was)).write(folder)
    if done:
        names_words = ", ".join(f"{old} is {new} now" for old, new in names.items())
        say(f"history: {names_words}: {count(done, 'file')} written again")


def _pair(host: HostConfig) -> str:
    return f"{host.was} {host.name}"


def _files(folder: Path) -> Iterator[Path]:
    for day in read_listing(folder).days.values():
        yield from (file.path for file in (*day.files(), *day.replaced()))
    yield from sorted((folder / EVENTS).glob(f"*{SUFFIX}"))
    if (folder / LAST_FILE).is_file():
        yield folder / LAST_FILE


def _has(engine: Engine, path: Path, names: Mapping[str, str]) -> bool:
    old = ", ".join(map(quoted, names))
    return bool(engine.rows(f"SELECT 1 FROM {parquet([path])} WHERE host IN ({old}) LIMIT 1"))


def _rewrite(engine: Engine, path: Path, names: Mapping[str, str]) -> None:
    """In the same order and with the same notes."""
    cases = " ".join(f"WHEN {quoted(old)} THEN {quoted(new)}" for old, new in names.items())
    rows = f"SELECT * REPLACE (CASE host {cases} ELSE host END AS host) FROM {parquet([path])}"
    noted = engine.rows(f"SELECT decode(key), decode(value) FROM parquet_kv_metadata({quoted(path)})")
    engine.write(rows, path, notes=dict(noted))
