"""How long a host may take, all in all, before it counts as stuck."""

from __future__ import annotations

from collections.abc import Callable

from gpumon_static.config.settings import HostConfig

Patience = Callable[[HostConfig], float]
"""Seconds after which a host's reader counts as stuck."""

SLACK = 2.0


def past_its_limits(host: HostConfig) -> float:
    # The wait for a turn at the handshake may take as long as the connecting itself.
    return 2 * host.connect_timeout + host.command_timeout + SLACK
