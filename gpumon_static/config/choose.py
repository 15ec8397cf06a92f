"""Which hosts of the config a command line names."""

from __future__ import annotations

from collections.abc import Sequence

from gpumon_static.config.hostlist import BadHost, expand_nodeset, split_commas
from gpumon_static.config.settings import HostConfig
from gpumon_static.errors import GpumonError


def choose(hosts: Sequence[HostConfig], only: str, what: str = "--only") -> list[HostConfig]:
    """`only`: names and node sets with commas; `what`: the option they come from."""
    try:
        names = {name for part in split_commas(only) for name in expand_nodeset(part)}
    except BadHost as error:
        raise GpumonError(f"{what}: {error}") from error
    strangers = names - {host.name for host in hosts}
    if strangers:
        raise GpumonError(f"{what}: not among the hosts of the config: {', '.join(sorted(strangers))}")
    return [host for host in hosts if host.name in names]
