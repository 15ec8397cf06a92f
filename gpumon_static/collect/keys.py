"""Private keys, loaded once per run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import paramiko

from gpumon_static.config import HostConfig

DEFAULT_NAMES = ("id_ed25519", "id_ecdsa", "id_rsa")


class BadKey(ValueError):
    """Why a key file cannot be used."""


@dataclass(frozen=True)
class KeyRing:
    by_file: dict[Path, paramiko.PKey] = field(default_factory=dict)
    defaults: tuple[tuple[str, paramiko.PKey], ...] = ()
    """What a host without a key_filename is tried with: the agent's keys, then those in ~/.ssh."""

    @classmethod
    def load(cls, hosts: Iterable[HostConfig]) -> KeyRing:
        """Raises `BadKey` for a file of the config; a default key that cannot be used is passed over."""
        hosts = list(hosts)
        files = dict.fromkeys(h.key_filename for h in hosts if h.key_filename)
        by_file = {file: load_key(file) for file in files}
        need_defaults = any(h.key_filename is None for h in hosts)
        return cls(by_file, tuple(_default_keys()) if need_defaults else ())

    def for_host(self, host: HostConfig) -> tuple[tuple[str, paramiko.PKey], ...]:
        if host.key_filename:
            return ((str(host.key_filename), self.by_file[host.key_filename]),)
        return self.defaults


def load_key(path: Path) -> paramiko.PKey:
    try:
        return paramiko.PKey.from_path(path)
    except OSError as error:
        raise BadKey(f"{path} cannot be read: {error.strerror}") from error
    except Exception as error:
        # What a file that is no key makes the libraries raise is not documented and differs by version.
        text = str(error).lower()
        if "password" in text or "encrypted" in text or "passphrase" in text:
            raise BadKey(f"{path} is encrypted, and no passphrase is known for it") from error
        raise BadKey(f"{path} is not a private key that paramiko can read") from error


def _default_keys() -> Iterator[tuple[str, paramiko.PKey]]:
    for key in paramiko.Agent().get_keys():
        yield f"agent {key.fingerprint}", key
    try:
        directory = Path.home() / ".ssh"
    except RuntimeError:
        return
    for name in DEFAULT_NAMES:
        try:
            yield str(directory / name), load_key(directory / name)
        except BadKey:
            continue
