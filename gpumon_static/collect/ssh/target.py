"""One SSH server to log in to, with everything decided: a host, or a jump host on the way to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gpumon_static.collect.ssh.connect import Endpoint

SecretCommand = tuple[str, ...]


@dataclass(frozen=True)
class Target:
    name: str
    """As config.ini or a ProxyJump names it."""
    at: Endpoint
    user: str
    known_as: Endpoint
    """What known_hosts has its key under: the same, or its HostKeyAlias."""
    known_hosts: tuple[Path, ...]
    """The first one is where a new key is learned."""
    accept_new: bool = False
    key_files: tuple[Path, ...] = ()
    only_these_keys: bool = False
    passphrase_command: SecretCommand | None = field(default=None, repr=False)
    password_command: SecretCommand | None = field(default=None, repr=False)
    proxy_command: str | None = None
    via: Target | None = None
    """The jump host before it."""
    connect_timeout: float = field(default=10.0, compare=False)

    @property
    def patience(self) -> float:
        """Seconds to the login at the most. The wait for a turn may take as long as the connecting."""
        before = self.via.patience if self.via else 0.0
        return before + 2 * self.connect_timeout

    @property
    def jumps(self) -> tuple[Target, ...]:
        return (*self.via.jumps, self.via) if self.via else ()

    @property
    def login(self) -> str:
        """As one would give it to `ssh -J`."""
        return f"{self.user}@{self.at}"
