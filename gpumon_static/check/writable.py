"""Whether the files of data and site can be written by this user: an earlier run by root may own them."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gpumon_static.check.findings import Finding, Hint, Mark
from gpumon_static.config.settings import Config
from gpumon_static.store import private
from gpumon_static.store.files import REPLACED, SITE
from gpumon_static.system.command import Command
from gpumon_static.system.files import owner_of
from gpumon_static.system.resources import own_command
from gpumon_static.text import count

MOST_NAMED = 5


def look_at_files(config: Config) -> Iterator[Finding]:
    data, site = config.paths.data, config.paths.site
    # Files of the history are replaced, never written to: their folders have to be writable.
    ours = [path for path in private.files(data) if path.suffix != ".tmp" and path.parent == data]
    ours += private.history_folders(data)
    yield from _closed("data", data, [path for path in ours if path.name not in REPLACED], Mark.FAILED)
    yield from _closed("data", data, [path for path in ours if path.name in REPLACED], Mark.WARNING)
    yield from _closed("site", site, site_files(config), Mark.WARNING)
    if owner := private.other_owner(config):
        message = f"{data} belongs to {owner}, and this is a check by {getpass.getuser()}"
        yield Finding("data", Mark.WARNING, message, (_check_by(owner, config),))


def closed_to_us(config: Config) -> Finding | None:
    """A data directory that this user may not look into: nothing in it can be checked."""
    data = config.paths.data.absolute()
    for path in (*reversed(data.parents), data):
        try:
            if (
                path.stat()
                and path.is_dir()
                and not os.access(path, os.X_OK if path != data else os.R_OK | os.X_OK)
            ):
                break
        except FileNotFoundError:
            return None
        except OSError:
            break
    else:
        return None
    user, owner = getpass.getuser(), owner_of(path)
    message = f"{user} cannot enter {path}, which belongs to {owner}"
    give = Hint(command=Command.of("chown", "-R", f"{user}:", data).by("root"))
    # What root has made by mistake is to be given back; another user's is theirs.
    hints = (
        (give,) if owner == "root" else (_check_by(owner, config), replace(give, words=f"or is it {user}'s?"))
    )
    return Finding("data", Mark.FAILED, message, hints)


def _check_by(owner: str, config: Config) -> Hint:
    return Hint(command=own_command("check", "-c", config.path.absolute()).by(owner))


def _closed(step: str, directory: Path, files: list[Path], mark: Mark) -> Iterator[Finding]:
    """One finding for all files that this user cannot open for writing; nothing is written."""
    closed = [path for path in files if not _opens(path)]
    if not closed:
        return
    user = getpass.getuser()
    names = ", ".join(f"{path.name} (of {owner_of(path)})" for path in closed[:MOST_NAMED])
    more = f" and {count(len(closed) - MOST_NAMED, 'more file')}" if len(closed) > MOST_NAMED else ""
    fix = Hint(command=Command.of("chown", "-R", f"{user}:", directory).by("root"))
    yield Finding(step, mark, f"{user} cannot write {names}{more} in {directory}", (fix,))


def _opens(path: Path) -> bool:
    try:
        if path.is_dir():
            return os.access(path, os.W_OK | os.X_OK)
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def site_files(config: Config) -> list[Path]:
    with suppress(OSError):
        names = dict.fromkeys((*(page.file for page in config.pages), *SITE))
        patterns = [f"{name}{packed}" for name in names for packed in ("", ".gz")]
        return [path for pattern in patterns for path in config.paths.site.glob(pattern) if path.is_file()]
    return []
