"""The page's part on the past: idle holders, GPU hours, the charts in words; past_data.py has the numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from gpumon_static.publish.page.past_data import (
    MOST,
    Levels,
    ModelPast,
    known_levels,
    models_past,
    past_data,
    past_levels,
    whole_pools,
)
from gpumon_static.publish.page.records import HistoryView, HostView, IdleRow, Quantity, UsageRow
from gpumon_static.publish.page.tabs.idle import idle_people
from gpumon_static.store.history.past import USER_RANGES
from gpumon_static.text import DASH
from gpumon_static.times import duration

if TYPE_CHECKING:
    from gpumon_static.publish.page.past import PastView, Who
    from gpumon_static.publish.page.tabs.contact import Writer
    from gpumon_static.store.history.questions import UserUse

HOUR = 3600
MOST_USERS = 200
RANGE_WORDS = {"24h": "24 h", "7d": "7 days", "30d": "30 days", "1y": "a year"}


def build_history(
    view: PastView,
    hosts: Sequence[HostView],
    *,
    everything: bool,
    idle: Sequence[IdleRow] | None = None,
    write: Writer | None = None,
) -> HistoryView:
    """`idle`: where it is known already, of hosts whose cards are on other pages."""
    cards = ((host.full_name, host.anchor, card) for host in hosts for card in host.cards)
    names = {host.full_name for host in hosts}
    # Hosts that are no longer in the config count too, in the past of the whole.
    counted = None if everything else names
    levels = past_levels(view, whole_pools(view.past, counted))
    models = models_past(view.past, names)
    idle_rows = view.idle_rows(cards) if idle is None else tuple(idle)
    return HistoryView(
        idle=idle_rows,
        idle_people=idle_people(idle_rows, write),
        idle_after=duration(view.idle_after),
        usage=_usage(view, counted),
        runs=_runs(view),
        summaries=(*_summaries(levels), *_models_in_words(models, view.past.now)),
        data=past_data(view, hosts if idle is None else (), levels, models),
    )


def _usage(view: PastView, names: set[str] | None) -> tuple[UsageRow, ...]:
    if view.who is None:
        return ()
    by_range = {key: _by_user(uses, names, view.who) for key, uses in view.past.users.items()}
    rows = []
    for user, is_name in by_range["30d"]:
        ranges = tuple(_range_use(by_range[key].get((user, is_name), (0.0,) * 4)) for key in USER_RANGES)
        _, held, efficiency = ranges[-1]
        rows.append(
            UsageRow(
                name=user,
                hours=(ranges[0][0], ranges[1][0], ranges[2][0]),
                held=held,
                efficiency=Quantity(DASH) if efficiency is None else Quantity(str(efficiency), "%"),
                ranges=ranges,
                is_name=is_name,
            )
        )
    rows.sort(key=lambda row: (-row.hours[2], row.name))
    return (*rows[:MOST_USERS], *_others(rows[MOST_USERS:]))


def _others(rows: Sequence[UsageRow]) -> Iterator[UsageRow]:
    """What is left out, as one row."""
    if rows:
        day, week, month = (round(sum(row.hours[n] for row in rows), 1) for n in range(3))
        held = round(sum(row.held for row in rows), 1)
        name = f"and {len(rows)} more"
        yield UsageRow(
            name, (day, week, month), held, Quantity(DASH), ((day, held, None),) * 3, is_name=False
        )


def _runs(view: PastView) -> str:
    """24 h: 288 of 288 runs; 7 days: ..."""
    known = ((RANGE_WORDS[key], view.past.runs.get(key)) for key in USER_RANGES)
    return "; ".join(f"{words}: {runs.words}" for words, runs in known if runs)


def _range_use(sums: Sequence[float]) -> tuple[float, float, int | None]:
    busy_s, held_s, worked, measured = sums
    hours, held = round((busy_s + held_s) / HOUR, 1), round(held_s / HOUR, 1)
    return hours, held, round(worked / measured) if measured else None


def _by_user(
    uses: Iterable[UserUse], names: set[str] | None, who: Who
) -> dict[tuple[str, bool], tuple[float, ...]]:
    """By shown name: seconds busy and held; percent times seconds, and those seconds.

    Logins that share a name are one user, as everywhere on the page.
    """
    sums: dict[tuple[str, bool], tuple[float, ...]] = defaultdict(lambda: (0.0, 0.0, 0.0, 0.0))
    for use in uses:
        if names is None or use.part in names:
            added = (use.busy_s, use.held_s, use.work_s, use.measured_s)
            key = who(use.user), bool(use.user)
            sums[key] = tuple(a + b for a, b in zip(sums[key], added, strict=True))
    return sums


def _summaries(levels: Levels) -> tuple[tuple[str, str], ...]:
    found = []
    for key, (utilization, memory) in levels.items():
        worked, used = _decoded(utilization), _decoded(memory)
        if worked:
            least, most, mean = min(worked), max(worked), sum(worked) / len(worked)
            sentence = f"GPUs worked at {mean:.0f} % on average, between {least:.0f} and {most:.0f} %"
            sentence += f"; {sum(used) / len(used):.0f} % of their memory was in use." if used else "."
            found.append((RANGE_WORDS[key], sentence))
    return tuple(found)


def _models_in_words(models: Iterable[ModelPast], now: int) -> Iterator[tuple[str, str]]:
    """What their charts and the week say, for who cannot see them."""
    zone = datetime.fromtimestamp(now).astimezone().tzname() or "UTC"
    for model in models:
        means = {key: _mean(values) for key, values in model.free.items()}
        found = ", ".join(
            f"{mean:.1f} in {RANGE_WORDS[key]}" for key, mean in means.items() if mean is not None
        )
        by_hour = [_mean(model.week[hour::24]) for hour in range(24)]
        known = {hour: mean for hour, mean in enumerate(by_hour) if mean is not None}
        if not found or not known:
            continue
        yield model.name, f"of {model.size}, free on average: {found}; {_habit(known, model.size, zone)}."


def _habit(by_hour: Mapping[int, float], size: int, zone: str) -> str:
    """When of the day most and fewest are free, where that makes a difference; as in assets/history.js."""
    most, fewest = max(by_hour, key=by_hour.__getitem__), min(by_hour, key=by_hour.__getitem__)
    if by_hour[most] - by_hour[fewest] < max(0.5, 0.05 * size):
        return "at any time of day about the same"
    hours = {"most": most, "fewest": fewest}
    found = (f"{word} around {hour:02}:00 {zone} ({by_hour[hour]:.1f})" for word, hour in hours.items())
    return f"by the time of day {', '.join(found)}"


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _decoded(letters: str) -> list[float]:
    return [100 * level / MOST for level in known_levels(letters)]
