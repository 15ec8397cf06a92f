"""Whether the files of data and site can be written by this user: an earlier run by root may own them."""

from __future__ import annotations

import getpass
import os
import pwd
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gpumon_static.check.findings import Finding, Mark
from gpumon_static.config.settings import Config
from gpumon_static.store import private
from gpumon_static.text import count

REPLACED = ("load_data.csv", "site-files.json")
"""Files of the data directory that are put in place by a rename, which needs the directory only."""
MOST_NAMED = 5


def look_at_files(config: Config) -> Iterator[Finding]:
    data, site = config.paths.data, config.paths.site
    ours = [path for path in private.files(data) if not path.name.endswith((".tmp", "-shm"))]
    yield from _closed("data", data, [path for path in ours if path.name not in REPLACED], Mark.FAILED)
    yield from _closed("data", data, [path for path in ours if path.name in REPLACED], Mark.WARNING)
    yield from _closed("site", site, _site_files(config), Mark.WARNING)
    if owner := private.other_owner(config):
        me = getpass.getuser()
        again = f"sudo -u {owner} gpumon-static check -c {shlex.quote(str(config.path.absolute()))}"
        yield Finding(
            "data", Mark.WARNING, f"{data} belongs to {owner}, and this is a check by {me}", (again,)
        )


def _closed(step: str, directory: Path, files: list[Path], mark: Mark) -> Iterator[Finding]:
    """One finding for all files that this user cannot open for writing; nothing is written."""
    closed = [path for path in files if not _opens(path)]
    if not closed:
        return
    user = getpass.getuser()
    names = ", ".join(f"{path.name} ({_owner(path)})" for path in closed[:MOST_NAMED])
    more = f" and {count(len(closed) - MOST_NAMED, 'more file')}" if len(closed) > MOST_NAMED else ""
    fix = f"sudo chown -R {user}: {shlex.quote(str(directory))}"
    yield Finding(step, mark, f"{user} cannot write {names}{more} in {directory}", (fix,))


def _opens(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _owner(path: Path) -> str:
    with suppress(OSError, KeyError):
        return f"of {pwd.getpwuid(path.stat().st_uid).pw_name}"
    return "of another user"


def _site_files(config: Config) -> list[Path]:
    with suppress(OSError):
        names = [name for page in config.pages for name in (page.file, f"{page.file}.gz")]
        names += ["gpus.json", "metrics.prom", "free.txt", "feed.xml"]
        return [config.paths.site / name for name in names if (config.paths.site / name).is_file()]
    return []
