"""Who may read the data directory: its owner, and the group that the config names.

    data/                                            0700    0750 with paths.data_group
    load_data.csv, history.db, fetch.lock and so on  0600    0640

Every file is made for its owner only. `fetch` narrows what is wider, such as the files of 0.1.0, and gives
the files to the group; others' files are left to `check`, which names the command.
"""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpumon_static.files import make_directory

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config
    from gpumon_static.text import Say

FILES = ("load_data.csv", "history.db*", "events.json*", "pseudonyms.key*", "site-files.json", "fetch.lock")


@dataclass(frozen=True, slots=True)
class DataEntry:
    """The data directory, or a file of ours in it."""

    path: Path
    mode: int
    owner: int
    of_group: bool
    """It belongs to the group that the config names."""
    most: int
    """The permissions that it may have at most."""

    @property
    def is_too_wide(self) -> bool:
        return bool(self.mode & 0o777 & ~self.most)


def make_private(config: Config, say: Say) -> None:
    """Fix what is ours and can be read, listed or locked by other users, and report it once."""
    data = config.paths.data
    try:
        make_directory(data, private=not _is_shared(config))
        group = group_id(config)
        fixed = [path for path in _paths(data) if _fix(config, path, group)]
        if group is not None and not _entry(config, data, group).of_group:
            name = config.paths.data_group
            say(f"paths.data_group: {data} does not belong to group {name}; then: {group_command(config)}")
    except LookupError:
        say(f"paths.data_group: there is no group {config.paths.data_group!r}")
        return
    except OSError:
        # What fails here fails for the lock too, which reports it.
        return
    if fixed:
        names = ", ".join(str(path) if path == data else path.name for path in fixed)
        say(f"other users could read or lock {names}: fixed")


def group_id(config: Config) -> int | None:
    """Raises `LookupError` where the group of the config does not exist."""
    name = config.paths.data_group
    return None if name is None else grp.getgrnam(name).gr_gid


def group_command(config: Config) -> str:
    """The command for a user who may not give files away: new files then belong to the directory's group."""
    data = shlex.quote(str(config.paths.data))
    name = shlex.quote(config.paths.data_group or "")
    return f"sudo chgrp -R {name} {data} && sudo chmod g+rxs {data}"


def entries(config: Config, group: int | None) -> list[DataEntry]:
    """The directory first, then its files."""
    return [_entry(config, path, group) for path in _paths(config.paths.data)]


def files(data: Path) -> list[Path]:
    """Our files, without symbolic links: what they point to is not ours to change."""
    found = sorted(path for pattern in FILES for path in data.glob(pattern))
    return [path for path in found if path.is_file() and not path.is_symlink()]


def other_owner(config: Config) -> str | None:
    """The user whose data directory it is, where root is at work in it."""
    try:
        owner = config.paths.data.stat().st_uid
    except OSError:
        return None
    if os.geteuid() != 0 or owner == 0:
        return None
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return str(owner)


def _paths(data: Path) -> list[Path]:
    return [data, *files(data)] if data.is_dir() else []


def _entry(config: Config, path: Path, group: int | None) -> DataEntry:
    found = path.stat()
    for_group = 0o050 if found.st_gid == group else 0
    if path != config.paths.data:
        most = 0o600 | for_group & 0o040
    else:
        most = 0o755 if _is_shared(config) else 0o700 | for_group
    return DataEntry(path, stat.S_IMODE(found.st_mode), found.st_uid, bool(for_group), most)


def _fix(config: Config, path: Path, group: int | None) -> bool:
    """Fix one file; return whether other users could do more than they should."""
    entry = _entry(config, path, group)
    if entry.owner != os.geteuid():
        return False
    before = entry
    if group is not None and not entry.of_group:
        with suppress(PermissionError):
            os.chown(path, -1, group)
            entry = _entry(config, path, group)
    wanted = entry.mode & ~0o777 | entry.mode & entry.most
    if entry.of_group:
        wanted |= entry.most & 0o050
    if wanted != entry.mode:
        path.chmod(wanted)
    return before.is_too_wide


def _is_shared(config: Config) -> bool:
    """Whether other users must enter the directory, because the site or the config is in it."""
    data = config.paths.data.resolve()
    return any(path.resolve().is_relative_to(data) for path in (config.paths.site, config.path))
