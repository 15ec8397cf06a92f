"""What a run needs beside the hosts: the config, the directories, known_hosts."""

from __future__ import annotations

import getpass
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from gpumon_static.check.cluster import look_at_cluster
from gpumon_static.check.findings import Finding, Hint, Mark
from gpumon_static.check.publishing import (
    TryRender,
    look_at_history,
    look_at_notify,
    look_at_old_history,
    look_at_pages,
    look_at_room,
)
from gpumon_static.check.serving import look_at_readers, look_at_unit
from gpumon_static.check.writable import closed_to_us, look_at_files
from gpumon_static.collect.engines.limits import OF_A_WORKER, in_use, room
from gpumon_static.collect.engines.shards import processes_for
from gpumon_static.collect.ssh.client_config_file import passed_over
from gpumon_static.config.budget import budget_warning
from gpumon_static.config.settings import Config, HostConfig
from gpumon_static.store import private
from gpumon_static.store.clock import EARLIEST_VALID
from gpumon_static.store.lock import has_locks
from gpumon_static.system.command import Command
from gpumon_static.system.files import owner_of
from gpumon_static.text import clip, count
from gpumon_static.times import utc_text

MOST_LETTERS = 200
MB = 1_000_000
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
    yield from _doubtful(config)
    if now < EARLIEST_VALID:
        message = f"the collector's clock is at {utc_text(now)}: nothing is kept in the history"
        yield Finding(
            "clock",
            Mark.FAILED,
            message,
            (Hint(command=Command.of("timedatectl", "set-ntp", "true").by("root")),),
        )
    if closed := closed_to_us(config):
        yield closed
    else:
        yield from _data_and_pages(config, try_render)
    yield from look_at_notify(config)
    yield from look_at_unit(config)
    yield from _limits(config, hosts)
    if config.fetch.engine == "dask":
        # The files and programs of the workers' machines are theirs.
        yield from look_at_cluster(config.fetch, hosts)
        return
    strict = {h.known_hosts for h in hosts if h.host_keys == "strict" and h.transport != "local"}
    for file in sorted(strict):
        if not file.exists() and not Path("/etc/ssh/ssh_known_hosts").exists():
            add = Hint("each host that is asked is listed below, with its key and the command that adds it")
            yield Finding("known_hosts", Mark.WARNING, f"{file} does not exist: no host is known", (add,))
    for file in sorted({h.ssh_config for h in hosts if h.ssh_config and h.transport == "paramiko"}):
        for line in passed_over(file):
            yield Finding("ssh_config", Mark.WARNING, f"{file}: {line}")
    if any(h.transport == "openssh" for h in hosts) and not shutil.which("ssh"):
        wanted = (Hint("install the package openssh-client"),)
        yield Finding("ssh", Mark.FAILED, 'transport = "openssh", and there is no ssh on the PATH', wanted)


def _doubtful(config: Config) -> Iterator[Finding]:
    """What is allowed in a config, and is not what its writer wants."""
    deadline, interval = config.fetch.deadline, config.site.interval
    if config.history.note:
        yield Finding("config", Mark.WARNING, config.history.note, (Hint("remove them from the config"),))
    if deadline > interval:
        message = f"fetch.deadline, {deadline:g} s, is longer than site.interval, {interval} s"
        yield Finding(
            "config", Mark.WARNING, message, (Hint("a run may still go on when the next one starts"),)
        )


def _data_and_pages(config: Config, try_render: TryRender | None) -> Iterator[Finding]:
    yield _directory("data", config.paths.data)
    yield from _open_to_others(config)
    yield from _locks(config.paths.data)
    yield _directory("site", config.paths.site)
    yield from look_at_files(config)
    yield from look_at_readers(config)
    yield from look_at_room(config, FULL_MB * MB)
    yield from look_at_old_history(config)
    yield from look_at_history(config)
    yield from look_at_pages(config, try_render)


