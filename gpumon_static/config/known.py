"""`ignore` of `[hosts.NAME]`: faults that an admin knows of.

ignore = ["ecc-errors until 2026-12-01", "lost of GPU 3"]
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from gpumon_static.config.checks import Wrong, day, rule_names, shown, texts

_FORM = re.compile(r"(?P<rule>[a-z-]+)(?: of GPU (?P<gpu>\d{1,4}))?(?: until (?P<until>\S+))?", re.IGNORECASE)


@dataclass(frozen=True)
class Known:
    rule: str
    gpu: int | None = None
    """Its index; None: any GPU, or the host as a whole."""
    until: date | None = None
    """The first day on which it counts again."""

    @property
    def words(self) -> str:
        return f"until {self.until}" if self.until else ""


def known_faults(value: Any, base: Path) -> tuple[Known, ...]:
    return tuple(_known(text, base) for text in texts(value, base))


def _known(text: str, base: Path) -> Known:
    found = _FORM.fullmatch(text.strip())
    if not found:
        raise Wrong(f"must be such as 'ecc-errors of GPU 3 until 2026-12-01', not {shown(text)}")
    (rule,) = rule_names([found["rule"]], base)
    gpu = int(found["gpu"]) if found["gpu"] else None
    return Known(rule, gpu, day(found["until"], base) if found["until"] else None)
