"""A connection to a host's SSH port, and what its failures mean."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from gpumon_static.collect.trace import Step, Trace
from gpumon_static.config.hostlist import with_port
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from gpumon_static.text import one_line

_UNREACHABLE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.EADDRNOTAVAIL}


RETRY_AFTER = 1.0
"""Seconds after which a host that closed the connection is tried once more."""


@dataclass(frozen=True)
class Endpoint:
    """Where to connect to."""

    hostname: str
    port: int

    def __str__(self) -> str:
        return with_port(self.hostname, self.port)


class HungUp(HostError):
    """The host ended the connection before the login: worth a second try."""

    def __init__(self, to: Endpoint | str, banner: str | None = None) -> None:
        shown = f" ({banner})" if banner else ""
        super().__init__(
            Status.REFUSED,
            f"{to} closed the connection before the login{shown}, twice: sshd's MaxStartups or a firewall",
        )


class Budget:
    """Seconds that several steps share. Waiting for our own turn does not count."""

    def __init__(self, seconds: float, on_end: str) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._on_end = on_end

    def left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.spent()
        return left

    def spent(self) -> HostError:
        return HostError(Status.TIMEOUT, self._on_end)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self._end += time.monotonic() - started

    @contextmanager
    def turn(self, gate: threading.Semaphore) -> Iterator[None]:
        """Wait for a place, with the clock stopped; go ahead without one rather than wait too long."""
        with self.stopped():
            placed = gate.acquire(timeout=self.seconds)
        try:
            yield
        finally:
            if placed:
                gate.release()


class Wire(Protocol):
    """What a socket and a channel of paramiko have in common."""

    def recv(self, size: int, /) -> bytes: ...
    def send(self, data: bytes, /) -> int: ...
    def settimeout(self, seconds: float | None, /) -> None: ...
    def close(self) -> None: ...


class Line:
    """A wire on which the other side has sent something, which may turn out not to be SSH."""

    def __init__(self, wire: Wire, first: bytes) -> None:
        self._wire = wire
        self._unread = first
        self._closed = False
        self.heard = first[:80]
        self.send = wire.send
        self.settimeout = wire.settimeout

    def recv(self, size: int) -> bytes:
        if self._unread:
            data, self._unread = self._unread[:size], self._unread[size:]
            return data
        data = self._wire.recv(size)
        if len(self.heard) < 80:
            self.heard += data[:80]
        return data

    def close(self) -> None:
        self._closed = True
        self._wire.close()

    @property
    def first_words(self) -> str | None:
        return one_line(self.heard.decode("utf-8", errors="replace"))


def connect(to: Endpoint, budget: Budget, trace: Trace) -> Line:
    started = time.monotonic()
    wire = _connect(to, budget, trace)
    trace.done(Step.PORT, f"{to} open after {time.monotonic() - started:.2f} s")
    return greeted(wire, to, budget)


def greeted(wire: Wire, to: Endpoint, budget: Budget) -> Line:
    """The wire as a line, once the other side has sent something."""
    try:
        wire.settimeout(budget.left())
        first = wire.recv(256)
        if not first:
            raise HungUp(to)
    except TimeoutError as error:
        wire.close()
        reason = f"{to} accepted the connection but sent no SSH banner within {budget.seconds:g} s"
        raise HostError(Status.TIMEOUT, reason) from error
    except OSError as error:
        wire.close()
        raise HungUp(to) from error
    except HostError:
        wire.close()
        raise
    return Line(wire, first)


def _connect(to: Endpoint, budget: Budget, trace: Trace) -> socket.socket:
    found = _addresses(to)
    trace.done(Step.NAME, ", ".join(dict.fromkeys(str(address[0]) for *_, address in found)))
    error_seen: OSError | None = None
    for untried, (family, kind, protocol, _, address) in zip(range(len(found), 0, -1), found, strict=True):
        sock = socket.socket(family, kind, protocol)
        # An address that leads nowhere, as IPv6 often does, leaves time for the next one.
        sock.settimeout(budget.left() / untried)
        try:
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            sock.close()
            error_seen = error
        else:
            return sock
    raise _connect_error(error_seen, to, budget) from error_seen


def _addresses(to: Endpoint) -> list[tuple[int, int, int, str, tuple[object, ...]]]:
    try:
        return socket.getaddrinfo(to.hostname, to.port, type=socket.SOCK_STREAM)  # type: ignore[return-value]
    except (socket.gaierror, UnicodeError) as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else "not a valid name"
        raise HostError(Status.DNS, f"the name {to.hostname} was not found: {reason}") from error


def _connect_error(error: OSError | None, to: Endpoint, budget: Budget) -> HostError:
    if isinstance(error, ConnectionRefusedError):
        return HostError(Status.REFUSED, f"connection refused at {to}: no sshd listens there")
    if isinstance(error, TimeoutError):
        return HostError(Status.TIMEOUT, f"no answer from {to} within {budget.seconds:g} s")
    reason = (error.strerror if error else None) or str(error)
    if error is not None and error.errno in _UNREACHABLE:
        return HostError(Status.UNREACHABLE, f"no route to {to}: {reason.lower()}")
    return HostError(Status.ERROR, f"cannot connect to {to}: {reason}")