def _named(config: Config, hosts: Sequence[HostConfig], now: datetime) -> str:
    """4 hosts; fetch does not ask new (planned)."""
    away = [f"{h.name} ({h.state})" for h in config.hosts if not h.is_asked(now) and h not in hosts]
    message = f"; fetch does not ask {clip(', '.join(away), MOST_LETTERS)}" if away else ""
    return count(len(config.hosts), "host") + message


def _limits(config: Config, hosts: Sequence[HostConfig]) -> Iterator[Finding]:
    """Each connection takes files, threads and memory, and a user may have only so much of each."""
    processes = processes_for(len(hosts), config.fetch.processes)
    each = -(-min(config.fetch.workers, len(hosts)) // processes)
    used = replace(OF_A_WORKER, tasks=in_use().tasks + OF_A_WORKER.tasks)
    found = room(hosts, each, used, processes)
    if config.fetch.engine != "dask" and found.line and found.fix:
        yield Finding("engine", Mark.WARNING, found.line, (Hint(found.fix),))


def _directory(name: str, directory: Path) -> Finding:
    there = next(d for d in (directory, *directory.absolute().parents) if d.exists())
    user = getpass.getuser()
    if not there.is_dir():
        away = Hint(command=Command.of("mv", there, f"{there}.old").by(owner_of(there.parent)))
        return Finding(name, Mark.FAILED, f"{there} is not a directory", (away,))
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        message = f"{user} cannot write in {there}: {error.strerror}"
        return Finding(
            name,
            Mark.FAILED,
            message,
            (Hint(command=Command.of("install", "-d", "-o", user, directory).by("root")),),
        )
    return _room(name, directory, there)


def _locks(data: Path) -> Iterator[Finding]:
    """Whether the file system keeps a second fetch out."""
    with suppress(OSError), tempfile.TemporaryFile(dir=data) as file:
        if not has_locks(file.fileno()):
            message = f"{data}: the file system has no locks (flock); fetch.lock.held is used instead"
            yield Finding(
                "data", Mark.WARNING, message, (Hint("NFS? its lock server, or data on a local disk"),)
            )


def _open_to_others(config: Config) -> Iterator[Finding]:
    """Findings on who can read the data or hold its lock and should not, and who should and cannot."""
    name, data = config.paths.data_group, config.paths.data
    try:
        entries = private.entries(config, private.group_id(config))
    except LookupError:
        message = f"paths.data_group: there is no group {name!r}"
        yield Finding(
            "data", Mark.FAILED, message, (Hint(command=Command.of("groupadd", name or "").by("root")),)
        )
        return
    except OSError:
        # Not readable for us, which is reported as "cannot write".
        return
    wide = [entry for entry in entries if entry.is_too_wide]
    if wide:
        names = ", ".join(dict.fromkeys(entry.part.name for entry in wide))
        message = f"other users can read or lock {names} in {data}"
        yield Finding("data", Mark.WARNING, message, tuple(Hint(command=fix) for fix in private.fixes(wide)))
    if name and entries and not entries[0].of_group:
        message = f"{data} does not belong to group {name}, which cannot read it"
        yield Finding("data", Mark.WARNING, message, (Hint(command=private.group_command(config)),))


def _room(name: str, directory: Path, there: Path) -> Finding:
    free_mb = shutil.disk_usage(there).free / MB
    free = f"{free_mb / 1000:.0f} GB" if free_mb >= NARROW_MB else f"{free_mb:.0f} MB"
    counts = os.statvfs(there)
    look_for = (Hint(command=Command.of("df", "-h", there)), Hint(command=Command.of("df", "-i", there)))
    if free_mb < FULL_MB or (counts.f_files and not counts.f_favail):
        message = f"{directory}: the disk is full, {free} and {counts.f_favail} files are left"
        return Finding(name, Mark.FAILED, message, look_for)
    made = "" if there == directory else ", will be created"
    message = f"{directory}: writable by {getpass.getuser()}{made}, {free} free"
    return Finding(name, Mark.WARNING if free_mb < NARROW_MB else Mark.OK, message)
