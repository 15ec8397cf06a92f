"""`config.ini` to a frozen `Config`. Every problem is found before any is reported.

Each section is a dataclass whose fields are the section's keys: name, default and check in one line.
A key with `per_host=True` may also stand in `[hosts.NAME]`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import tomli

from gpumon_static import config_syntax
from gpumon_static.errors import ConfigError
from gpumon_static.hostlist import BadHost, HostEntry, expand, expand_nodeset, split_commas

Check = Callable[[Any, Path], Any]


class Wrong(ValueError):
    """What a check says of a value it does not take."""


def text(value: Any, _base: Path) -> str:
    if not isinstance(value, str):
        raise Wrong(f"must be a text in quotes, not {_shown(value)}")
    return value


def whole(least: int, most: int) -> Check:
    def check(value: Any, _base: Path) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise Wrong(f"must be a whole number from {least} to {most}, not {_shown(value)}")
        return value

    return check


def number(least: float, most: float) -> Check:
    def check(value: Any, _base: Path) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise Wrong(f"must be a number from {least:g} to {most:g}, not {_shown(value)}")
        return float(value)

    return check


def choice(*words: str) -> Check:
    def check(value: Any, _base: Path) -> str:
        if value not in words:
            raise Wrong(f"must be {' or '.join(repr(w) for w in words)}, not {_shown(value)}")
        return str(value)

    return check


def path(value: Any, base: Path) -> Path:
    """Relative paths are relative to the config file, wherever the command is run."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise Wrong(f"must be a path in quotes, not {_shown(value)}")
    try:
        return base / Path(value).expanduser()
    except RuntimeError as error:
        raise Wrong(f"{value!r}: {error}") from error


def host_entries(value: Any, _base: Path) -> tuple[HostEntry, ...]:
    entries = split_commas(value) if isinstance(value, str) else value
    if not isinstance(entries, list) or not all(isinstance(e, str) for e in entries):
        raise Wrong(f"must be a list of host names, or one text with commas, not {_shown(value)}")
    if not entries:
        raise Wrong("names no host")
    try:
        return tuple(host for entry in entries for host in expand(entry))
    except BadHost as error:
        raise Wrong(str(error)) from error


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def key(default: Any, check: Check, *, per_host: bool = False) -> Any:
    return field(default=default, metadata={"check": check, "per_host": per_host})


@dataclass(frozen=True)
class CommonConfig:
    hosts: tuple[HostEntry, ...] = key(MISSING, host_entries)
    user: str | None = key(None, text, per_host=True)
    port: int | None = key(None, whole(1, 65535), per_host=True)
    key_filename: Path | None = key(None, path, per_host=True)


@dataclass(frozen=True)
class FetchConfig:
    workers: int = key(64, whole(1, 1000))
    connect_timeout: float = key(10.0, number(0.1, 600), per_host=True)
    command_timeout: float = key(30.0, number(0.1, 3600), per_host=True)
    deadline: float = key(240.0, number(0.1, 86400))
    transport: str = key("paramiko", choice("paramiko", "local"), per_host=True)
    host_keys: str = key("strict", choice("strict", "accept-new"), per_host=True)
    known_hosts: Path = key("~/.ssh/known_hosts", path, per_host=True)


@dataclass(frozen=True)
class PathsConfig:
    data: Path = key("data", path)
    site: Path = key("site", path)


@dataclass(frozen=True)
class BusyConfig:
    utilization: float = key(5.0, number(0, 100))
    memory: float = key(2.0, number(0, 100))


@dataclass(frozen=True)
class SiteConfig:
    title: str = key("GPU Monitor", text)
    refresh: int = key(60, whole(0, 86400))


@dataclass(frozen=True)
class HostConfig:
    """One host with everything that holds for it: its own keys, else those of [common] and [fetch]."""

    name: str
    """As in the config, without user and port: the name on the page."""
    address: str
    user: str | None
    port: int | None
    key_filename: Path | None
    connect_timeout: float
    command_timeout: float
    transport: str
    host_keys: str
    known_hosts: Path
    group: str | None = None
    note: str | None = None
    gpus: int | None = None


