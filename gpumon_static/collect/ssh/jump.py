"""Jump hosts. Each is logged in to once per run, and carries the connections of all hosts behind it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import paramiko
from paramiko.common import MSG_CHANNEL_CLOSE

from gpumon_static.collect.once import Once
from gpumon_static.collect.ssh.connect import Budget, Endpoint, Line, greeted
from gpumon_static.collect.ssh.target import Target
from gpumon_static.collect.trace import Step, Trace
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from gpumon_static.text import one_line

PROHIBITED = 1

# sshd's reasons for a forwarded connection that failed, in the words of strerror and getaddrinfo.
REASONS = {
    "refused": Status.REFUSED,
    "timed out": Status.TIMEOUT,
    "no route": Status.UNREACHABLE,
    "unreachable": Status.UNREACHABLE,
    "unknown host": Status.DNS,
    "not known": Status.DNS,
    "name resolution": Status.DNS,
}


class _Wire:
    """A channel that is never written to once it is closed: sshd ends the whole connection for that.

    paramiko looks whether the channel is open and then writes; between the two another thread may close it.
    """

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._in_turn = _in_turn(channel)
        self.recv = channel.recv
        self.settimeout = channel.settimeout

    def send(self, data: bytes) -> int:
        with self._in_turn:
            return self._channel.send(data)

    def close(self) -> None:
        with self._in_turn, suppress(EOFError, OSError, paramiko.SSHException):
            self._channel.close()


def _in_turn(channel: paramiko.Channel) -> threading.Lock:
    lock: threading.Lock = channel.__dict__.setdefault("in_turn", threading.Lock())
    return lock


def _closed_by_the_other_side(channel: paramiko.Channel, message: paramiko.Message) -> None:
    with _in_turn(channel):
        channel._handle_close(message)  # type: ignore[attr-defined]


class Transport(paramiko.Transport):
    """A transport that keeps the reason why each channel was not opened: paramiko has one for all threads."""

    _channel_handler_table: ClassVar[dict[int, Any]] = {
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]
        MSG_CHANNEL_CLOSE: _closed_by_the_other_side,
    }

    def __init__(self, line: Line) -> None:
        super().__init__(line)  # type: ignore[arg-type]
        self.daemon = True
        self._mine = threading.local()
        self._reasons: dict[int, tuple[int, str]] = {}

    def _next_channel(self) -> int:
        self._mine.channel = super()._next_channel()  # type: ignore[misc]
        return int(self._mine.channel)

    def _parse_channel_open_failure(self, message: paramiko.Message) -> None:
        channel, code, text = message.get_int(), message.get_int(), message.get_text()
        self._reasons[channel] = (code, text)
        message.rewind()
        super()._parse_channel_open_failure(message)  # type: ignore[misc]

    def reason(self) -> tuple[int, str]:
        """Why this thread's last channel was not opened."""
        return self._reasons.pop(self._mine.channel, (0, ""))


class JumpHosts:
    def __init__(self, log_in: Callable[[Target], Transport]) -> None:
        self._logged_in = Once(log_in)

    def connect(self, jump: Target, to: Endpoint, budget: Budget, trace: Trace) -> Line:
        """A line to a host behind the jump host."""
        with budget.stopped():
            transport = self._transport(jump)
        trace.done(Step.NAME, f"resolved by the jump host {jump.name}")
        channel = _open(transport, jump, to, budget)
        trace.done(Step.PORT, f"{to} through the jump host {jump.login}")
        return greeted(_Wire(channel), to, budget)

    def close(self) -> None:
        for transport in self._logged_in.made():
            with suppress(Exception):
                transport.close()

    def _transport(self, jump: Target) -> Transport:
        try:
            return self._logged_in(jump)
        except HostError as error:
            message = f"the jump host {jump.name} failed: {error.message}"
            raise HostError(error.status, message, fix=error.fix, jump=jump.name) from error


def _open(transport: Transport, jump: Target, to: Endpoint, budget: Budget) -> paramiko.Channel:
    try:
        return transport.open_channel(
            "direct-tcpip", (to.hostname, to.port), ("127.0.0.1", 0), timeout=budget.left()
        )
    except (paramiko.SSHException, EOFError, OSError) as error:
        if not transport.is_active():
            raise HostError(Status.ERROR, f"the connection to the jump host {jump.name} broke") from error
        code, refusal = transport.reason()
        reason = one_line(refusal)
        if not code:
            reason = f"no answer from {to} within {budget.seconds:g} s"
            raise HostError(Status.TIMEOUT, f"{reason}, through the jump host {jump.name}") from error
        if code == PROHIBITED:
            message = f"the jump host {jump.name} may not connect to {to}: AllowTcpForwarding or PermitOpen"
            raise HostError(Status.REFUSED, message) from error
        status = next((s for words, s in REASONS.items() if words in refusal.lower()), Status.UNREACHABLE)
        message = f"the jump host {jump.name} cannot connect to {to}: {reason or 'no reason given'}"
        raise HostError(status, message) from error
