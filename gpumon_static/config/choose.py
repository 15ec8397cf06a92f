"""Choose hosts of the config by the names on a command line."""

from __future__ import annotations

from collections.abc import Sequence

from gpumon_static.config.hostlist import BadHost, expand_nodeset, split_commas
from gpumon_static.config.settings import HostConfig
from gpumon_static.errors import UsageError
from gpumon_static.text import clip

MOST_NAMED = 10
MOST_LETTERS = 400


def choose(hosts: Sequence[HostConfig], only: str, what: str = "--only") -> list[HostConfig]:
    """`only`: names and node sets with commas; `what`: the option they come from."""
    try:
        names = {name for part in split_commas(only) for name in expand_nodeset(part)}
    except BadHost as error:
        raise UsageError(f"{what}: {error}") from error
    strangers = sorted(names - {host.name for host in hosts})
    if strangers:
        listed = ", ".join(strangers[:MOST_NAMED])
        more = f" and {len(strangers) - MOST_NAMED:,} more" if len(strangers) > MOST_NAMED else ""
        raise UsageError(f"{what}: not among the hosts of the config: {clip(listed, MOST_LETTERS)}{more}")
    return [host for host in hosts if host.name in names]
