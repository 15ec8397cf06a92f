"""Read the collector itself, without SSH."""

from __future__ import annotations

from dataclasses import dataclass

from gpumon_static.collect.probe import framing
from gpumon_static.collect.trace import Step, Trace
from gpumon_static.config.settings import HostConfig
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from gpumon_static.system.programs import Late, Programs


@dataclass(frozen=True)
class LocalReader:
    programs: Programs

    def __call__(self, host: HostConfig, trace: Trace, script: bytes) -> bytes:
        for step in (Step.NAME, Step.PORT, Step.HOST_KEY, Step.LOGIN):
            trace.done(step, "the collector itself, without SSH")
        try:
            finished = self.programs.run(
                ["sh", "-s"],
                script,
                seconds=host.command_timeout,
                enough=framing.arrived(trace),
                has_family=True,
            )
        except Late:
            raise HostError(
                Status.TIMEOUT, f"the probe did not finish within {host.command_timeout:g} s"
            ) from None
        except OSError as error:
            raise HostError(Status.ERROR, f"cannot start sh: {error.strerror}") from error
        return finished.output or finished.errors
