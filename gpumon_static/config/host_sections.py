"""`[hosts.NAME]`, and what it, `[common]` and `[fetch]` set for a host."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gpumon_static.config.checks import Wrong, path, unknown_names
from gpumon_static.config.hostlist import BadHost, HostEntry, expand_nodeset
from gpumon_static.config.settings import HOST_KEYS, SSH_CONFIG, CommonConfig, FetchConfig, HostConfig
from gpumon_static.text import clip

MOST_PARTS = 64
"""Of a host's name, between its dots."""
MOST_LETTERS = 120
"""Of a name of the config, in an error."""


@dataclass(frozen=True)
class HostSettings:
    common: CommonConfig
    fetch: FetchConfig
    own: Mapping[str, dict[str, Any]]
    """By host: what its own section sets."""
    configured: set[str]
    """The keys of common and fetch that the file has."""

    def hosts(self, problems: list[str]) -> tuple[HostConfig, ...]:
        hosts: dict[str, HostConfig] = {}
        written: dict[str, HostEntry] = {}
        for entry in self.common.hosts:
            if entry.name in hosts:
                problems.append(_twice(written[entry.name], entry))
                continue
            written[entry.name] = entry
            hosts[entry.name] = self.host(entry)
        endless = (host for host in hosts.values() if host.until and not host.state)
        problems += [f"hosts.{host.name}.until: needs a state, which ends then" for host in endless]
        still = (host for host in hosts.values() if host.was in hosts)
        problems += [f"hosts.{host.name}.was: {host.was} is still in common.hosts" for host in still]
        return tuple(hosts.values())

    def host(self, entry: HostEntry) -> HostConfig:
        own = self.own.get(entry.name, {})
        plain_localhost = entry == HostEntry("localhost") and not own.keys() & {"address", "user", "port"}
        values = {"address": entry.name, "run": ""} | _per_host(self.common) | _per_host(self.fetch)
        if plain_localhost:
            values["transport"] = "local"
        values |= own
        # An empty text is none, and what stands with the host in the list comes first.
        values |= {name: values.get(name) or None for name in ("group", "note", "vendor")}
        values |= {"user": entry.user or values["user"], "port": entry.port or values["port"]}
        return HostConfig(name=entry.name, configured=frozenset(self.configured | own.keys()), **values)


def _per_host(section: CommonConfig | FetchConfig) -> dict[str, Any]:
    """The values of a section that a host may have otherwise."""
    return {f.name: getattr(section, f.name) for f in fields(section) if f.metadata["per_host"]}


def own_settings(
    table: Any, known: Collection[str], base: Path, problems: list[str]
) -> dict[str, dict[str, Any]]:
    """`[hosts.NAME]` by host; NAME may be a node set, and need no quotes where it has dots."""
    if not isinstance(table, dict):
        problems.append("hosts: must be sections, [hosts.NAME]; the list of hosts is common.hosts")
        return {}
    found: dict[str, dict[str, Any]] = {}
    for name, given in _undotted(table, known):
        where = f"hosts.{clip(name, MOST_LETTERS)}"
        try:
            names = expand_nodeset(name)
        except BadHost as error:
            problems.append(f"[{where}]: {error}")
            continue
        if strangers := [f"[hosts.{n}]" for n in names if n not in known]:
            problems += unknown_names(strangers, (f"[hosts.{n}]" for n in known), "host in common.hosts")
        problems += unknown_names((f"{where}.{k}" for k in given), (f"{where}.{k}" for k in HOST_KEYS), "key")
        checked: dict[str, Any] = {}
        for key_name in given.keys() & HOST_KEYS.keys():
            try:
                checked[key_name] = HOST_KEYS[key_name](given[key_name], base)
            except Wrong as wrong:
                problems.append(f"{where}.{key_name}: {wrong}")
        for n in names:
            found.setdefault(n, {}).update(checked)
    return found


def _undotted(
    table: dict[str, Any], known: Collection[str], prefix: str = "", depth: int = 0
) -> Iterable[tuple[str, Any]]:
    """TOML reads `[hosts.a.lab]` as a table in a table: put such names together again."""
    for part, value in table.items():
        name = prefix + part
        inner = [k for k, v in value.items() if isinstance(v, dict)] if isinstance(value, dict) else []
        if inner and name not in HOST_KEYS and depth < MOST_PARTS:
            yield from _undotted({k: value[k] for k in inner}, known, name + ".", depth + 1)
            value = {k: v for k, v in value.items() if k not in inner}
            if not value and name not in known:
                continue
        yield name, value if isinstance(value, dict) else {part: value}


def _twice(first: HostEntry, second: HostEntry) -> str:
    if first == second:
        return f"common.hosts: {first.name} is listed twice"
    return (
        f"common.hosts: {first.name} is listed twice, as {first} and as {second}; the page identifies a host"
        " by its name: give one of them a name of its own, with [hosts.NAME] address and port"
    )


def unreadable_files(hosts: Iterable[HostConfig]) -> list[str]:
    by_ssh = [h for h in hosts if h.transport != "local"]
    files = dict.fromkeys(("key_filename", h.key_filename) for h in by_ssh if h.key_filename)
    usual = path(SSH_CONFIG, Path())
    files |= dict.fromkeys(("ssh_config", h.ssh_config) for h in by_ssh if h.ssh_config not in (None, usual))
    problems = []
    for key_name, file in files:
        try:
            with file.open("rb"):
                pass
        except OSError as error:
            problems.append(f"{key_name}: {file} cannot be read: {error.strerror}")
    return problems
