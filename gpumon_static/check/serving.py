"""What others are allowed: the web server to read the site, the systemd unit to write data and site."""

from __future__ import annotations

import getpass
import os
import pwd
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gpumon_static.check.findings import Finding, Hint, Mark
from gpumon_static.check.writable import site_files
from gpumon_static.config.settings import Config
from gpumon_static.system.command import Command
from gpumon_static.system.files import owner_of
from gpumon_static.system.resources import own_command

UNIT = "gpumon-static.service"
UNIT_DIRECTORIES = tuple(map(Path, ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system")))
"""The first that has the unit counts, and drop-ins of all."""
READ, ENTER = 0o4, 0o1


def look_at_readers(config: Config) -> Iterator[Finding]:
    """Whether a web server, which is another user, can read what render writes."""
    site = config.paths.site
    if not site.is_dir():
        return
    for parent in site.absolute().parents:
        if _is_closed(parent, ENTER):
            message = f"other users, the web server's too, cannot enter {parent}: they get no page"
            yield Finding(
                "site", Mark.WARNING, message, (Hint("put [paths] site elsewhere, such as /var/www"),)
            )
    files = site_files(config)
    closed = [path for path in files if _is_closed(path, READ)]
    if _is_closed(site, ENTER) or closed:
        name = site if _is_closed(site, ENTER) else ", ".join(path.name for path in closed[:3])
        message = f"other users, the web server's too, cannot read {name}: it answers 403 Forbidden"
        fix = Command.of("chmod", "o+rX", site, *files).by(owner_of(site))
        yield Finding("site", Mark.WARNING, message, (Hint(command=fix),))


def _is_closed(path: Path, bit: int) -> bool:
    """To others. A group that is not its owner's own may be the web server's, and so may an ACL."""
    with suppress(OSError):
        found = path.stat()
        if "system.posix_acl_access" in os.listxattr(path):
            return False
        for_group = found.st_mode >> 3 & bit and found.st_gid != _own_group(found.st_uid)
        return not (found.st_mode & bit or for_group)
    return False


def _own_group(user: int) -> int | None:
    try:
        return pwd.getpwuid(user).pw_gid
    except KeyError:
        return None


def look_at_unit(config: Config) -> Iterator[Finding]:
    """Whether the unit that runs with this config may write where the config puts its files."""
    file = next((found for d in UNIT_DIRECTORIES if (found := d / UNIT).is_file()), None)
    if file is None:
        return
    drop_ins = [extra for d in UNIT_DIRECTORIES for extra in sorted((d / f"{UNIT}.d").glob("*.conf"))]
    text = ""
    with suppress(OSError, ValueError):
        text = "\n".join(path.read_text(encoding="utf-8") for path in (file, *drop_ins))
    if str(config.path.absolute()) not in text or "ProtectSystem=strict" not in text:
        return
    allowed = _writable(text)
    paths = [path.absolute() for path in (config.paths.data, config.paths.site)]
    if missing := [str(path) for path in paths if not any(path.is_relative_to(d) for d in allowed)]:
        message = f"{file} does not let a run write {' and '.join(missing)} (ReadWritePaths)"
        account = next(
            (line[5:] for line in text.splitlines() if line.startswith("User=")), getpass.getuser()
        )
        words = ("init", "-c", config.path.absolute(), "--print", UNIT, "--run-as", account)
        new = own_command(*words).into(file).then(Command.of("systemctl", "daemon-reload"))
        yield Finding("systemd", Mark.FAILED, message, (Hint(command=new.by("root")),))


def _writable(unit: str) -> list[Path]:
    found: list[Path] = []
    for line in unit.splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "ReadWritePaths":
            words = shlex.split(value.replace("%%", "%"))
            # An empty value takes back those before it.
            found = [*found, *(Path(word.lstrip("-+")) for word in words)] if words else []
    return found
