"""Hosts divided among workers. Hosts behind one jump host stay together: it is logged in to once."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gpumon_static.config.settings import HostConfig

MANY_HOSTS = 200
"""From so many on, every core is worth a process of its own."""


def processes_for(hosts: int, wanted: int) -> int:
    """`wanted`: `fetch.processes`; 0 chooses."""
    return min(hosts, wanted or (len(os.sched_getaffinity(0)) if hosts >= MANY_HOSTS else 1)) or 1


def deal(hosts: Sequence[HostConfig], shares: int, *, by_jump_host: bool = True) -> list[list[HostConfig]]:
    """Divide the hosts in turn, so that those at the end, which failed last time, are divided evenly too."""
    if shares == 1:
        return [list(hosts)]
    dealt: list[list[HostConfig]] = [[] for _ in range(shares)]
    by_jump: dict[str, list[HostConfig]] = {}
    jumps = _jumps(hosts) if by_jump_host else {}
    for host in hosts:
        share = by_jump.get(jumps.get(host.name, ""))
        if share is None:
            share = min(dealt, key=len)
            if host.name in jumps:
                by_jump[jumps[host.name]] = share
        share.append(host)
    return [share for share in dealt if share]


def _jumps(hosts: Sequence[HostConfig]) -> dict[str, str]:
    """The first jump host on the way to each host that has one."""
    files = {host.ssh_config for host in hosts if host.ssh_config and host.transport == "paramiko"}
    if not files:
        return {}
    from gpumon_static.collect.ssh.client_config_file import read

    if not any("proxyjump" in read(file).lower() for file in files):
        return {}
    # paramiko is imported in the workers otherwise: only labs with jump hosts pay for it here.
    from gpumon_static.collect.ssh.client_config import first_jumps

    return first_jumps(hosts, files)
