"""gpumon-static as a process of its own, forked from one that has imported it: its start costs 0.4 s of CPU otherwise.

The process has its own directory, environment, mask, streams, signals and exit status, as one that was started has.
What a fork cannot show is started for real, with `tests.command.PROGRAM`: imports, a program that is killed.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import resource
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

NOT_LOADED = ("gpumon_static.__main__", "gpumon_static.frames", "gpumon_static.collect.engines.dask")
"""What runs when it is imported, and what is large and rarely used."""
LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_AS)
OF_THE_START = ("PYTHON", "LD_", "MALLOC_", "LC_", "LANG")
"""Beginnings of variables that count when a program starts."""


def _start_of(environment: Mapping[str, str]) -> object:
    """What a forked process has from the one that it was forked from."""
    names = sorted(name for name in environment if name.startswith(OF_THE_START))
    limits = [resource.getrlimit(limit) for limit in LIMITS]
    ignored = [signal.getsignal(number) is signal.SIG_IGN for number in (signal.SIGINT, signal.SIGTERM)]
    return [(name, environment[name]) for name in names], limits, ignored, os.getresuid(), os.getresgid()


class WarmProgram:
    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        self._start = _start_of(os.environ)
        words = [
            sys.executable,
            "-c",
            f"from tests import warm_program; warm_program.serve({theirs.fileno()})",
        ]
        root = Path(__file__).parents[1]
        self._process = subprocess.Popen(
            words, pass_fds=[theirs.fileno()], cwd=root, stdin=subprocess.DEVNULL
        )
        theirs.close()
        atexit.register(self.close)

    def fits(self) -> bool:
        return _start_of(os.environ) == self._start and self._process.poll() is None

    def run(self, arguments: Sequence[str], cwd: Path | None, timeout: float) -> tuple[int, str, str]:
        """Its exit status, negative for a signal, and what it printed."""
        umask = os.umask(0)
        os.umask(umask)
        asked = json.dumps([list(arguments), str(cwd or Path.cwd()), dict(os.environ), umask]).encode()
        streams = [_Pipe(), _Pipe()]
        inner, outer = socket.socketpair()
        with inner, outer:
            socket.send_fds(self._ours, [b"."], [inner.fileno(), *(stream.inlet for stream in streams)])
            inner.close()
            outer.sendall(len(asked).to_bytes(4, "big") + asked)
            for stream in streams:
                os.close(stream.inlet)
            pid = int.from_bytes(_exactly(outer, 4), "big")
            try:
                printed = _read_all([stream.outlet for stream in streams], timeout)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(arguments), timeout) from None
            finally:
                status = int.from_bytes(_exactly(outer, 4), "big")
        return os.waitstatus_to_exitcode(status), *(text.decode() for text in printed)  # type: ignore[return-value]

    def close(self) -> None:
        self._ours.close()
        self._process.wait(60)


class _Pipe:
    def __init__(self) -> None:
        self.outlet, self.inlet = os.pipe()


def _read_all(outlets: list[int], timeout: float) -> list[bytes]:
    """Both at once, until both are closed."""
    end, found = time.monotonic() + timeout, {outlet: bytearray() for outlet in outlets}
    with selectors.DefaultSelector() as selector:
        for outlet in outlets:
            selector.register(outlet, selectors.EVENT_READ)
        try:
            while selector.get_map():
                if not (ready := selector.select(end - time.monotonic())) and time.monotonic() >= end:
                    raise TimeoutError
                for key, _ in ready:
                    if part := os.read(key.fd, 65536):
                        found[key.fd] += part
                    else:
                        selector.unregister(key.fd)
        finally:
            for outlet in outlets:
                os.close(outlet)
    return [bytes(text) for text in found.values()]


def _exactly(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = sock.recv(size - len(found))
        if not part:
            raise EOFError("the process that forks has ended")
        found += part
    return found


# In the process that forks


def serve(number: int) -> None:
    """Forks a process for each request, until nobody asks any more."""
    import gpumon_static

    for module in pkgutil.walk_packages(gpumon_static.__path__, "gpumon_static."):
        if not module.name.startswith(NOT_LOADED):
            importlib.import_module(module.name)
    # What is there stays as it is, and is shared with every fork.
    gc.freeze()
    with socket.socket(fileno=number) as asked:
        while True:
            _, descriptors, _, _ = socket.recv_fds(asked, 1, 3)
            if not descriptors:
                return
            if os.fork() == 0:
                asked.close()
                _answer(descriptors)
                return
            for descriptor in descriptors:
                os.close(descriptor)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _answer(descriptors: list[int]) -> None:
    """Stays beside the program, to tell its exit status; the fork of it is the program."""
    reply = socket.socket(fileno=descriptors[0])
    size = int.from_bytes(_exactly(reply, 4), "big")
    arguments, cwd, environment, umask = json.loads(_exactly(reply, size))
    pid = os.fork()
    if pid == 0:
        reply.close()
        _become(arguments, cwd, environment, umask, descriptors[1:])
        return
    for descriptor in descriptors[1:]:
        os.close(descriptor)
    reply.sendall(pid.to_bytes(4, "big"))
    _, status = os.waitpid(pid, 0)
    reply.sendall(status.to_bytes(4, "big"))
    os._exit(0)


def _become(
    arguments: list[str], cwd: str, environment: dict[str, str], umask: int, streams: list[int]
) -> None:
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
        os.close(stream)
    # Those of the process that forks know what they were opened on.
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # type: ignore[misc] # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(  # type: ignore[misc] # noqa: SIM115
        2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    os.chdir(cwd)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv = ["gpumon-static", *arguments]
    sys.path[0] = cwd
    runpy.run_module("gpumon_static", run_name="__main__", alter_sys=True)
