"""`show.txt` and `show.ansi`: the table of `show` for curl, on the privacy tier of the page.

Colours are written here, because rich's console takes longer than all of the page.
"""

from __future__ import annotations

from functools import cache

from rich.color import ColorSystem
from rich.style import Style
from rich.text import Text

from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.survey import Survey
from gpumon_static.terminal import layout
from gpumon_static.terminal.rows import Look, columns
from gpumon_static.terminal.show import Choice, below, gpu_rows
from gpumon_static.times import utc_text

SHOW_FILES = ("show.txt", "show.ansi")


def show_files(survey: Survey) -> dict[str, str]:
    """File name to text: plain and in colour, with the host in every line, for grep."""
    look = Look(every_node=True, names=survey.tier is not Tier.COUNTS)
    names = {host.name: host.name for host in survey.hosts}
    rows = gpu_rows(survey, Choice(), names, look)
    plain, coloured = [], []
    for pieces in layout.pieces(columns(look), rows, None) if rows else ():
        plain.append(layout.SPACE.join(text for text, _ in pieces))
        coloured.append(layout.SPACE.join(_painted(text, style) if style else text for text, style in pieces))
    lines = [*([Text()] if rows else []), *below(survey, Choice(), names, look, None)]
    # Without how long ago that is, which nobody knows who reads a file.
    when = utc_text(survey.latest) if survey.latest else "none yet"
    lines[-1] = Text(f"Data of {when}", "dim")
    plain += [line.plain for line in lines]
    coloured += map(_coloured, lines)
    return {name: "\n".join([*made, ""]) for name, made in zip(SHOW_FILES, (plain, coloured), strict=True)}


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
