"""What a host says, made safe to keep: single lines, bounded, without control characters."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 200

UNKNOWN_WORDS = {
    "",
    "-",
    "err!",
    "n/a",
    "gpu is lost",
    "gpu requires reset",
    "insufficient permissions",
    "not available",
    "not found",
    "not supported",
    "requested functionality has been deprecated",
    "unknown",
    "unknown error",
}

_NUMBER = re.compile(r"^([+-]?\d+(?:\.\d+)?)\s*(?:[A-Za-z%°]+)?$")
_LINE_BREAKS = re.compile(r"[\s\x00-\x1f\x7f]+")


def one_line(text: str | None, longest: int = LONGEST) -> str | None:
    """All white space as single spaces, control and unprintable characters as U+FFFD; None if empty."""
    if text is None:
        return None
    spaced = _LINE_BREAKS.sub(" ", text[: 8 * longest]).strip()
    clean = spaced if spaced.isascii() else "".join(map(_printable, spaced))
    if len(clean) > longest:
        clean = clean[: longest - 1] + "…"
    return clean or None


def _printable(character: str) -> str:
    return "\ufffd" if unicodedata.category(character) in ("Cc", "Cs", "Cn") else character


def known(text: str | None) -> str | None:
    """The text, or None where it is one of nvidia-smi's many ways to say that it does not know."""
    line = one_line(text)
    if line is None or line.strip("[]").lower() in UNKNOWN_WORDS:
        return None
    return line


def number(text: str | None) -> float | None:
    """`"10240 MiB"`, `"97 %"`, `"61.20 W"` to a number; anything else is not known."""
    match = _NUMBER.match(text.strip()) if text else None
    return float(match[1]) if match else None
