"""Settings of a host from ~/.ssh/config, combined with config.ini, which wins.

    Host gpu*
        ProxyJump bastion
        IdentityFile ~/.ssh/lab
    Host bastion
        HostName login.lab.example
        User alice

config.ini's address, user and port are put before the file, as its first HostName, User and Port: of
each setting the first one counts, and so `Match user` and `%p` see them too.
"""

from __future__ import annotations

import getpass
import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import paramiko

from gpumon_static.collect.once import Once
from gpumon_static.collect.ssh.client_config_file import read
from gpumon_static.collect.ssh.connect import Endpoint
from gpumon_static.collect.ssh.target import Target
from gpumon_static.config.settings import HostConfig
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from gpumon_static.text import one_line

MOST_JUMPS = 8

_JUMP = re.compile(r"(?:ssh://)?(?:([^@]+)@)?(\[[^\]]+\]|[^:\[\]]+)(?::(\d+))?/?")
_TOKEN = re.compile(r"%(.)")


class _Parser(paramiko.SSHConfig):
    # Where %l is among them, paramiko asks the DNS for our own name, for each host again.
    TOKENS_BY_CONFIG_KEY = {  # noqa: RUF012
        "hostname": ["%h"],
        "identityfile": ["~", "%d", "%h", "%u", "%r"],
        "match-exec": paramiko.SSHConfig.TOKENS_BY_CONFIG_KEY["match-exec"],
        "userknownhostsfile": ["~", "%d", "%h", "%n", "%p", "%r", "%u"],
        "hostkeyalias": ["%h", "%n", "%p"],
    }


class Targets:
    """The targets of a run's hosts."""

    def __init__(self, files: Iterable[Path]) -> None:
        """Raises `OSError`, `BadClientConfig`, `paramiko.ConfigParseError`: a file cannot be used."""
        self._texts = {file: read(file) for file in files}
        for text in self._texts.values():
            _Parser.from_text(text)
        self._parsed = Once(self._parse)
        self.of = Once(self._host_target)

    def _parse(self, key: tuple[Path, str]) -> paramiko.SSHConfig:
        file, before = key
        return _Parser.from_text(before + self._texts[file])

    def _options(
        self, file: Path | None, name: str, hostname: str | None, user: str | None, port: int | None
    ) -> Mapping[str, Any]:
        known = {"HostName": hostname, "User": user, "Port": port}
        if file is None:
            return {key.lower(): value for key, value in known.items() if value is not None}
        # A percent sign stands for itself in config.ini, as in fe80::1%eth0, and paramiko has no %%.
        before = "".join(f"{key} {value}\n" for key, value in known.items() if value is not None)
        try:
            return self._parsed((file, before)).lookup(name)
        except Exception as error:
            # `Match exec` may raise anything.
            reason = one_line(str(error)) or type(error).__name__
            raise HostError(Status.ERROR, f"{file} cannot be used for {name}: {reason}") from error

    def _host_target(self, host: HostConfig) -> Target:
        address = host.address if "address" in host.configured or host.address != host.alias else None
        options = self._options(host.ssh_config, host.alias, address, host.user, host.port)
        return _target(
            host.alias,
            host,
            options,
            key_files=(host.key_filename,) if host.key_filename else _identity_files(options),
            only_these_keys=host.key_filename is not None or _yes(options, "identitiesonly"),
            password_command=host.password_command,
            **self._way(host.alias, host, options, ()),
        )

    def _jump_target(self, spec: str, host: HostConfig, via: Target | None, seen: tuple[str, ...]) -> Target:
        match = _JUMP.fullmatch(spec)
        if not match:
            raise HostError(Status.ERROR, f"{host.ssh_config}: {spec!r} is not a jump host")
        user, name, port = match[1], match[2].strip("[]"), int(match[3]) if match[3] else None
        if name in seen or len(seen) > MOST_JUMPS:
            raise HostError(Status.ERROR, f"{host.ssh_config}: ProxyJump loops at {name}")
        options = self._options(host.ssh_config, name, None, user, port)
        # Hops after the first are reached through the one before, whatever the file sets for them.
        way = {"via": via} if via else self._way(name, host, options, seen)
        return _target(
            name,
            host,
            options,
            key_files=_identity_files(options),
            only_these_keys=_yes(options, "identitiesonly"),
            **way,
        )

    def _way(
        self, name: str, host: HostConfig, options: Mapping[str, Any], seen: tuple[str, ...]
    ) -> dict[str, Any]:
        """Of ProxyJump and ProxyCommand, the one that the file names first counts."""
        first = next((key for key in options if key in ("proxyjump", "proxycommand")), None)
        value = options[first] if first else None
        if not value or value.lower() == "none":
            return {}
        value = _expanded(value, name, host, options)
        if first == "proxycommand":
            return {"proxy_command": value}
        via: Target | None = None
        for spec in value.split(","):
            via = self._jump_target(spec.strip(), host, via, (*seen, name))
        return {"via": via}


def first_jumps(hosts: Iterable[HostConfig], files: Iterable[Path]) -> dict[str, str]:
    """The first jump host on the way to each host; those whose way is direct are left out."""
    targets = Targets(files)
    found: dict[str, str] = {}
    for host in hosts:
        with suppress(HostError):
            jumps = targets.of(host).jumps if host.transport == "paramiko" else ()
            found |= {host.name: jumps[0].login} if jumps else {}
    return found


def _target(name: str, host: HostConfig, options: Mapping[str, Any], **more: Any) -> Target:
    at = _endpoint(name, host, options)
    alias = options.get("hostkeyalias")
    return Target(
        name,
        at,
        options.get("user") or getpass.getuser(),
        known_as=Endpoint(alias, 22) if alias else at,
        known_hosts=_known_hosts(host, options),
        accept_new=host.host_keys == "accept-new",
        passphrase_command=host.key_passphrase_command,
        connect_timeout=_connect_timeout(host, options),
        **more,
    )


def _endpoint(name: str, host: HostConfig, options: Mapping[str, Any]) -> Endpoint:
    port = str(options.get("port", 22))
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise HostError(Status.ERROR, f"{host.ssh_config}: Port {port} of {name} is not a port number")
    return Endpoint(options.get("hostname", name), int(port))


def _known_hosts(host: HostConfig, options: Mapping[str, Any]) -> tuple[Path, ...]:
    files = options.get("userknownhostsfile")
    if files is None or "known_hosts" in host.configured:
        return (host.known_hosts,)
    if files.lower() == "none":
        return (Path("/dev/null"),)
    return tuple(Path(file).expanduser() for file in shlex.split(files))


def _connect_timeout(host: HostConfig, options: Mapping[str, Any]) -> float:
    seconds = str(options.get("connecttimeout", ""))
    if "connect_timeout" not in host.configured and seconds.isdecimal() and int(seconds) > 0:
        return float(seconds)
    return host.connect_timeout


def _identity_files(options: Mapping[str, Any]) -> tuple[Path, ...]:
    return tuple(Path(file).expanduser() for file in options.get("identityfile", ()) if file != "none")


def _yes(options: Mapping[str, Any], key: str) -> bool:
    return str(options.get(key, "no")).lower() == "yes"


def _expanded(value: str, name: str, host: HostConfig, options: Mapping[str, Any]) -> str:
    at = _endpoint(name, host, options)
    tokens = {
        "%": "%",
        "h": at.hostname,
        "n": name,
        "p": str(at.port),
        "r": options.get("user") or getpass.getuser(),
        "u": getpass.getuser(),
        "d": str(Path.home()),
    }
    return _TOKEN.sub(lambda match: tokens.get(match[1], match[0]), value)
