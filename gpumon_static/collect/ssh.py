"""One host over SSH with paramiko: one connection, one command, the probe's raw output."""

from __future__ import annotations

import errno
import getpass
import logging
import shlex
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from gpumon_static.collect import probe
from gpumon_static.collect.keys import KeyRing
from gpumon_static.collect.known_hosts import KnownHosts, Verdict
from gpumon_static.collect.text import one_line
from gpumon_static.config import HostConfig
from gpumon_static.errors import HostError
from gpumon_static.hostlist import with_port
from gpumon_static.model import Status

# paramiko logs each failure with a traceback; ours become a row of the CSV.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_UNREACHABLE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.EADDRNOTAVAIL}


class HearingSocket(socket.socket):
    """Remembers the first words of the other side, for when they turn out not to be SSH."""

    heard = b""

    def recv(self, size: int, flags: int = 0) -> bytes:
        data = super().recv(size, flags)
        if len(self.heard) < 80:
            self.heard += data[:80]
        return data


class Budget:
    """Seconds that several steps share."""

    def __init__(self, seconds: float, on_end: str) -> None:
        self._end = time.monotonic() + seconds
        self._on_end = on_end

    def left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.spent()
        return left

    def spent(self) -> HostError:
        return HostError(Status.TIMEOUT, self._on_end)


@dataclass(frozen=True)
class SshReader:
    """What all hosts of a run share: keys and known hosts are loaded once."""

    keys: KeyRing
    known_hosts: Callable[[HostConfig], KnownHosts]

    def __call__(self, host: HostConfig) -> bytes:
        where = with_port(host.address, host.port or 22)
        budget = Budget(host.connect_timeout, f"no SSH login at {where} within {host.connect_timeout:g} s")
        with closing(self._handshake(host, budget)) as transport:
            self._authenticate(transport, host, budget)
            return run_probe(transport, host.command_timeout, budget)

    def _handshake(self, host: HostConfig, budget: Budget) -> paramiko.Transport:
        """A transport whose host key was found good."""
        known = self.known_hosts(host)
        transport = open_transport(host, budget, known.all_key_types())
        try:
            verdict = self._judge(transport, host, known)
            if verdict is not Verdict.OTHER_TYPE:
                return transport
            transport.close()
            # It is known by a key of another type: ask for one of those, as ssh does.
            types = known.key_types(host.address, host.port or 22)
            transport = open_transport(host, budget, types, only=True)
            if self._judge(transport, host, known) is Verdict.OTHER_TYPE:
                raise _refused_key(transport, host, known, Verdict.UNKNOWN)
            return transport
        except BaseException:
            transport.close()
            raise

    def _judge(self, transport: paramiko.Transport, host: HostConfig, known: KnownHosts) -> Verdict:
        key = transport.get_remote_server_key()
        verdict = known.verdict(host.address, host.port or 22, key.get_name(), key.get_base64())
        if verdict is Verdict.UNKNOWN and host.host_keys == "accept-new":
            known.learn(host.address, host.port or 22, key.get_name(), key.get_base64())
            return Verdict.KNOWN
        if verdict in (Verdict.KNOWN, Verdict.OTHER_TYPE):
            return verdict
        raise _refused_key(transport, host, known, verdict)

    def _authenticate(self, transport: paramiko.Transport, host: HostConfig, budget: Budget) -> None:
        user = host.user or getpass.getuser()
        tried: list[str] = []
        for name, key in self.keys.for_host(host):
            transport.auth_timeout = budget.left()
            try:
                transport.auth_publickey(user, key)
            except paramiko.BadAuthenticationType as error:
                offered = ", ".join(error.allowed_types)
                raise HostError(
                    Status.AUTH, f"{user} cannot log in with a key; it offers: {offered}"
                ) from error
            except (paramiko.SSHException, EOFError) as error:
                budget.left()
                tried.append(name)
                if not transport.is_active():
                    raise HostError(
                        Status.AUTH, f"closed the connection on {user}'s login: {error}"
                    ) from error
            else:
                if transport.is_authenticated():
                    return
                tried.append(name)
        keys = ", ".join(tried) if tried else "none: no key_filename, no agent, no key in ~/.ssh"
        raise HostError(Status.AUTH, f"refused the login of {user}; keys tried: {keys}")


def open_transport(
    host: HostConfig, budget: Budget, key_types: set[str], *, only: bool = False
) -> paramiko.Transport:
    """TCP and SSH handshake, preferring host keys of the types that known_hosts has."""
    sock = _connect(host, budget)
    try:
        transport = paramiko.Transport(sock)
    except paramiko.SSHException as error:
        sock.close()
        raise HostError(Status.ERROR, one_line(str(error)) or "SSH failed") from error
    transport.daemon = True
    _prefer(transport, key_types, only=only)
    transport.banner_timeout = transport.handshake_timeout = budget.left()
    done = threading.Event()
    transport.start_client(event=done)
    try:
        if not done.wait(budget.left()):
            raise budget.spent()
        if not transport.is_active():
            budget.left()
            raise _handshake_error(transport.get_exception(), host, sock.heard)
    except BaseException:
        transport.close()
        raise
    return transport


