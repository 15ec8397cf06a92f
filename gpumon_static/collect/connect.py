"""A TCP connection to a host's SSH port, and what its failures mean."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gpumon_static.errors import HostError
from gpumon_static.hostlist import with_port
from gpumon_static.model import Status

_UNREACHABLE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.EADDRNOTAVAIL}


@dataclass(frozen=True)
class Endpoint:
    """Where to connect to."""

    hostname: str
    port: int

    def __str__(self) -> str:
        return with_port(self.hostname, self.port)


class Budget:
    """Seconds that several steps share. Waiting for our own turn is not held against the host."""

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
    def turn(self, gate: threading.Semaphore) -> Iterator[None]:
        """Wait for a place, with the clock stopped; go ahead without one rather than wait too long."""
        started = time.monotonic()
        placed = gate.acquire(timeout=self.seconds)
        self._end += time.monotonic() - started
        try:
            yield
        finally:
            if placed:
                gate.release()


class HearingSocket(socket.socket):
    """Remembers the first words of the other side, for when they turn out not to be SSH."""

    heard = b""

    def recv(self, size: int, flags: int = 0) -> bytes:
        data = super().recv(size, flags)
        if len(self.heard) < 80:
            self.heard += data[:80]
        return data


def connect(to: Endpoint, budget: Budget) -> HearingSocket:
    """A connection on which the other side has begun to speak."""
    sock = _connect(to, budget)
    try:
        sock.settimeout(budget.left())
        if not sock.recv(1, socket.MSG_PEEK):
            raise hung_up(to)
        sock.heard = b""
    except TimeoutError as error:
        sock.close()
        reason = f"{to} takes connections and says nothing for {budget.seconds:g} s"
        raise HostError(Status.TIMEOUT, reason) from error
    except OSError as error:
        sock.close()
        raise hung_up(to) from error
    except HostError:
        sock.close()
        raise
    return sock


def hung_up(to: Endpoint) -> HostError:
    return HostError(Status.REFUSED, f"{to} hung up before the login: sshd's MaxStartups, or a firewall")


def _connect(to: Endpoint, budget: Budget) -> HearingSocket:
    error_seen: OSError | None = None
    for family, kind, protocol, _, address in _addresses(to):
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
        return HostError(Status.UNREACHABLE, f"no way to {to}: {reason.lower()}")
    return HostError(Status.ERROR, f"cannot connect to {to}: {reason}")
