"""The text of config.ini to plain tables: TOML, or the bare `key = value` of older monitors.

    [common]
    user = yourusername
    hosts = host1.domain.tld,host2.domain.tld

is not TOML. Where a file does not parse, each bare value is put in quotes, line by line (so that the
line numbers of what is still wrong stay true), and the file is read once more. An indented line goes on with
the value above it, as in

    hosts = host1.domain.tld,
            host2.domain.tld
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import tomli

from gpumon_static.text import clip

_ASSIGNMENT = re.compile(r"\s*([A-Za-z0-9_-]+)\s*[=:](.*)", re.DOTALL)
_INLINE_COMMENT = re.compile(r"\s[#;]")
_INDENTED_KEY = re.compile(r"\s+[A-Za-z0-9_-]+\s*=")
_HEADER = re.compile(r"\s*\[([^\[\]]*)\]")


class TooMuch(ValueError):
    """Raised where a number has too many digits or a value is nested too deeply; the text has the place."""


def parse(text: str) -> dict[str, Any]:
    """Raises `tomli.TOMLDecodeError`, whose line and column are those of the file, or `TooMuch`."""
    try:
        return _loaded(text)
    except tomli.TOMLDecodeError:
        return _loaded(quote_bare_values(text))


def section_alone(text: str, name: str) -> dict[str, Any]:
    """The tables of a file that does not parse, without all but one section; {} where it has none.

    Of a section that does not parse either, the lines that do. Raises as `parse` where there is none.
    """
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if _HEADER.match(line)]
    for start, end in pairwise([*starts, len(lines)]):
        if (header := _HEADER.match(lines[start])) and header[1].strip() == name:
            # Behind as many lines as in the file, so that the numbers in an error stay true.
            try:
                return parse("\n" * start + "\n".join(lines[start:end]))
            except (tomli.TOMLDecodeError, TooMuch):
                if found := _lines_alone(lines[start + 1 : end]):
                    return {name: found}
                raise
    return {}


def _lines_alone(lines: Iterable[str]) -> dict[str, Any]:
    """The keys of those lines that are right by themselves."""
    found: dict[str, Any] = {}
    for line in lines:
        with suppress(tomli.TOMLDecodeError, TooMuch):
            found |= parse(line)
    return found


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
    lines = deque(text.splitlines())
    quoted: list[str] = []
    while lines:
        line = lines.popleft()
        match = _ASSIGNMENT.match(line)
        if line.lstrip().startswith(";"):
            quoted.append("#" + line)
        elif not match or not _is_bare(match[2].strip()):
            quoted.append(line)
        else:
            values = [match[2]]
            while lines and _continues(line, lines[0]):
                values.append(lines.popleft())
            value = "\n".join(filter(None, map(_without_comment, values)))
            # As many lines as before, so that the numbers of those after it stay true.
            quoted += [f"{match[1]} = {json.dumps(value, ensure_ascii=False)}", *([""] * (len(values) - 1))]
    return "\n".join(quoted) + "\n"


def _is_bare(value: str) -> bool:
    """A value that opens like TOML and is not TOML is a mistake to report, not a bare value."""
    return not value.startswith(('"', "'", "[", "{")) and not _is_toml(value)


def _continues(first: str, line: str) -> bool:
    """Whether a line is more of the value above it: it is indented further, and no key with a value."""
    return bool(line.strip()) and _indent(line) > _indent(first) and not _INDENTED_KEY.match(line)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _without_comment(text: str) -> str:
    value = text.strip()
    comment = _INLINE_COMMENT.search(value)
    bare = value[: comment.start()].rstrip() if comment else value
    return "" if value.startswith(("#", ";")) else bare


def _is_toml(value: str) -> bool:
    try:
        tomli.loads(f"x = {value}")
    except tomli.TOMLDecodeError:
        return False
    except (ValueError, RecursionError):
        # A mistake, which is reported when the whole file is read.
        return True
    return True
