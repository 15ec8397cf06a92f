"""A ProxyCommand of ssh_config: SSH runs over the stdin and stdout of a program."""

from __future__ import annotations

import socket
import subprocess
import tempfile
from typing import IO

from gpumon_static.collect.ssh.connect import Budget, Endpoint, HungUp, Line, greeted
from gpumon_static.collect.trace import Step, Trace
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from gpumon_static.system.programs import Programs
from gpumon_static.text import one_line


class _ProxySocket(socket.socket):
    """Our end of the program's stdin and stdout; the program ends with it."""

    programs: Programs
    process: subprocess.Popen[bytes]
    errors: IO[bytes]

    def close(self) -> None:
        super().close()
        self.programs.end(self.process)

    def last_words(self) -> str | None:
        self.errors.seek(0)
        return one_line(self.errors.read(4096).decode("utf-8", errors="replace"))


def connect(command: str, to: Endpoint, budget: Budget, programs: Programs, trace: Trace) -> Line:
    trace.done(Step.NAME, "resolved by the ProxyCommand")
    wire = _start(command, programs)
    with wire.errors:
        try:
            line = greeted(wire, to, budget)
        except HungUp as error:
            wire.close()
            message = wire.last_words() or "it ended without a message"
            raise HostError(Status.UNREACHABLE, f"the ProxyCommand for {to} failed: {message}") from error
    trace.done(Step.PORT, f"{to} by ProxyCommand")
    return line


def _start(command: str, programs: Programs) -> _ProxySocket:
    ours, theirs = socket.socketpair()
    wire = _ProxySocket(fileno=ours.detach())
    wire.programs = programs
    wire.errors = tempfile.TemporaryFile()  # noqa: SIM115
    with theirs:
        try:
            # As ssh runs it: by a shell that becomes the command.
            wire.process = programs.start(
                ["sh", "-c", f"exec {command}"], stdin=theirs, stdout=theirs, stderr=wire.errors
            )
        except OSError as error:
            socket.socket.close(wire)
            wire.errors.close()
            raise HostError(Status.ERROR, f"cannot start the ProxyCommand: {error.strerror}") from error
    return wire
