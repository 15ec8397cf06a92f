"""One host over SSH with paramiko: one connection, one command, the probe's raw output."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from gpumon_static.collect.once import Once
from gpumon_static.collect.probe import framing
from gpumon_static.collect.ssh import connect, host_keys, proxy_command
from gpumon_static.collect.ssh.client_config import Targets
from gpumon_static.collect.ssh.client_config_file import BadClientConfig
from gpumon_static.collect.ssh.connect import RETRY_AFTER, Budget, Endpoint, HungUp, Line
from gpumon_static.collect.ssh.jump import JumpHosts, Transport
from gpumon_static.collect.ssh.keys import BadKey, KeyRing
from gpumon_static.collect.ssh.known_hosts import KnownHosts, Verdict
from gpumon_static.collect.ssh.login import log_in
from gpumon_static.collect.ssh.passwords import Secrets, SecretSource
from gpumon_static.collect.ssh.target import Target
from gpumon_static.collect.trace import NO_TRACE, Trace
from gpumon_static.config.settings import HostConfig
from gpumon_static.errors import Cause, ConfigError, HostError
from gpumon_static.model import Status
from gpumon_static.system.programs import Programs
from gpumon_static.text import one_line

SYSTEM_KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")

# What sshd sends instead of its version when there are too many connections.
TOO_MANY = ("Exceeded MaxStartups", "Not allowed at this time")

# paramiko logs each failure with a traceback; ours become a row of the CSV.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class SshReader:
    """What all hosts of a run share: keys, known hosts and jump hosts."""

    def __init__(self, targets: Targets, programs: Programs, secrets: SecretSource | None = None) -> None:
        self.targets = targets
        self.secrets = secrets or Secrets(programs)
        self.keys = KeyRing(self.secrets)
        self.known_hosts = Once(load_known_hosts)
        self._programs = programs
        self._jumps = JumpHosts(self._log_in_to_jump)
        self._patience: dict[str, float] = {}
        # Handshakes are CPU work: more at once than there are cores only delays each one.
        self._gate = threading.Semaphore(8 * (os.cpu_count() or 1))

    def __call__(self, host: HostConfig, trace: Trace, script: bytes) -> bytes:
        target = self.targets.of(host)
        self._patience[host.name] = target.patience
        transport, budget = self._log_in(target, trace)
        with closing(transport):
            return run_probe(transport, host, budget, trace, script)

    def connect(self, host: HostConfig) -> Transport:
        """A login that stays open: `run_probe` runs over it, any number of times."""
        return self._log_in(self.targets.of(host), NO_TRACE)[0]

    def patience(self, host: HostConfig) -> float | None:
        """Seconds to the login at the most; None while the way there is not known."""
        return self._patience.get(host.name)

    def close(self) -> None:
        self._jumps.close()

    def _log_in_to_jump(self, target: Target) -> Transport:
        return self._log_in(target, NO_TRACE)[0]

    def _log_in(self, target: Target, trace: Trace) -> tuple[Transport, Budget]:
        """The seconds that are left are those in which the command is to start."""
        on_end = f"no SSH login at {target.at} within {target.connect_timeout:g} s"
        budget = Budget(target.connect_timeout, on_end)
        try:
            return self._attempt(target, budget, trace), budget
        except HungUp:
            time.sleep(min(RETRY_AFTER, budget.left() / 2))
            return self._attempt(target, budget, trace), budget

    def _attempt(self, target: Target, budget: Budget, trace: Trace) -> Transport:
        line = self._line(target, budget, trace)
        with budget.turn(self._gate):
            transport = self._trusted(line, target, budget, trace)
            try:
                log_in(transport, target, self.keys, self.secrets, budget, trace)
            except BaseException:
                transport.close()
                raise
        return transport

    def _line(self, target: Target, budget: Budget, trace: Trace) -> Line:
        if target.via:
            return self._jumps.connect(target.via, target.at, budget, trace)
        if target.proxy_command:
            return proxy_command.connect(target.proxy_command, target.at, budget, self._programs, trace)
        return connect.connect(target.at, budget, trace)

    def _trusted(self, line: Line, target: Target, budget: Budget, trace: Trace) -> Transport:
        """A transport whose host key is valid."""
        try:
            known = self.known_hosts(target.known_hosts)
        except OSError as error:
            line.close()
            raise host_keys.unreadable(Path(error.filename or target.known_hosts[0]), error) from error
        transport = handshake(line, target.at, budget, known.all_key_types)
        try:
            if host_keys.judge(transport, target, known, trace) is Verdict.KNOWN:
                return transport
            transport.close()
            types = known.key_types(target.known_as.hostname, target.known_as.port)
            again = self._line(target, budget, trace)
            transport = handshake(again, target.at, budget, types, only=True)
            if host_keys.judge(transport, target, known, trace) is Verdict.KNOWN:
                return transport
            raise host_keys.refusal(transport.get_remote_server_key(), target, known, Verdict.UNKNOWN)
        except BaseException:
            transport.close()
            raise


def open_reader(
    config_path: Path, hosts: Sequence[HostConfig], programs: Programs, secrets: SecretSource | None = None
) -> SshReader:
    """Raises `ConfigError` where a key or ssh_config file cannot be used."""
    try:
        reader = SshReader(Targets({h.ssh_config for h in hosts if h.ssh_config}), programs, secrets)
        reader.keys.check({(h.key_filename, h.key_passphrase_command) for h in hosts if h.key_filename})
    except BadKey as error:
        raise ConfigError(config_path, [f"key_filename: {error}"]) from error
    except (BadClientConfig, paramiko.ConfigParseError) as error:
        raise ConfigError(config_path, [f"ssh_config: {error}"]) from error
    except OSError as error:
        raise ConfigError(config_path, [f"{error.filename} cannot be read: {error.strerror}"]) from error
    return reader


def load_known_hosts(files: tuple[Path, ...]) -> KnownHosts:
    return KnownHosts.load(files[0], [*files[1:], SYSTEM_KNOWN_HOSTS])


def handshake(
    line: Line, at: Endpoint, budget: Budget, key_types: set[str], *, only: bool = False
) -> Transport:
    """The SSH handshake, preferring (or accepting only) host keys of these types."""
    transport = Transport(line)
    host_keys.prefer(transport, key_types, only=only)
    transport.banner_timeout = transport.handshake_timeout = budget.left()
    done = threading.Event()
    transport.start_client(event=done)
    try:
        if not done.wait(budget.left()):
            raise budget.spent()
        if not transport.is_active():
            budget.left()
            error = transport.get_exception()
            raise _handshake_error(error, at, line.first_words) from error
    except BaseException:
        transport.close()
        raise
    return transport


def _handshake_error(error: Exception | None, at: Endpoint, first_words: str | None) -> HostError:
    if isinstance(error, IncompatiblePeer):
        message = f"no common SSH algorithm with {at}: {one_line(str(error))}"
        return HostError(Status.ERROR, message, cause=Cause.NO_COMMON_ALGORITHM)
    if first_words is None:
        return HungUp(at)
    if first_words.startswith(TOO_MANY):
        return HungUp(at, first_words)
    if not first_words.startswith("SSH-"):
        return HostError(Status.ERROR, f"{at} does not speak SSH; it sent: {first_words}")
    if error is None or isinstance(error, EOFError | ConnectionError):
        return HungUp(at)
    return HostError(Status.ERROR, f"the SSH handshake with {at} failed: {one_line(str(error))}")


def run_probe(
    transport: Transport, host: HostConfig, connecting: Budget, trace: Trace, script: bytes
) -> bytes:
    try:
        with closing(transport.open_session(timeout=connecting.left())) as channel:
            return _exchange(channel, host, trace, script)
    except TimeoutError as error:
        reason = f"logged in, but the probe did not finish within {host.command_timeout:g} s"
        raise HostError(Status.TIMEOUT, reason) from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        reason = one_line(str(error)) or type(error).__name__
        raise HostError(Status.ERROR, f"the connection broke: {reason}") from error


def _exchange(channel: paramiko.Channel, host: HostConfig, trace: Trace, script: bytes) -> bytes:
    end = time.monotonic() + host.command_timeout
    channel.settimeout(host.command_timeout)
    channel.exec_command(framing.command(host))
    # A forced command need not read what it is sent.
    with suppress(OSError):
        channel.sendall(script)
        channel.shutdown_write()
    output, has_arrived = bytearray(), framing.arrived(trace)
    while True:
        channel.settimeout(max(0.001, end - time.monotonic()))
        chunk = channel.recv(65536)
        output += chunk
        is_complete = has_arrived(output)
        if time.monotonic() > end:
            raise TimeoutError
        if not chunk or is_complete:
            break
    if framing.BEGIN_MARK not in output and channel.recv_stderr_ready():
        output += b"\n" + channel.recv_stderr(4096)
    return bytes(output)
