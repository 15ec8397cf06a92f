"""What is found today and fixed elsewhere: the one place with a lower bar. To be emptied, then deleted."""

from __future__ import annotations

OPEN: tuple[tuple[str, str, str], ...] = (
    ("answer", "gate", " letters"),
    ("answer", "gate", " has ['"),
    ("answer", "gate", " is out of range"),
    ("answer", "gate", "OverflowError: int too large to convert to float"),
    ("answer", "parsers", "ValueError: Exceeds the limit"),
    ("answer", "parsers", "OverflowError: cannot convert float infinity to integer"),
    ("csv", "gate", "the text of the error has no bounds"),
    ("csv", "gate", "ValueError: Exceeds the limit"),
    ("events", "trust", "ValueError: badly formed hexadecimal UUID string"),
    ("events", "trust", "has no attribute 'replace'"),
    ("events", "trust", "what was saved is not what is loaded"),
    ("events", "trust", "TypeError: "),
    ("events", "trust", "RecursionError: "),
    ("history", "history", "KeyError: "),
    ("history", "history", "TypeError: "),
    ("history", "history", "ValueError: "),
    ("history", "history", "OverflowError: "),
    ("history", "history", "history: unexpected "),
)
"""Kind, the area that fixes it, and words of the failure: the exception's name, a colon and its message."""


def area_of(kind: str, failure: str) -> str | None:
    """Who fixes this failure; None: it is a new one."""
    return next((area for one, area, words in OPEN if one == kind and words in failure), None)
