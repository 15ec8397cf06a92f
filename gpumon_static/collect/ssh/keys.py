"""Private keys: from files and from the agent, loaded once per run."""

from __future__ import annotations

import copy
import threading
from base64 import b64decode
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

import paramiko
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from gpumon_static.collect.once import Once
from gpumon_static.collect.ssh.passwords import NoSecret, SecretSource
from gpumon_static.collect.ssh.target import SecretCommand, Target
from gpumon_static.system.command import Command

DEFAULT_NAMES = ("id_ed25519", "id_ecdsa", "id_rsa")
AGENT_SECONDS = 5


class BadKey(ValueError):
    """Why a key file cannot be used."""


class Encrypted(BadKey):
    pass


@dataclass(frozen=True)
class Identity:
    name: str
    key: paramiko.PKey
    file: Path | None = None
    """None for a key of the agent."""


class KeyRing:
    def __init__(self, secrets: SecretSource) -> None:
        self._secrets = secrets
        self._files = Once(self._load)
        self._agent_lock = threading.Lock()

    def check(self, files: Iterable[tuple[Path, SecretCommand | None]]) -> None:
        """Raises `BadKey`. A passphrase is asked for only when a host needs the key."""
        for file, passphrase_command in files:
            if passphrase_command is None:
                self._files((file, None))
            else:
                with suppress(Encrypted):
                    _load_key(file, None)

    def identities(self, target: Target) -> tuple[list[Identity], list[str]]:
        """What to try at a host, in this order, and what could not be tried."""
        named = bool(target.key_files)
        if not named and target.password_command:
            # Keys that nothing sets for this host would only count as failed tries.
            return [], []
        found: list[Identity] = []
        failed: list[str] = []
        for file in target.key_files or default_files():
            try:
                found += self._files((file, target.passphrase_command))
            except BadKey as error:
                failed.append(str(error))
        if not target.only_these_keys:
            offered = {identity.key.asbytes() for identity in found}
            others = [i for i in self._agent_identities() if i.key.asbytes() not in offered]
            # Keys that the config names come before the agent's, default key files after them.
            found = found + others if named else others + found
        return found, failed

    def _load(self, key: tuple[Path, SecretCommand | None]) -> list[Identity]:
        file, passphrase_command = key
        try:
            return list(_with_certificate(file, _load_key(file, None)))
        except Encrypted:
            if passphrase_command is None:
                return self._held_by_agent(file)
        try:
            passphrase = self._secrets.output_of(passphrase_command)
        except NoSecret as error:
            raise BadKey(f"{file} is encrypted, and key_passphrase_command {error}") from None
        return list(_with_certificate(file, _load_key(file, passphrase)))

    def _held_by_agent(self, file: Path) -> list[Identity]:
        public = _public_blob(file)
        held = [i for i in self._agent_identities() if i.key.asbytes() == public]
        if not held:
            way_out = f"set key_passphrase_command, or give it to the agent: {Command.of('ssh-add', file)}"
            raise BadKey(f"{file} is encrypted: {way_out}")
        return held

    def _agent_identities(self) -> list[Identity]:
        with self._agent_lock:
            return self._agents_keys

    @cached_property
    def _agents_keys(self) -> list[Identity]:
        try:
            keys = _Agent().get_keys()
        except (paramiko.SSHException, OSError):
            return []
        return [Identity(f"agent's {key.comment or key.get_name()} {key.fingerprint}", key) for key in keys]


class _Agent(paramiko.Agent):
    """A connection to the agent with a lock and a time limit: paramiko's has neither."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        super().__init__()

    def _connect(self, connection: Any) -> None:
        connection.settimeout(AGENT_SECONDS)
        super()._connect(connection)  # type: ignore[misc]

    def _send_message(self, message: Any) -> Any:
        with self._one_at_a_time:
            return super()._send_message(message)  # type: ignore[misc]


def _load_key(file: Path, passphrase: str | None) -> paramiko.PKey:
    password = None if passphrase is None else passphrase.encode("utf-8", errors="surrogateescape")
    try:
        return _read_key(file, password)
    except OSError as error:
        raise BadKey(f"{file} cannot be read: {error.strerror}") from error
    except (TypeError, paramiko.PasswordRequiredException):
        raise Encrypted(f"{file} is encrypted") from None
    except Exception as error:
        # What a file that is no key makes the libraries raise is not documented and differs by version.
        if passphrase is not None:
            raise BadKey(f"{file} cannot be decrypted with what key_passphrase_command prints") from None
        raise BadKey(f"{file} is not a private key that paramiko can read") from error


def _read_key(file: Path, password: bytes | None) -> paramiko.PKey:
    try:
        return paramiko.PKey.from_path(file, password)  # type: ignore[arg-type]
    except paramiko.PasswordRequiredException:
        raise
    except paramiko.SSHException:
        # paramiko fails on half of the ECDSA files without a comment; in the older form it reads them.
        loaded = serialization.load_ssh_private_key(file.read_bytes(), password)
        kind = paramiko.ECDSAKey if isinstance(loaded, EllipticCurvePrivateKey) else paramiko.RSAKey
        older = loaded.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        key = kind.from_private_key(StringIO(older.decode()))
        certificate = Path(f"{file}-cert.pub")
        if certificate.exists():
            key.load_certificate(str(certificate))
        return key


def _with_certificate(file: Path, key: paramiko.PKey) -> Iterator[Identity]:
    """A certificate may have run out: the key is tried without it too, as ssh does."""
    if key.public_blob is not None:
        yield Identity(f"{file} with its certificate", key, file)
        key = copy.copy(key)
        key.public_blob = None
    yield Identity(str(file), key, file)


def _public_blob(file: Path) -> bytes | None:
    try:
        return b64decode(public_line(file).split()[1])
    except (ValueError, IndexError):
        return None


def public_line(file: Path) -> str:
    """The public key beside a private one, without its comment; empty where there is none."""
    try:
        return " ".join(Path(f"{file}.pub").read_text(encoding="utf-8").split()[:2])
    except (OSError, ValueError):
        return ""


def default_files() -> list[Path]:
    try:
        directory = Path.home() / ".ssh"
    except RuntimeError:
        return []
    return [directory / name for name in DEFAULT_NAMES if (directory / name).exists()]