@dataclass(frozen=True)
class Config:
    path: Path
    hosts: tuple[HostConfig, ...]
    fetch: FetchConfig
    paths: PathsConfig
    busy: BusyConfig
    site: SiteConfig

    @property
    def csv_path(self) -> Path:
        return self.paths.data / "load_data.csv"

    @property
    def page_path(self) -> Path:
        return self.paths.site / "index.html"


SECTIONS: dict[str, type] = {
    "common": CommonConfig,
    "fetch": FetchConfig,
    "paths": PathsConfig,
    "busy": BusyConfig,
    "site": SiteConfig,
}
HOST_KEYS: dict[str, Check] = {
    "address": text,
    **{
        f.name: f.metadata["check"]
        for section in (CommonConfig, FetchConfig)
        for f in fields(section)
        if f.metadata["per_host"]
    },
    "group": text,
    "note": text,
    "gpus": whole(0, 1024),
}


def find(explicit: Path | None) -> Path:
    return explicit or Path(os.environ.get("GPUMON_CONFIG") or "config.ini")


def load(config_path: Path, *, need_keys: bool = False) -> Config:
    """`need_keys`: the key files must be readable too (fetch needs them, render does not)."""
    tables = _read_tables(config_path)
    base = config_path.absolute().parent
    problems = list(_unknown(tables, [*SECTIONS, "hosts"], "section", "[{}]"))
    sections: dict[str, Any] = {}
    for name, kind in SECTIONS.items():
        sections[name] = _section(name, kind, tables.get(name, {}), base, problems)
    overrides = _overrides(tables.get("hosts", {}), sections["common"], base, problems)
    hosts = _hosts(sections["common"], sections["fetch"], overrides, problems)
    if need_keys:
        problems += _unreadable_keys(hosts)
    if problems:
        raise ConfigError(config_path, problems)
    return Config(
        config_path, hosts, sections["fetch"], sections["paths"], sections["busy"], sections["site"]
    )


