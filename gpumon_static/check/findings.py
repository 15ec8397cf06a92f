"""What a check finds: a mark for each step, what it was told, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Mark(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNTRIED = "untried"


@dataclass(frozen=True)
class Finding:
    step: str
    mark: Mark
    told: str = ""
    next: tuple[str, ...] = ()
    """What to do about it: command lines, or a sentence."""


def worst(findings: Sequence[Finding]) -> Mark:
    marks = {finding.mark for finding in findings}
    return next((mark for mark in (Mark.FAILED, Mark.WARNING) if mark in marks), Mark.OK)
