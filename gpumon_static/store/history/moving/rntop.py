"""rntop's log, in and out, so that its users can move and its board can open ours.

    timestamp,node,index,utilization,memory_used,memory_total
    2025/11/14 09:10:02.118,gpu01,0,97,41000,81920

The time is the node's own, as its nvidia-smi prints it, without a zone: it is taken as that of this
machine. We write UTC with its offset, because an hour of local time comes twice when the clock is put back.
ISO 8601 is read too. Utilization is percent, memory MiB. Rows come in the order of time.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from gpumon_static.store.history.columns import COLUMN_TYPES
from gpumon_static.store.history.engine import Engine, filled, open_engine, parquet, sql
from gpumon_static.store.history.layout import DAY, HOUR, LAST_FILE, day_path
from gpumon_static.store.history.reader import Period, Reader
from gpumon_static.store.history.upkeep import checksums
from gpumon_static.store.history.upkeep.closing import count_seconds

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config

HEADER = "timestamp,node,index,utilization,memory_used,memory_total".split(",")
MOST_NAMED = 20
"""Bad lines that are named; all are counted."""
CHUNK = 50_000
LABEL = "rntop"

StateOf = Callable[[float, float, float], str]
"""Utilization, memory used and memory total to a state; the survey decides it."""


class LogRow(NamedTuple):
    at: int
    node: str
    position: int
    utilization: int
    memory_used: int
    memory_total: int


@dataclass
class Imported:
    added: int = 0
    known: int = 0
    """Rows of a time for which the history has its own samples."""
    bad: int = 0
    bad_lines: list[str] = field(default_factory=list)
    """line 17: reason"""

    def note(self, line: int, reason: str) -> None:
        self.bad += 1
        if self.bad <= MOST_NAMED:
            self.bad_lines.append(f"line {line}: {reason}")


def read_log(lines: Iterable[str], result: Imported) -> Iterator[LogRow]:
    """Every good row; the header may stand again where two logs were put together."""
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if cells == HEADER or cells == [""]:
            continue
        try:
            yield _row(cells)
        except ValueError as error:
            result.note(number, str(error))


def import_log(config: Config, lines: Iterable[str], now: int, state_of: StateOf) -> Imported:
    """What is of hours in which the history knows nothing of that host. A second time adds nothing."""
    result = Imported()
    rows = [row for row in read_log(lines, result) if row.at <= now]
    if not rows:
        return result
    folder = config.history_path
    with open_engine(folder) as engine:
        reader = Reader.open(engine, folder)
        _load(engine, rows, state_of)
        asked = Period(min(row.at for row in rows) - HOUR, max(row.at for row in rows) + HOUR)
        engine.do(f"CREATE OR REPLACE TEMP TABLE our_rows AS {reader.rows(asked)} AND level = 3")
        path = folder / LAST_FILE
        last = (
            parquet([path])
            if path.exists()
            else "(SELECT '' AS host, '' AS card, -1 AS mig_device, 0 AS gpu_index)"
        )
        given = {"interval_s": _interval(rows)}
        engine.do(f"CREATE OR REPLACE TEMP TABLE new_rows AS {filled('sql/from_log', last=last)}", given)
        result.added = engine.value("SELECT count(*) FROM new_rows WHERE gpu_index IS NOT NULL")
        result.known = len(rows) - result.added
        count_seconds(engine, "new_rows")
        for (day,) in engine.rows(f"SELECT DISTINCT epoch(run_at)::BIGINT // {DAY} * {DAY} FROM new_rows"):
            _add_day(engine, folder, day)
    return result


def _load(engine: Engine, rows: Sequence[LogRow], state_of: StateOf) -> None:
    """The rows as a table `log`."""
    lines = (
        "\x1f".join(map(str, (*row, state_of(row.utilization, row.memory_used, row.memory_total))))
        for row in rows
    )
    engine.do(sql("sql/log"), {"rows": "\x1e".join(lines)})


def _add_day(engine: Engine, folder: Path, day: int) -> None:
    path = day_path(folder, day, LABEL)
    before = f"SELECT * FROM {parquet([path])} UNION ALL BY NAME " if path.exists() else ""
    new = f"SELECT * FROM new_rows WHERE epoch(run_at)::BIGINT // {DAY} * {DAY} = {day}"
    listed = ", ".join(f'"{name}"' for name in COLUMN_TYPES)
    engine.write(
        f"SELECT {listed} FROM ({before}{new}) ORDER BY host, gpu_index NULLS FIRST, fetched_at", path
    )
    checksums.forget(folder, path)


def export_log(reader: Reader, asked: Period, file: TextIO) -> int:
    """All samples since then, oldest first. rntop has no word for what is not known: those are left out."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEADER)
    cursor = reader.engine.connection.execute(filled("questions/rntop", gpu_runs=reader.gpu_runs(asked)))
    count = 0
    while rows := cursor.fetchmany(CHUNK):
        for at, *cells in rows:
            time = datetime.fromtimestamp(at, UTC)
            writer.writerow([f"{time:%Y/%m/%d %H:%M:%S}.000+00:00", *cells])
        count += len(rows)
    return count


def _interval(rows: Iterable[LogRow]) -> int:
    """How often the log has a row of the same GPU."""
    last: dict[tuple[str, int], int] = {}
    gaps = []
    for row in rows:
        key = row.node, row.position
        if row.at > last.get(key, row.at):
            gaps.append(row.at - last[key])
        last[key] = row.at
    return statistics.median_low(gaps) if gaps else 1


def _row(cells: list[str]) -> LogRow:
    if len(cells) != len(HEADER):
        raise ValueError(f"{len(cells)} columns, not {len(HEADER)}")
    time, node, *numbers = cells
    if not node or "/" in node or not node.isprintable():
        raise ValueError(f"{node!r} is not a host name")
    at = _time(time)
    index, utilization, used, total = (
        _number(text, name) for text, name in zip(numbers, HEADER[2:], strict=True)
    )
    if utilization > 100:
        raise ValueError(f"utilization {utilization} is more than 100 percent")
    return LogRow(at, node, index, utilization, used, total)


def _time(text: str) -> int:
    """Without a zone it is local time."""
    try:
        return int(datetime.fromisoformat(text.replace("/", "-")).timestamp())
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time") from None


def _number(text: str, name: str) -> int:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a valid {name}") from None
    if not 0 <= value < 2**31:
        raise ValueError(f"{text!r} is not a valid {name}")
    return round(value)
