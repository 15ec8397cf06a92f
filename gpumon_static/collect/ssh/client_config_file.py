"""The text of an ssh_config as paramiko can read it: with its `Include`s, its words split as ssh does.

    Host gpu* # the lab's boxes      paramiko reads the comment as patterns, and fails on its apostrophe
    User=alice                       a value in quotes, or with spaces before or after the equal sign
    Include conf.d/*                 paramiko does not follow it

Not supported, because paramiko does not support it: `Match localnetwork` and `tagged`, `%C`.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

MOST_DEPTH = 16
TO_THE_END = {"proxycommand", "localcommand", "remotecommand", "knownhostscommand"}
"""Their value is the rest of the line, quotes, hashes and all."""
FILES = {"userknownhostsfile", "globalknownhostsfile"}
"""Their value may be several files, and stays in quotes."""

Report = Callable[[str], None]


class BadClientConfig(ValueError):
    """What is wrong with the file."""


_SETTING = re.compile(r"[ \t]*(\w+)(?:[ \t]*=[ \t]*|[ \t]+)(.+)")
_WHITE = " \t\r\f"


def read(file: Path, report: Report = lambda _: None) -> str:
    """The text; empty for a file that does not exist or is in another user's home, as with `su` or `sudo`.

    A file that config.ini names is checked before, and reported. `report`: called with a line about each
    `Include` that was skipped. Raises `BadClientConfig`.
    """
    try:
        return "".join(f"{line}\n" for line in _lines(file, (), report))
    except (FileNotFoundError, PermissionError):
        return ""


def passed_over(file: Path) -> list[str]:
    """A line about each `Include` that cannot be read; nothing for a file that a run refuses."""
    lines: list[str] = []
    with suppress(OSError, BadClientConfig):
        read(file, lines.append)
    return lines


def _lines(file: Path, outer: tuple[str, ...], report: Report, depth: int = 0) -> Iterator[str]:
    """`outer`: the conditions, as of `Match`, of the blocks in which this file is included."""
    condition, block = outer, f"Match {' '.join(outer)}" if outer else "Host *"
    text = file.read_text(encoding="utf-8", errors="replace")
    for number, written in enumerate(text.split("\n"), start=1):
        line = written.strip(_WHITE)
        setting = _SETTING.match(line)
        if line.startswith("#") or not setting:
            yield line
            continue
        name, keyword, rest = setting[1], setting[1].lower(), setting[2]
        if keyword in TO_THE_END:
            yield f"{name} {rest}"
            continue
        words = _words(rest, f"{file}, line {number}")
        if not words and keyword != "host":
            raise BadClientConfig(f"{file}, line {number}: {name} needs a value")
        if keyword == "include" and depth < MOST_DEPTH:
            for included in _included(words, file):
                yield from _lines_of_included(included, condition, report, depth + 1)
            # The file's last block ends with the file.
            yield block
        elif keyword in ("host", "match"):
            condition = (*outer, *_condition(keyword, words))
            block = f"Match {' '.join(condition)}" if outer and condition else _block(keyword, words)
            yield block
        else:
            yield f"{name} {shlex.join(words) if keyword in FILES else ' '.join(words)}"


def _lines_of_included(file: Path, outer: tuple[str, ...], report: Report, depth: int) -> list[str]:
    """ssh would refuse everything because of one file; here the rest counts, and `check` shows the file."""
    try:
        return list(_lines(file, outer, report, depth))
    except OSError as error:
        report(f"Include {file} cannot be read: {error.strerror}; skipped")
        return []


def _words(text: str, where: str) -> list[str]:
    """The words as ssh splits them: quotes of both kinds, a few escapes, a comment at the start of a word."""
    words: list[str] = []
    place = 0
    while place < len(text):
        if text[place] in _WHITE:
            place += 1
        elif text[place] == "#":
            break
        else:
            word, place = _word(text, place, where)
            words.append(word)
    return words


def _word(text: str, place: int, where: str) -> tuple[str, int]:
    """The word that begins at this place, and the place after it."""
    letters: list[str] = []
    quote = ""
    while place < len(text) and (quote or text[place] not in _WHITE):
        letter, after = text[place], text[place + 1 : place + 2]
        if letter == "\\" and after and (after in "'\"\\" or (after == " " and not quote)):
            letters.append(after)
            place += 1
        elif letter == quote:
            quote = ""
        elif not quote and letter in "'\"":
            quote = letter
        else:
            letters.append(letter)
        place += 1
    if quote:
        raise BadClientConfig(f"{where}: a quote is not closed")
    return "".join(letters), place


def _block(keyword: str, words: list[str]) -> str:
    return (
        f"Host {shlex.join(map(_pattern, words or ['']))}"
        if keyword == "host"
        else f"Match {shlex.join(words)}"
    )


def _condition(keyword: str, words: list[str]) -> tuple[str, ...]:
    if keyword == "host":
        return (f"originalhost {shlex.quote(','.join(map(_pattern, words)))}",)
    return () if [word.lower() for word in words] == ["all"] else (shlex.join(words),)


def _pattern(word: str) -> str:
    """The pattern for paramiko: ssh has * and ? only; paramiko reads brackets as a set of letters."""
    return word.replace("[", "[[]")


def _included(patterns: list[str], file: Path) -> Iterator[Path]:
    """The files of an `Include`. pathlib would raise for a closed directory and include hidden files."""
    for pattern in patterns:
        # As ssh has it for a user's file: relative to ~/.ssh, which is where that file is.
        absolute = os.path.join(file.parent, os.path.expanduser(pattern))  # noqa: PTH111, PTH118
        found = sorted(glob.glob(absolute))  # noqa: PTH207
        yield from (Path(one) for one in found if os.path.isfile(one))  # noqa: PTH113
