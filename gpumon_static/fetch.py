"""`gpumon-static fetch`: ask the hosts, keep the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from gpumon_static.collect import readers
from gpumon_static.collect.fan_out import fan_out
from gpumon_static.config import Config, HostConfig
from gpumon_static.errors import GpumonError
from gpumon_static.hostlist import BadHost, expand_nodeset, split_commas
from gpumon_static.model import HostReading
from gpumon_static.store import lock

Clock = Callable[[], datetime]


def fetch(
    config: Config,
    *,
    clock: Clock,
    only: str | None = None,
    on_reading: Callable[[HostReading], None] = lambda _: None,
) -> list[HostReading]:
    """Returns the readings of the hosts that were asked; the file has those of all."""
    hosts = choose(config.hosts, only) if only else config.hosts
    with lock.only_one(config.paths.data / "fetch.lock", clock()):
        from gpumon_static.store import snapshot  # pandas: not before the lock is ours

        others = _readings_of_others(config, hosts) if only else {}
        readings = fan_out(
            hosts,
            readers.for_hosts(config.path, hosts, clock),
            workers=config.fetch.workers,
            deadline=config.fetch.deadline,
            clock=clock,
            on_reading=on_reading,
        )
        all_readings = others | {reading.host: reading for reading in readings}
        in_order = [all_readings[host.name] for host in config.hosts if host.name in all_readings]
        snapshot.write(config.csv_path, in_order)
    return readings


def choose(hosts: Sequence[HostConfig], only: str) -> list[HostConfig]:
    try:
        names = {name for part in split_commas(only) for name in expand_nodeset(part)}
    except BadHost as error:
        raise GpumonError(f"--only: {error}") from error
    strangers = names - {host.name for host in hosts}
    if strangers:
        raise GpumonError(f"--only: not among the hosts of the config: {', '.join(sorted(strangers))}")
    return [host for host in hosts if host.name in names]


def _readings_of_others(config: Config, asked: Sequence[HostConfig]) -> dict[str, HostReading]:
    from gpumon_static.store import snapshot

    if not config.csv_path.exists():
        return {}
    mine = {host.name for host in asked}
    return {r.host: r for r in snapshot.read(config.csv_path) if r.host not in mine}
