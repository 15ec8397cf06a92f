"""Who may read the data directory: its owner, and the group that the config names.

    data/, data/history/ and its folders           0700    0750 with paths.data_group
    load_data.csv, fetch.lock, history/* and so on  0600    0640

Every file is made for its owner only. `fetch` narrows what is wider, such as the files of 0.1.0, and gives
the files to the group; others' files are left to `check`, which names the command.
"""

from __future__ import annotations

import grp
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpumon_static.store.files import DATA, HISTORY
from gpumon_static.system.command import Command
from gpumon_static.system.files import make_directory, owner_of

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config
    from gpumon_static.text import Say


@dataclass(frozen=True, slots=True)
class DataEntry:
    """The data directory, or a file or folder of ours in it."""

    path: Path
    part: Path
    """What is named and fixed as a whole: the path itself, or the folder of ours that it is in."""
    mode: int
    owner: int
    of_group: bool
    """It belongs to the group that the config names."""
    most: int
    """The permissions that it may have at most."""
    is_in_folder: bool
    """It is a folder of ours in the data directory, or in one."""

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
            fix = group_command(config)
            say(f"paths.data_group: {data} does not belong to group {name}; then {fix.who}: {fix}")
    except LookupError:
        say(f"paths.data_group: there is no group {config.paths.data_group!r}")
        return
    except OSError:
        # What fails here fails for the lock too, which reports it.
        return
    if fixed:
        parts = dict.fromkeys(_part(data, path) for path in fixed)
        names = ", ".join(str(part) if part == data else part.name for part in parts)
        say(f"other users could read or lock {names}: fixed")


def group_id(config: Config) -> int | None:
    """Raises `LookupError` where the group of the config does not exist."""
    name = config.paths.data_group
    return None if name is None else grp.getgrnam(name).gr_gid


def group_command(config: Config) -> Command:
    """The command for a user who may not give files away: new files then belong to the directory's group."""
    data, name = config.paths.data, config.paths.data_group or ""
    return Command.of("chgrp", "-R", name, data).then(Command.of("chmod", "g+rxs", data)).by("root")


def entries(config: Config, group: int | None) -> list[DataEntry]:
    """The directory first, then its files."""
    return [_entry(config, path, group) for path in _paths(config.paths.data)]


def fixes(wide: list[DataEntry]) -> list[Command]:
    """The commands that narrow what is too wide."""
    user = "" if all(entry.owner == os.geteuid() for entry in wide) else "root"
    commands = []
    for entry in wide:
        mode = [f"{entry.most:o}"]
        if entry.is_in_folder:
            mode = ["-R", "g-w,o-rwx" if entry.of_group else "go-rwx"]
        commands.append(Command.of("chmod", *mode, entry.part).by(user))
    return list(dict.fromkeys(commands))


def files(data: Path) -> list[Path]:
    """Our files, without symbolic links: what they point to is not ours to change."""
    return [path for path in _ours(data) if path.is_file()]


def history_folders(data: Path) -> list[Path]:
    return [path for path in _with_content(data / HISTORY) if path.is_dir()]


def _ours(data: Path) -> list[Path]:
    """What the table of our files names, and everything in its folders."""
    return sorted(
        path
        for file in DATA
        for found in data.glob(file.pattern)
        if found.is_dir() == file.is_folder
        for path in _with_content(found)
    )


def _with_content(found: Path) -> list[Path]:
    """A file, or a folder with everything in it; nothing where it is a link to elsewhere."""
    if found.is_symlink() or not found.exists():
        return []
    return [found, *(path for path in found.rglob("*") if not path.is_symlink())]


def _part(data: Path, path: Path) -> Path:
    return data if path == data else data / path.relative_to(data).parts[0]


def other_owner(config: Config) -> str | None:
    """The user whose data directory it is, where root is at work in it."""
    data = config.paths.data
    try:
        is_other = os.geteuid() == 0 and data.stat().st_uid != 0
    except OSError:
        return None
    return owner_of(data) if is_other else None


def _paths(data: Path) -> list[Path]:
    if not data.is_dir():
        return []
    return [data, *(path for path in _ours(data) if path.is_file() or path.is_dir())]


def _entry(config: Config, path: Path, group: int | None) -> DataEntry:
    data, found = config.paths.data, path.stat()
    for_group = 0o050 if found.st_gid == group else 0
    if not stat.S_ISDIR(found.st_mode):
        most = 0o600 | for_group & 0o040
    else:
        most = 0o755 if path == data and _is_shared(config) else 0o700 | for_group
    mode = stat.S_IMODE(found.st_mode)
    part = _part(data, path)
    is_in_folder = part != data and part.is_dir()
    return DataEntry(path, part, mode, found.st_uid, bool(for_group), most, is_in_folder)


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
    # Not Path.resolve, which raises RuntimeError for a link to itself.
    data = os.path.realpath(config.paths.data)
    return any(Path(os.path.realpath(p)).is_relative_to(data) for p in (config.paths.site, config.path))
