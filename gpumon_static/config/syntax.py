"""The text of config.ini to plain tables: TOML, or the bare `key = value` of older monitors.

    [common]
    user = yourusername
    hosts = host1.domain.tld,host2.domain.tld

is not TOML. Where a file does not parse, each bare value is put in quotes, line by line (so that the
line numbers of what is still wrong stay true), and the file is read once more.
"""

from __future__ import annotations

import re
from typing import Any

import tomli

from gpumon_static.text import clip

_ASSIGNMENT = re.compile(r"\s*([A-Za-z0-9_-]+)\s*[=:](.*)", re.DOTALL)
_INLINE_COMMENT = re.compile(r"\s[#;]")
_HEADER = re.compile(r"\s*\[([^\[\]]*)\]")


class TooMuch(ValueError):
    """Raised where a number has too many digits or a value is nested too deeply; the text has the place."""


def parse(text: str) -> dict[str, Any]:
    """Raises `tomli.TOMLDecodeError`, whose line and column are those of the file, or `TooMuch`."""
    try:
        return _loaded(text)
    except tomli.TOMLDecodeError:
        return _loaded(quote_bare_values(text))


def _loaded(text: str) -> dict[str, Any]:
    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        what = "is nested too deeply" if isinstance(error, RecursionError) else "has too many digits"
        raise TooMuch(f"{_place(text, type(error))}: {what}") from error


def _place(text: str, kind: type[Exception]) -> str:
    """The line, and the key where it has one, at which tomli fails like this: it reports neither."""
    lines = text.split("\n")
    good, bad = 0, len(lines)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            tomli.loads("\n".join(lines[:middle]))
        except tomli.TOMLDecodeError:
            good = middle
        except kind:
            bad = middle
        else:
            good = middle
    assignment = _ASSIGNMENT.match(lines[bad - 1])
    if not assignment:
        return f"line {bad}"
    headers = [found[1] for found in map(_HEADER.match, lines[:bad]) if found]
    return f"{clip('.'.join([*headers[-1:], assignment[1]]), 80)}: line {bad}"


def quote_bare_values(text: str) -> str:
    return "\n".join(_quote_line(line) for line in text.splitlines()) + "\n"


def _quote_line(line: str) -> str:
    if line.lstrip().startswith(";"):
        return "#" + line
    match = _ASSIGNMENT.match(line)
    if not match:
        return line
    key, value = match[1], match[2].strip()
    # A value that opens like TOML and is not TOML is a mistake to report, not a bare value.
    if value.startswith(('"', "'", "[", "{")) or _is_toml(value):
        return line
    comment = _INLINE_COMMENT.search(value)
    bare = value[: comment.start()].rstrip() if comment else value
    bare = "" if value.startswith(("#", ";")) else bare
    escaped = bare.replace("\\", "\\\\").replace('"', '\\"')
    return f'{key} = "{escaped}"'


def _is_toml(value: str) -> bool:
    try:
        tomli.loads(f"x = {value}")
    except tomli.TOMLDecodeError:
        return False
    except (ValueError, RecursionError):
        # A mistake, which is reported when the whole file is read.
        return True
    return True
