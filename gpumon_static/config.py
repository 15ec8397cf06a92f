"""`config.ini` to a frozen `Config`. Every problem is found before any is reported.

Each section is a dataclass whose fields are the section's keys: name, default and check in one line.
A key with `per_host=True` may also stand in `[hosts.NAME]`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import tomli

from gpumon_static import config_syntax
from gpumon_static.config_checks import (
    EVENT_TYPES as EVENT_TYPES,
)
from gpumon_static.config_checks import (
    MAIN_PAGE as MAIN_PAGE,
)
from gpumon_static.config_checks import (
    Check,
    Wrong,
    boolean,
    choice,
    colour,
    command_line,
    duration,
    event_types,
    host_entries,
    host_name,
    mount_points,
    number,
    page_file,
    page_tables,
    path,
    path_or_none,
    rule_names,
    shown,
    text,
    texts,
    unknown_names,
    user_name,
    whole,
)
from gpumon_static.errors import ConfigError
from gpumon_static.hostlist import (
    BadHost,
    HostEntry,
    expand_nodeset,
)

SSH_CONFIG = "~/.ssh/config"
USER_TIERS = ("names", "pseudonyms", "counts")
"""How much a page tells about people, from most to least."""


def key(
    default: Any, check: Check, *, per_host: bool = False, secret: bool = False, empty: bool = False
) -> Any:
    """`empty`: `""` is a value of its own. Elsewhere, as in old files, it means that the key is not set."""
    metadata = {"check": check, "per_host": per_host, "empty": empty}
    return field(default=default, repr=not secret, metadata=metadata)


@dataclass(frozen=True)
class CommonConfig:
    hosts: tuple[HostEntry, ...] = key(MISSING, host_entries)
    user: str | None = key(None, user_name, per_host=True)
    port: int | None = key(None, whole(1, 65535), per_host=True)
    key_filename: Path | None = key(None, path, per_host=True)
    key_passphrase_command: tuple[str, ...] | None = key(None, command_line, per_host=True, secret=True)
    password_command: tuple[str, ...] | None = key(None, command_line, per_host=True, secret=True)


@dataclass(frozen=True)
class FetchConfig:
    workers: int = key(64, whole(1, 1000))
    connect_timeout: float = key(10.0, number(0.1, 600), per_host=True)
    command_timeout: float = key(30.0, number(0.1, 3600), per_host=True)
    deadline: float = key(240.0, number(0.1, 86400))
    transport: str = key("paramiko", choice("paramiko", "openssh", "local"), per_host=True)
    host_keys: str = key("strict", choice("strict", "accept-new"), per_host=True)
    known_hosts: Path = key("~/.ssh/known_hosts", path, per_host=True)
    ssh_config: Path | None = key(SSH_CONFIG, path_or_none, per_host=True, empty=True)
    disks: tuple[str, ...] = key(("/",), mount_points, per_host=True)
    command_lines: bool = key(False, boolean, per_host=True)


@dataclass(frozen=True)
class PathsConfig:
    data: Path = key("data", path)
    site: Path = key("site", path)


@dataclass(frozen=True)
class BusyConfig:
    utilization: float = key(5.0, number(0, 100))
    memory: float = key(2.0, number(0, 100))


@dataclass(frozen=True)
class HistoryConfig:
    enabled: bool = key(True, boolean)
    keep_raw: int = key(7, whole(1, 3660))
    """Days, as the other two."""
    keep_hours: int = key(90, whole(2, 3660))
    keep_days: int = key(1826, whole(7, 36600))
    idle_after: int = key(3600, duration)
    """Seconds."""


@dataclass(frozen=True)
class PageConfig:
    """One of [[site.pages]]; what it does not say is as in [site]."""

    file: str = key("", page_file)
    title: str | None = key(None, text)
    users: str | None = key(None, choice(*USER_TIERS))
    groups: tuple[str, ...] = key((), texts)
    """Of the hosts it shows; empty: all hosts."""


@dataclass(frozen=True)
class SiteConfig:
    title: str = key("GPU Monitor", text)
    refresh: int = key(60, whole(0, 86400))
    interval: int = key(300, whole(1, 86400))
    """Seconds between two runs of fetch, as cron has it: the page says when two of them did not come."""
    accent: str | None = key(None, colour)
    logo: Path | None = key(None, path)
    footer: str | None = key(None, text)
    templates: Path | None = key(None, path)
    users: str = key("names", choice(*USER_TIERS))
    pages: tuple[PageConfig, ...] = key((), page_tables)
    show_command_lines: bool = key(False, boolean)
    ignore_faults: tuple[str, ...] = key((), rule_names)
    csv: bool = key(False, boolean)


@dataclass(frozen=True)
class NotifyConfig:
    command: tuple[str, ...] | None = key(None, command_line, secret=True)
    events: tuple[str, ...] = key(EVENT_TYPES[:4], event_types)
    """Those that the command is run for; the feed has them all."""
    samples: int = key(2, whole(1, 100))
    """So many runs of fetch in a row must see a state before it counts."""
    long_use: float = key(4.0, number(0, 8760))
    """Hours after which a GPU that becomes free is news."""
    timeout: float = key(10.0, number(0.1, 600))


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
    ssh_config: Path | None = None
    key_passphrase_command: tuple[str, ...] | None = field(default=None, repr=False)
    password_command: tuple[str, ...] | None = field(default=None, repr=False)
    said: frozenset[str] = frozenset()
    """The keys that config.ini sets for it; what it leaves open, ssh_config may say."""
    group: str | None = None
    note: str | None = None
    gpus: int | None = None
    disks: tuple[str, ...] = ("/",)
    command_lines: bool = False
    was_late: bool = False
    """Not of the config: the last run waited in vain, and the probe is to look before it asks again."""


@dataclass(frozen=True)
class Config:
    path: Path
    hosts: tuple[HostConfig, ...]
    fetch: FetchConfig
    paths: PathsConfig
    busy: BusyConfig
    site: SiteConfig
    users: Mapping[str, str] = field(default_factory=dict)
    """Names to show for logins."""
    notify: NotifyConfig = field(default_factory=lambda: NotifyConfig())
    history: HistoryConfig = field(default_factory=HistoryConfig)

    @property
    def csv_path(self) -> Path:
        return self.paths.data / "load_data.csv"

    @property
    def history_path(self) -> Path:
        return self.paths.data / "history.db"

    @property
    def page_path(self) -> Path:
        return self.paths.site / MAIN_PAGE

    @property
    def pages(self) -> tuple[PageConfig, ...]:
        """All that a render writes, with everything said; index.html first, whether it is listed or not."""
        site = self.site
        listed = {MAIN_PAGE: PageConfig(MAIN_PAGE)} | {page.file: page for page in site.pages}
        return tuple(
            replace(page, title=page.title or site.title, users=page.users or site.users)
            for page in listed.values()
        )


SECTIONS: dict[str, type] = {
    "common": CommonConfig,
    "fetch": FetchConfig,
    "paths": PathsConfig,
    "busy": BusyConfig,
    "site": SiteConfig,
    "notify": NotifyConfig,
    "history": HistoryConfig,
}
HOST_KEYS: dict[str, Check] = {
    "address": host_name,
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
    problems = list(unknown_names(tables, [*SECTIONS, "hosts", "users"], "section", "[{}]"))
    sections: dict[str, Any] = {}
    for name, kind in SECTIONS.items():
        sections[name] = _section(name, kind, tables.get(name, {}), base, problems)
    overrides = _overrides(tables.get("hosts", {}), sections["common"], base, problems)
    said = {k for name in ("common", "fetch") for k, v in _table(tables, name).items() if v != ""}
    hosts = _hosts(sections["common"], sections["fetch"], overrides, said, problems)
    sections["site"] = replace(sections["site"], pages=_pages(sections["site"].pages, hosts, base, problems))
    users = _users(tables.get("users", {}), problems)
    if need_keys:
        problems += _unreadable_files(hosts)
    if problems:
        raise ConfigError(config_path, problems)
    return Config(
        config_path,
        hosts,
        sections["fetch"],
        sections["paths"],
        sections["busy"],
        sections["site"],
        users,
        sections["notify"],
        sections["history"],
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


def _table(tables: dict[str, Any], name: str) -> dict[str, Any]:
    """A section as it was written; what is no section is told elsewhere."""
    table = tables.get(name)
    return table if isinstance(table, dict) else {}


def _section(name: str, kind: type, table: Any, base: Path, problems: list[str]) -> Any:
    """The section as its dataclass; a wrong value is noted in `problems` and its default used."""
    if not isinstance(table, dict):
        problems.append(f"{name}: must be a section, [{name}], not a value")
        table = {}
    keys = {f.name: f for f in fields(kind)}
    problems += unknown_names(
        (f"{name}.{given}" for given in table), (f"{name}.{known}" for known in keys), "key"
    )
    values: dict[str, Any] = {}
    for key_name, f in keys.items():
        given = table.get(key_name, f.default)
        if given == "" and not f.metadata["empty"]:
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


def _pages(
    given: tuple[Any, ...], hosts: Iterable[HostConfig], base: Path, problems: list[str]
) -> tuple[PageConfig, ...]:
    groups = sorted({host.group for host in hosts if host.group})
    pages: dict[str, PageConfig] = {}
    for position, table in enumerate(given, start=1):
        where = f"site.pages {position}"
        page: PageConfig = _section(where, PageConfig, table, base, problems)
        problems += [f"{where}.groups: no host is in {g!r}" for g in page.groups if g not in groups]
        if page.file and page.file in pages:
            problems.append(f"{where}.file: {page.file} is written twice")
        pages[page.file] = page
    return tuple(pages.values())


def _users(table: Any, problems: list[str]) -> dict[str, str]:
    """`[users]`: any login may stand there."""
    if not isinstance(table, dict):
        problems.append("users: must be a section, [users], not a value")
        return {}
    for login, name in table.items():
        if not isinstance(name, str):
            problems.append(f"users.{login}: must be a text in quotes, not {shown(name)}")
    return {login: name for login, name in table.items() if isinstance(name, str) and name}


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
        problems += unknown_names(
            (f"[hosts.{n}]" for n in names), (f"[hosts.{n}]" for n in known), "host in common.hosts"
        )
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
    said: set[str],
    problems: list[str],
) -> tuple[HostConfig, ...]:
    hosts: dict[str, HostConfig] = {}
    written: dict[str, HostEntry] = {}
    for entry in common.hosts:
        if entry.name in hosts:
            problems.append(_twice(written[entry.name], entry))
            continue
        written[entry.name] = entry
        hosts[entry.name] = _host(entry, common, fetch, overrides.get(entry.name, {}), said)
    return tuple(hosts.values())


def _host(
    entry: HostEntry, common: CommonConfig, fetch: FetchConfig, own: dict[str, Any], said: set[str]
) -> HostConfig:
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
        ssh_config=own.get("ssh_config", fetch.ssh_config),
        key_passphrase_command=own.get("key_passphrase_command", common.key_passphrase_command),
        password_command=own.get("password_command", common.password_command),
        said=frozenset(said | own.keys()),
        group=own.get("group") or None,
        note=own.get("note") or None,
        gpus=own.get("gpus"),
        disks=own.get("disks", fetch.disks),
        command_lines=own.get("command_lines", fetch.command_lines),
    )


def _twice(first: HostEntry, second: HostEntry) -> str:
    if first == second:
        return f"common.hosts: {first.name} is named twice"
    return (
        f"common.hosts: {first.name} is named twice, as {first} and as {second}; the page knows a host by its"
        " name: give one of them a name of its own, with [hosts.NAME] address and port"
    )


def _unreadable_files(hosts: Iterable[HostConfig]) -> list[str]:
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
