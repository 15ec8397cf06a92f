"""The columns of `load_data.csv`: their order, the field each one is of, and what it means.

They are declared with the fields, in model/readings.py. The first ones, up to `job`, are a contract with
users' scripts: their names and order stay, and new columns come last. docs/outputs.md is generated from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gpumon_static.model import (
    Allocated,
    Allocation,
    Gpu,
    HostReading,
    Machine,
    MigDevice,
    NodeState,
    Process,
    Status,
)
from gpumon_static.model.facts import Declaration, declared
from gpumon_static.store import cells

_CONVERT: dict[str, Callable[[str], Any]] = {
    "str": cells.text,
    "int": cells.whole,
    "float": cells.finite,
    "bool": cells.flag,
    "datetime": cells.moment,
    "Status": Status,
    "Allocated": Allocated,
    "tuple[Fault, ...]": cells.faults,
    "tuple[Disk, ...]": cells.disks,
}
"""By the type of a field."""


class CsvColumn(NamedTuple):
    """Where the value of a column goes, how its cell is read, and what it is, as a line of Markdown."""

    field: str
    convert: Callable[[str], Any]
    about: str
    fact: Declaration
    position: int


def _columns(record: type) -> dict[str, CsvColumn]:
    """The fields of a record by column. A cell that is empty leaves the field's default."""
    found = {}
    for one in declared(record):
        if one.fact.csv:
            name, position = one.fact.csv
            found[name] = CsvColumn(one.name, _CONVERT[one.type], one.words, one.fact, position)
    return found


_RECORDS = (HostReading, Machine, Gpu, MigDevice, Process, NodeState, Allocation)
TABLES = HOST, MACHINE, GPU, SLICE, PROCESS, NODE, ALLOCATION = tuple(map(_columns, _RECORDS))
BY_NAME: dict[str, CsvColumn] = {name: column for table in TABLES for name, column in table.items()}
COLUMNS = sorted(BY_NAME, key=lambda name: BY_NAME[name].position)
CONTRACT = COLUMNS[: COLUMNS.index("job") + 1]
