"""What a check finds: a mark for each step, what was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpumon_static.system.command import Command
from gpumon_static.text import one_line

LONGEST = 2000
"""Characters, of an error of a host too."""


class Mark(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNTRIED = "untried"


@dataclass(frozen=True)
class Hint:
    """What to do next: words of ours or of the config, a command to paste, or both."""

    words: str = ""
    command: Command | None = None
    meaning: str = ""
    """What the command shows."""

    def __str__(self) -> str:
        line, who = (str(self.command), self.command.who) if self.command else ("", "")
        if who:
            # on the host, as root:
            who = f"{self.words.removesuffix(':')}, {who}:" if self.words else f"{who}:"
        message = "  ".join(filter(None, (who or self.words, line)))
        return f"{message}   {self.meaning}" if self.meaning else message


@dataclass(frozen=True)
class Finding:
    step: str
    mark: Mark
    message: str = ""
    """One line: part of it may be what a host or a program printed."""
    next: tuple[Hint, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", one_line(self.message, LONGEST) or "")

    def as_json(self) -> dict[str, Any]:
        given = ((hint.words, hint.command) for hint in self.next)
        commands = [{"words": words, "as": c.user, "line": str(c)} for words, c in given if c]
        # Programs read the message by the name that it had in 0.1.0.
        return {
            "step": self.step,
            "mark": self.mark,
            "told": self.message,
            "next": list(map(str, self.next)),
            "commands": commands,
        }


def worst(findings: Sequence[Finding]) -> Mark:
    marks = {finding.mark for finding in findings}
    return next((mark for mark in (Mark.FAILED, Mark.WARNING) if mark in marks), Mark.OK)
