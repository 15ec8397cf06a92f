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

_ASSIGNMENT = re.compile(r"^\s*([A-Za-z0-9_-]+)\s*[=:]\s*(.*?)\s*$")
_INLINE_COMMENT = re.compile(r"\s+[#;].*$")


def parse(text: str) -> dict[str, Any]:
    """Raises `tomli.TOMLDecodeError`, whose line and column are those of the file."""
    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError:
        return tomli.loads(quote_bare_values(text))


def quote_bare_values(text: str) -> str:
    return "\n".join(_quote_line(line) for line in text.splitlines()) + "\n"


def _quote_line(line: str) -> str:
    if line.lstrip().startswith(";"):
        return "#" + line
    match = _ASSIGNMENT.match(line)
    if not match:
        return line
    key, value = match.groups()
    # A value that opens like TOML and is not TOML is a mistake to report, not a bare value.
    if value.startswith(('"', "'", "[", "{")) or _is_toml(value):
        return line
    bare = _INLINE_COMMENT.sub("", value) if not value.startswith(("#", ";")) else ""
    escaped = bare.replace("\\", "\\\\").replace('"', '\\"')
    return f'{key} = "{escaped}"'


def _is_toml(value: str) -> bool:
    try:
        tomli.loads(f"x = {value}")
    except tomli.TOMLDecodeError:
        return False
    return True
