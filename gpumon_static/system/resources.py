"""Where templates, assets and our own command are: in a checkout, or in a wheel."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from gpumon_static.system.command import Command

PROGRAM = "gpumon-static"
_PACKAGE = Path(__file__).parents[1]


def find(name: str) -> Path:
    """Beside the package in a checkout, inside it in a wheel."""
    inside = _PACKAGE / name
    return inside if inside.exists() else _PACKAGE.parent / name


def own_program() -> Path:
    """The command as cron can find it, whose PATH is short."""
    beside = Path(sys.executable).with_name(PROGRAM)
    found = shutil.which(PROGRAM)
    return beside if beside.exists() or not found else Path(found)


def own_command(*words: object) -> Command:
    """The command as anybody can paste it, in any directory: our program by its path."""
    program = own_program()
    if program.exists():
        return Command.of(program.absolute(), *words)
    return Command.of(sys.executable, "-m", _PACKAGE.name, *words)
