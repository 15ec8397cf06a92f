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

DEVICE = re.compile(r"(?:GPU|MIG(?:-GPU)?)-[0-9A-Za-z][0-9A-Za-z-]{0,80}(?:/[0-9]{1,3}){0,2}")
"""A UUID as vendors write it, which may be pasted into a shell: a host could send anything in its place."""
NUMBERS = re.compile(r"\d{1,4}(?:,\d{1,4}){0,63}")
"""The same of a vendor's own number of a GPU; a card in partitions has several."""
PROFILE_LETTERS = 16
"""Of the profile of a slice."""

GB_IN_MIB = 1000**3 / 1024**2
_SOLD_GB = (1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 16, 20, 24, 32, 36, 40, 48, 64, 80, 94, 96, 128, 141, 144, 180,
            186, 192, 256, 279, 288)  # fmt: skip
_SLACK = 0.015
WITHHELD = 0.02
"""Of its memory a driver may keep this for itself, while nobody uses the card."""

_SPACES = re.compile(r"[\s\x00-\x1f\x7f]+")
_DIGITS = re.compile(r"([0-9]+)")
_NOT_SHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Controls; format characters, which turn the direction of a line or hide in it, the joiners of emoji too;
surrogates, private and unassigned ones. None of them may come from a host or a web page."""
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that show nothing: the rest of Unicode's Default_Ignorable, and an empty Braille cell."""
_MARKS = {"Mn", "Me"}
MOST_MARKS = 2
"""Marks on one letter: the languages of today need no more, and a stack of them covers other lines."""


def one_line(text: str | None, longest: int = LONGEST) -> str | None:
    """All white space as single spaces, what `plain` does not show as U+FFFD; None if empty."""
    if text is None:
        return None
    # Most texts are fine as they are, and there are many.
    is_short = len(text) <= longest and text.isprintable()
    if is_short and "  " not in text and text == text.strip(" ") and plain(text) == text:
        return text or None
    clean = plain(_SPACES.sub(" ", text[: 8 * longest]).strip())
    if len(clean) > longest:
        clean = clean[: longest - 1] + "…"
    return clean or None


def plain(text: str) -> str:
    """The text without characters that a terminal or a browser would act upon, or would not show."""
    if text.isprintable() and text.isascii():
        return text
    shown, marks = [], 0
    for letter in text:
        kind = unicodedata.category(letter)
        marks = marks + 1 if kind in _MARKS else 0
        if kind in _NOT_SHOWN or _INVISIBLE.match(letter):
            shown.append("\ufffd")
        elif marks <= MOST_MARKS:
            shown.append(letter)
    return "".join(shown)


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


@lru_cache(maxsize=1024)
def sold_gb(total_mib: float) -> float:
    """The GB that a card is sold with: the size on the market that lies between its GiB and its GB.

    An A100 of 81920 MiB is sold with 80 (GiB), an L40S of 46068 MiB with 48 (GB, less what ECC takes). What
    is no size of the market is in GiB. assets/amounts.js has the same rule; tests/survey/test_amounts.py
    holds both to one answer.
    """
    least, most = total_mib / 1024 * (1 - _SLACK), total_mib / GB_IN_MIB * (1 + _SLACK)
    return next((size for size in _SOLD_GB if least <= size <= most), total_mib / 1024)


def in_gb(mib: float, total_mib: float | None) -> float:
    """In the GB of the card that it is a part of; without one, a GB is 1024 MiB, as RAM has them."""
    return mib / total_mib * sold_gb(total_mib) if total_mib else mib / 1024


def gigabytes(mib: float | None, total_mib: float | None = None) -> str:
    """0.4, 23, 80: one decimal below ten."""
    if mib is None:
        return DASH
    amount = in_gb(mib, total_mib)
    if amount < 0.05:
        return "0"
    return f"{amount:.1f}" if round(amount, 1) < 10 else f"{amount:.0f}"


def has_free_gb(free_mib: float | None, total_mib: float | None, wanted_gb: float) -> bool:
    """Whether a card has so many GB to use; memory that is not known is not promised."""
    if not wanted_gb:
        return True
    if free_mib is None or not total_mib:
        return False
    return in_gb(free_mib, total_mib) + WITHHELD * sold_gb(total_mib) >= wanted_gb
