"""Single values as hosts print them, `"97 %"` or `"[N/A]"`, to numbers and texts, or None."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice

from gpumon_static.text import one_line

UNKNOWN_WORDS = {
    "",
    "-",
    "err!",
    "n/a",
    "gpu has fallen off the bus",
    "gpu is lost",
    "gpu requires reset",
    "in use by another client",
    "insufficient permissions",
    "not available",
    "no data",
    "not applicable",
    "not found",
    "not supported",
    "requested functionality has been deprecated",
    "unknown",
    "unknown error",
}

SHORT = 100
"""Characters. Nothing longer is a number with its unit. Short values are the same on many GPUs: read once."""

_NUMBER = re.compile(r"^([+-]?\d{1,30}(?:\.\d+)?)\s*([A-Za-z%°]*)$")
_LINES = re.compile(r"[^\n]+")
# nvidia-smi's MB, of old drivers, are MiB.
_MIB_PER = {
    "b": 2**-20, "byte": 2**-20, "bytes": 2**-20,
    "k": 2**-10, "kb": 2**-10, "kib": 2**-10,
    "": 1, "m": 1, "mb": 1, "mib": 1,
    "g": 2**10, "gb": 2**10, "gib": 2**10,
    "t": 2**20, "tb": 2**20, "tib": 2**20,
}  # fmt: skip
_MOST_MIB = 2.0**40
_WATTS_PER = {"": 1, "w": 1, "mw": 1e-3, "kw": 1e3}


def known(text: str | None) -> str | None:
    """The text, or None where it is one of nvidia-smi's many texts for unknown."""
    if text is None:
        return None
    return _known(text) if len(text) > SHORT else _known_short(text)


def _known(text: str) -> str | None:
    line = one_line(text)
    if line is None or line.strip("[]").lower() in UNKNOWN_WORDS:
        return None
    return line


_known_short = lru_cache(maxsize=4096)(_known)


def number(text: str | None) -> float | None:
    """`"97 %"`, `"61 C"`, `"2"` to a number; anything else is not known."""
    found = _quantity(text)
    return found[0] if found else None


def whole(text: str | None) -> int | None:
    value = number(text)
    return int(value) if value is not None and value == int(value) else None


def mib(text: str | None) -> float | None:
    """`"10240 MiB"`, `"10 GiB"`. A count of bytes that stands for "not available" is not known."""
    value = _scaled(text, _MIB_PER)
    return value if value is not None and 0 <= value < _MOST_MIB else None


def watts(text: str | None) -> float | None:
    """`"61.20 W"`, `"61200 mW"`."""
    return _scaled(text, _WATTS_PER)


def _scaled(text: str | None, factors: Mapping[str, float]) -> float | None:
    """The factor of a unit; an unknown unit counts as the usual one."""
    found = _quantity(text)
    return found[0] * factors.get(found[1].lower(), 1) if found else None


def lines(text: str, most: int) -> Iterator[str]:
    """The lines that are not empty, one by one: a list of all could be a hundred times the text.

    A line ends at a newline and nowhere else: names of processes, cgroups and jobs may have any other letter.
    """
    found = (match[0].removesuffix("\r") for match in islice(_LINES.finditer(text), most))
    return (line for line in found if line)


def _quantity(text: str | None) -> tuple[float, str] | None:
    return _quantity_of(text) if text and len(text) <= SHORT else None


@lru_cache(maxsize=4096)
def _quantity_of(text: str) -> tuple[float, str] | None:
    match = _NUMBER.match(text.strip().strip("[]").strip())
    return (float(match[1]), match[2]) if match else None
