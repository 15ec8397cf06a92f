"""What a parser costs as its input grows: 8 times the input is to be at most some 12 times the work.

Work is CPU time of this thread, the least of several tries. Nothing here depends on how fast the machine is: the
same parser is compared with itself, and what is too short to measure counts as nothing.
"""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from gpumon_static.errors import HostError

Shape = Callable[[int], str]
"""A size to a text of about that many characters."""

TIMES = 8
MOST_TIMES_THE_WORK = 12
"""Eight, and what caches and allocators add; a pattern that is not linear takes 64."""
NOISE_S = 0.002
MEMORY_PASSES = 10
"""A large text is out of the caches: so many passes over it are no work of the parser's."""
FILL = (" ", "0", "<")


def costs_too_much(parse: Callable[[str], object], shape: Shape, *sizes: int) -> str | None:
    """Where the work grows faster than the input: by how much. Each size is `TIMES` the one before."""
    for size in sizes[:-1]:
        text = shape(TIMES * size)
        # A neighbour on the machine may slow one try down, and does not slow down all of them.
        for tries in (1, 2, 4, 8):
            small, large = work(parse, shape(size), tries), work(parse, text, tries)
            spare = NOISE_S + MEMORY_PASSES * work(_copied, text, tries)
            is_much = large > MOST_TIMES_THE_WORK * small + spare
            is_sure = tries > 1 and large > 3 * MOST_TIMES_THE_WORK * small + spare
            if not is_much or is_sure:
                break
        if is_much:
            return f"{large / small:.0f} times the work from {size} to {TIMES * size} characters"
    return None


def _copied(text: str) -> object:
    return text.encode().decode()


def work(parse: Callable[[str], object], text: str, tries: int) -> float:
    """Seconds; what one answer leaves behind is not collected at the cost of the next."""
    seconds = []
    gc.disable()
    try:
        for _ in range(tries):
            started = time.thread_time()
            with suppress(HostError):
                parse(text)
            seconds.append(time.thread_time() - started)
    finally:
        gc.enable()
    return max(min(seconds), 1e-6)


def repeated(part: str, head: str = "", tail: str = "") -> Shape:
    return lambda size: head + part * max(1, size // len(part)) + tail


def numbered(form: str, head: str = "", tail: str = "") -> Shape:
    """The same line with another number each time: what is kept by its number is kept for each."""

    def shape(size: int) -> str:
        return head + "".join(form.format(n) for n in range(max(1, size // len(form)))) + tail

    return shape


def near_misses(seed: str) -> Iterator[tuple[str, Shape]]:
    """A good text that breaks off, repeats itself or runs on without end, at each of its words."""
    for cut in sorted({place.start() for place in re.finditer(r"\b|(?<=\W)", seed)}):
        head, tail = seed[:cut], seed[cut:]
        if head:
            yield f"{head!r} again and again", repeated(head)
            yield f"lines of {head!r}", repeated(head + "\n")
        if tail:
            yield f"{tail!r} again and again", repeated(tail)
            yield f"{head!r} + lines of {tail!r}", repeated(tail + "\n", head)
        if word := re.match(r"\w+\W?|\W", tail):
            yield f"{head!r} + {word[0]!r} again and again", repeated(word[0], head)
            yield f"{head!r} + {word[0]!r} again and again, and the rest", repeated(word[0], head, tail)
        for fill in FILL:
            yield f"{head!r} + {fill!r} without end", repeated(fill, head)
            yield f"{head!r} + {fill!r} without end, and the rest", repeated(fill, head, tail)
