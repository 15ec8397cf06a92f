"""Which way leads to a host: the reader of a whole run, with all that its hosts share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from gpumon_static.collect import local, reading
from gpumon_static.collect.fan_out import Read
from gpumon_static.config import HostConfig
from gpumon_static.errors import ConfigError
from gpumon_static.model import HostReading

SYSTEM_KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")

RawRead = Callable[[HostConfig], bytes]


def for_hosts(config_path: Path, hosts: Sequence[HostConfig], clock: Callable[[], datetime]) -> Read:
    """Raises `ConfigError` where a key or known_hosts file cannot be used."""
    by_ssh = [host for host in hosts if host.transport == "paramiko"]
    raw: dict[str, RawRead] = {"local": local.read}
    if by_ssh:
        raw["paramiko"] = _ssh_reader(config_path, by_ssh)

    def read(host: HostConfig) -> HostReading:
        started = time.monotonic()
        output = raw[host.transport](host).decode("utf-8", errors="replace")
        seconds = round(time.monotonic() - started, 3)
        return replace(reading.parse(host.name, output, clock()), fetch_seconds=seconds)

    return read


def _ssh_reader(config_path: Path, hosts: Sequence[HostConfig]) -> RawRead:
    # paramiko is half of the time to start: a run without SSH does without it.
    from gpumon_static.collect.keys import BadKey, KeyRing
    from gpumon_static.collect.known_hosts import KnownHosts
    from gpumon_static.collect.ssh import SshReader

    try:
        keys = KeyRing.load(hosts)
        known = {path: KnownHosts.load(path, [SYSTEM_KNOWN_HOSTS]) for path in {h.known_hosts for h in hosts}}
    except BadKey as error:
        raise ConfigError(config_path, [f"key_filename: {error}"]) from error
    except OSError as error:
        reason = f"known_hosts: {error.filename} cannot be read: {error.strerror}"
        raise ConfigError(config_path, [reason]) from error
    return SshReader(keys, lambda host: known[host.known_hosts])
