"""rntop's log, in and out, so that its users can move and its board can open ours.

    timestamp,node,index,utilization,memory_used,memory_total
    2025/11/14 09:10:02.118,gpu01,0,97,41000,81920

The time is the node's own, as its nvidia-smi prints it, without a zone: it is taken, and written, as that of
this machine. ISO 8601 is read too. Utilization is percent, memory MiB. Rows come in the order of time.
"""

from __future__ import annotations

import csv
import sqlite3
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, TextIO

from gpumon_static.store.history.ledger import Latest, Ledger, read_latest
from gpumon_static.store.history.names import KnownGpu, Names
from gpumon_static.store.history.observed import DOWN, FREE, NOBODY, Observed, Values
from gpumon_static.store.history.record import prune_as_configured
from gpumon_static.store.history.rollups import DAY

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config

HEADER = "timestamp,node,index,utilization,memory_used,memory_total".split(",")
MOST_NAMED = 20
"""Bad lines that are named; all are counted."""
ENOUGH_ROWS = 20_000
"""To see how often the log has a row."""
MODEL = ""

StateOf = Callable[[float, float, float], int]
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


def import_log(
    connection: sqlite3.Connection, config: Config, lines: Iterable[str], now: int, state_of: StateOf
) -> Imported:
    """What is before our own first sample of a GPU, or after our last one. A second time adds nothing."""
    result = Imported()
    rows = read_log(lines, result)
    head = list(islice(rows, ENOUGH_ROWS))
    names, latest = Names(connection), read_latest(connection)
    raw_from = now - config.history.keep_raw * DAY
    past = Ledger(connection, names, _interval(head), raw_from=raw_from, latest={})
    after = Ledger(connection, names, _interval(head), raw_from=raw_from)
    places = _ByPosition(names, latest)
    firsts: dict[int, int] = {}
    for row in chain(head, rows):
        gpu = places.gpu(row)
        ours = latest.get(gpu.id)
        is_ours = row.at > now or (ours is not None and gpu.first_at <= row.at <= ours.at)
        ledger = after if ours and row.at > ours.at else past
        if is_ours or not ledger.add(gpu, row.at, _observed(row, state_of)):
            result.known += 1
        else:
            result.added += 1
            firsts.setdefault(gpu.id, row.at)
    _close(past, latest)
    past.save(leave_out=latest)
    after.save()
    update = "UPDATE gpus SET first_at = min(first_at, ?) WHERE id = ?"
    connection.executemany(update, [(at, gpu) for gpu, at in firsts.items()])
    prune_as_configured(connection, config, now)
    return result


def export_log(connection: sqlite3.Connection, since: int, file: TextIO) -> int:
    """All samples since then, oldest first. rntop has no word for what is not known: those are left out."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEADER)
    count = 0
    rows = connection.execute(
        "SELECT s.at, hosts.name, position, s.utilization, s.memory, l.memory_total"
        " FROM samples AS s JOIN gpus ON gpus.id = s.gpu JOIN hosts ON hosts.id = gpus.host"
        " JOIN latest AS l ON l.gpu = s.gpu WHERE s.at >= ? AND slice IS NULL AND s.state != ?"
        " AND s.utilization IS NOT NULL AND s.memory IS NOT NULL AND l.memory_total IS NOT NULL"
        " ORDER BY s.at, hosts.name, position",
        (since, DOWN),
    )
    for at, *cells in rows:
        time = datetime.fromtimestamp(at).astimezone()
        writer.writerow([f"{time:%Y/%m/%d %H:%M:%S}.000", *cells])
        count += 1
    return count


class _ByPosition:
    """The log knows GPUs by node and index: those are ours that stand there now."""

    def __init__(self, names: Names, latest: dict[int, Latest]) -> None:
        self._names = names
        self._known: dict[tuple[str, int], KnownGpu] = {}
        for number in sorted(latest, key=lambda gpu: latest[gpu].at):
            gpu = names.by_id[number]
            if gpu.slice is None:
                self._known[names.host_name(gpu.host), gpu.position] = gpu

    def gpu(self, row: LogRow) -> KnownGpu:
        key = row.node, row.position
        if key not in self._known:
            seen = Observed(None, row.position, None, MODEL, "", 1.0, FREE, (), Values(), None)
            self._known[key] = self._names.gpu(row.node, seen, row.at, set())
        return self._known[key]


def _close(past: Ledger, latest: dict[int, Latest]) -> None:
    """The last row of the log stands for the time until our own first sample, if that came soon."""
    for number in past.latest.keys() & latest.keys():
        gpu = past.names.by_id[number]
        past.count(gpu, past.latest[number], gpu.first_at)


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


def _observed(row: LogRow, state_of: StateOf) -> Observed:
    """Without its processes: rntop does not ask for them."""
    state = state_of(row.utilization, row.memory_used, row.memory_total)
    users = () if state == FREE else (NOBODY,)
    values = Values(row.utilization, row.memory_used)
    return Observed(None, row.position, None, MODEL, "", 1.0, state, users, values, row.memory_total)


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
