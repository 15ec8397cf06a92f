"""`gpumon-static check`: connect to each host as fetch does, and report every step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gpumon_static.check.examining import ExaminerFactory, failed
from gpumon_static.check.findings import Finding, Mark, worst
from gpumon_static.collect.engines.ask import ask
from gpumon_static.collect.trace import Step
from gpumon_static.config.settings import Config, HostConfig
from gpumon_static.errors import ConfigError, GpumonError, HostError
from gpumon_static.model import HostReading, Status
from gpumon_static.times import Clock


@dataclass(frozen=True)
class HostCheck:
    host: str
    findings: tuple[Finding, ...]
    seconds: float | None = None
    status: str | None = None
    """The status that fetch would report; None while the host is being asked."""
    state: str = ""
    """Of a host that is not in use: "maintenance until 2026-12-01"."""

    @property
    def mark(self) -> Mark:
        return worst(self.findings) if self.status else Mark.UNTRIED

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"findings": [finding.as_json() for finding in self.findings]}

    @property
    def is_failure(self) -> bool:
        """As for fetch, a host that is not in use may fail."""
        return self.mark is Mark.FAILED and not self.state


@dataclass(frozen=True)
class CheckReport:
    surroundings: tuple[Finding, ...]
    """The config, the directories, the files that a run needs."""
    hosts: tuple[HostCheck, ...]

    @property
    def ok(self) -> bool:
        return worst(self.surroundings) is not Mark.FAILED and not any(h.is_failure for h in self.hosts)

    def to_json(self) -> str:
        around = [finding.as_json() for finding in self.surroundings]
        hosts = [host.as_json() for host in self.hosts]
        return json.dumps({"ok": self.ok, "surroundings": around, "hosts": hosts}, indent=2)


class Checkup:
    """The hosts of one check, to be looked at while it runs."""

    def __init__(self, config: Config, hosts: Sequence[HostConfig], clock: Clock) -> None:
        self._config = config
        self._hosts = hosts
        self._clock = clock
        self._findings: dict[str, dict[str, Finding]] = {host.name: {} for host in hosts}
        self._readings: dict[str, HostReading] = {}

    def run(self) -> tuple[HostCheck, ...]:
        """Raises `ConfigError` where a file that the config names cannot be used."""
        factory = ExaminerFactory(self._config.path, tuple(self._hosts), self._clock)
        try:
            ask(factory, self._config.fetch, on_reading=self._take, on_note=self._note)
        except ConfigError:
            raise
        except GpumonError as error:
            for host in self._hosts:
                self._take(HostReading(host.name, self._clock(), Status.ERROR, str(error)))
        return self.so_far()

    def _take(self, reading: HostReading) -> None:
        self._readings[reading.host] = reading

    def _note(self, host: str, finding: Finding) -> None:
        self._findings[host][finding.step] = finding

    def so_far(self) -> tuple[HostCheck, ...]:
        return tuple(self._host(host, self._readings.get(host.name)) for host in self._hosts)

    def _host(self, host: HostConfig, reading: HostReading | None) -> HostCheck:
        findings = dict(self._findings[host.name])
        if reading and not reading.ok and worst(list(findings.values())) is not Mark.FAILED:
            # A host that was given up has no error of its own, only a status.
            message = reading.error or reading.status.value
            at = next((step for step in Step if step not in findings), Step.GPUS)
            findings[at] = failed(host, at, HostError(reading.status, message))
        in_order = tuple(findings.get(step, Finding(step, Mark.UNTRIED)) for step in Step)
        if reading is None:
            return HostCheck(host.name, in_order)
        state = host.state_words(reading.fetched_at)
        return HostCheck(host.name, in_order, reading.fetch_seconds, reading.status, state)
