"""How a field of a record is declared, once: what it is, its range or length, its CSV column and its gauge.

`fact(...)` stands in readings.py where a dataclass has `field(...)`. From the declaration come the gate's
bounds (bounds/tables.py), load_data.csv (store/columns.py), types of the history's columns, gpus.json with
its schema, the plain gauges of metrics.prom (all in publish/exports/), what pages without names leave out
(survey/privacy.py), and the tables of the docs.
"""

from __future__ import annotations

from dataclasses import field, fields
from functools import cache
from typing import Any, NamedTuple, TypeVar

N = TypeVar("N", int, float)


class Range(NamedTuple):
    least: float
    most: float
    word: str
    unit: str = ""

    def takes(self, value: float) -> bool:
        """Whether the value is in range; false for NaN and infinity, too."""
        return self.least <= value <= self.most

    def known(self, value: N | None) -> N | None:
        """The value, or None where it is out of range."""
        return value if value is not None and self.takes(value) else None


CENTURY_S = 100 * 366 * 86400
GPU_MIB = 2**30
"""A pebibyte: no GPU and no process on it has so much memory."""

PERCENT = Range(0, 100, "utilization", "%")
MEMORY = Range(0, GPU_MIB, "GPU memory", "MiB")
TEMPERATURE = Range(-50, 200, "temperature", "°C")
POWER = Range(0, 20_000, "power", "W")
LOAD = Range(0, 1_000_000, "load")
RAM = Range(0, 2**34, "RAM", "MiB")
SWAP = RAM._replace(word="swap")
DISK = Range(0, 2**44, "disk", "MiB")
INDEX = Range(0, 1023, "index")
CLOCK = Range(0, 10_000, "clock", "MHz")
PCIE = Range(1, 15, "PCIe generation")
LANES = Range(1, 64, "PCIe lanes")
PID = Range(1, 2**32 - 1, "PID")

_UNITS = {"%": "percent", "°C": "degrees Celsius", "W": "watts", "s": "seconds"}


class Gauge(NamedTuple):
    """A metric whose value is that of the field, times `scale`."""

    name: str
    scale: float = 1


class Declaration(NamedTuple):
    about: str = ""
    """A line of Markdown, without the unit, which its range has."""
    within: Range | None = None
    longest: int | None = None
    """Characters. A longer text is cut, and ends in an ellipsis."""
    csv: tuple[str, int] | None = None
    """Column and position in load_data.csv. The first 25 are a contract; a new one comes last."""
    gauge: Gauge | None = None
    in_json: bool = True
    """Whether gpus.json has it under its own name, where its record is a part of that file."""
    only_names: bool = False
    """It is not known on the page of a tier other than names."""
    decimals: int = 0
    """To which the history rounds a number."""


class Declared(NamedTuple):
    """A field with its declaration."""

    name: str
    type: str
    """As it is written, without `| None`."""
    can_be_unknown: bool
    fact: Declaration

    @property
    def words(self) -> str:
        """What it is, with its unit."""
        unit = self.fact.within.unit if self.fact.within else ""
        return f"{self.fact.about}, in {_UNITS.get(unit, unit)}" if unit else self.fact.about


def fact(
    default: Any,
    about: str = "",
    within: Range | None = None,
    *,
    longest: int | None = None,
    csv: tuple[str, int] | None = None,
    gauge: tuple[str, float] | None = None,
    in_json: bool = True,
    only_names: bool = False,
    decimals: int = 0,
) -> Any:
    """A field of a record. `default`: `MISSING` for one that has to be given; `Declaration` has the rest."""
    made = Declaration(
        about, within, longest, csv, Gauge(*gauge) if gauge else None, in_json, only_names, decimals
    )
    return field(default=default, metadata={"fact": made})


class BaseRecord:
    """Base of the records that worker processes send. A dataclass with slots pickles ten times slower."""

    __slots__: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[type[BaseRecord], tuple[object, ...]]:
        return type(self), tuple([getattr(self, name) for name in self.__slots__])


@cache
def declared(record: type) -> tuple[Declared, ...]:
    """The fields of a record, in their order."""
    found = []
    for one in fields(record):
        written = str(one.type)
        kind = written.removesuffix(" | None")
        found.append(Declared(one.name, kind, kind != written, one.metadata.get("fact", Declaration())))
    return tuple(found)


def sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."
