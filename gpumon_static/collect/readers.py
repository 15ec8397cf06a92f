"""The readers of a run: how each host is reached, with all that the hosts share."""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from gpumon_static.collect import reading
from gpumon_static.collect.local import LocalReader
from gpumon_static.collect.patience import SLACK, past_its_limits
from gpumon_static.collect.probe import framing
from gpumon_static.collect.slurm import answer
from gpumon_static.collect.ssh.openssh import OpensshReader
from gpumon_static.collect.trace import NO_TRACE, Trace
from gpumon_static.config.settings import HostConfig
from gpumon_static.model import HostReading
from gpumon_static.system.programs import Programs
from gpumon_static.times import Clock

if TYPE_CHECKING:
    from gpumon_static.collect.ssh.passwords import SecretSource
    from gpumon_static.collect.ssh.reader import SshReader

RawRead = Callable[[HostConfig, Trace, bytes], bytes]
"""Runs a script on a host, and gives back what it printed."""
Note = Callable[[str, Any], None]
"""Takes what a reader notes of a host on the way, beside its reading: of `check` each step."""


def nobody(_host: str, _what: Any) -> None:
    """Nobody takes notes."""


@dataclass(frozen=True)
class Readers:
    clock: Clock
    programs: Programs = field(default_factory=Programs)
    ssh: SshReader | None = None
    note: Note = nobody
    late: Container[str] = ()
    """Names of the hosts where the last run timed out."""

    def __call__(
        self,
        host: HostConfig,
        raw: Callable[[HostConfig], bytes] | None = None,
        *,
        started: float | None = None,
        to_parse: AbstractContextManager[object] | None = None,
    ) -> HostReading:
        """Read, time and parse; raises `HostError`.

        `raw`: another way to the output; `started`: when the way there began, if that is earlier;
        `to_parse`: entered to parse the output, which is no time of the host's.
        """
        started = time.monotonic() if started is None else started
        output = (raw or self.raw)(host)
        seconds = round(time.monotonic() - started, 3)
        with to_parse or nullcontext():
            return replace(self.parse(host, output), fetch_seconds=seconds)

    def raw(self, host: HostConfig) -> bytes:
        """What the probe printed on this host, as it came; raises `HostError`."""
        script = framing.stdin(host, was_late=host.name in self.late)
        return self._way_to(host)(host, self.trace(host), script)

    def trace(self, _host: HostConfig) -> Trace:
        """Of the steps on the way to it."""
        return NO_TRACE

    def parse(self, host: HostConfig, output: bytes) -> HostReading:
        """Raises `HostError` where there is no reading in it."""
        if host.asks_slurm:
            return answer.parse(host.name, output, self.clock())
        return reading.parse(host.name, framing.decoded(output), self.clock(), host.vendor)

    def patience(self, host: HostConfig) -> float:
        """Seconds after which a host that has not answered is stuck."""
        login = self.ssh.patience(host) if self.ssh else None
        return login + host.command_timeout + SLACK if login else past_its_limits(host)

    def __enter__(self) -> Readers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.programs.end_all()
        if self.ssh:
            self.ssh.close()

    def _way_to(self, host: HostConfig) -> RawRead:
        if host.transport == "local":
            return LocalReader(self.programs)
        if host.transport == "openssh":
            return OpensshReader(self.programs)
        assert self.ssh
        return self.ssh


@dataclass(frozen=True)
class ReaderFactory:
    """The recipe for the readers of some hosts: plain data, so that another process can follow it too."""

    config_path: Path
    hosts: tuple[HostConfig, ...]
    clock: Clock
    late: frozenset[str] = frozenset()
    kind: ClassVar[type[Readers]] = Readers

    def open(self, secrets: SecretSource | None = None, note: Note = nobody) -> Readers:
        """Raises `ConfigError` where a key, known_hosts or ssh_config file cannot be used.

        `secrets`: where passwords come from; by default the commands of the config are run here. `note`: of
        readers that take notes.
        """
        by_ssh = [host for host in self.hosts if host.transport == "paramiko"]
        programs = Programs()
        if not by_ssh:
            return self.kind(self.clock, programs, note=note, late=self.late)
        # Importing paramiko is half of the start: a run without SSH does not need it.
        from gpumon_static.collect.ssh.reader import open_reader

        ssh = open_reader(self.config_path, by_ssh, programs, secrets)
        return self.kind(self.clock, programs, ssh, note, self.late)
