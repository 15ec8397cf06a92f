"""This machine, without SSH."""

from __future__ import annotations

from gpumon_static.collect import probe, program
from gpumon_static.config import HostConfig
from gpumon_static.errors import HostError
from gpumon_static.model import Status


def read(host: HostConfig) -> bytes:
    try:
        finished = program.run(["sh", "-s"], probe.stdin(host.command_timeout), host.command_timeout)
    except TimeoutError:
        raise HostError(
            Status.TIMEOUT, f"the probe did not finish within {host.command_timeout:g} s"
        ) from None
    except OSError as error:
        raise HostError(Status.ERROR, f"cannot start sh: {error.strerror}") from error
    return finished.output or finished.errors
