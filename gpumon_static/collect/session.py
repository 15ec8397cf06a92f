"""One host, asked again and again over one connection: no new handshake each time.

With paramiko the connection is a transport that stays open; with the `ssh` program, a ControlMaster of ours.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpumon_static.collect.probe import framing
from gpumon_static.collect.readers import Readers
from gpumon_static.collect.ssh import openssh
from gpumon_static.collect.ssh.connect import Budget
from gpumon_static.collect.ssh.openssh import OpensshReader
from gpumon_static.collect.trace import NO_TRACE
from gpumon_static.config.settings import HostConfig
from gpumon_static.model import HostReading

if TYPE_CHECKING:
    from gpumon_static.collect.ssh.jump import Transport

KEEPALIVE_SECONDS = 30


class Session:
    def __init__(
        self,
        host: HostConfig,
        shared: Readers,
        anew: Callable[[], Readers],
        turn: AbstractContextManager[object] | None = None,
    ) -> None:
        """`shared`: what the hosts have in common; `anew`: the same for this host alone, after a failure.

        `turn`: entered to connect, so that hundreds of hosts do not do that at once.
        """
        self._host = host
        self._turn = turn or nullcontext()
        self._readers = shared
        self._anew = anew
        self._own: Readers | None = None
        self._transport: Transport | None = None
        self._master: subprocess.Popen[bytes] | None = None
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._has_failed = False

    def read(self) -> HostReading:
        """Raises `HostError`; the next read then starts with a new connection."""
        if self._has_failed:
            # The old ones still have the jump host that broke, or the host key that was missing.
            self._end_own()
            self._readers = self._own = self._anew()
            self._has_failed = False
        with nullcontext() if self._is_connected else self._turn:
            started = time.monotonic()
            with self._gone_if_it_fails():
                if not self._is_connected:
                    self._connect()
        return self._readers(self._host, self._raw, started=started)

    def close(self) -> None:
        self._disconnect()
        self._end_own()

    @contextmanager
    def _gone_if_it_fails(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._has_failed = True
            self._disconnect()
            raise

    @property
    def _is_connected(self) -> bool:
        if self._host.transport == "openssh":
            return self._master is not None and self._master.poll() is None
        return self._host.transport == "local" or (
            self._transport is not None and self._transport.is_active()
        )

    def _connect(self) -> None:
        if self._host.transport == "openssh":
            self._end_master()
            self._master = self._start_master(self._control_path)
        else:
            assert self._readers.ssh
            self._transport = self._readers.ssh.connect(self._host)
            self._transport.set_keepalive(KEEPALIVE_SECONDS)

    def _raw(self, host: HostConfig) -> bytes:
        with self._gone_if_it_fails():
            return self._readers.raw(host) if host.transport == "local" else self._output(framing.stdin(host))

    def _output(self, script: bytes) -> bytes:
        if self._host.transport == "openssh":
            return OpensshReader(self._readers.programs, self._control_path)(self._host, NO_TRACE, script)
        from gpumon_static.collect.ssh.reader import run_probe

        assert self._transport
        seconds = self._host.connect_timeout
        budget = Budget(seconds, f"the connection is open, and no command starts within {seconds:g} s")
        return run_probe(self._transport, self._host, budget, NO_TRACE, script)

    @property
    def _control_path(self) -> Path:
        """The socket of our master connection."""
        if self._directory is None:
            # Short, whatever TMPDIR is: the path of a socket has room for a hundred letters.
            self._directory = tempfile.TemporaryDirectory(prefix="gpumon-", dir="/tmp")
        return Path(self._directory.name) / "ssh"

    def _start_master(self, path: Path) -> subprocess.Popen[bytes]:
        words = openssh.arguments(self._host, path)
        words = [word.replace("ControlMaster=no", "ControlMaster=yes") for word in words[:-1]]
        at = words.index("--")
        nowhere = subprocess.DEVNULL
        master = self._readers.programs.start(
            [*words[:at], "-N", *words[at:]], stdin=nowhere, stdout=nowhere, stderr=nowhere
        )
        end = time.monotonic() + self._host.connect_timeout
        # Where it fails, the read itself fails too, with the reason.
        while not path.exists() and master.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        return master

    def _disconnect(self) -> None:
        if self._transport:
            with suppress(Exception):
                self._transport.close()
        self._transport = None
        self._end_master()

    def _end_master(self) -> None:
        if self._master:
            self._readers.programs.end(self._master)
        self._master = None
        if self._directory:
            (Path(self._directory.name) / "ssh").unlink(missing_ok=True)

    def _end_own(self) -> None:
        if self._own:
            self._own.__exit__(None, None, None)
        self._own = None
        if self._directory:
            self._directory.cleanup()
            self._directory = None
