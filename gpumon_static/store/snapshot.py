"""Readings to `load_data.csv` and back: `read(write(x)) == x` for all that has passed the gate.

One row per GPU process; a GPU (or a MIG slice) without processes has one row; a host that could not be
read has one row. An empty cell is what is not known. columns.py has the columns. A file without those after
`job` is read too, and so is one of an older version, within the bounds of today.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, TypeVar

from gpumon_static.bounds.reading import bounded
from gpumon_static.errors import GpumonError
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
from gpumon_static.system.files import NOT_FOR_OTHERS, open_file, read_file, write_atomic
from gpumon_static.text import clip


class _BadCell(ValueError):
    pass


def write(path: Path, readings: Iterable[HostReading]) -> None:
    write_atomic(path, to_csv(readings), private=True)


def to_csv(readings: Iterable[HostReading]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(to_rows(readings))
    return file.getvalue()


def to_rows(readings: Iterable[HostReading]) -> Iterator[tuple[str, ...]]:
    """The cells of each row, in the order of `COLUMNS`."""
    return map(_IN_ORDER, _rows(readings))


def read(path: Path) -> list[HostReading]:
    """Raises `GpumonError`, with what is wrong, for a file that is not a whole snapshot."""
    return parse(_text(path), path, "; `gpumon-static fetch` writes it again")


def parse(text: str, source: Path, advice: str = "") -> list[HostReading]:
    """The readings of a whole snapshot. `source` and `advice` are for the error."""
    try:
        return [bounded(reading) for reading in _Reader(source, text).readings()]
    except _BadCell as error:
        raise GpumonError(f"{source}: {error}{advice}") from error


def _text(path: Path) -> str:
    try:
        text = read_file(path).decode()
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
    header = text.partition("\n")[0].rstrip("\r").split(",")
    missing = [name for name in CONTRACT if name not in header]
    if missing:
        raise GpumonError(f"{path} is not a file of gpumon-static: it has no column {', '.join(missing[:3])}")
    if not text.endswith("\n"):
        raise GpumonError(f"{path} is cut off in its last line; run `gpumon-static fetch`")
    return text


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


MOST_KNOWN = 4096
"""Values of a column that are kept. A UUID has as many as there are GPUs."""
T = TypeVar("T")

_Row = tuple[int, list[str]]
"""A line of the file: the number it has in an editor, and its cells."""


class _Found:
    """The columns of one kind of record that a file has, by their places: an older file has fewer."""

    def __init__(self, columns: Mapping[str, CsvColumn], header: list[str], *required: str) -> None:
        known: list[dict[str, Any]] = [{} for _ in columns]
        self._columns = [
            (header.index(name), name in required, name, column.field, column.convert, values)
            for (name, column), values in zip(columns.items(), known, strict=True)
            if name in header
        ]
        self._places = [place for place, *_ in self._columns]
        self._same: dict[_Cells, Any] = {}

    def fields(self, row: _Row) -> dict[str, Any]:
        """Most cells equal one of the rows before: they share one value."""
        found = {}
        line, cells_ = row
        for place, is_required, name, field, convert, known in self._columns:
            cell = cells_[place]
            if cell or is_required:
                value = known.get(cell)
                if value is None:
                    try:
                        value = convert(cell)
                    except ValueError as error:
                        raise _BadCell(f"line {line}: {clip(cell, 40)!r} is not a valid {name}") from error
                    if len(known) < MOST_KNOWN:
                        known[cell] = value
                found[field] = value
        return found

    def same(self, kind: Callable[..., T], row: _Row) -> T:
        """A record for which the same is true: all GPUs of a job have one allocation."""
        key = tuple([row[1][place] for place in self._places])
        found: T | None = self._same.get(key)
        if found is None:
            found = kind(**self.fields(row))
            if len(self._same) < MOST_KNOWN:
                self._same[key] = found
        return found


class _Reader:
    """One host after the other: the rows of all of them would take many times the size of the file."""

    def __init__(self, path: Path, text: str) -> None:
        # A cell may be longer than the limit of the module, in a file of 0.1.0.
        csv.field_size_limit(max(csv.field_size_limit(), len(text)))
        self._path = path
        self._lines = csv.reader(io.StringIO(text))
        header = next(self._lines)
        self._length = len(header)
        self._host_at, self._gpu_at, self._slice_at, self._pid_at = map(
            header.index, ("host", "gpu_index", "mig_device", "pid")
        )
        self._host = _Found(HOST, header, "fetched_at", "status")
        self._machine, self._node, self._gpu, self._allocation, self._slice, self._process = (
            _Found(columns, header) for columns in (MACHINE, NODE, GPU, ALLOCATION, SLICE, PROCESS)
        )

    def readings(self) -> Iterator[HostReading]:
        for _, rows in groupby(self._rows(), key=lambda row: row[1][self._host_at]):
            yield self._reading_of(list(rows))

    def _rows(self) -> Iterator[_Row]:
        try:
            for row in self._lines:
                if len(row) != self._length:
                    message = f"line {self._lines.line_num} has {len(row)} columns, not {self._length}"
                    raise GpumonError(f"{self._path} is damaged: {message}")
                yield self._lines.line_num, row
        except csv.Error as error:
            raise GpumonError(f"{self._path} is damaged: {error}; run `gpumon-static fetch`") from error

    def _reading_of(self, rows: list[_Row]) -> HostReading:
        gpu_rows = [row for row in rows if row[1][self._gpu_at]]
        gpus = groupby(gpu_rows, key=lambda row: row[1][self._gpu_at])
        return HostReading(
            **self._host.fields(rows[0]),
            machine=Machine(**self._machine.fields(rows[0])),
            node=NodeState(**self._node.fields(rows[0])),
            gpus=tuple([self._gpu_of(list(group)) for _, group in gpus]),
        )

    def _gpu_of(self, rows: list[_Row]) -> Gpu:
        in_slices = (row for row in rows if row[1][self._slice_at])
        by_slice = groupby(in_slices, key=lambda row: row[1][self._slice_at])
        return Gpu(
            **self._gpu.fields(rows[0]),
            allocation=self._allocation.same(Allocation, rows[0]),
            slices=tuple([self._slice_of(list(group)) for _, group in by_slice]),
            processes=self._processes_of(row for row in rows if not row[1][self._slice_at]),
        )

    def _slice_of(self, rows: list[_Row]) -> MigDevice:
        return MigDevice(**self._slice.fields(rows[0]), processes=self._processes_of(rows))

    def _processes_of(self, rows: Iterable[_Row]) -> tuple[Process, ...]:
        return tuple([Process(**self._process.fields(row)) for row in rows if row[1][self._pid_at]])


def _cells(path: Path, *columns: str) -> list[Any]:
    """Some columns of each row; none where the file cannot be read, which is reported elsewhere."""
    try:
        with TextIOWrapper(open_file(path), "utf-8", newline="") as file:
            rows = csv.reader(file)
            header = next(rows)
            return list(map(itemgetter(*map(header.index, columns)), rows))
    except (OSError, ValueError, IndexError, StopIteration, csv.Error):
        return []


def statuses(path: Path) -> dict[str, str]:
    """Each host's status in the last run."""
    return dict(_cells(path, "host", "status"))


def slurm_nodes(path: Path) -> dict[str, str]:
    """The hosts that were Slurm nodes in the last run, and their names there."""
    return {host: node for host, node in _cells(path, "host", "slurm_node") if node}


def seen_gpus(path: Path) -> set[tuple[str, ...]]:
    """Host, index and slice of each GPU of the last run."""
    return {key for key in _cells(path, "host", "gpu_index", "mig_device") if key[1]}
