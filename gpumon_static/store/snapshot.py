"""Readings to `load_data.csv` and back: `read(write(x)) == x`.

One row per GPU process; a GPU (or a MIG slice) without processes has one row; a host that could not be
read has one row. An empty cell is what is not known. The first columns, up to `job`, are a contract
with the scripts of users: their names and order stay. A file without the columns after `job` is read too.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pandas as pd

from gpumon_static.errors import GpumonError
from gpumon_static.files import write_atomic
from gpumon_static.model import Gpu, HostReading, Machine, MigDevice, Process, Status

CONTRACT = (
    "fetched_at host status error fetch_seconds driver_version cuda_version gpu_index gpu_uuid gpu_name"
    " gpu_utilization gpu_memory_used_mib gpu_memory_total_mib gpu_temperature_c gpu_fan_percent gpu_power_w"
    " gpu_power_limit_w mig_device pid process_type process_name process_memory_mib user elapsed_s job"
).split()
EXTRA = (
    "uid process_state gpu_bus_id gpu_mig_mode gpu_processes_known mig_uuid mig_profile mig_gpu_instance"
    " mig_compute_instance mig_memory_used_mib mig_memory_total_mib warning cpu_count load_1m load_5m"
    " load_15m ram_used_mib ram_total_mib"
).split()
COLUMNS = CONTRACT + EXTRA

T = TypeVar("T")


class _Row(NamedTuple):
    """A line of the file, with the number it has in an editor."""

    line: int
    cells: dict[str, str]


class _BadCell(ValueError):
    pass


def write(path: Path, readings: Iterable[HostReading]) -> None:
    frame = pd.DataFrame(_rows(readings), columns=COLUMNS, dtype=str)
    write_atomic(path, frame.to_csv(index=False, lineterminator="\n"))


def read(path: Path) -> list[HostReading]:
    """Raises `GpumonError`, with what is wrong, for a file that is not a whole snapshot."""
    frame = _frame(path)
    records: list[dict[str, str]] = frame.to_dict("records")  # type: ignore[assignment]
    rows = [_Row(line, cells) for line, cells in enumerate(records, start=2)]
    try:
        hosts = [list(group) for _, group in groupby(rows, key=lambda row: row.cells["host"])]
        return [_reading(group) for group in hosts]
    except _BadCell as error:
        raise GpumonError(f"{path}: {error}; `gpumon-static fetch` writes it anew") from error


def _frame(path: Path) -> pd.DataFrame:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise GpumonError(f"no data yet: {path} does not exist; run `gpumon-static fetch` first") from None
    except (OSError, UnicodeDecodeError) as error:
        raise GpumonError(f"cannot read {path}: {error}") from error
    if not text.strip():
        raise GpumonError(f"{path} is empty; run `gpumon-static fetch`")
    missing = [name for name in CONTRACT if name not in text.splitlines()[0].split(",")]
    if missing:
        raise GpumonError(f"{path} is not a file of gpumon-static: it has no column {', '.join(missing[:3])}")
    if not text.endswith("\n"):
        raise GpumonError(f"{path} is cut off in its last line; run `gpumon-static fetch`")
    _check_width(path, text)
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, na_filter=False, encoding="utf-8")
    except ValueError as error:
        raise GpumonError(f"{path} is damaged: {str(error).strip()}; run `gpumon-static fetch`") from error
    for name in COLUMNS:
        if name not in frame.columns:
            frame[name] = ""
    return frame


def _check_width(path: Path, text: str) -> None:
    """pandas fills up a line that is too short, as if its cells were empty."""
    width = None
    reader = csv.reader(io.StringIO(text))
    for cells in reader:
        width = width or len(cells)
        if len(cells) != width:
            raise GpumonError(
                f"{path} is damaged: line {reader.line_num} has {len(cells)} columns, not {width}"
            )


# Writing


def _rows(readings: Iterable[HostReading]) -> Iterator[dict[str, str]]:
    for reading in readings:
        host = _cells(_host_cells(reading))
        if not reading.gpus:
            yield host
        for gpu in reading.gpus:
            whole = host | _cells(_gpu_cells(gpu))
            for mig in gpu.slices:
                slice_cells = whole | _cells(_slice_cells(mig))
                yield from _process_rows(slice_cells, mig.processes)
            if gpu.processes or not gpu.slices:
                yield from _process_rows(whole, gpu.processes)


def _process_rows(cells: dict[str, str], processes: Sequence[Process]) -> Iterator[dict[str, str]]:
    if not processes:
        yield cells
    for process in processes:
        yield cells | _cells(_process_cells(process))


def _host_cells(reading: HostReading) -> dict[str, Any]:
    machine = reading.machine
    return {
        "fetched_at": reading.fetched_at,
        "host": reading.host,
        "status": reading.status,
        "error": reading.error,
        "fetch_seconds": reading.fetch_seconds,
        "driver_version": reading.driver_version,
        "cuda_version": reading.cuda_version,
        "warning": reading.warning,
        "cpu_count": machine.cpu_count,
        "load_1m": machine.load_1m,
        "load_5m": machine.load_5m,
        "load_15m": machine.load_15m,
        "ram_used_mib": machine.ram_used_mib,
        "ram_total_mib": machine.ram_total_mib,
    }


def _gpu_cells(gpu: Gpu) -> dict[str, Any]:
    return {
        "gpu_index": gpu.index,
        "gpu_uuid": gpu.uuid,
        "gpu_name": gpu.name,
        "gpu_utilization": gpu.utilization,
        "gpu_memory_used_mib": gpu.memory_used_mib,
        "gpu_memory_total_mib": gpu.memory_total_mib,
        "gpu_temperature_c": gpu.temperature_c,
        "gpu_fan_percent": gpu.fan_percent,
        "gpu_power_w": gpu.power_w,
        "gpu_power_limit_w": gpu.power_limit_w,
        "gpu_bus_id": gpu.bus_id,
        "gpu_mig_mode": gpu.mig_mode,
        "gpu_processes_known": gpu.processes_known,
    }


def _slice_cells(mig: MigDevice) -> dict[str, Any]:
    return {
        "mig_device": mig.index,
        "mig_uuid": mig.uuid,
        "mig_profile": mig.profile,
        "mig_gpu_instance": mig.gpu_instance,
        "mig_compute_instance": mig.compute_instance,
        "mig_memory_used_mib": mig.memory_used_mib,
        "mig_memory_total_mib": mig.memory_total_mib,
    }


def _process_cells(process: Process) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "process_type": process.type,
        "process_name": process.name,
        "process_memory_mib": process.memory_mib,
        "user": process.user,
        "elapsed_s": process.elapsed_s,
        "job": process.job,
        "uid": process.uid,
        "process_state": process.state,
    }


def _cells(values: dict[str, Any]) -> dict[str, str]:
    return {name: _text(value) for name, value in values.items()}


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


# Reading


def _reading(rows: list[_Row]) -> HostReading:
    first = rows[0]
    gpu_rows = [row for row in rows if row.cells["gpu_index"]]
    gpus = groupby(gpu_rows, key=lambda row: row.cells["gpu_index"])
    return HostReading(
        host=first.cells["host"],
        fetched_at=_required(first, "fetched_at", _time),
        status=_required(first, "status", Status),
        error=_optional(first, "error", str),
        fetch_seconds=_optional(first, "fetch_seconds", _number),
        driver_version=_optional(first, "driver_version", str),
        cuda_version=_optional(first, "cuda_version", str),
        gpus=tuple(_gpu(list(group)) for _, group in gpus),
        machine=Machine(
            cpu_count=_optional(first, "cpu_count", int),
            load_1m=_optional(first, "load_1m", _number),
            load_5m=_optional(first, "load_5m", _number),
            load_15m=_optional(first, "load_15m", _number),
            ram_used_mib=_optional(first, "ram_used_mib", _number),
            ram_total_mib=_optional(first, "ram_total_mib", _number),
        ),
        warning=_optional(first, "warning", str),
    )


def _gpu(rows: list[_Row]) -> Gpu:
    first = rows[0]
    by_slice = groupby(
        (row for row in rows if row.cells["mig_device"]), key=lambda row: row.cells["mig_device"]
    )
    return Gpu(
        index=_required(first, "gpu_index", int),
        uuid=_optional(first, "gpu_uuid", str),
        name=_optional(first, "gpu_name", str),
        bus_id=_optional(first, "gpu_bus_id", str),
        utilization=_optional(first, "gpu_utilization", _number),
        memory_used_mib=_optional(first, "gpu_memory_used_mib", _number),
        memory_total_mib=_optional(first, "gpu_memory_total_mib", _number),
        temperature_c=_optional(first, "gpu_temperature_c", _number),
        fan_percent=_optional(first, "gpu_fan_percent", _number),
        power_w=_optional(first, "gpu_power_w", _number),
        power_limit_w=_optional(first, "gpu_power_limit_w", _number),
        mig_mode=first.cells["gpu_mig_mode"] == "yes",
        slices=tuple(_slice(list(group)) for _, group in by_slice),
        processes=_processes(row for row in rows if not row.cells["mig_device"]),
        processes_known=first.cells["gpu_processes_known"] != "no",
    )


def _slice(rows: list[_Row]) -> MigDevice:
    first = rows[0]
    return MigDevice(
        index=_required(first, "mig_device", int),
        gpu_instance=_optional(first, "mig_gpu_instance", int),
        compute_instance=_optional(first, "mig_compute_instance", int),
        uuid=_optional(first, "mig_uuid", str),
        profile=_optional(first, "mig_profile", str),
        memory_used_mib=_optional(first, "mig_memory_used_mib", _number),
        memory_total_mib=_optional(first, "mig_memory_total_mib", _number),
        processes=_processes(rows),
    )


def _processes(rows: Iterable[_Row]) -> tuple[Process, ...]:
    return tuple(
        Process(
            pid=_required(row, "pid", int),
            type=_optional(row, "process_type", str),
            name=_optional(row, "process_name", str),
            memory_mib=_optional(row, "process_memory_mib", _number),
            user=_optional(row, "user", str),
            uid=_optional(row, "uid", int),
            elapsed_s=_optional(row, "elapsed_s", int),
            state=_optional(row, "process_state", str),
            job=_optional(row, "job", str),
        )
        for row in rows
        if row.cells["pid"]
    )


def _optional(row: _Row, column: str, convert: Callable[[str], T]) -> T | None:
    return _required(row, column, convert) if row.cells[column] else None


def _required(row: _Row, column: str, convert: Callable[[str], T]) -> T:
    try:
        return convert(row.cells[column])
    except ValueError as error:
        raise _BadCell(f"line {row.line}: {row.cells[column]!r} is no {column}") from error


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)
