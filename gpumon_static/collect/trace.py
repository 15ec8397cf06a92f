"""The steps on the way to a host's readings. `check` records them; `fetch` does not."""

from __future__ import annotations

from enum import StrEnum


class Step(StrEnum):
    """In the order in which they are done."""

    NAME = "name"
    PORT = "port"
    HOST_KEY = "host key"
    LOGIN = "login"
    SHELL = "shell"
    GPUS = "nvidia-smi"
    """Of any vendor. `check --json` has this name since release 0.1.0; tables have another."""
    PS = "ps"
    CLOCK = "clock"


class Trace:
    """A trace that records nothing."""

    def done(self, step: Step, message: str) -> None:
        """`message`: what was found, in a few words."""

    def received(self, output: bytearray) -> None:
        """Each time that more of the probe's output has come."""


NO_TRACE = Trace()
