"""What every run adds to the history: its rows, and how each GPU and host stands after it.

How time is counted: a reading stands for the time until its host is read again, if that comes as usual:
within one and a half times the usual interval. If it does not, a run was missed: the reading stands for one
interval, and the rest is unknown, neither idle nor used. The usual interval is `site.interval`, or the median
of the last runs where that is longer.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from gpumon_static.store.events import Event
from gpumon_static.store.history import event_log
from gpumon_static.store.history.columns import COLUMN_TYPES, OF_HOSTS, cell_types, columns
from gpumon_static.store.history.converting.tables import OldNames, ShortModel
from gpumon_static.store.history.engine import (
    PACKED,
    QUICK,
    Engine,
    HistoryError,
    filled,
    open_engine,
    quoted,
    sql,
)
from gpumon_static.store.history.last import advance, open_last
from gpumon_static.store.history.layout import DAY, run_path
from gpumon_static.store.history.moving import convert
from gpumon_static.store.history.notes import MOST_RUNS, FolderNotes
from gpumon_static.store.history.observed import HostSighting, Run, gpus_text, hosts_text
from gpumon_static.store.history.upkeep import closing
from gpumon_static.store.history.upkeep.bounding import leave_out_processes
from gpumon_static.store.history.upkeep.dropping import drop_after
from gpumon_static.store.history.upkeep.renaming import rename_hosts
from gpumon_static.text import Say, count

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config

LAST_RUNS = 20
"""Runs used to estimate the interval."""
MISSING_S = 7 * DAY
"""A GPU that its host no longer lists is unknown for so long, then gone."""
MOST_MISSING = 16
"""Of a host: one that makes GPUs up adds no more of them."""
MOST_TEXT = 40_000
"""Bytes of texts that a host may add with one run; above it, its processes are left out."""


@dataclass(frozen=True, slots=True)
class Addition:
    """How runs are added."""

    configured: tuple[str, ...] = ()
    """Hosts of the config."""
    with_texts: bool = False
    is_partial: bool = False
    """The run asked some hosts only."""


def record(
    config: Config,
    seen: Sequence[HostSighting],
    now: datetime,
    say: Say,
    *,
    drops_ahead: bool = False,
    events: Sequence[Event] = (),
    short_model: ShortModel | None = None,
) -> None:
    """Adds the run of load_data.csv. It never raises: a run without its history is still a run.

    `drops_ahead`: what was recorded ahead of this run is wrong (store/clock.py).
    `events`: the last ones; those that the history has are not added again.
    `short_model`: what the page calls a model, for a database of an older version, which becomes files.
    """
    if not config.history.enabled:
        return
    try:
        convert.convert_if_needed(config, now, say, OldNames(config.groups, short_model))
        if drops_ahead and (dropped := drop_after(config, now, now)):
            say(f"history: {dropped.words}; they were ahead of the clock")
        rename_hosts(config, say)
        add(config, seen, now, say, events)
    except HistoryError as error:
        say(f"history: {error}; this run is not in it")
    except Exception as error:
        # A mistake of ours must not cost the run, whose CSV is already written.
        say(f"history: unexpected {type(error).__name__}: {error}; this run is not in it")


def add(
    config: Config, seen: Sequence[HostSighting], now: datetime, say: Say, events: Sequence[Event] = ()
) -> None:
    """The same run a second time changes nothing. Raises `HistoryError`."""
    folder, at_most = config.history_path, int(now.timestamp())
    if folder.exists() and not folder.is_dir():
        raise HistoryError(f"{folder} is not a directory")
    # A run is small: a second thread costs an eighth more CPU, which the workers of `fetch` could use.
    with open_engine(folder, threads=1) as engine:
        notes = FolderNotes.read(folder)
        last = open_last(engine, folder, notes)
        # A clock that was put back during this run, or before one that asks only some hosts.
        new = [host for host in seen if host.at <= at_most and host.at > last.read_at.get(host.host, 0)]
        run_at = max((host.at for host in new), default=None)
        if run_at is None or run_at <= (last.run_at or 0):
            return
        interval_s = usual_interval(notes.runs, config.site.interval)
        addition = Addition(
            tuple(host.name for host in config.hosts),
            config.history.texts,
            is_partial=len(new) < len(seen),
        )
        for host, rows in load_runs(engine, config.csv_path, [Run(run_at, new, interval_s)], addition):
            say(f"history: {host} sent {count(rows, 'process', 'processes')} with too much text: left out")
        closing.reopen(engine, folder, run_at)
        write_rows(engine, run_path(folder, run_at), QUICK)
        advance(engine, folder, run_at, interval_s)
        notes = notes.with_run(run_at)
        event_log.add(engine, folder, events, at_most - config.history.keep_events * DAY)
        notes = closing.tidy(engine, config, notes, at_most, interval_s, say)
        notes.write(folder)


def load_runs(
    engine: Engine, csv_path: Path, runs: Sequence[Run], addition: Addition
) -> list[tuple[str, int]]:
    """The rows of these runs in a table `new_rows`; the CSV may have others, too.

    Returns hosts that sent too much text, and how many of their processes are left out.
    """
    given = {"is_partial": addition.is_partial}
    texts = {"hosts": hosts_text(runs), "gpus": gpus_text(runs)}
    rows = filled(
        "sql/new_rows",
        values=_values(addition.with_texts, has_formulas=_has_formulas(csv_path)),
        csv=_csv_table(csv_path),
        hosts=sql("sql/seen"),
        gpus=sql("sql/seen_gpus"),
        card="c.gpu_uuid",
    )
    engine.do(rows, given | texts)
    nameless, missing, fresh, heavy = engine.row(sql("sql/look"), {"most": MOST_TEXT})
    if nameless:
        engine.do(sql("sql/cards"))
    if missing or nameless:
        limits = {"missing_s": MISSING_S, "most_missing": MOST_MISSING}
        engine.do(sql("sql/missing_rows"), given | limits)
    if heavy:
        leave_out_processes(engine, "new_rows", [host for host, _ in heavy])
    engine.do(f"CREATE OR REPLACE TEMP TABLE new_gpus AS {filled('sql/gpu_runs', rows='new_rows')}")
    if fresh or nameless:
        engine.do(sql("sql/moved"), {"configured": [*addition.configured, ""]})
        engine.do(sql("sql/follow_moved"))
    return heavy or []


def write_rows(engine: Engine, path: Path, options: str = PACKED, rows: str = "new_rows") -> None:
    listed = ", ".join(f'"{name}"' for name in COLUMN_TYPES)
    engine.write(f"SELECT {listed} FROM {rows}", path, options)


def _has_formulas(csv_path: Path) -> bool:
    """Whether any cell may be hidden from spreadsheets: then each text is looked at, which takes its time."""
    return b"'" in csv_path.read_bytes()


def _values(with_texts: bool, *, has_formulas: bool) -> str:
    values = []
    for name, column in columns(with_texts=with_texts, has_formulas=has_formulas).items():
        value = f"CASE WHEN level = 3 THEN {column.value} END" if name in OF_HOSTS else column.value
        values.append(f'{value} AS "{name}"')
    return ", ".join(values)


def _csv_table(path: Path) -> str:
    types = ", ".join(f"{quoted(name)}: {quoted(kind)}" for name, kind in cell_types().items())
    # Named here and not sniffed: nothing that a host sends may change how the file is read.
    return (
        f"read_csv({quoted(path)}, header = true, auto_detect = false, delim = ',',"
        f" quote = '\"', escape = '\"',"
        f" nullstr = '', max_line_size = 10000000, columns = {{{types}}})"
    )


def usual_interval(runs: Sequence[int], configured: int) -> int:
    """`runs`: the times of the last ones."""
    newest = sorted(runs)[-LAST_RUNS - 1 :]
    gaps = [later - earlier for earlier, later in pairwise(newest)]
    # A few runs by hand say nothing about cron.
    return max(configured, int(statistics.median(gaps))) if len(gaps) >= LAST_RUNS // 2 else configured


def newest_runs(config: Config, most: int) -> list[datetime]:
    """The last runs of the history, as far as that can be read."""
    if not config.history.enabled:
        return []
    runs = FolderNotes.read(config.history_path).runs
    return [datetime.fromtimestamp(at, UTC) for at in sorted(runs)[-most:]]


def add_past(
    engine: Engine, folder: Path, csv_path: Path, runs: Sequence[Run], with_texts: bool, now: int
) -> None:
    """Many runs at once, all in one CSV: a past that is made up. There is no history before them."""
    engine.do(sql("sql/no_last_state"))
    load_runs(engine, csv_path, runs, Addition(with_texts=with_texts))
    engine.do(sql("sql/down_in_between"))
    closing.count_seconds(engine, "new_rows")
    closing.write_past(engine, folder, now, max(run.interval_s for run in runs))
    engine.do(f"CREATE OR REPLACE TEMP TABLE new_gpus AS {filled('sql/gpu_runs', rows='new_rows')}")
    last = max(runs, key=lambda run: run.at)
    advance(engine, folder, last.at, max(run.interval_s for run in runs))
    FolderNotes(tuple(sorted(run.at for run in runs)[-MOST_RUNS:])).write(folder)
