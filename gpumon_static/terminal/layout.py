"""Rows of cells to lines that fit the width: less important columns are left out, the last one is cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Span, Text

GAP = 2
SPACE = " " * GAP
FEWEST = 4
LEAST_SHORT = 15


@dataclass(frozen=True)
class Column:
    name: str
    header: str
    right: bool = False
    drop: int = 0
    """Where there is no room, the column with the highest number goes; 0 stays."""
    least: int = 0
    """The width to which it may be cut; 0: it is not cut."""
    keep_end: bool = False
    """It is cut in its middle: hosts differ at the end of their names."""


class Cell(NamedTuple):
    text: str = ""
    style: str = ""
    short: str = ""
    """In its place where that is too long. It keeps its end, too."""


class LinePart(NamedTuple):
    """One of several that stand in a line."""

    text: str
    style: str = ""
    drop: int = 0
    """As that of a column."""


EMPTY = Cell()

Row = dict[str, Cell]
"""Cells by column; a missing column is empty."""


Piece = tuple[str, str]
"""Of a line: its text, which has the width of its column, and its style."""


def lines(columns: Sequence[Column], rows: Sequence[Row], width: int | None) -> Iterator[Text]:
    """The header and the rows; `width` None: as wide as it takes."""
    return map(_text, pieces(columns, rows, width))


def pieces(columns: Sequence[Column], rows: Sequence[Row], width: int | None) -> Iterator[list[Piece]]:
    """The same lines, each as what stands in its columns, with `SPACE` between them."""
    shown = list(columns)
    widths = {column.name: _natural(column, rows) for column in shown}
    while width is not None and _least(shown, widths) > width and any(column.drop for column in shown):
        shown.remove(max(shown, key=lambda column: column.drop))
    if width is not None:
        _cut(shown, widths, width)
    header = {column.name: Cell(column.header, "bold") for column in shown}
    sized = [(column, widths[column.name]) for column in shown]
    return (_line(sized, row) for row in chain([header], rows))


def _natural(column: Column, rows: Sequence[Row]) -> int:
    texts = {row[column.name].text for row in rows if column.name in row}
    return max(map(cell_len, [column.header, *texts]))


def _total(columns: Sequence[Column], widths: dict[str, int]) -> int:
    return sum(widths[column.name] for column in columns) + GAP * (len(columns) - 1)


def _least(columns: Sequence[Column], widths: dict[str, int]) -> int:
    """With every column as short as it may be."""
    return _total(columns, {c.name: min(widths[c.name], c.least or widths[c.name]) for c in columns})


def _cut(columns: Sequence[Column], widths: dict[str, int], width: int) -> None:
    """To their least widths, and where that is not enough to fewer letters yet."""
    for least in (0, FEWEST):
        for column in reversed(columns):
            too_much = _total(columns, widths) - width
            if too_much > 0 and column.least:
                now = widths[column.name]
                widths[column.name] = max(min(least or column.least, now), now - too_much)


def _line(columns: Sequence[tuple[Column, int]], row: Row) -> list[Piece]:
    made: list[Piece] = []
    for column, width in columns:
        cell = row.get(column.name, EMPTY)
        text, room = cell.text, width - cell_len(cell.text)
        if room < 0:
            text = _shortened(cell, column, width)
            room = width - cell_len(text)
        made.append((" " * room + text if column.right else text + " " * room, cell.style))
    while made:
        text, style = made.pop()
        if text := text.rstrip():
            return [*made, (text, style)]
    return made


def _text(line: Sequence[Piece]) -> Text:
    spans: list[Span] = []
    done = 0
    for text, style in line:
        if style:
            spans.append(Span(done, done + len(text), style))
        done += len(text) + GAP
    joined = SPACE.join(text for text, _ in line)
    return Text(joined, no_wrap=True, overflow="crop", end="", spans=spans)


def _shortened(cell: Cell, column: Column, width: int) -> str:
    is_short = bool(cell.short) and width >= LEAST_SHORT
    cut = fit_ends if column.keep_end or is_short else fit
    return cut(cell.short if is_short else cell.text, width)


def in_line(parts: Sequence[LinePart], width: int | None, gap: str = "  ") -> Text:
    """The parts that have room, each in full; `width` None: all of them, which may be wrapped."""
    shown = list(parts)
    while width is not None and sum(cell_len(part.text + gap) for part in shown) > width + len(gap):
        least = max(shown, key=lambda part: part.drop)
        if not least.drop:
            break
        shown.remove(least)
    line = Text(gap).join(Text(part.text, part.style) for part in shown)
    line.no_wrap = width is not None
    return line


def fit(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def fit_ends(text: str, width: int) -> str:
    """The same with the cut in the middle: a third of what is left is the beginning."""
    if cell_len(text) <= width:
        return text
    head = (width - 1) // 3
    tail = text[-1:]
    while len(tail) < len(text) and cell_len(text[-len(tail) - 1 :]) <= width - 1 - head:
        tail = text[-len(tail) - 1 :]
    return f"{set_cell_size(text, head).rstrip()}…{tail}"
