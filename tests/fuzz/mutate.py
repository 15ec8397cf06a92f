"""Bytes in, other bytes out. Everything depends on the given `Random` only."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

MOST_BYTES = 64 * 1024
MOST_STEPS = 6

NUMBERS = (
    "0", "-1", "-300", "1e308", "1e309", "nan", "inf", "0x10", "99999999999999999999", "9" * 320, "9" * 4400,
    "1.5", "2147483648", "9223372036854775808", "N/A", "[Unknown Error]", "",
)  # fmt: skip
TOKENS = tuple(
    token.encode("utf-8", "surrogatepass")
    for token in (
        "\0", "\n", "\r\n", "\t", ",", ";", ":", "=", "#", "'", '"', "\\", "[", "]", "{", "}", "<", ">", "&", "&amp;",
        "</gpu>", "<gpu>", "<!DOCTYPE x>", "<!--", "<![CDATA[", "@@gpumon ", "@@gpumon ab end\n", "\u202e", "\u2028",
        "\u200b", "\ufeff", "\x1b[31m", "\x85", "é", "🔥", "\ud800", "=cmd|' /C calc'!A0", "[[", "]]", "''' ", '"""',
        "gpu[1-9999999]", "a[1-99]b[1-99]", "true", "null", "{}", "[]", "1979-05-27", "$(id)", "../../etc/passwd",
        "x" * 300, "[" * 500, "9" * 5000, " " * 3000,
    )
)  # fmt: skip

Step = Callable[[bytes, Random, Sequence[bytes]], bytes]


def mutated(seed: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    """A few random steps away from the seed; `others`: what a part may be taken from."""
    content = seed
    for _ in range(random.randint(1, MOST_STEPS)):
        content = random.choice(STEPS)(content, random, others)[:MOST_BYTES]
    return content


def _span(content: bytes, random: Random, most: int = 200) -> tuple[int, int]:
    start = random.randint(0, len(content))
    return start, min(len(content), start + random.randint(0, most))


def _flip(content: bytes, random: Random, _: Sequence[bytes]) -> bytes:
    changed = bytearray(content)
    for _step in range(random.randint(1, 8)):
        if changed:
            changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _delete(content: bytes, random: Random, _: Sequence[bytes]) -> bytes:
    start, end = _span(content, random)
    return content[:start] + content[end:]


def _double(content: bytes, random: Random, _: Sequence[bytes]) -> bytes:
    start, end = _span(content, random)
    return content[:end] + content[start:end] * random.choice((1, 2, 50)) + content[end:]


def _insert(content: bytes, random: Random, _: Sequence[bytes]) -> bytes:
    place = random.randint(0, len(content))
    return content[:place] + random.choice(TOKENS) * random.choice((1, 1, 1, 20)) + content[place:]


def _cut(content: bytes, random: Random, _: Sequence[bytes]) -> bytes:
    return content[: random.randint(0, len(content))]


def _number(content: bytes, random: Random, _: Sequence[bytes]) -> bytes:
    found = [*re.finditer(rb"[0-9]+(?:\.[0-9]+)?", content)]
    if not found:
        return content
    one = random.choice(found)
    return content[: one.start()] + random.choice(NUMBERS).encode() + content[one.end() :]


def _word(content: bytes, random: Random, _: Sequence[bytes]) -> bytes:
    """One word in the place of another, or a token."""
    found = [*re.finditer(rb"\w+", content)]
    if not found:
        return content
    one, other = random.choice(found), random.choice((random.choice(found)[0], random.choice(TOKENS)))
    return content[: one.start()] + other + content[one.end() :]


def _lines(content: bytes, random: Random, _: Sequence[bytes]) -> bytes:
    """A line dropped, doubled or moved."""
    lines = content.split(b"\n")
    line = lines.pop(random.randrange(len(lines)))
    for _time in range(random.choice((0, 1, 1, 2, 30))):
        lines.insert(random.randint(0, len(lines)), line)
    return b"\n".join(lines)


def _splice(content: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    other = random.choice(others)
    start, end = _span(other, random, 2000)
    place = random.randint(0, len(content))
    return content[:place] + other[start:end] + content[random.choice((place, len(content))) :]


STEPS: tuple[Step, ...] = (_flip, _delete, _double, _insert, _cut, _number, _number, _word, _lines, _splice)
