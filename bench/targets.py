"""The figures that have a target: each is printed where it is measured, and all of them at the end."""

from __future__ import annotations

from dataclasses import dataclass

_figures: list[Figure] = []


@dataclass(frozen=True)
class Figure:
    name: str
    value: float
    most: float
    unit: str

    @property
    def is_met(self) -> bool:
        return self.value <= self.most

    def __str__(self) -> str:
        return f"target {self.most:g} {self.unit}: {'met' if self.is_met else 'NOT MET'}"


def compare(name: str, value: float, most: float, unit: str) -> Figure:
    """A figure beside the most it may be."""
    _figures.append(Figure(name, value, most, unit))
    return _figures[-1]


def print_table() -> None:
    if not _figures:
        return
    width = max(len(figure.name) for figure in _figures)
    print(f"\n{'figure':{width}} {'measured':>14} {'at most':>12}")
    for figure in _figures:
        unit, word = figure.unit, "met" if figure.is_met else "NOT MET"
        print(f"{figure.name:{width}} {figure.value:10.2f} {unit:3} {figure.most:8g} {unit:3}  {word}")
