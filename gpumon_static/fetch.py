"""`gpumon-static fetch`: ask the hosts, keep the answers."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from gpumon_static.collect import readers
from gpumon_static.collect.fan_out import fan_out
from gpumon_static.config import Config, HostConfig
from gpumon_static.errors import GpumonError
from gpumon_static.hostlist import BadHost, expand_nodeset, split_commas
from gpumon_static.model import HostReading, Status
from gpumon_static.publish.notify import notify
from gpumon_static.store import events_file, history, lock
from gpumon_static.store.events import Event, observe

Clock = Callable[[], datetime]


def fetch(
    config: Config,
    *,
    clock: Clock,
    only: str | None = None,
    on_reading: Callable[[HostReading], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> list[HostReading]:
    """Returns the readings of the hosts that were asked; the file has those of all."""
    hosts = choose(config.hosts, only) if only else config.hosts
    with lock.only_one(config.paths.data / "fetch.lock", clock()):
        if too_long := budget_warning(config, hosts):
            say(too_long)
        from gpumon_static.store import snapshot  # pandas: not before the lock is ours

        others = _readings_of_others(config, hosts) if only else {}
        with readers.for_hosts(config.path, hosts, clock) as read:
            answers = fan_out(
                in_turn(hosts, last_statuses(config.csv_path)),
                read,
                workers=config.fetch.workers,
                deadline=config.fetch.deadline,
                clock=clock,
                patience=read.patience,
                on_reading=on_reading,
            )
        by_name = {reading.host: reading for reading in answers}
        readings = [by_name[host.name] for host in hosts]
        all_readings = others | {reading.host: reading for reading in readings}
        in_order = [all_readings[host.name] for host in config.hosts if host.name in all_readings]
        snapshot.write(config.csv_path, in_order)
        history.record(config, in_order, clock(), say)
        events = _take_note(config, readings, say)
    # The lock is free again: a slow command must not keep the next run away.
    notify(events, config, say)
    return readings


def _take_note(config: Config, readings: Sequence[HostReading], say: Callable[[str], None]) -> list[Event]:
    """What changed since the last run. Trouble with it is told, and never the end of a run."""
    path = events_file.path_in(config.paths.data)
    memory = events_file.load(path)
    new = observe(memory, readings, config)
    try:
        events_file.save(path, memory)
    except GpumonError as error:
        say(f"events: {error}")
        return []
    return new


def last_statuses(csv_path: Path) -> dict[str, str]:
    """Each host's status in the last run; none where the file cannot be read, which others tell."""
    try:
        with csv_path.open(newline="", encoding="utf-8") as file:
            return {row["host"]: row["status"] for row in csv.DictReader(file)}
    except (OSError, ValueError, KeyError, csv.Error):
        return {}


def in_turn(hosts: Sequence[HostConfig], last: Mapping[str, str]) -> list[HostConfig]:
    """Those that failed last time at the end: a rack that is down does not hold up the living."""
    told = [replace(host, was_late=last.get(host.name) == Status.TIMEOUT) for host in hosts]
    return sorted(told, key=lambda host: last.get(host.name, Status.OK) != Status.OK)


def budget_warning(config: Config, hosts: Sequence[HostConfig]) -> str | None:
    """What to say where the hosts, if all of them were dead, would not fit into the deadline."""
    asked = [host for host in hosts if host.transport != "local"]
    rounds = math.ceil(len(asked) / config.fetch.workers)
    longest = max((host.connect_timeout for host in asked), default=0.0)
    if rounds * longest <= config.fetch.deadline:
        return None
    return (
        f"{len(asked)} hosts with {config.fetch.workers} workers are {rounds} rounds of up to {longest:g} s"
        f" to connect: {rounds * longest:g} s, more than the deadline of {config.fetch.deadline:g} s; raise"
        " fetch.workers or fetch.deadline, or lower fetch.connect_timeout"
    )


def choose(hosts: Sequence[HostConfig], only: str, what: str = "--only") -> list[HostConfig]:
    try:
        names = {name for part in split_commas(only) for name in expand_nodeset(part)}
    except BadHost as error:
        raise GpumonError(f"{what}: {error}") from error
    strangers = names - {host.name for host in hosts}
    if strangers:
        raise GpumonError(f"{what}: not among the hosts of the config: {', '.join(sorted(strangers))}")
    return [host for host in hosts if host.name in names]


def _readings_of_others(config: Config, asked: Sequence[HostConfig]) -> dict[str, HostReading]:
    from gpumon_static.store import snapshot

    if not config.csv_path.exists():
        return {}
    mine = {host.name for host in asked}
    return {r.host: r for r in snapshot.read(config.csv_path) if r.host not in mine}
