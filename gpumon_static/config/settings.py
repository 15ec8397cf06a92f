"""What `config.ini` can say: the frozen `Config` that everything else is given. file.py reads it.

Each section is a dataclass whose fields are the section's keys: name, default and check in one line.
A key with `per_host=True` may also stand in `[hosts.NAME]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from gpumon_static.config.checks import (
    EVENT_TYPES,
    MAIN_PAGE,
    Check,
    boolean,
    choice,
    colour,
    command_line,
    duration,
    event_types,
    host_entries,
    host_name,
    integer,
    mount_points,
    page_file,
    page_tables,
    path,
    path_or_none,
    real,
    rule_names,
    string,
    texts,
    user_name,
)
from gpumon_static.config.hostlist import HostEntry

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
    port: int | None = key(None, integer(1, 65535), per_host=True)
    key_filename: Path | None = key(None, path, per_host=True)
    key_passphrase_command: tuple[str, ...] | None = key(None, command_line, per_host=True, secret=True)
    password_command: tuple[str, ...] | None = key(None, command_line, per_host=True, secret=True)


@dataclass(frozen=True)
class FetchConfig:
    workers: int = key(64, integer(1, 1000))
    processes: int = key(0, integer(0, 256))
    """Worker processes, among which the workers are divided; 0: one, or from 200 hosts on one per core."""
    connect_timeout: float = key(10.0, real(0.1, 600), per_host=True)
    command_timeout: float = key(30.0, real(0.1, 3600), per_host=True)
    deadline: float = key(240.0, real(0.1, 86400))
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
    utilization: float = key(5.0, real(0, 100))
    memory: float = key(2.0, real(0, 100))


@dataclass(frozen=True)
class HistoryConfig:
    enabled: bool = key(True, boolean)
    keep_raw: int = key(7, integer(1, 3660))
    """Days, as the other two."""
    keep_hours: int = key(90, integer(2, 3660))
    keep_days: int = key(1826, integer(7, 36600))
    idle_after: int = key(3600, duration)
    """Seconds."""


@dataclass(frozen=True)
class PageConfig:
    """One of [[site.pages]]; what it does not say is as in [site]."""

    file: str = key("", page_file)
    title: str | None = key(None, string)
    users: str | None = key(None, choice(*USER_TIERS))
    groups: tuple[str, ...] = key((), texts)
    """Of the hosts it shows; empty: all hosts."""


@dataclass(frozen=True)
class SiteConfig:
    title: str = key("GPU Monitor", string)
    refresh: int = key(60, integer(0, 86400))
    interval: int = key(300, integer(1, 86400))
    """Seconds between two runs of fetch, as cron has it: the page reports when two of them were missed."""
    accent: str | None = key(None, colour)
    logo: Path | None = key(None, path)
    footer: str | None = key(None, string)
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
    samples: int = key(2, integer(1, 100))
    """So many runs of fetch in a row must see a state before it counts."""
    long_use: float = key(4.0, real(0, 8760))
    """Hours after which a GPU that becomes free is news."""
    timeout: float = key(10.0, real(0.1, 600))


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
    "group": string,
    "note": string,
    "gpus": integer(0, 1024),
}
