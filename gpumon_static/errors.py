"""The errors that users may see, and the exit status of each.

GpumonError           1   could not do it; nothing was changed
├── ConfigError       2   config.ini is wrong; every problem is listed
├── UsageError        2   the command line is wrong
└── AlreadyRunning   75   another fetch holds the lock

HostError                 one host could not be read: becomes that host's row, never ends a run
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from gpumon_static.model import Status
    from gpumon_static.system.command import Command

ON_STOP: list[Callable[[], None]] = []
"""Called when a signal ends the command, before it raises: a library may have work in threads to stop."""
THEN = ", then"
"""Before the command in an error: `, then: COMMAND`, or `, then as gpumon: COMMAND`."""


class GpumonError(Exception):
    """An error whose text is shown to the user: a sentence, without a traceback."""

    exit_code = 1


class ConfigError(GpumonError):
    """A wrong config. `problems` has all; the text lists the first ones, each cut to a readable length."""

    exit_code = 2
    MOST_SHOWN = 20
    MOST_LETTERS = 400

    def __init__(self, path: object, problems: list[str]) -> None:
        self.problems = problems
        shown = [p if len(p) <= self.MOST_LETTERS else f"{p[: self.MOST_LETTERS - 1]}…" for p in problems]
        shown, more = shown[: self.MOST_SHOWN], len(problems) - self.MOST_SHOWN
        if len(problems) == 1:
            text = f"{path}: {shown[0]}"
        else:
            text = f"{path}: {len(problems):,} problems\n" + "\n".join(f"  - {p}" for p in shown)
            text += f"\n  and {more:,} more" if more > 0 else ""
        super().__init__(text)


class UsageError(GpumonError):
    exit_code = 2


class AlreadyRunning(GpumonError):
    exit_code = 75


class Cause(Enum):
    """What a status leaves open, and other advice follows from."""

    NO_LOGIN_SHELL = auto()
    """The account's shell is nologin."""
    NO_COMMON_ALGORITHM = auto()
    """paramiko and the host's sshd have none."""


@dataclass(frozen=True)
class Refusal:
    """A login that was refused."""

    user: str
    offers: frozenset[str] = frozenset()
    """The ways to log in that the host offers, by their names in RFC 4252; empty: not known."""
    key: str = ""
    """The public key that was tried, as a line of authorized_keys has it; empty: there is none."""
    key_file: Path | None = None
    """The private key, where it is a file."""
    has_certificate: bool = False


class HostError(Exception):
    """Why one host could not be read: a status of the contract and one clear line.

    `fix`: the command that fixes it, where there is one. `jump`: the jump host that failed, where it was one.
    `vendor`: whose GPUs could not be read, if known. `refusal`: of a login.
    """

    def __init__(
        self,
        status: Status,
        message: str,
        *,
        fix: Command | None = None,
        jump: str | None = None,
        vendor: str | None = None,
        cause: Cause | None = None,
        refusal: Refusal | None = None,
    ) -> None:
        self.status = status
        # Part of it may be a text of the host, which has no command to offer.
        self.message = message.replace(THEN, ",")
        self.fix = fix
        self.jump = jump
        self.vendor = vendor
        self.cause = cause
        self.refusal = refusal
        super().__init__(f"{status}: {self.reason}")

    @property
    def reason(self) -> str:
        """The whole line."""
        if not self.fix:
            return self.message
        return f"{self.message}{THEN}{f' {self.fix.who}' if self.fix.user else ''}: {self.fix}"
