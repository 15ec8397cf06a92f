"""The errors that users may see, and the exit status of each.

GpumonError           1   could not do it; nothing was changed
├── ConfigError       2   config.ini is wrong; every problem is listed
├── UsageError        2   the command line is wrong
└── AlreadyRunning   75   another fetch holds the lock

HostError                 one host could not be read: becomes that host's row, never ends a run
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpumon_static.model import Status


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


class HostError(Exception):
    """Why one host could not be read: a status of the contract and one clear line.

    `fix`: the command that fixes it, where there is one. `jump`: the jump host that failed, where it was one.
    `vendor`: whose GPUs could not be read, where it came so far.
    """

    def __init__(
        self,
        status: Status,
        told: str,
        *,
        fix: str | None = None,
        jump: str | None = None,
        vendor: str | None = None,
    ) -> None:
        self.status = status
        self.told = told
        self.fix = fix
        self.jump = jump
        self.vendor = vendor
        super().__init__(f"{status}: {self.reason}")

    @property
    def reason(self) -> str:
        """The whole line."""
        return f"{self.told}, then: {self.fix}" if self.fix else self.told