def _read_tables(config_path: Path) -> dict[str, Any]:
    try:
        content = config_path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        hint = "no such file; name one with -c PATH or $GPUMON_CONFIG (config.example.ini is a start)"
        raise ConfigError(config_path, [hint]) from None
    except OSError as error:
        raise ConfigError(config_path, [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(config_path, [f"is not UTF-8 text (byte {error.start})"]) from error
    try:
        return config_syntax.parse(content)
    except tomli.TOMLDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ConfigError(config_path, [f"{where}: {error.msg}"]) from error


def _unknown(given: Iterable[str], known: Iterable[str], what: str, form: str = "{}") -> Iterable[str]:
    known = list(known)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.0)
            hint = f"; the nearest known one is {form.format(near[0])}" if near else ""
            yield f"{form.format(name)}: unknown {what}{hint}"


def _section(name: str, kind: type, table: Any, base: Path, problems: list[str]) -> Any:
    """The section as its dataclass; a wrong value is noted in `problems` and its default used."""
    if not isinstance(table, dict):
        problems.append(f"{name}: must be a section, [{name}], not a value")
        table = {}
    keys = {f.name: f for f in fields(kind)}
    problems += _unknown((f"{name}.{given}" for given in table), (f"{name}.{known}" for known in keys), "key")
    values: dict[str, Any] = {}
    for key_name, f in keys.items():
        # An empty value, as old files have it, means that the key is not set.
        given = table.get(key_name, "")
        if given == "":
            given = f.default
        if given is MISSING:
            problems.append(f"{name}.{key_name}: missing; it names the machines to ask")
            given = ()
        elif given is not None:
            try:
                given = f.metadata["check"](given, base)
            except Wrong as wrong:
                problems.append(f"{name}.{key_name}: {wrong}")
                given = ()
        values[key_name] = given
    return kind(**values)


def _overrides(
    table: Any, common: CommonConfig, base: Path, problems: list[str]
) -> dict[str, dict[str, Any]]:
    """`[hosts.NAME]` by host; NAME may be a node set, and need no quotes where it has dots."""
    if not isinstance(table, dict):
        problems.append("hosts: must be sections, [hosts.NAME]; the list of hosts is common.hosts")
        return {}
    known = [entry.name for entry in common.hosts]
    found: dict[str, dict[str, Any]] = {}
    for name, given in _undotted(table, known):
        where = f"hosts.{name}"
        try:
            names = expand_nodeset(name)
        except BadHost as error:
            problems.append(f"[{where}]: {error}")
            continue
        problems += _unknown(
            (f"[hosts.{n}]" for n in names), (f"[hosts.{n}]" for n in known), "host in common.hosts"
        )
        problems += _unknown((f"{where}.{k}" for k in given), (f"{where}.{k}" for k in HOST_KEYS), "key")
        checked: dict[str, Any] = {}
        for key_name in given.keys() & HOST_KEYS.keys():
            try:
                checked[key_name] = HOST_KEYS[key_name](given[key_name], base)
            except Wrong as wrong:
                problems.append(f"{where}.{key_name}: {wrong}")
        for n in names:
            found.setdefault(n, {}).update(checked)
    return found


def _undotted(table: dict[str, Any], known: list[str], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """TOML reads `[hosts.a.lab]` as a table in a table: put such names together again."""
    for part, value in table.items():
        name = prefix + part
        inner = [k for k, v in value.items() if isinstance(v, dict)] if isinstance(value, dict) else []
        if inner and name not in HOST_KEYS:
            yield from _undotted({k: value[k] for k in inner}, known, name + ".")
            value = {k: v for k, v in value.items() if k not in inner}
            if not value and name not in known:
                continue
        yield name, value if isinstance(value, dict) else {part: value}


def _hosts(
    common: CommonConfig,
    fetch: FetchConfig,
    overrides: dict[str, dict[str, Any]],
    problems: list[str],
) -> tuple[HostConfig, ...]:
    hosts: dict[str, HostConfig] = {}
    written: dict[str, HostEntry] = {}
    for entry in common.hosts:
        if entry.name in hosts:
            problems.append(_twice(written[entry.name], entry))
            continue
        written[entry.name] = entry
        hosts[entry.name] = _host(entry, common, fetch, overrides.get(entry.name, {}))
    return tuple(hosts.values())


def _host(entry: HostEntry, common: CommonConfig, fetch: FetchConfig, own: dict[str, Any]) -> HostConfig:
    plain_localhost = entry == HostEntry("localhost") and not own.keys() & {"address", "user", "port"}
    return HostConfig(
        name=entry.name,
        address=own.get("address", entry.name),
        user=entry.user or own.get("user", common.user),
        port=entry.port or own.get("port", common.port),
        key_filename=own.get("key_filename", common.key_filename),
        connect_timeout=own.get("connect_timeout", fetch.connect_timeout),
        command_timeout=own.get("command_timeout", fetch.command_timeout),
        transport=own.get("transport", "local" if plain_localhost else fetch.transport),
        host_keys=own.get("host_keys", fetch.host_keys),
        known_hosts=own.get("known_hosts", fetch.known_hosts),
        group=own.get("group") or None,
        note=own.get("note") or None,
        gpus=own.get("gpus"),
    )


def _twice(first: HostEntry, second: HostEntry) -> str:
    if first == second:
        return f"common.hosts: {first.name} is named twice"
    return (
        f"common.hosts: {first.name} is named twice, as {first} and as {second}; the page knows a host by its"
        " name: give one of them a name of its own, with [hosts.NAME] address and port"
    )


def _unreadable_keys(hosts: Iterable[HostConfig]) -> list[str]:
    problems = []
    for key_file in dict.fromkeys(h.key_filename for h in hosts if h.key_filename and h.transport != "local"):
        try:
            with key_file.open("rb"):
                pass
        except OSError as error:
            problems.append(f"key_filename: {key_file} cannot be read: {error.strerror}")
    return problems
