"""Where templates, assets and our own command are: in a checkout, or in a wheel."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

PROGRAM = "gpumon-static"
_PACKAGE = Path(__file__).parent


def find(name: str) -> Path:
    """Beside the package in a checkout, inside it in a wheel."""
    inside = _PACKAGE / name
    return inside if inside.exists() else _PACKAGE.parent / name


def own_program() -> Path:
    """The command as cron can find it, whose PATH is short."""
    beside = Path(sys.executable).with_name(PROGRAM)
    found = shutil.which(PROGRAM)
    return beside if beside.exists() or not found else Path(found)


def own_command() -> str:
    """The command as its user can type it here: its name where the shell finds it, else its path."""
    program, found = own_program(), shutil.which(PROGRAM)
    if found and Path(found).resolve() == program.resolve():
        return PROGRAM
    return shlex.quote(os.path.relpath(program) if program.is_relative_to(Path.cwd()) else str(program))
