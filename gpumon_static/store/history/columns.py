"""The columns of the history's rows: those of load_data.csv with their types, and what was decided.

What differs in every run for no use is turned round (`started_at` instead of `elapsed_s`), numbers are
rounded to what they mean, and what is measured of a host stands in the first of its rows only, since the
others would repeat it. docs/history.md is generated from here.
"""

from __future__ import annotations

from typing import NamedTuple

from gpumon_static.model.facts import Declaration
from gpumon_static.store import cells
from gpumon_static.store.columns import BY_NAME, COLUMNS, MACHINE, CsvColumn


class FileColumn(NamedTuple):
    type: str
    """Of DuckDB, as the file has it."""
    value: str
    """In SQL, from the cells of a row of the CSV, with `t` as its time in seconds."""
    about: str


class CellKind(NamedTuple):
    """How a cell of the CSV becomes a value."""

    cell: str
    type: str
    value: str


_TEXT = "cell_text({0})"
_LARGEST_INTEGER = 2**31 - 1


def _kind(column: CsvColumn) -> CellKind:
    """A text of a fixed set is taken as it is."""
    fact, convert = column.fact, column.convert
    if convert is cells.whole:
        whole = _whole(fact)
        return CellKind("BIGINT", whole, "{0}" if whole == "BIGINT" else f"try_cast({{0}} AS {whole})")
    if convert is cells.finite:
        if fact.decimals:
            return CellKind("DOUBLE", "DOUBLE", f"round({{0}}, {fact.decimals})")
        return CellKind("DOUBLE", _whole(fact), f"try_cast(round({{0}}) AS {_whole(fact)})")
    if convert is cells.flag:
        return CellKind("VARCHAR", "BOOLEAN", "{0} = 'yes'")
    if convert is cells.moment:
        return CellKind("TIMESTAMPTZ", "TIMESTAMPTZ", "{0}")
    is_text = convert in (cells.text, cells.faults)
    value = "h.disks" if convert is cells.disks else _TEXT if is_text else "{0}"
    return CellKind("VARCHAR", "VARCHAR", value)


def _whole(fact: Declaration) -> str:
    """The type of whole numbers in which all of its range fits."""
    assert fact.within
    return "BIGINT" if max(-fact.within.least, fact.within.most) > _LARGEST_INTEGER else "INTEGER"


_TURNED = {
    "fetched_at": ("fetched_at", "to_timestamp(c.t)", "when the host was read; UTC"),
    "elapsed_s": ("started_at", "to_timestamp(c.t - c.elapsed_s)", "when the process started"),
    "uptime_s": (
        "booted_at",
        "to_timestamp((c.t - c.uptime_s) // 60 * 60)",
        "when the host booted, to the minute",
    ),
}
TEXTS = ("error", "command_line")
"""Kept only with `history.texts`: they may say what the lab does not want to keep."""
OF_HOSTS = frozenset(
    {*MACHINE, "booted_at", "fetch_seconds", "error", "warning", "note", "clock_offset_s", "probe_version"}
)
"""In the first row of a host and run."""

DECIDED: dict[str, tuple[str, str]] = {
    "run_at": ("TIMESTAMPTZ", "the run that it belongs to: the time of its last host"),
    "host_group": ("VARCHAR", "group of the host at that time; empty: none"),
    "card": ("VARCHAR", "the GPU: its UUID, or the last one known at its index; `#3` where none is known"),
    "model": ("VARCHAR", "what the page calls the model of the GPU"),
    "state": (
        "VARCHAR",
        "`free`, `busy`, `held`, `unknown`, `down` (no answer): of the GPU, or of the slice",
    ),
    "gpu_state": ("VARCHAR", "the same of the whole GPU, in the rows of its slices, too"),
    "held_by": ("VARCHAR[]", "users that hold it; an empty name: an unknown user"),
    "share": ("DOUBLE", "part of the GPU that the row stands for: 1, or less for a slice"),
    "is_offered": ("BOOLEAN", "whether one could run there"),
    "disk_percent": ("INTEGER", "how full the fullest disk is"),
    "level": (
        "TINYINT",
        "3: first row of its host and run; 2: of its GPU; 1: of its slice; 0: one more process",
    ),
    "is_partial": ("BOOLEAN", "the run asked some hosts only"),
    "interval_s": ("INTEGER", "usual time between two runs, then"),
    "seconds": ("INTEGER", "that the row stands for: until the host is read again"),
    "run_seconds": ("INTEGER", "that the run stands for: until the next one"),
}


def cell_types() -> dict[str, str]:
    """By column of the CSV: as what its cells are read."""
    return {name: _kind(BY_NAME[name]).cell for name in COLUMNS}


def columns(*, with_texts: bool = True, has_formulas: bool = True) -> dict[str, FileColumn]:
    """By their names, in the order of the file, without those that are decided.

    `has_formulas`: some text of the CSV may have an apostrophe before it.
    """
    found: dict[str, FileColumn] = {}
    for name in COLUMNS:
        kind, about = _kind(BY_NAME[name]), BY_NAME[name].about
        if name in _TURNED:
            new, value, about = _TURNED[name]
            found[new] = FileColumn("TIMESTAMPTZ", value, about)
            continue
        value = kind.value.format(f'c."{name}"')
        if kind.value == _TEXT and not has_formulas:
            value = f'c."{name}"'
        if name in TEXTS and not with_texts:
            value = f"NULL::{kind.type}"
        found[name] = FileColumn(kind.type, value, about)
    return found


COLUMN_TYPES: dict[str, str] = {name: column.type for name, column in columns().items()} | {
    name: kind for name, (kind, _) in DECIDED.items()
}
"""All of them, as in the file."""
REQUIRED = ("fetched_at", "run_at", "host", "status", "card", "state", "level", "seconds")
"""A file without these is not one of ours."""
COUNTED = (
    "fetched_at run_at host host_group status level seconds run_seconds interval_s card model state gpu_state"
    " held_by share is_offered is_partial gpu_index gpu_uuid gpu_name gpu_bus_id gpu_utilization"
    " gpu_memory_used_mib gpu_memory_total_mib gpu_temperature_c gpu_power_w gpu_processes_known mig_device"
    " mig_uuid mig_profile mig_memory_used_mib mig_memory_total_mib slurm_allocated slurm_user slurm_job"
    " cpu_utilization ram_used_mib ram_total_mib disk_percent load_1m"
).split()
"""Those that sums are made of: a question over few columns is planned in a third of the time."""
