"""The history's numbers for the browser, in a JSON block of their own: drawn by assets/history.js.

Drawn in the browser and not here, because most of it is looked at only when asked for: four ranges of time, a
line for each host, four small charts for each GPU. As SVG that would be many times the bytes. Series are
texts of one letter per point: 64 levels from nothing to `top`, a space where nothing is known.

    {"columns": ..., "step": {"24h": 900, ...}, "count": {"24h": 96, ...},
     "first": {"24h": 1763, ...},                                   the number of its point since 1970
     "cluster": {"24h": LEVELS, ...}, "hosts": [HOST, ...], "models": [MODEL, ...],
     "zone": 60, "hour": 490123, "users": [...], "gpus": [[GPU or 0, ...], ...]}

Rows are arrays; `columns` has their names, which are the fields of the classes below. `gpus` has a list for
each host, in the order of the other JSON block. A series that begins with a long gap has it as a number:
"80~ABC" is 80 points of nothing, then three. One that begins with a long run of one level has its length:
"20*ABC" is 20 times A, then B and C. `zone`: minutes east of UTC, of the hours of the week.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumon_static.model.states import TAKEN
from gpumon_static.publish.page.columns import Rows, columns_of
from gpumon_static.publish.page.data import as_json, short_number
from gpumon_static.store.history.last_day import NO_BYTE, NO_WATTS, LastDay, first_hour, first_slot
from gpumon_static.store.history.past import GpuPast, Past
from gpumon_static.store.history.pools import RANGES, WEEK_HOURS, WIDTH, PointColumn, Pool
from gpumon_static.survey.names import short_model
from gpumon_static.text import natural_key

if TYPE_CHECKING:
    from gpumon_static.publish.page.past import PastView
    from gpumon_static.publish.page.records import Card, HostView

LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
COARSE = "".join(LEVELS[min(63, round(place / 4) * 4)] for place in range(64))
"""Every fourth level, for what there are thousands of: half as much when packed."""
MOST, BOTTOM = len(LEVELS) - 1, LEVELS[0]
LONG_GAP, LONG_RUN = 4, 4
MOST_OWNERS = 3

Series = Sequence[float | None]


class PastLevels(NamedTuple):
    """Letters."""

    utilization: str
    memory: str


Levels = dict[str, PastLevels]
"""By range."""


class PastHost(NamedTuple):
    name: str
    levels: Levels


class PastModel(NamedTuple):
    name: str
    size: int
    free: dict[str, str]
    """By range."""
    week: str
    """168 letters from Monday 0:00 on, by the collector's clock."""


class PastGpu(NamedTuple):
    """The last 24 hours."""

    utilization: str
    memory: str
    temperature: str
    power: str
    top: int
    """The scale of the power, W; 0: its limit."""
    bands: list[int]
    """[slot, user, slot, user, ...]: whose it is from that quarter of an hour on, where the card's ribbon
    has it taken."""
    spent: list[int]
    """Minutes: busy, held idle, free."""
    peaks: list[int | None]
    """The largest single readings: utilization and memory in percent, temperature, power."""


ROWS: Rows = {"levels": PastLevels, "host": PastHost, "model": PastModel, "gpu": PastGpu}


def past_data(view: PastView, hosts: Iterable[HostView], levels: Levels, models: Iterable[ModelPast]) -> str:
    """`hosts`: those that are shown with their own past and that of their GPUs.

    `levels`: of the whole.
    """
    shown = list(hosts)
    past = view.past
    users: dict[str, int] = {}
    by_host: dict[str, list[Pool]] = defaultdict(list)
    for pool in whole_pools(past, {host.full_name for host in shown}) if shown else ():
        by_host[pool.host].append(pool)
    data: dict[str, Any] = {
        "columns": columns_of(ROWS),
        "step": {name: grid.step for name, grid in past.grids.items()},
        "count": {name: grid.points for name, grid in past.grids.items()},
        "first": {name: grid.first(past.now) for name, grid in past.grids.items()},
        "cluster": levels,
        "hosts": [PastHost(host.name, past_levels(view, by_host[host.full_name], COARSE)) for host in shown],
        "models": [
            PastModel(
                m.name,
                m.size,
                {name: letters(m.free[name], m.size) for name in RANGES},
                letters(m.week, m.size),
            )
            for m in models
        ],
        "zone": zone_offset(past.now),
        "hour": first_hour(past.now),
        "slot": first_slot(past.now),
        "gpus": _gpus(view, shown, users),
        "users": list(users),
    }
    return as_json(data)


