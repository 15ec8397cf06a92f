"""Which way leads to a host: the readers of a whole run, with all that its hosts share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from gpumon_static.collect import probe, reading
from gpumon_static.collect.fan_out import SLACK, past_its_limits
from gpumon_static.collect.local import LocalReader
from gpumon_static.collect.openssh import OpensshReader
from gpumon_static.collect.program import Programs
from gpumon_static.collect.trace import SILENT, Trace
from gpumon_static.config import HostConfig
from gpumon_static.errors import ConfigError
from gpumon_static.model import HostReading

if TYPE_CHECKING:
    from gpumon_static.collect.ssh import SshReader

RawRead = Callable[[HostConfig, Trace], bytes]


@dataclass(frozen=True)
class Readers:
    clock: Callable[[], datetime]
    programs: Programs = field(default_factory=Programs)
    ssh: SshReader | None = None

    def __call__(self, host: HostConfig) -> HostReading:
        started = time.monotonic()
        output = self.output(host)
        seconds = round(time.monotonic() - started, 3)
        return replace(self.parse(host, output), fetch_seconds=seconds)

    def parse(self, host: HostConfig, output: str) -> HostReading:
        return reading.parse(host.name, output, self.clock())

    def output(self, host: HostConfig, trace: Trace = SILENT) -> str:
        """What the probe says on this host; raises `HostError`."""
        return probe.text(self._way_to(host)(host, trace))

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


def for_hosts(config_path: Path, hosts: Sequence[HostConfig], clock: Callable[[], datetime]) -> Readers:
    """Raises `ConfigError` where a key, known_hosts or ssh_config file cannot be used."""
    by_ssh = [host for host in hosts if host.transport == "paramiko"]
    programs = Programs()
    return Readers(clock, programs, _ssh_reader(config_path, by_ssh, programs) if by_ssh else None)


def _ssh_reader(config_path: Path, hosts: Sequence[HostConfig], programs: Programs) -> SshReader:
    # paramiko is half of the time to start: a run without SSH does without it.
    from paramiko import ConfigParseError

    from gpumon_static.collect.keys import BadKey
    from gpumon_static.collect.ssh import SshReader
    from gpumon_static.collect.ssh_config import Targets

    try:
        reader = SshReader(Targets({h.ssh_config for h in hosts if h.ssh_config}), programs)
        reader.keys.check({(h.key_filename, h.key_passphrase_command) for h in hosts if h.key_filename})
        for file in {host.known_hosts for host in hosts}:
            reader.known_hosts((file,))
    except BadKey as error:
        raise ConfigError(config_path, [f"key_filename: {error}"]) from error
    except ConfigParseError as error:
        raise ConfigError(config_path, [f"ssh_config: {error}"]) from error
    except OSError as error:
        raise ConfigError(config_path, [f"{error.filename} cannot be read: {error.strerror}"]) from error
    return reader
