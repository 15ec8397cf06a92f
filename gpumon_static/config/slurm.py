"""`[slurm]`, or several `[[slurm]]`, to the clusters that are asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpumon_static.config.hostlist import HostEntry
from gpumon_static.config.settings import HostConfig, SlurmCluster, SlurmConfig

ReadSection = Callable[[str, type, Any], SlurmConfig]
"""Name, dataclass and table of a section to its settings; what is wrong is noted elsewhere."""


def slurm_sections(table: Any, read: ReadSection, problems: list[str]) -> list[SlurmConfig]:
    if table is None:
        return []
    tables = table if isinstance(table, list) else [table]
    is_one = len(tables) == 1
    found = []
    for position, one in enumerate(tables, start=1):
        where = "slurm" if is_one else f"slurm {position}"
        section = read(where, SlurmConfig, one)
        if section.host is None and not (isinstance(one, Mapping) and "host" in one):
            problems.append(f"{where}.host: missing; it is the host that has scontrol")
        elif not is_one and not section.hosts:
            problems.append(
                f"{where}.hosts: missing; with several [[slurm]], each lists the hosts it manages"
            )
        found.append(section)
    return [section for section in found if section.host]


def clusters(
    sections: Sequence[SlurmConfig],
    hosts: Mapping[str, HostConfig],
    configured: Callable[[HostEntry], HostConfig],
    problems: list[str],
) -> tuple[SlurmCluster, ...]:
    """`configured`: an address that is no host of the lab, with the settings that hold for it."""
    found: dict[str, SlurmCluster] = {}
    managed: dict[str, str] = {}
    for section in sections:
        assert section.host
        asked = _asked(section.host, hosts.get(section.host.name) or configured(section.host))
        if asked.name in found:
            problems.append(f"slurm.host: {section.host} is asked twice")
        for entry in section.hosts:
            if entry.name not in hosts:
                problems.append(f"slurm.hosts: {entry.name} is not in common.hosts")
            elif entry.name in managed:
                problems.append(f"slurm.hosts: {entry.name} is managed by {managed[entry.name]} already")
            managed[entry.name] = asked.name
        names = frozenset(entry.name for entry in section.hosts)
        found[asked.name] = SlurmCluster(asked, names, section.job_names, section.order)
    return tuple(found.values())


def _asked(entry: HostEntry, host: HostConfig) -> HostConfig:
    """A question of its own, also where the host is one of the lab: neither can delay or break the other."""
    return replace(
        host,
        name=f"Slurm on {host.name}",
        ssh_name=host.name,
        user=entry.user or host.user,
        port=entry.port or host.port,
        asks_slurm=True,
    )
