"""What one host may add: a megabyte a day, whatever it sends, and few names that questions go over.

Above a limit the rows of its GPUs stay, without their processes; if that is not enough, with nothing but the
state of each GPU. Names are counted by the hour, and again by the day: some that are new in every run are few
in an hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpumon_static.store.history.columns import COLUMN_TYPES, OF_HOSTS
from gpumon_static.store.history.engine import Engine, filled, quoted, temporary_beside

MOST_BYTES_PER_HOUR = 25_000
"""As packed in a file. Sums and events of the host have the rest of the megabyte."""
OF_A_ROW = 40
"""Bytes that the numbers of a row take at most."""
SURELY_TOO_MUCH = 4 * MOST_BYTES_PER_HOUR
"""Of texts: those that a host makes up pack to no less."""
MOST_NAMES = {"hour": (200, 16, 160), "day": (500, 16, 256)}
"""Of users, models and cards."""
IN_ORDER = "host, gpu_index NULLS FIRST, mig_device NULLS FIRST, fetched_at, level DESC, pid"
"""Of the rows of an hour, so that they pack."""
LEFT_OUT_NOTE = "more than a host may add to the history: left out there"

_OURS = frozenset(("host", "status", "host_group", "card", "model", "state", "gpu_state"))
"""Texts of the collector, and those that follow from others."""
_TEXTS = [f'"{name}"' for name, kind in COLUMN_TYPES.items() if kind == "VARCHAR" and name not in _OURS]
_DECIDED = frozenset(
    "fetched_at run_at gpu_index held_by share is_offered level is_partial interval_s seconds run_seconds"
    " gpu_processes_known slurm_allocated note".split()
)
_READINGS = [*sorted(COLUMN_TYPES.keys() - _OURS - _DECIDED - OF_HOSTS), "warning", "error", "disks"]
"""What is known of a GPU beside its state, and the texts of its host."""


def bound_hour(engine: Engine, table: str, folder: Path) -> list[str]:
    """Leave out what is too much in the rows of an hour; return the hosts that sent it."""
    found = _heavy(engine, table, folder)
    if found:
        leave_out_processes(engine, table, found)
        if still := _heavy(engine, table, folder):
            leave_out_readings(engine, table, still)
    return found


def bound_day(engine: Engine, rows: str) -> str:
    """A query of the rows of a day, without what is too much in it."""
    wide = _with_many_names(engine, rows, "day")
    if not wide:
        return f"SELECT * FROM {rows}"
    engine.do(
        f"CREATE OR REPLACE TEMP TABLE wide AS SELECT * FROM {rows} WHERE list_contains($hosts, host)",
        {"hosts": wide},
    )
    leave_out_processes(engine, "wide", wide)
    if still := _with_many_names(engine, "wide", "day"):
        leave_out_readings(engine, "wide", still)
    others = f"SELECT * FROM {rows} WHERE host NOT IN (SELECT host FROM wide)"
    return f"{others} UNION ALL BY NAME SELECT * FROM wide"


def _with_many_names(engine: Engine, rows: str, unit: str) -> list[str]:
    given = dict(zip(("users", "models", "cards"), MOST_NAMES[unit], strict=True))
    return [host for (host,) in engine.rows(filled("sql/many_names", rows=rows), given)]


def _heavy(engine: Engine, table: str, folder: Path) -> list[str]:
    """Hosts with too many names, or too many bytes."""
    found = _with_many_names(engine, table, "hour")
    for host, text, rows in engine.rows(filled("sql/heavy", rows=table, texts=", ".join(_TEXTS))):
        if host in found or text + OF_A_ROW * rows <= MOST_BYTES_PER_HOUR:
            continue
        if text > SURELY_TOO_MUCH or _packed(engine, table, host, folder) > MOST_BYTES_PER_HOUR:
            found.append(host)
    return found


def _packed(engine: Engine, table: str, host: str, folder: Path) -> int:
    """The bytes of its rows in a file of their own: how well numbers pack is known no sooner."""
    with temporary_beside(folder / "packed") as path:
        engine.pack(f"SELECT * FROM {table} WHERE host = {quoted(host)} ORDER BY {IN_ORDER}", path)
        return path.stat().st_size


def leave_out_processes(engine: Engine, table: str, hosts: Sequence[str]) -> None:
    engine.do(f"DELETE FROM {table} WHERE level = 0 AND list_contains($hosts, host)", {"hosts": list(hosts)})
    engine.do(filled("sql/without_processes", rows=table), {"hosts": list(hosts), "note": LEFT_OUT_NOTE})


def leave_out_readings(engine: Engine, table: str, hosts: Sequence[str]) -> None:
    engine.do(f"DELETE FROM {table} WHERE level = 1 AND list_contains($hosts, host)", {"hosts": list(hosts)})
    unknown = ", ".join(f'"{name}" = NULL' for name in _READINGS)
    engine.do(filled("sql/without_readings", rows=table, unknown=unknown), {"hosts": list(hosts)})
