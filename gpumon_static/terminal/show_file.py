"""`show.txt` and `show.ansi`: the table of `show` for curl, on the privacy tier of the page."""

from __future__ import annotations

import io

from rich.console import Console
from rich.text import Text

from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.survey import Survey
from gpumon_static.terminal.rows import Look
from gpumon_static.terminal.show import Choice, table
from gpumon_static.times import utc_text

WIDEST = 1000
"""Columns: no line is cut."""


def show_files(survey: Survey) -> dict[str, str]:
    """File name to text: plain with the host in every line, for grep, and in colour."""
    names = survey.tier is not Tier.COUNTS
    plain = _lines(survey, Look(every_node=True, names=names))
    coloured = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=WIDEST)
    with coloured.capture() as captured:
        for line in _lines(survey, Look(names=names)):
            coloured.print(line, soft_wrap=True, markup=False, highlight=False, emoji=False)
    return {"show.txt": "".join(f"{line.plain}\n" for line in plain), "show.ansi": captured.get()}


def _lines(survey: Survey, look: Look) -> list[Text]:
    """Without how long ago that is, which nobody knows who reads a file."""
    *lines, _age = table(survey, Choice(), look, None)
    when = utc_text(survey.latest) if survey.latest else "none yet"
    return [*lines, Text(f"Data of {when}", "dim")]
