"""`history.names_for`: logins of older days become pseudonyms, once, in the files themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon_static.store.history.engine import Engine, filled, parquet, quoted
from gpumon_static.store.history.layout import DAY, Listing
from gpumon_static.store.history.reader import skipped_if_damaged
from gpumon_static.store.history.upkeep import checksums
from gpumon_static.store.pseudonyms import pseudonym, read_key

if TYPE_CHECKING:
    from pathlib import Path

    from gpumon_static.config.settings import Config

MOST_DAYS = 5
"""That one run rewrites."""


def pseudonymize(engine: Engine, config: Config, listing: Listing, now: int) -> None:
    days = config.history.names_for
    if days is None:
        return
    old = [day for day in listing.days.values() if day.is_closed and day.end <= now - days * DAY]
    done = 0
    for path in (file.path for day in old for file in day.files()):
        with skipped_if_damaged():
            if done < MOST_DAYS and not _is_done(engine, path):
                _rewrite(engine, path, read_key(config.paths.data))
                checksums.forget(config.history_path, path)
                done += 1


def _is_done(engine: Engine, path: Path) -> bool:
    found = f"SELECT 1 FROM parquet_kv_metadata({quoted(path)}) WHERE decode(key) = 'names'"
    return bool(engine.rows(found))


def _rewrite(engine: Engine, path: Path, key: bytes) -> None:
    rows = parquet([path])
    logins = engine.rows(filled("sql/logins", rows=rows))
    pairs = [(login, pseudonym(login, key)) for (login,) in logins if login]
    engine.do("CREATE OR REPLACE TEMP TABLE pseudonyms (login VARCHAR, pseudonym VARCHAR)")
    engine.do(
        "INSERT INTO pseudonyms SELECT unnest($logins), unnest($names)",
        {"logins": [login for login, _ in pairs], "names": [name for _, name in pairs]},
    )
    engine.write(filled("sql/pseudonymized", rows=rows), path, notes={"names": "pseudonyms"})
