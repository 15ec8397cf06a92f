"""One host over SSH with paramiko: one connection, one command, the probe's raw output."""

from __future__ import annotations

import getpass
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field

import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from gpumon_static.collect import host_keys, probe
from gpumon_static.collect.connect import Budget, Endpoint, HearingSocket, connect, hung_up
from gpumon_static.collect.keys import KeyRing
from gpumon_static.collect.known_hosts import KnownHosts, Verdict
from gpumon_static.collect.text import one_line
from gpumon_static.config import HostConfig
from gpumon_static.errors import HostError
from gpumon_static.model import Status

# paramiko logs each failure with a traceback; ours become a row of the CSV.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


def _handshake_places() -> threading.Semaphore:
    """Handshakes are arithmetic: more of them at once than the cores can do only makes each one late."""
    return threading.Semaphore(8 * (os.cpu_count() or 1))


@dataclass(frozen=True)
class SshReader:
    """What all hosts of a run share: keys and known hosts are loaded once."""

    keys: KeyRing
    known_hosts: Callable[[HostConfig], KnownHosts]
    gate: threading.Semaphore = field(default_factory=_handshake_places)

    def __call__(self, host: HostConfig) -> bytes:
        at = Endpoint(host.address, host.port or 22)
        budget = Budget(host.connect_timeout, f"no SSH login at {at} within {host.connect_timeout:g} s")
        sock = connect(at, budget)
        with budget.turn(self.gate):
            transport = self._log_in(sock, host, at, budget)
        with closing(transport):
            return run_probe(transport, host.command_timeout, budget)

    def _log_in(
        self, sock: HearingSocket, host: HostConfig, at: Endpoint, budget: Budget
    ) -> paramiko.Transport:
        transport = self._trusted(sock, host, at, budget)
        try:
            log_in(transport, host.user or getpass.getuser(), self.keys.for_host(host), budget)
        except BaseException:
            transport.close()
            raise
        return transport

    def _trusted(
        self, sock: HearingSocket, host: HostConfig, at: Endpoint, budget: Budget
    ) -> paramiko.Transport:
        """A transport whose host key was found good."""
        known = self.known_hosts(host)
        accept_new = host.host_keys == "accept-new"
        transport = handshake(sock, at, budget, known.all_key_types())
        try:
            key = transport.get_remote_server_key()
            if host_keys.judge(key, at, known, accept_new=accept_new) is Verdict.KNOWN:
                return transport
            transport.close()
            types = known.key_types(at.hostname, at.port)
            transport = handshake(connect(at, budget), at, budget, types, only=True)
            key = transport.get_remote_server_key()
            if host_keys.judge(key, at, known, accept_new=accept_new) is Verdict.KNOWN:
                return transport
            raise host_keys.refusal(key, at, known, Verdict.UNKNOWN)
        except BaseException:
            transport.close()
            raise


def handshake(
    sock: HearingSocket, at: Endpoint, budget: Budget, key_types: set[str], *, only: bool = False
) -> paramiko.Transport:
    """The SSH handshake, preferring (or taking only) host keys of these types."""
    transport = paramiko.Transport(sock)
    transport.daemon = True
    host_keys.prefer(transport, key_types, only=only)
    transport.banner_timeout = transport.handshake_timeout = budget.left()
    done = threading.Event()
    transport.start_client(event=done)
    try:
        if not done.wait(budget.left()):
            raise budget.spent()
        if not transport.is_active():
            budget.left()
            raise _handshake_error(transport.get_exception(), at, sock.heard)
    except BaseException:
        transport.close()
        raise
    return transport


def _handshake_error(error: Exception | None, at: Endpoint, heard: bytes) -> HostError:
    if isinstance(error, IncompatiblePeer):
        return HostError(Status.ERROR, f"no common SSH algorithm with {at}: {one_line(str(error))}")
    first_words = one_line(heard.decode("utf-8", errors="replace"))
    if first_words is None:
        return hung_up(at)
    if not first_words.startswith("SSH-"):
        return HostError(Status.ERROR, f"{at} does not speak SSH; it said: {first_words}")
    reason = (one_line(str(error)) if error else None) or "it hung up"
    return HostError(Status.ERROR, f"the SSH handshake with {at} failed: {reason}")


def log_in(
    transport: paramiko.Transport, user: str, keys: tuple[tuple[str, paramiko.PKey], ...], budget: Budget
) -> None:
    tried: list[str] = []
    for name, key in keys:
        transport.auth_timeout = budget.left()
        tried.append(name)
        try:
            transport.auth_publickey(user, key)
        except paramiko.BadAuthenticationType as error:
            offered = ", ".join(error.allowed_types)
            raise HostError(Status.AUTH, f"takes no key for {user}; it offers: {offered}") from error
        except (paramiko.SSHException, EOFError) as error:
            budget.left()
            if not transport.is_active():
                raise HostError(Status.AUTH, f"hung up on the login of {user}: {error}") from error
        else:
            if transport.is_authenticated():
                return
    keys_tried = ", ".join(tried) if tried else "none: no key_filename, no agent, no key in ~/.ssh"
    raise HostError(Status.AUTH, f"refused the login of {user}; keys tried: {keys_tried}")


def run_probe(transport: paramiko.Transport, command_timeout: float, connecting: Budget) -> bytes:
    try:
        with closing(transport.open_session(timeout=connecting.left())) as channel:
            return _exchange(channel, command_timeout)
    except TimeoutError as error:
        reason = f"logged in, but the probe did not finish within {command_timeout:g} s"
        raise HostError(Status.TIMEOUT, reason) from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        reason = one_line(str(error)) or type(error).__name__
        raise HostError(Status.ERROR, f"the connection broke: {reason}") from error


def _exchange(channel: paramiko.Channel, command_timeout: float) -> bytes:
    end = time.monotonic() + command_timeout
    channel.settimeout(command_timeout)
    channel.exec_command(probe.COMMAND)
    # A forced command need not read what it is sent.
    with suppress(OSError):
        channel.sendall(probe.stdin(command_timeout))
        channel.shutdown_write()
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
