"""The settings of `config.ini`: the frozen `Config` that everything else is given. file.py reads it.

Each section is a dataclass whose fields are the section's keys: name, default, check and what it is for.
A key with `per_host=True` may also stand in `[hosts.NAME]`. docs/config.md is generated from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from gpumon_static.bounds.vendors import ANY, VENDORS
from gpumon_static.config.checks import (
    EVENTS_OF_HOSTS,
    MAIN_PAGE,
    Check,
    boolean,
    choice,
    colour,
    command_line,
    contact_address,
    day,
    duration,
    event_types,
    gpu_order,
    host_entries,
    host_name,
    integer,
    mount_points,
    node_name,
    one_host,
    page_file,
    page_tables,
    path,
    path_or_none,
    program_path,
    real,
    resource_name,
    rule_names,
    scheduler_address,
    some_hosts,
    string,
    texts,
    user_name,
    web_address,
)
from gpumon_static.config.hostlist import HostEntry
from gpumon_static.config.known import Known, known_faults

SSH_CONFIG = "~/.ssh/config"
HOST_STATES = ("planned", "maintenance", "retired")
"""Of a host that is not in use: no offer, no alert, no failure."""
NOT_ASKED = ("planned", "retired")
USER_TIERS = ("names", "pseudonyms", "counts")
"""How much a page shows about users, from most to least."""


def key(
    default: Any,
    check: Check,
    about: str,
    *,
    per_host: bool = False,
    secret: bool = False,
    empty: bool = False,
) -> Any:
    """`about`: what it is for, a line of Markdown in the reference of the docs.

    `empty`: `""` is a value of its own. Elsewhere, as in old files, it means that the key is not set.
    """
    metadata = {"check": check, "about": about, "per_host": per_host, "empty": empty}
    return field(default=default, repr=not secret, metadata=metadata)


@dataclass(frozen=True)
class CommonConfig:
    hosts: tuple[HostEntry, ...] = key(
        MISSING,
        host_entries,
        "names, node sets (`gpu[01-08]`), `user@host:port`, `[::1]:2222`, groups (`@gpu`)",
    )
    user: str | None = key(
        None, user_name, "SSH user; else ssh_config's, else the user who runs fetch", per_host=True
    )
    port: int | None = key(None, integer(1, 65535), "SSH port; else ssh_config's, else 22", per_host=True)
    key_filename: Path | None = key(
        None, path, "private key; else ssh_config's, the agent's, those in `~/.ssh`", per_host=True
    )
    key_passphrase_command: tuple[str, ...] | None = key(
        None, command_line, "prints the passphrase of the key", per_host=True, secret=True
    )
    password_command: tuple[str, ...] | None = key(
        None, command_line, "prints the password", per_host=True, secret=True
    )


@dataclass(frozen=True)
class FetchConfig:
    workers: int = key(64, integer(1, 1000), "hosts read at once")
    engine: str = key(
        "processes",
        choice("threads", "processes", "dask"),
        "who reads them: worker processes, threads of fetch itself, or the workers of a Dask cluster",
    )
    processes: int = key(
        0, integer(0, 256), "worker processes that share them; 0: one, or one per core from 200 hosts on"
    )
    worker_memory: int = key(
        4096, integer(1024, 2**20), "MiB of address space of each; a host whose answer needs more is `error`"
    )
    scheduler: str | None = key(None, scheduler_address, "address of the Dask cluster's scheduler")
    dask_fallback: bool = key(
        True, boolean, "hosts without `worker` that no Dask worker can read are read by the collector itself"
    )
    insecure_scheduler: bool = key(
        False, boolean, "accept a scheduler by `tcp://`, without TLS, away from this machine"
    )
    tls_ca: Path | None = key(None, path, "CA of the Dask cluster; else as in Dask's own configuration")
    tls_cert: Path | None = key(None, path, "certificate for the scheduler")
    tls_key: Path | None = key(None, path, "key of that certificate")
    connect_timeout: float = key(10.0, real(0.1, 600), "seconds for connection and login", per_host=True)
    command_timeout: float = key(30.0, real(0.1, 3600), "seconds for the probe on the host", per_host=True)
    deadline: float = key(
        240.0, real(0.1, 86400), "seconds for the whole run; what is open then is a `timeout`"
    )
    transport: str = key(
        "paramiko",
        choice("paramiko", "openssh", "local"),
        "built-in SSH, the `ssh` program, or no SSH: the collector itself",
        per_host=True,
    )
    host_keys: str = key(
        "strict",
        choice("strict", "accept-new"),
        "`accept-new` accepts unknown keys and stores them",
        per_host=True,
    )
    known_hosts: Path = key(
        "~/.ssh/known_hosts", path, "`/etc/ssh/ssh_known_hosts` is read too", per_host=True
    )
    ssh_config: Path | None = key(
        SSH_CONFIG, path_or_none, "an empty string: none", per_host=True, empty=True
    )
    disks: tuple[str, ...] = key(
        ("/",), mount_points, "mount points whose usage the page shows", per_host=True
    )
    command_lines: bool = key(
        False, boolean, "collect arguments of processes, cut to 200 characters", per_host=True
    )


@dataclass(frozen=True)
class PathsConfig:
    data: Path = key("data", path, "directory of `load_data.csv`, `history/` and `events.json`")
    site: Path = key("site", path, "directory of `index.html` and the files beside it")
    data_group: str | None = key(
        None, string, "group that may read the data directory; without it, only its owner may"
    )


@dataclass(frozen=True)
class BusyConfig:
    utilization: float = key(5.0, real(0, 100), "percent; at least this makes a GPU busy")
    memory: float = key(
        2.0, real(0, 100), "percent of the GPU's memory in use; more than this makes a GPU busy"
    )


NO_EFFECT = "without effect since 0.2"


@dataclass(frozen=True)
class HistoryConfig:
    enabled: bool = key(True, boolean, "keep a history at all")
    keep: int = key(400, integer(2, 36600), "days for which every run is kept, whole")
    names_for: int | None = key(
        None, integer(2, 36600), "days after which logins become pseudonyms in the files; by default never"
    )
    texts: bool = key(False, boolean, "keep error texts and command lines in the history, too")
    keep_raw: int | None = key(None, integer(1, 3660), f"{NO_EFFECT}: every run is kept for `keep` days")
    keep_hours: int | None = key(None, integer(2, 3660), NO_EFFECT)
    keep_days: int | None = key(None, integer(7, 36600), NO_EFFECT)
    keep_events: int = key(365, integer(1, 3660), "days of events: hosts down and up, faults, GPUs freed")
    idle_after: int = key(3600, duration, "a GPU held this long without work is listed as held idle")
    """Seconds."""

    @property
    def note(self) -> str | None:
        """On keys of 0.1 that are set and have no effect."""
        idle = [name for name in ("keep_raw", "keep_hours", "keep_days") if getattr(self, name) is not None]
        if not idle:
            return None
        return f"[history] {', '.join(idle)}: {NO_EFFECT}; every run is kept for {self.keep} days (keep)"


@dataclass(frozen=True)
class PageConfig:
    """One of [[site.pages]]; what it does not set is as in [site]."""

    file: str = key("", page_file, "name of the page; `index.html` changes the main page")
    title: str | None = key(None, string, "its title; by default that of `[site]`")
    users: str | None = key(None, choice(*USER_TIERS), "its privacy tier; by default that of `[site]`")
    groups: tuple[str, ...] = key((), texts, "show only hosts of these groups; empty: all hosts")


@dataclass(frozen=True)
class SiteConfig:
    title: str = key("GPU Monitor", string, "title of the page")
    refresh: int = key(60, integer(0, 86400), "seconds after which an open page looks for new data; 0: never")
    interval: int = key(
        300, integer(1, 86400), "seconds between two runs; the page warns when two were missed"
    )
    accent: str | None = key(None, colour, "colour of links and focus")
    logo: Path | None = key(
        None, path, "SVG, PNG, JPEG, GIF or WebP, at most 64 kB; becomes part of the page"
    )
    footer: str | None = key(None, string, "text at the end of the page; addresses in it become links")
    templates: Path | None = key(None, path, "directory with templates that replace ours")
    users: str = key("names", choice(*USER_TIERS), "how much the page shows about users")
    pages: tuple[PageConfig, ...] = key(
        (), page_tables, "more pages, each with `file`, `title`, `users`, `groups`"
    )
    show_command_lines: bool = key(False, boolean, "show what `fetch.command_lines` collected")
    ignore_faults: tuple[str, ...] = key((), rule_names, "health rules to ignore, by name")
    run: str = key(
        "ssh", choice("ssh", "slurm"), "the lines to copy on page and terminal: `ssh`, or options of `srun`"
    )
    split: int = key(
        10_000,
        integer(0, 1_000_000),
        "GPUs above which a page becomes an overview with a page for each group; 0: never",
    )
    csv: bool = key(False, boolean, "publish `load_data.csv` too, on the tier of `users`")
    show: bool = key(
        True, boolean, "publish `show.txt` and `show.ansi`: the table of `show`, on the tier of `users`"
    )
    gpufree: bool = key(
        True, boolean, "publish `gpufree`: `free` as one file, for users without an installation"
    )
    url: str | None = key(None, web_address, "address of the page, which `gpufree` asks by itself")
    contact: str | None = key(
        None,
        contact_address,
        "how to write to a user: `mailto:{login}@lab.example`, or an https address of a chat with `{login}`",
    )


@dataclass(frozen=True)
class NotifyConfig:
    command: tuple[str, ...] | None = key(None, command_line, "run once for each event", secret=True)
    events: tuple[str, ...] = key(
        EVENTS_OF_HOSTS, event_types, "events that the command is run for; the feed has all"
    )
    samples: int = key(2, integer(1, 100), "runs in a row that must see a state before it counts")
    long_use: float = key(4.0, real(0, 8760), "hours in use after which a GPU that becomes free is an event")
    timeout: float = key(10.0, real(0.1, 600), "seconds for the command")


RUNS = ("ssh", "slurm")


@dataclass(frozen=True)
class SlurmConfig:
    """[slurm], or one of [[slurm]]."""

    host: HostEntry | None = key(
        None,
        one_host,
        "host that has `scontrol`: one of `common.hosts`, another `user@host:port`, or `localhost`",
    )
    hosts: tuple[HostEntry, ...] = key(
        (), some_hosts, "hosts that it manages, as node sets; empty: those that it lists under their names"
    )
    job_names: bool = key(False, boolean, "collect and show names of jobs")
    order: tuple[int, ...] = key(
        (), gpu_order, "nvidia-smi's indexes of Slurm's GPUs 0, 1, 2, ... where the two count differently"
    )


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
    configured: frozenset[str] = frozenset()
    """The keys that config.ini sets for it; the others may come from ssh_config."""
    group: str | None = None
    note: str | None = None
    gpus: int | None = None
    vendor: str | None = None
    """A vendor of bounds/vendors.py, or `any`; None: all, and NVIDIA is what a host without GPUs lacks."""
    nvidia_smi: str | None = None
    """Its path on the host."""
    disks: tuple[str, ...] = ("/",)
    command_lines: bool = False
    state: str | None = None
    """One of `HOST_STATES`, while it lasts; `state_at` knows."""
    until: date | None = None
    """The first day without that state."""
    worker: str | None = None
    """The resource that a Dask worker must have to ask it; None: any worker does."""
    slurm: str | None = None
    """Slurm's name of it, where that is not its own."""
    run: str = "ssh"
    """How users start programs there."""
    asks_slurm: bool = False
    """It is asked for its Slurm and for nothing else."""
    ssh_name: str = ""
    """Its name for SSH, where `name` is another: a question to Slurm has a name of its own."""
    ignore: tuple[Known, ...] = ()
    was: str | None = None
    """Its name before it was renamed."""

    def state_at(self, now: datetime) -> str | None:
        """Its state; None for a host that is in use. Days are those of the collector's time zone."""
        is_over = self.until is not None and now.astimezone().date() >= self.until
        return None if is_over else self.state

    def state_words(self, now: datetime) -> str:
        """`maintenance until 2026-12-01`; empty for a host that is in use."""
        state = self.state_at(now)
        return f"{state}{f' until {self.until}' if self.until else ''}" if state else ""

    def known(self, rule: str, gpu: int | None, now: datetime) -> Known | None:
        """What the config knows of this fault, while that lasts. `gpu`: None for one of the host."""
        today = now.astimezone().date()
        of_rule = (one for one in self.ignore if one.rule == rule and one.gpu in (None, gpu))
        return next((one for one in of_rule if one.until is None or today < one.until), None)

    def is_asked(self, now: datetime) -> bool:
        return self.state_at(now) not in NOT_ASKED

    @property
    def alias(self) -> str:
        """The name that ssh_config and known_hosts have."""
        return self.ssh_name or self.name


