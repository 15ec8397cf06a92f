"""The text of an ssh_config with its `Include`s in it, which paramiko does not follow."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

MOST_DEPTH = 16

_SETTING = re.compile(r"\s*(\w+)(?:\s*=\s*|\s+)(.+)")


def read(file: Path) -> str:
    """A file that is not there says nothing, nor does one of somebody else's home, as with `su` or `sudo`.

    A file that config.ini names is looked at before, and told of.
    """
    try:
        return "".join(f"{line}\n" for line in _lines(file, ()))
    except (FileNotFoundError, PermissionError):
        return ""


def _lines(file: Path, outer: tuple[str, ...], depth: int = 0) -> Iterator[str]:
    """`outer`: the conditions, as of `Match`, of the blocks in which this file is included."""
    condition, block = outer, f"Match {' '.join(outer)}" if outer else "Host *"
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        setting = _SETTING.match(line)
        keyword, value = (setting[1].lower(), setting[2]) if setting else ("", "")
        if keyword == "include" and depth < MOST_DEPTH:
            for included in _included(value, file):
                yield from _lines(included, condition, depth + 1)
            # The file's last block ends with the file.
            yield block
            continue
        if keyword in ("host", "match"):
            condition = (*outer, *_condition(keyword, value))
            line = block = f"Match {' '.join(condition)}" if outer and condition else line
        yield line


def _condition(keyword: str, value: str) -> tuple[str, ...]:
    if keyword == "host":
        return (f"originalhost {','.join(shlex.split(value))}",)
    return () if value.strip().lower() == "all" else (value,)


def _included(patterns: str, file: Path) -> Iterator[Path]:
    for pattern in shlex.split(patterns):
        # As ssh has it for a user's file: relative to ~/.ssh, which is where that file is.
        absolute = file.parent / Path(pattern).expanduser()
        found = sorted(absolute.parent.glob(absolute.name))
        yield from (included for included in found if included.is_file())