def zone_offset(now: int) -> int:
    """Minutes by which the collector is east of UTC."""
    offset = datetime.fromtimestamp(now).astimezone().utcoffset()
    return int(offset.total_seconds() // 60) if offset else 0


def whole_pools(past: Past, hosts: set[str] | None) -> list[Pool]:
    """Of these hosts, or of all there ever were. Slices are left out: their card has them."""
    known = {pool for known in past.ranges.values() for pool in known.pools}
    return [pool for pool in known if not pool.profile and (hosts is None or pool.host in hosts)]


def letters(values: Series, top: float, levels: str = LEVELS, before: int = 0) -> str:
    """Known values are never a space; what is less than nothing is drawn at the bottom, frost for one.

    `before`: so many points that are not known come first.
    """
    scale = MOST / top if top else 0
    most = levels[MOST] if top else BOTTOM
    return _in_short("".join(
        [" " if value is None else most if value >= top
         else levels[int(value * scale + 0.5)] if value > 0 else BOTTOM
         for value in values]
    ), before)  # fmt: skip


def _in_short(drawn: str, before: int = 0) -> str:
    drawn = drawn.rstrip()
    known = drawn.lstrip()
    gap = len(drawn) - len(known) + before
    if not known:
        return ""
    rest = known.lstrip(known[0])
    is_run = (alike := len(known) - len(rest)) > LONG_RUN
    if is_run:
        known = f"{alike}*{known[0]}{rest}"
    # The length of a run is the first of what is written, or follows the sign of the gap.
    return f"{gap}~{known}" if gap > LONG_GAP or (gap and is_run) else " " * gap + known


def known_levels(written: str) -> list[int]:
    """The levels of a series, without its gaps."""
    length, _, known = written.rpartition("~")[2].rpartition("*")
    repeated = known[:1] * (int(length) - 1) if length else ""
    return [LEVELS.index(letter) for letter in repeated + known if letter != " "]


def _table(levels: str) -> bytes:
    drawn = [letters([value], 100, levels) for value in range(NO_BYTE)]
    return "".join([*drawn, " "]).encode()


_TABLES = {levels: _table(levels) for levels in (LEVELS, COARSE)}


def percent_letters(percents: bytes, levels: str = LEVELS) -> str:
    """The same for bytes from 0 to 100, and `NO_BYTE`: in one step, for what there are thousands of."""
    return _in_short(percents.translate(_TABLES[levels]).decode())


def past_levels(view: PastView, pools: Sequence[Pool], levels: str = LEVELS) -> Levels:
    """Mean utilization and memory in use, in percent, of all GPUs of these pools."""
    found = {}
    for name in RANGES:
        before, sums = _summed(view.past, pools, name)
        worked, measured = (
            sums[PointColumn.UTILIZATION_SUM :: WIDTH],
            sums[PointColumn.UTILIZATION_N :: WIDTH],
        )
        used, total = sums[PointColumn.MEMORY_SUM :: WIDTH], sums[PointColumn.MEMORY_TOTAL :: WIDTH]
        found[name] = PastLevels(
            letters(
                [w / m if m else None for w, m in zip(worked, measured, strict=True)], 100, levels, before
            ),
            letters(
                [100 * u / t if t else None for u, t in zip(used, total, strict=True)], 100, levels, before
            ),
        )
    return found


def _summed(past: Past, pools: Iterable[Pool], name: str) -> tuple[int, Sequence[float]]:
    """All columns of all points of a range, and before them so many points of which nothing is known."""
    first, known = past.ranges[name]
    series = [points for pool in pools if (points := known.get(pool))]
    before = first - past.grids[name].first(past.now)
    return before, series[0] if len(series) == 1 else list(map(sum, zip(*series, strict=True)))


@dataclass(frozen=True, slots=True)
class ModelPast:
    name: str
    size: int
    free: dict[str, Series]
    """By range: how many were free at each point of time."""
    week: Series
    """How many are free at each hour of the week, in the mean of the last weeks."""


def models_past(past: Past, hosts: set[str]) -> list[ModelPast]:
    """Of these hosts; the model with the most GPUs first."""
    by_model: dict[str, list[Pool]] = defaultdict(list)
    for pool in past.sizes:
        if pool.host in hosts:
            by_model[f"{pool.profile} {short_model(pool.model)}".lstrip()].append(pool)
    found = []
    for model in sorted(by_model, key=natural_key):
        pools = by_model[model]
        size = sum(past.sizes[pool] for pool in pools)
        free = {name: _free(past, pools, name) for name in RANGES}
        found.append(ModelPast(model, size, free, _week(past, pools, size)))
    return sorted(found, key=lambda model: -model.size)


def _free(past: Past, pools: list[Pool], name: str) -> Series:
    before, sums = _summed(past, pools, name)
    both = zip(sums[PointColumn.FREE :: WIDTH], sums[PointColumn.KNOWN :: WIDTH], strict=True)
    return [*[None] * before, *(number if is_known else None for number, is_known in both)]


def _week(past: Past, pools: list[Pool], size: int) -> Series:
    weeks = [week for pool in pools if (week := past.week.get(pool))]
    sums = [*map(sum, zip(*weeks, strict=True))] or [0.0] * 2 * WEEK_HOURS
    both = zip(sums[::2], sums[1::2], strict=True)
    return [free / known * size if known else None for free, known in both]


def _gpus(view: PastView, hosts: Iterable[HostView], users: dict[str, int]) -> list[list[PastGpu | int]]:
    def of_card(host: HostView, card: Card) -> PastGpu | int:
        gpu = view.past.gpus.get((host.full_name, card.index))
        if gpu is None or gpu.day is None:
            return 0
        day = _day(gpu.day, card.tooltip.power_limit_w)
        return day._replace(bands=_bands(view, gpu, users), spent=gpu.spans.minutes())

    return [[of_card(host, card) for card in host.cards] for host in hosts]


class _PowerLetters(dict[int, str]):
    """Watts to a letter on the scale of so many: each is worked out once, for thousands of GPUs."""

    def __init__(self, top_w: float) -> None:
        super().__init__({NO_WATTS: " "})
        self._top_w = top_w

    def __missing__(self, watts: int) -> str:
        self[watts] = letter = letters([watts], self._top_w, COARSE)
        return letter


_power_letters = lru_cache(maxsize=256)(_PowerLetters)


def _day(day: LastDay, limit_w: float | None) -> PastGpu:
    watts = day.power
    limit = short_number(limit_w) or 0
    # Where nothing is not known, which would be more than any limit, that is one look.
    most_w = max(watts)
    if most_w > limit:
        most_w = max((value for value in watts if value != NO_WATTS), default=0)
    top_w = 0 if most_w <= limit else most_w
    return PastGpu(
        utilization=percent_letters(day.utilization, COARSE),
        memory=percent_letters(day.memory, COARSE),
        # From 0 to 100 degrees.
        temperature=percent_letters(day.temperature, COARSE),
        power=_in_short("".join(map(_power_letters(top_w or limit).__getitem__, watts))),
        top=top_w,
        bands=[],
        spent=[],
        peaks=[*day.most],
    )


def _bands(view: PastView, gpu: GpuPast, users: dict[str, int]) -> list[int]:
    if view.who is None:
        return []
    bands: list[int] = []
    for first, _, state, held_by in gpu.spans:
        if state not in TAKEN:
            continue
        names = list(dict.fromkeys(map(view.who, held_by)))
        owner = users.setdefault(", ".join(names[:MOST_OWNERS]), len(users))
        if bands[-1:] != [owner]:
            bands += [first, owner]
    return bands
