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
        return "".join(f"{line}\n" for line in _lines(file, 0))
    except (FileNotFoundError, PermissionError):
        return ""


def _lines(file: Path, depth: int) -> Iterator[str]:
    block = "Host *"
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        setting = _SETTING.match(line)
        keyword = setting[1].lower() if setting else ""
        if setting and keyword == "include" and depth < MOST_DEPTH:
            for included in _included(setting[2], file):
                yield from _lines(included, depth + 1)
            # The file's last block ends with the file.
            yield block
            continue
        if keyword in ("host", "match"):
            block = line
        yield line


def _included(patterns: str, file: Path) -> Iterator[Path]:
    for pattern in shlex.split(patterns):
        # As ssh has it for a user's file: relative to ~/.ssh, which is where that file is.
        absolute = file.parent / Path(pattern).expanduser()
        found = sorted(absolute.parent.glob(absolute.name))
        yield from (included for included in found if included.is_file())