def _connect(host: HostConfig, budget: Budget) -> HearingSocket:
    port = host.port or 22
    try:
        found = socket.getaddrinfo(host.address, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else "not a valid name"
        raise HostError(Status.DNS, f"the name {host.address} was not found: {reason}") from error
    error_seen: OSError | None = None
    for family, kind, protocol, _, address in found:
        sock = HearingSocket(family, kind, protocol)
        sock.settimeout(budget.left())
        try:
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            sock.close()
            error_seen = error
        else:
            return sock
    raise _connect_error(error_seen, host) from error_seen


def _connect_error(error: OSError | None, host: HostConfig) -> HostError:
    where = with_port(host.address, host.port or 22)
    if isinstance(error, ConnectionRefusedError):
        return HostError(Status.REFUSED, f"connection refused at {where}: no sshd listens there")
    if isinstance(error, TimeoutError):
        return HostError(Status.TIMEOUT, f"no answer from {where} within {host.connect_timeout:g} s")
    reason = (error.strerror if error else None) or str(error)
    if error is not None and error.errno in _UNREACHABLE:
        return HostError(Status.UNREACHABLE, f"no way to {where}: {reason.lower()}")
    return HostError(Status.ERROR, f"cannot connect to {where}: {reason}")


def _handshake_error(error: Exception | None, host: HostConfig, heard: bytes) -> HostError:
    where = with_port(host.address, host.port or 22)
    if isinstance(error, IncompatiblePeer):
        return HostError(Status.ERROR, f"no common SSH algorithm with {where}: {one_line(str(error))}")
    first_words = one_line(heard.decode("utf-8", errors="replace"))
    if first_words is None:
        reason = f"{where} hung up before the login: sshd's MaxStartups, or a firewall"
        return HostError(Status.REFUSED, reason)
    if not first_words.startswith("SSH-"):
        return HostError(Status.ERROR, f"{where} does not speak SSH; it said: {first_words}")
    reason = (one_line(str(error)) if error else None) or "it hung up"
    return HostError(Status.ERROR, f"the SSH handshake with {where} failed: {reason}")


def _prefer(transport: paramiko.Transport, key_types: set[str], *, only: bool) -> None:
    options = transport.get_security_options()
    plain = [("ssh-rsa" if t.startswith("rsa-sha2-") else t) in key_types for t in options.key_types]
    liked = [t for t, known in zip(options.key_types, plain, strict=True) if known]
    rest = [t for t, known in zip(options.key_types, plain, strict=True) if not known]
    if liked:
        options.key_types = liked if only else liked + rest


def _refused_key(
    transport: paramiko.Transport, host: HostConfig, known: KnownHosts, verdict: Verdict
) -> HostError:
    key = transport.get_remote_server_key()
    port = host.port or 22
    shown = f"{key.get_name()} {key.fingerprint}"
    file = shlex.quote(str(known.path))
    port_option = f"-p {port} " if port != 22 else ""
    scan = f"ssh-keyscan {port_option}{host.address} >> {file}"
    name = f"'[{host.address}]:{port}'" if port != 22 else host.address
    reasons = {
        Verdict.UNKNOWN: f"unknown host key; compare {shown} with the host's own, then: {scan}",
        Verdict.CHANGED: f"HOST KEY CHANGED to {shown}: reinstalled, or somebody in between; if it is right:"
        f" ssh-keygen -R {name} -f {file} && {scan}",
        Verdict.REVOKED: f"the host key {shown} is revoked in {known.path}",
        Verdict.AUTHORITY_ONLY: f"{known.path} has only a certificate authority for this host, and paramiko"
        f' host certificates; use transport = "openssh", or compare {shown}, then: {scan}',
    }
    return HostError(Status.HOST_KEY, reasons[verdict])


def run_probe(transport: paramiko.Transport, command_timeout: float, connecting: Budget) -> bytes:
    try:
        with closing(transport.open_session(timeout=connecting.left())) as channel:
            return _exchange(channel, command_timeout)
    except TimeoutError as error:
        raise _command_timeout(command_timeout) from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        reason = one_line(str(error)) or type(error).__name__
        raise HostError(Status.ERROR, f"the connection broke: {reason}") from error


def _exchange(channel: paramiko.Channel, command_timeout: float) -> bytes:
    end = time.monotonic() + command_timeout
    channel.settimeout(command_timeout)
    channel.exec_command(probe.COMMAND)
    try:
        channel.sendall(probe.stdin(command_timeout))
        channel.shutdown_write()
    except OSError:
        # A forced command need not read what it is sent.
        pass
    output = bytearray()
    while True:
        channel.settimeout(max(0.001, end - time.monotonic()))
        chunk = channel.recv(65536)
        output += chunk
        if len(output) > probe.MOST_BYTES:
            raise probe.too_much()
        if time.monotonic() > end:
            raise TimeoutError
        if not chunk or probe.is_complete(output):
            break
    if probe.BEGIN_MARK not in output and channel.recv_stderr_ready():
        output += b"\n" + channel.recv_stderr(4096)
    return bytes(output)


def _command_timeout(seconds: float) -> HostError:
    return HostError(Status.TIMEOUT, f"logged in, but the probe did not finish within {seconds:g} s")
