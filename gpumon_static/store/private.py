"""Who may read the data directory: its owner, and the group that the config names.

    data/                                            0700    0750 with paths.data_group
    load_data.csv, history.db, fetch.lock and so on  0600    0640

Every file is made for its owner only. `fetch` narrows what is wider, such as the files of 0.1.0, and gives
the files to the group; others' files are left to `check`, which names the command.
"""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpumon_static.files import make_directory

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config
    from gpumon_static.text import Say

FILES = ("load_data.csv", "history.db*", "events.json*", "pseudonyms.key*", "fetch.lock")
READ_BY_GROUP = 0o050


@dataclass(frozen=True, slots=True)
class Entry:
    """The data directory, or a file of ours in it."""

    path: Path
    mode: int
    owner: int
    group: int
    most: int
    """The permissions that it may have at most."""

    @property
    def is_too_wide(self) -> bool:
        return bool(self.mode & 0o777 & ~self.most)


def make_private(config: Config, say: Say) -> None:
    """Fix what is ours and can be read, listed or locked by others. Says so once: then it is right."""
    data = config.paths.data
    try:
        make_directory(data, private=not _is_shared(config))
        group = _group_id(config)
        fixed = [
            entry.path for entry in entries(config) if entry.owner == os.geteuid() and _fix(entry, group)
        ]
    except LookupError:
        say(f"paths.data_group: there is no group {config.paths.data_group!r}")
        return
    except OSError:
        # What cannot be done here cannot be done by the lock either, which tells it in words.
        return
    if fixed:
        names = ", ".join(str(path) if path == data else path.name for path in fixed)
        say(f"other users could read or lock {names}: fixed")


def entries(config: Config) -> Iterator[Entry]:
    """The directory first. Symbolic links are left alone: what they point to was put there by somebody."""
    data, for_group = config.paths.data, config.paths.data_group is not None
    most = 0o755 if _is_shared(config) else 0o700 | (READ_BY_GROUP if for_group else 0)
    files = sorted(path for pattern in FILES for path in data.glob(pattern))
    for path, allowed in [(data, most), *((path, 0o640 if for_group else 0o600) for path in files)]:
        try:
            found = path.stat() if path == data else path.lstat()
        except FileNotFoundError:
            continue
        if stat.S_ISREG(found.st_mode) or path == data:
            yield Entry(path, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, allowed)


def _fix(entry: Entry, group: int | None) -> bool:
    """Whether others could do more than they should."""
    wanted = entry.mode & ~0o777 | entry.mode & entry.most
    if group is not None:
        if entry.group != group and not _give(entry.path, group):
            # The group bits would be for another group.
            wanted &= ~0o070
        elif entry.most & 0o040:
            wanted |= entry.most & READ_BY_GROUP
    if wanted != entry.mode:
        entry.path.chmod(wanted)
    return bool(entry.mode & ~wanted)


def _give(path: Path, group: int) -> bool:
    try:
        os.chown(path, -1, group)
    except PermissionError:
        return False
    return True


def _group_id(config: Config) -> int | None:
    name = config.paths.data_group
    return None if name is None else grp.getgrnam(name).gr_gid


def _is_shared(config: Config) -> bool:
    """Others have to get to what else is in there: the site, or the config."""
    data = config.paths.data.resolve()
    return any(path.resolve().is_relative_to(data) for path in (config.paths.site, config.path))
