"""Passphrases and passwords, as commands of config.ini tell them. Nothing of them is ever shown.

Not even the command is: `echo hunter2` is one too.
"""

from __future__ import annotations

import subprocess

from gpumon_static.collect.once import Once
from gpumon_static.collect.target import Command

SECONDS = 30


class NoSecret(ValueError):
    """Why a command gave nothing, in words without a secret."""


class Secrets:
    def __init__(self) -> None:
        self.told_by = Once(_first_line)
        """Each command is run once in a run."""


def _first_line(command: Command) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoSecret(f"did not end within {SECONDS} s") from None
    except OSError as error:
        raise NoSecret(f"could not be started: {error.strerror}") from None
    if done.returncode:
        raise NoSecret(f"failed with exit status {done.returncode}; run it by hand to see why")
    lines = done.stdout.decode("utf-8", errors="surrogateescape").splitlines()
    if not lines or not lines[0]:
        raise NoSecret("printed nothing")
    return lines[0]