@dataclass(frozen=True)
class SlurmCluster:
    """A Slurm to be asked."""

    asked: HostConfig
    """The host that has scontrol, named so that it is no host of the lab: `Slurm on login1`."""
    hosts: frozenset[str] = frozenset()
    """Those that it manages by the config; empty: those that it lists."""
    job_names: bool = False
    order: tuple[int, ...] = ()


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
    clusters: tuple[SlurmCluster, ...] = ()
    """Of [slurm]."""

    def asked(self, now: datetime) -> tuple[HostConfig, ...]:
        """The hosts that a run asks: without those that are planned or retired."""
        return tuple(host for host in self.hosts if host.is_asked(now))

    @property
    def csv_path(self) -> Path:
        return self.paths.data / "load_data.csv"

    @property
    def history_path(self) -> Path:
        """The folder of its files."""
        return self.paths.data / "history"

    @property
    def old_history_path(self) -> Path:
        """The database of versions before 0.2."""
        return self.paths.data / "history.db"

    @property
    def page_path(self) -> Path:
        return self.paths.site / MAIN_PAGE

    @property
    def groups(self) -> dict[str, str]:
        """The group of each host by its name; empty for none."""
        return {host.name: host.group or "" for host in self.hosts}

    @property
    def pages(self) -> tuple[PageConfig, ...]:
        """All pages that render writes, every value set; index.html first, whether it is listed or not."""
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
    "slurm": SlurmConfig,
}
HOST_ONLY_KEYS: dict[str, tuple[Check, str]] = {
    "address": (host_name, "where to connect to, when that is not the name on the page"),
    "group": (string, "shown beside the host's name; pages and filters can choose by it"),
    "note": (string, "shown beside the host's name"),
    "gpus": (integer(0, 1024), "how many GPUs there should be; fewer is a fault"),
    "state": (
        choice(*HOST_STATES),
        "not in use: no offer, no alert, a quiet card; `maintenance` is still asked, the others are not",
    ),
    "until": (day, "first day on which `state` is over, such as `2026-12-01`"),
    "vendor": (
        choice(*VENDORS, ANY),
        "whose GPUs to read: `nvidia`, `amd`, or `any`; without it all are read, and a host that has none is"
        " `no-nvidia-smi`",
    ),
    "ignore": (
        known_faults,
        "faults that are known, shown as acknowledged and otherwise quiet: a health rule, of one GPU if it is"
        ' named, until a day: `["ecc-errors of GPU 3 until 2026-12-01"]`',
    ),
    "was": (host_name, "its name before it was renamed: what is kept of the old name becomes its own"),
    "nvidia_smi": (
        program_path,
        "path of nvidia-smi on the host, where it is in none of the usual directories",
    ),
    "slurm": (node_name, "Slurm's name of the host, where that is not its own without domain"),
    "run": (choice(*RUNS), "how users start programs there; else `site.run`"),
    "worker": (resource_name, "resource that a Dask worker must have to read it; else any worker does"),
}
"""The keys of `[hosts.NAME]` that no other section has: their checks, and what they are for."""
HOST_KEYS: dict[str, Check] = {
    **{name: check for name, (check, _) in HOST_ONLY_KEYS.items()},
    **{
        f.name: f.metadata["check"]
        for section in (CommonConfig, FetchConfig)
        for f in fields(section)
        if f.metadata["per_host"]
    },
}
