"""Text from anywhere as one safe line, and the few formats that all outputs share."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

LONGEST = 200
DASH = "–"
"""What is not known, in texts for users."""

Say = Callable[[str], None]
"""Prints a line for the user who runs the command."""

DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9/_-]*")
"""A UUID that may be pasted into a shell: a host could send anything in its place."""
NUMBERS = re.compile(r"\d{1,4}(?:,\d{1,4}){0,63}")
"""The same of a vendor's own number of a GPU; a card in partitions has several."""
PROFILE_LETTERS = 16
"""Of the profile of a slice."""

_SPACES = re.compile(r"[\s\x00-\x1f\x7f]+")
_DIGITS = re.compile(r"([0-9]+)")
_NOT_SHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Controls; format characters, which turn the direction of a line or hide in it, the joiners of emoji too;
surrogates, private and unassigned ones. None of them may come from a host or a web page."""


def one_line(text: str | None, longest: int = LONGEST) -> str | None:
    """All white space as single spaces, what `plain` does not show as U+FFFD; None if empty."""
    if text is None:
        return None
    # Most texts are fine as they are, and there are many.
    if len(text) <= longest and text.isprintable() and "  " not in text and text == text.strip(" "):
        return text or None
    clean = plain(_SPACES.sub(" ", text[: 8 * longest]).strip())
    if len(clean) > longest:
        clean = clean[: longest - 1] + "…"
    return clean or None


def plain(text: str) -> str:
    """The text without characters that a terminal or a browser would act upon."""
    if text.isprintable():
        return text
    return "".join("\ufffd" if unicodedata.category(letter) in _NOT_SHOWN else letter for letter in text)


def clip(text: str, most: int) -> str:
    """The text, cut to so many characters."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


@lru_cache(maxsize=16384)
def natural_key(text: str) -> tuple[tuple[bool, int, str], ...]:
    """Sorts n2 before n10."""
    parts = _DIGITS.split(text.casefold())
    return tuple((not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts if part)


def split_name(host: str) -> tuple[str, str]:
    """gpu01 and .lab.example; an address stays whole."""
    first, dot, rest = host.partition(".")
    return (host, "") if ":" in host or first.isdecimal() else (first, dot + rest)
