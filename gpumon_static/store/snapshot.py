"""Readings to `load_data.csv` and back: `read(write(x)) == x` for all that has passed the gate.

One row per GPU process; a GPU (or a MIG slice) without processes has one row; a host that could not be
read has one row. An empty cell is what is not known. columns.py has the columns. A file without those after
`job` is read too, and so is one of an older version, within the bounds of today.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from gpumon_static.bounds.reading import bounded
from gpumon_static.errors import GpumonError
from gpumon_static.files import NOT_FOR_OTHERS, write_atomic
from gpumon_static.model import Allocation, Gpu, HostReading, Machine, MigDevice, NodeState, Process
from gpumon_static.store import cells
from gpumon_static.store.columns import (
    ALLOCATION,
    COLUMNS,
    CONTRACT,
    GPU,
    HOST,
    MACHINE,
    NODE,
    PROCESS,
    SLICE,
    CsvColumn,
)
from gpumon_static.text import clip


class _Row(NamedTuple):
    """A line of the file, with the number it has in an editor."""

    line: int
    cells: dict[str, str]


class _BadCell(ValueError):
    pass


def write(path: Path, readings: Iterable[HostReading]) -> None:
    write_atomic(path, to_csv(readings), private=True)


def to_csv(readings: Iterable[HostReading]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(map(_IN_ORDER, _rows(readings)))
    return file.getvalue()


def read(path: Path) -> list[HostReading]:
    """Raises `GpumonError`, with what is wrong, for a file that is not a whole snapshot."""
    rows = _table(path, _text(path))
    try:
        hosts = [list(group) for _, group in groupby(rows, key=lambda row: row.cells["host"])]
        return [bounded(_reading(group)) for group in hosts]
    except _BadCell as error:
        raise GpumonError(f"{path}: {error}; `gpumon-static fetch` writes it again") from error


def _text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise GpumonError(f"no data yet: {path} does not exist; run `gpumon-static fetch` first") from None
    except PermissionError:
        raise GpumonError(f"cannot read {path}: {NOT_FOR_OTHERS}") from None
    except UnicodeDecodeError:
        raise GpumonError(f"{path} is not UTF-8 text; run `gpumon-static fetch`") from None
    except OSError as error:
        raise GpumonError(f"cannot read {path}: {error.strerror}") from error
    if not text.strip():
        raise GpumonError(f"{path} is empty; run `gpumon-static fetch`")
    missing = [name for name in CONTRACT if name not in text.splitlines()[0].split(",")]
    if missing:
        raise GpumonError(f"{path} is not a file of gpumon-static: it has no column {', '.join(missing[:3])}")
    if not text.endswith("\n"):
        raise GpumonError(f"{path} is cut off in its last line; run `gpumon-static fetch`")
    return text


def _table(path: Path, text: str) -> list[_Row]:
    """The lines as cells by column; a column that an older file does not have is empty."""
    # A cell may be longer than the limit of the module, in a file of 0.1.0.
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    reader = csv.reader(io.StringIO(text))
    header = next(reader)
    empty = dict.fromkeys(COLUMNS, "")
    rows = []
    try:
        for row in reader:
            if len(row) != len(header):
                told = f"line {reader.line_num} has {len(row)} columns, not {len(header)}"
                raise GpumonError(f"{path} is damaged: {told}")
            rows.append(_Row(reader.line_num, empty | dict(zip(header, row, strict=True))))
    except csv.Error as error:
        raise GpumonError(f"{path} is damaged: {error}; run `gpumon-static fetch`") from error
    return rows


# Writing


_Cells = tuple[str, ...]


class _Part:
    """The cells of one kind of record in a row."""

    def __init__(self, columns: Mapping[str, CsvColumn]) -> None:
        self._values = attrgetter(*(column.field for column in columns.values()))
        self.empty: _Cells = ("",) * len(columns)

    def of(self, record: object) -> _Cells:
        return tuple(map(cells.to_text, self._values(record)))


_PARTS = (HOST, MACHINE, NODE, GPU, ALLOCATION, SLICE, PROCESS)
_HOST, _MACHINE, _NODE, _GPU, _ALLOCATION, _SLICE, _PROCESS = map(_Part, _PARTS)
_IN_ORDER = itemgetter(*map([column for part in _PARTS for column in part].index, COLUMNS))


def _rows(readings: Iterable[HostReading]) -> Iterator[_Cells]:
    """The cells of each row, in the order of `_PARTS`."""
    no_gpu = _GPU.empty + _ALLOCATION.empty + _SLICE.empty + _PROCESS.empty
    for reading in readings:
        host = _HOST.of(reading) + _MACHINE.of(reading.machine) + _NODE.of(reading.node)
        if not reading.gpus:
            yield host + no_gpu
        for gpu in reading.gpus:
            whole = host + _GPU.of(gpu) + _ALLOCATION.of(gpu.allocation)
            for mig in gpu.slices:
                yield from _process_rows(whole + _SLICE.of(mig), mig.processes)
            if gpu.processes or not gpu.slices:
                yield from _process_rows(whole + _SLICE.empty, gpu.processes)


def _process_rows(row: _Cells, processes: Sequence[Process]) -> Iterator[_Cells]:
    if not processes:
        yield row + _PROCESS.empty
    for process in processes:
        yield row + _PROCESS.of(process)


# Reading


def _reading(rows: list[_Row]) -> HostReading:
    gpu_rows = [row for row in rows if row.cells["gpu_index"]]
    gpus = groupby(gpu_rows, key=lambda row: row.cells["gpu_index"])
    return HostReading(
        **_fields(HOST, rows[0], required=("fetched_at", "status")),
        machine=Machine(**_fields(MACHINE, rows[0])),
        node=NodeState(**_fields(NODE, rows[0])),
        gpus=tuple(_gpu(list(group)) for _, group in gpus),
    )


def _gpu(rows: list[_Row]) -> Gpu:
    in_slices = (row for row in rows if row.cells["mig_device"])
    by_slice = groupby(in_slices, key=lambda row: row.cells["mig_device"])
    return Gpu(
        **_fields(GPU, rows[0]),
        allocation=Allocation(**_fields(ALLOCATION, rows[0])),
        slices=tuple(_slice(list(group)) for _, group in by_slice),
        processes=_processes(row for row in rows if not row.cells["mig_device"]),
    )


def _slice(rows: list[_Row]) -> MigDevice:
    return MigDevice(**_fields(SLICE, rows[0]), processes=_processes(rows))


def _processes(rows: Iterable[_Row]) -> tuple[Process, ...]:
    return tuple(Process(**_fields(PROCESS, row)) for row in rows if row.cells["pid"])


def _fields(columns: Mapping[str, CsvColumn], row: _Row, *, required: Sequence[str] = ()) -> dict[str, Any]:
    found = {}
    for column, (field, convert, _) in columns.items():
        cell = row.cells[column]
        if cell or column in required:
            try:
                found[field] = convert(cell)
            except ValueError as error:
                raise _BadCell(f"line {row.line}: {clip(cell, 40)!r} is not a valid {column}") from error
    return found
