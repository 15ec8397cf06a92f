"""`show.txt` and `show.ansi`: the table of `show` for curl, on the privacy tier of the page.

Rich makes the lines; their colours are written here, because its console takes longer than all of the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from rich.color import ColorSystem
from rich.style import Style
from rich.text import Text

from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.survey import Survey
from gpumon_static.terminal.rows import Look
from gpumon_static.terminal.show import Choice, table
from gpumon_static.times import utc_text

SHOW_FILES = ("show.txt", "show.ansi")


def show_files(survey: Survey) -> dict[str, str]:
    """File name to text: plain and in colour, with the host in every line, for grep."""
    plain, coloured = [], []
    for line in _lines(survey):
        plain.append(f"{line.plain}\n")
        coloured.append(f"{_coloured(line)}\n")
    return dict(zip(SHOW_FILES, ("".join(plain), "".join(coloured)), strict=True))


def _lines(survey: Survey) -> Iterator[Text]:
    """Without how long ago that is, which nobody knows who reads a file."""
    look = Look(every_node=True, names=survey.tier is not Tier.COUNTS)
    lines = table(survey, Choice(), look, None)
    line = next(lines)
    for following in lines:
        yield line
        line = following
    when = utc_text(survey.latest) if survey.latest else "none yet"
    yield Text(f"Data of {when}", "dim")


def _coloured(line: Text) -> str:
    """Spans of these lines follow each other."""
    text, done, parts = line.plain, 0, []
    for span in line.spans:
        parts += [text[done : span.start], _painted(text[span.start : span.end], str(span.style))]
        done = span.end
    return _painted("".join([*parts, text[done:]]), str(line.style))


def _painted(text: str, style: str) -> str:
    before, after = _codes(style)
    return f"{before}{text}{after}" if text else ""


@cache
def _codes(style: str) -> tuple[str, str]:
    """What starts and ends a style on a terminal with 16 colours."""
    before, _, after = Style.parse(style).render("|", color_system=ColorSystem.STANDARD).partition("|")
    return before, after
