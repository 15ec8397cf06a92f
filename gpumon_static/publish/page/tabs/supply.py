"""The tab Supply: the rows of survey/supply.py for four periods, as the page writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gpumon_static.publish.page.thing_records import SupplyLine, SupplyTable, SupplyView
from gpumon_static.store.history.past import SUPPLY_DAYS
from gpumon_static.survey.supply import (
    SupplyRow,
    SupplyVerdict,
    hour_words,
    supply_rows,
    with_names,
    with_queue,
)
from gpumon_static.text import DASH, clip, count

if TYPE_CHECKING:
    from gpumon_static.publish.page.past import PastView
    from gpumon_static.store.history.supply import SupplyAnswer
    from gpumon_static.store.slurm.slurm_file import ClusterReport

DAY = 86400
MOST_LINES = 60
MOST_UNSURE = 20
"""Of these: models with too little data. A host may have made them up."""
MODEL_LETTERS = 40
MOST_NAMED = 2
MOST_IN_SUMMARY = 6
LABELS = {"7d": "7 d", "30d": "30 d", "90d": "90 d", "1y": "1 y"}
LOOKS = {
    SupplyVerdict.UNSURE: "unsure",
    SupplyVerdict.SHORT: "short",
    SupplyVerdict.HELD: "held",
    SupplyVerdict.ENOUGH: "enough",
    SupplyVerdict.AMPLE: "ample",
}


def build_supply(
    view: PastView, groups: Sequence[str], now: datetime, clusters: Sequence[ClusterReport] = ()
) -> SupplyView | None:
    """`groups`: of a page that shows these only; it has no sums over all hosts. `clusters`: their queues."""
    tables = []
    for key, answers in view.past.supply.items():
        whole = [] if groups else with_queue(_rows(view, answers[0]), clusters, now)
        by_group = [row for answer in answers[1:] for row in _rows(view, answer)]
        if groups:
            by_group = [row for row in by_group if row.group in groups]
        if whole or by_group:
            tables.append(_table(view, key, answers[0], whole, by_group))
    here = now.astimezone()
    offset = here.utcoffset()
    minutes = int(offset.total_seconds() // 60) if offset else 0
    return SupplyView(tuple(tables), here.tzname() or "UTC", minutes) if tables else None


def _rows(view: PastView, answer: SupplyAnswer) -> list[SupplyRow]:
    return with_names(supply_rows(answer), view.who)


def _table(
    view: PastView, key: str, answer: SupplyAnswer, rows: list[SupplyRow], by_group: list[SupplyRow]
) -> SupplyTable:
    known = answer.asked.until - answer.asked.since
    note = ""
    if known < SUPPLY_DAYS[key] * DAY * 0.97:
        since = datetime.fromtimestamp(answer.asked.since, UTC)
        note = f"There is data since {since.day} {since:%b %Y}: {count(max(1, round(known / DAY)), 'day')}."
    if runs := view.past.runs.get(key):
        note = f"{note} {runs.words} seen.".lstrip()
    whole, parts = _described(rows), _described(by_group)
    room = max(0, MOST_LINES - len(whole))
    return SupplyTable(
        key=key,
        label=LABELS[key],
        note=note,
        summary=_summary(whole or parts),
        lines=tuple(map(_line, whole[:MOST_LINES])),
        group_lines=tuple(map(_line, parts[:room])),
        more=len(rows) - len(whole[:MOST_LINES]) + len(by_group) - len(parts[:room]),
    )


def _summary(rows: Sequence[SupplyRow]) -> str:
    """Short: H100 80G, L40S. Held idle: A100 80G. Enough: T4 and 3 more."""
    kinds = {
        "Short": (SupplyVerdict.SHORT,),
        "Held idle": (SupplyVerdict.HELD,),
        "Enough": (SupplyVerdict.ENOUGH, SupplyVerdict.AMPLE),
    }
    parts = []
    for word, verdicts in kinds.items():
        models = [clip(row.model, MODEL_LETTERS) for row in rows if row.verdict in verdicts]
        models = list(dict.fromkeys(models))
        more = f" and {len(models) - MOST_IN_SUMMARY} more" if len(models) > MOST_IN_SUMMARY else ""
        parts += [f"{word}: {', '.join(models[:MOST_IN_SUMMARY])}{more}."] if models else []
    return " ".join(parts) or "There is too little data for a verdict yet."


def _words_and_queue(row: SupplyRow) -> tuple[str, str]:
    """Apart, unless the verdict is what it is because of the queue."""
    calm = replace(row, queue="")
    return (calm.words, row.queue) if calm.verdict is row.verdict else (row.words, "")


def _described(rows: list[SupplyRow]) -> list[SupplyRow]:
    unsure = [row for row in rows if row.verdict is SupplyVerdict.UNSURE][MOST_UNSURE:]
    left_out = set(map(id, unsure))
    return [row for row in rows if id(row) not in left_out]


def _line(row: SupplyRow) -> SupplyLine:
    known = 100 * row.coverage
    words, queue = _words_and_queue(row)
    shares = (("b", row.busy), ("h", row.held), ("f", row.free))
    return SupplyLine(
        model=clip(row.model, MODEL_LETTERS),
        group=row.group or ("no group" if row.group == "" else ""),
        gpus=row.gpus,
        busy=_percent(row.busy),
        held=_percent(row.held),
        held_long="" if row.held_long is None else _percent(row.held_long),
        free=_percent(row.free),
        bar=tuple((name, round(share * known, 1)) for name, share in shares if share),
        coverage=_percent(row.coverage),
        none_free=_percent(row.none_free),
        two=_percent(row.two_free),
        four=_percent(row.four_free),
        eight=_percent(row.eight_free),
        worst=hour_words(row.worst_hour) or DASH,
        worst_hour=row.worst_hour,
        change=DASH if row.busy_change is None else f"{100 * row.busy_change:+.0f}",
        idle_days=f"{row.held_days:.1f}",
        held_by=_held_by(row),
        verdict=LOOKS[row.verdict],
        words=words,
        queue=queue,
        allocated_idle=_percent(row.allocated_idle),
        allocated_days=_allocated_days(row),
    )


def _allocated_days(row: SupplyRow) -> str:
    if row.allocated_days is None or row.allocated_idle_days is None:
        return ""
    return f"{row.allocated_idle_days:.1f} of {row.allocated_days:.1f} allocated GPU days"


def _held_by(row: SupplyRow) -> str:
    if not row.held_by:
        return count(row.held_users, "user") if row.held_users else ""
    named = ", ".join(f"{who} {days:.1f}" for who, days in row.held_by[:MOST_NAMED])
    more = len(row.held_by) - MOST_NAMED
    rest = sum(days for _, days in row.held_by[MOST_NAMED:])
    return f"{named} and {more} more {rest:.1f}" if more > 0 else named


def _percent(share: float | None) -> str:
    return DASH if share is None else f"{100 * share:.0f}"
