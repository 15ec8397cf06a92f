"""What a run needs beside the hosts: the config, the directories, known_hosts."""

from __future__ import annotations

import getpass
import os
import resource
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from gpumon_static.check.cluster import look_at_cluster
from gpumon_static.check.findings import Finding, Mark
from gpumon_static.check.publishing import TryRender, look_at_notify, look_at_pages, look_at_room
from gpumon_static.check.writable import look_at_files
from gpumon_static.collect.ssh.client_config_file import passed_over
from gpumon_static.config.budget import budget_warning
from gpumon_static.config.settings import Config, HostConfig
from gpumon_static.store import private
from gpumon_static.text import clip, count

MOST_LETTERS = 200
MB = 1_000_000
FILES_PER_HOST, FILES_OF_A_RUN = 4, 64
FULL_MB = 50
NARROW_MB = 1000


def look(
    config: Config, hosts: Sequence[HostConfig], try_render: TryRender | None = None, *, now: datetime
) -> tuple[Finding, ...]:
    """`try_render`: renders all pages and writes nothing."""
    return tuple(_findings(config, hosts, try_render, now))


def _findings(
    config: Config, hosts: Sequence[HostConfig], try_render: TryRender | None, now: datetime
) -> Iterator[Finding]:
    too_long = budget_warning(config, hosts)
    mark = Mark.WARNING if too_long else Mark.OK
    yield Finding("config", mark, f"{config.path}: {too_long or _named(config, hosts, now)}")
    yield _directory("data", config.paths.data)
    yield from _open_to_others(config)
    yield _directory("site", config.paths.site)
    yield from look_at_files(config)
    yield from look_at_room(config, FULL_MB * MB)
    yield from look_at_pages(config, try_render)
    yield from look_at_notify(config)
    yield from _open_files(config)
    if config.fetch.engine == "dask":
        # The files and programs of the workers' machines are theirs.
        yield from look_at_cluster(config.fetch, hosts)
        return
    strict = {h.known_hosts for h in hosts if h.host_keys == "strict" and h.transport != "local"}
    for file in sorted(strict):
        if not file.exists() and not Path("/etc/ssh/ssh_known_hosts").exists():
            scan = f"ssh-keyscan HOST... >> {shlex.quote(str(file))}   and compare the fingerprints"
            yield Finding("known_hosts", Mark.WARNING, f"{file} does not exist: no host is known", (scan,))
    for file in sorted({h.ssh_config for h in hosts if h.ssh_config and h.transport == "paramiko"}):
        for line in passed_over(file):
            yield Finding("ssh_config", Mark.WARNING, f"{file}: {line}")
    if any(h.transport == "openssh" for h in hosts) and not shutil.which("ssh"):
        wanted = ("install the package openssh-client",)
        yield Finding("ssh", Mark.FAILED, 'transport = "openssh", and there is no ssh on the PATH', wanted)


def _named(config: Config, hosts: Sequence[HostConfig], now: datetime) -> str:
    """4 hosts; fetch does not ask new (planned)."""
    away = [f"{h.name} ({h.state})" for h in config.hosts if not h.is_asked(now) and h not in hosts]
    told = f"; fetch does not ask {clip(', '.join(away), MOST_LETTERS)}" if away else ""
    return count(len(config.hosts), "host") + told


def _open_files(config: Config) -> Iterator[Finding]:
    """Each connection takes a few files, and a user may open only so many."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = FILES_PER_HOST * min(config.fetch.workers, len(config.hosts)) + FILES_OF_A_RUN
    if config.fetch.engine != "dask" and most != resource.RLIM_INFINITY and needed > most:
        told = f"{config.fetch.workers} hosts at once may need {needed} open files, and the limit is {most}"
        yield Finding("engine", Mark.WARNING, told, (f"ulimit -n {needed}, or lower workers in [fetch]",))


def _directory(name: str, directory: Path) -> Finding:
    there = next(d for d in (directory, *directory.absolute().parents) if d.exists())
    user = getpass.getuser()
    quoted = shlex.quote(str(directory))
    if not there.is_dir():
        return Finding(name, Mark.FAILED, f"{there} is not a directory", (f"mv {there} {there}.old",))
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        told = f"{user} cannot write in {there}: {error.strerror}"
        return Finding(name, Mark.FAILED, told, (f"sudo install -d -o {user} {quoted}",))
    return _room(name, directory, there)


def _open_to_others(config: Config) -> Iterator[Finding]:
    """Findings on who can read the data or hold its lock and should not, and who should and cannot."""
    name, data = config.paths.data_group, config.paths.data
    try:
        entries = private.entries(config, private.group_id(config))
    except LookupError:
        told = f"paths.data_group: there is no group {name!r}"
        yield Finding("data", Mark.FAILED, told, (f"sudo groupadd {shlex.quote(name or '')}",))
        return
    except OSError:
        # Not readable for us, which is reported as "cannot write".
        return
    wide = [entry for entry in entries if entry.is_too_wide]
    if wide:
        sudo = "" if all(entry.owner == os.geteuid() for entry in wide) else "sudo "
        fixes = [f"{sudo}chmod {entry.most:o} {shlex.quote(str(entry.path))}" for entry in wide]
        names = ", ".join(entry.path.name for entry in wide)
        yield Finding("data", Mark.WARNING, f"other users can read or lock {names} in {data}", tuple(fixes))
    if name and entries and not entries[0].of_group:
        told = f"{data} does not belong to group {name}, which cannot read it"
        yield Finding("data", Mark.WARNING, told, (private.group_command(config),))


def _room(name: str, directory: Path, there: Path) -> Finding:
    free_mb = shutil.disk_usage(there).free / MB
    free = f"{free_mb / 1000:.0f} GB" if free_mb >= NARROW_MB else f"{free_mb:.0f} MB"
    counts = os.statvfs(there)
    look_for = (f"df -h {shlex.quote(str(there))}; df -i {shlex.quote(str(there))}",)
    if free_mb < FULL_MB or (counts.f_files and not counts.f_favail):
        told = f"{directory}: the disk is full, {free} and {counts.f_favail} files are left"
        return Finding(name, Mark.FAILED, told, look_for)
    made = "" if there == directory else ", will be created"
    told = f"{directory}: writable by {getpass.getuser()}{made}, {free} free"
    return Finding(name, Mark.WARNING if free_mb < NARROW_MB else Mark.OK, told)
