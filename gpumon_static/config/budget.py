"""Whether the limits of a config fit together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpumon_static.config.settings import Config, HostConfig


def budget_warning(config: Config, hosts: Sequence[HostConfig]) -> str | None:
    """A warning where the hosts, if all of them were dead, would not fit into the deadline."""
    if config.fetch.engine == "dask":
        # So many hosts per Dask worker, and how many of those there are is not known here.
        return None
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
