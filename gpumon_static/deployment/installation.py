"""Where a collector has what belongs to it. The defaults are the paths of docs/deploy.md and of deploy/."""

from __future__ import annotations

import pwd
from dataclasses import dataclass
from pathlib import Path

from gpumon_static.collect.engines.shards import processes_for
from gpumon_static.config.settings import Config
from gpumon_static.system.resources import own_program

OWN_MIB = 2048
"""Of fetch and render themselves."""
HOMES = tuple(map(Path, ("/home", "/root", "/run/user")))
"""What ProtectHome= hides."""


@dataclass(frozen=True)
class Installation:
    account: str = "gpumon"
    """The user who runs the job."""
    home: Path = Path("/var/lib/gpumon-static")
    program: Path = Path("/opt/gpumon-static/bin/gpumon-static")
    config: Path = Path("/etc/gpumon-static/config.ini")
    data: Path = Path("/var/lib/gpumon-static/data")
    site: Path = Path("/var/www/gpu-monitor")
    interval: int = 300
    """Seconds between two runs."""
    deadline: float = 240
    memory_mib: int = 4096 + OWN_MIB
    """The most that a run may take: all its workers, each at its own limit, and what writes the page."""
    reads_itself: bool = False
    """The config names the collector itself as a host."""
    server_name: str = "gpu-monitor.lab.example"
    public_key: str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI...your-own-public-key... gpumon"
    keys: tuple[Path, ...] = ()
    """Private keys that the config names."""

    @property
    def writable(self) -> tuple[Path, ...]:
        """The directories that a run writes; the home where the data is in it, which may not be there yet."""
        return (self.home if self.data.is_relative_to(self.home) else self.data, self.site)

    @property
    def is_in_a_home(self) -> bool:
        paths = (self.home, self.program, self.config, self.data, self.site, *self.keys)
        return any(path.is_relative_to(home) for path in paths for home in HOMES)


def installation_of(config: Config, account: str, server_name: str | None = None) -> Installation:
    """The installation that a config describes, for the program that is running."""
    keys = tuple(dict.fromkeys(host.key_filename for host in config.hosts if host.key_filename))
    return Installation(
        account=account,
        home=home_of(account),
        program=own_program(),
        config=config.path.absolute(),
        data=config.paths.data,
        site=config.paths.site,
        interval=config.site.interval,
        deadline=config.fetch.deadline,
        memory_mib=_memory_mib(config),
        reads_itself=any(host.transport == "local" for host in config.hosts),
        server_name=server_name or Installation.server_name,
        public_key=_public_key(keys) or Installation.public_key,
        keys=keys,
    )


def _memory_mib(config: Config) -> int:
    workers = processes_for(len(config.hosts), config.fetch.processes)
    return workers * config.fetch.worker_memory + OWN_MIB


def home_of(account: str) -> Path:
    try:
        return Path(pwd.getpwnam(account).pw_dir)
    except KeyError:
        return Installation.home


def _public_key(keys: tuple[Path, ...]) -> str | None:
    for key in keys:
        try:
            return key.with_name(f"{key.name}.pub").read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            continue
    return None
