"""Passphrases and passwords, as printed by commands of config.ini. They are never shown.

Nor are the commands: `echo hunter2` contains a secret too.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Protocol

from gpumon_static.collect.once import Once
from gpumon_static.collect.ssh.target import SecretCommand
from gpumon_static.system.programs import Late, Programs

SECONDS = 30
MOST_BYTES = 64 * 1024


class NoSecret(ValueError):
    """Why a command gave nothing, in words without a secret."""


class SecretSource(Protocol):
    @property
    def output_of(self) -> Callable[[SecretCommand], str]:
        """The first line that a command prints; raises `NoSecret`."""


class Secrets:
    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self.output_of = Once(self._first_line)
        """Each command is run once in a run."""

    def _first_line(self, command: SecretCommand) -> str:
        try:
            done = self._programs.run(
                list(command), seconds=SECONDS, enough=_too_long, stderr=subprocess.DEVNULL
            )
        except Late:
            raise NoSecret(f"did not end within {SECONDS} s") from None
        except OSError as error:
            raise NoSecret(f"could not be started: {error.strerror}") from None
        if done.exit_status:
            raise NoSecret(f"failed with exit status {done.exit_status}; run it by hand to see why")
        lines = done.output.decode("utf-8", errors="surrogateescape").splitlines()
        if not lines or not lines[0]:
            raise NoSecret("printed nothing")
        return lines[0]


def _too_long(output: bytearray) -> bool:
    return len(output) > MOST_BYTES
