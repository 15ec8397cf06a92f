"""`top` as plain data, without a terminal: what is shown, and what each key does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from rich.text import Text

from gpumon_static.model import HostReading
from gpumon_static.survey.names import short_model
from gpumon_static.survey.owners import owner
from gpumon_static.survey.survey import Place, Survey, SurveyedHost
from gpumon_static.terminal import layout
from gpumon_static.terminal.layout import LinePart, Row
from gpumon_static.terminal.rows import Look, columns, host_rows, place_rows
from gpumon_static.terminal.show import DOT, not_read, shown_names, totals

SORTS: dict[str, tuple[str, Callable[[Place], float]]] = {
    "n": ("host", lambda _: 0.0),
    "u": ("utilization", lambda place: -(place.utilization if place.utilization is not None else -1.0)),
    "m": ("memory", lambda place: -(place.memory_used_mib if place.memory_used_mib is not None else -1.0)),
    "c": ("temperature", lambda place: -(place.gpu.temperature_c or -1.0)),
    "w": ("power", lambda place: -(place.gpu.power_w or -1.0)),
    "f": ("free first", lambda place: 0.0 if place.is_usable else 1.0),
}
HELP = (
    LinePart("q quit", "dim"),
    LinePart("space pause", "dim", 3),
    LinePart("/ filter", "dim", 1),
    LinePart("n u m c w f sort", "dim", 2),
    LinePart("p processes", "dim", 4),
    LinePart("d details", "dim", 5),
    LinePart("↑↓", "dim", 6),
)


@dataclass(frozen=True)
class View:
    look: Look
    interval: float
    sort: str = "n"
    filter: str = ""
    is_typing: bool = False
    is_paused: bool = False
    has_ended: bool = False
    scroll: int = 0
    problem: str = ""
    readings: Mapping[str, HostReading] = field(default_factory=dict)
    slurm: Mapping[str, HostReading] = field(default_factory=dict)
    """By the name under which each Slurm was asked."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """Hosts that were Slurm nodes in the last fetch."""


def press(view: View, key: str, page: int) -> View:
    """Apply a key. `page`: the number of lines on the screen."""
    if view.is_typing:
        return _typed(view, key)
    moves = {"up": -1, "down": 1, "page-up": -page, "page-down": page, "home": -(10**9), "end": 10**9}
    if key in moves:
        return replace(view, scroll=view.scroll + moves[key])
    if key in SORTS:
        return replace(view, sort=key, scroll=0)
    changes: dict[str, View] = {
        "q": replace(view, has_ended=True),
        " ": replace(view, is_paused=not view.is_paused),
        "/": replace(view, is_typing=True, filter=""),
        "escape": replace(view, filter="", scroll=0),
        "p": replace(view, look=replace(view.look, processes=not view.look.processes)),
        "d": replace(view, look=replace(view.look, details=not view.look.details)),
    }
    return changes.get(key, view)


def _typed(view: View, key: str) -> View:
    if key == "enter":
        return replace(view, is_typing=False)
    if key == "escape":
        return replace(view, is_typing=False, filter="")
    if key == "backspace":
        return replace(view, filter=view.filter[:-1])
    return replace(view, filter=view.filter + key, scroll=0) if len(key) == 1 and key.isprintable() else view


def frame(view: View, survey: Survey, width: int, height: int) -> tuple[list[Text], int]:
    """The lines of one screen, and how far it is scrolled when it has gone as far as it can."""
    head = _head(view, survey, width)
    body = _body(view, survey, width)
    room = max(1, height - len(head) - 1)
    table_head, rows = body[:1], body[1:]
    most = max(0, len(rows) - (room - 1))
    scroll = min(max(0, view.scroll), most)
    shown = [*table_head, *rows[scroll : scroll + room - 1]]
    shown += [Text()] * (room - len(shown))
    return [*head, *shown, _foot(view, width)], scroll


def _head(view: View, survey: Survey, width: int) -> list[Text]:
    asked = [host for host in survey.hosts if host.reading]
    waiting = sum(host.is_unread for host in survey.hosts)
    line = totals(asked, view.look, short=True) if asked else [LinePart("Asking the hosts", "bold")]
    if waiting and asked:
        line.append(LinePart(f"{waiting} not answered yet", "dim", 2))
    state = " PAUSED " if view.is_paused else f"every {view.interval:g} s"
    style = "bold reverse" if view.is_paused else "dim"
    clock = [
        LinePart(f"{survey.made_at.astimezone():%H:%M:%S %Z}", style, 2),
        LinePart(state, style),
        LinePart(f"sorted by {SORTS[view.sort][0]}", style, 3),
    ]
    failed = (reading for reading in view.slurm.values() if not reading.ok)
    clock += [LinePart(f"{reading.host}: {reading.status.value}", "red", 1) for reading in failed]
    return [layout.in_line(line, width, DOT), layout.in_line(clock, width), Text()]


def _body(view: View, survey: Survey, width: int) -> list[Text]:
    names = shown_names([host.name for host in survey.hosts], short=True)
    wanted = view.filter.casefold()
    pairs = [
        (host, [place for place in host.places() if _matches(host, place, wanted)]) for host in survey.hosts
    ]
    rows: list[Row] = []
    if view.sort == "n":
        for host, places in pairs:
            if places:
                rows += host_rows(host, places, names[host.name], view.look, survey)
    else:
        by = SORTS[view.sort][1]
        flat = sorted(
            ((host, place) for host, places in pairs for place in places), key=lambda pair: by(pair[1])
        )
        for host, place in flat:
            rows += place_rows(place, names[host.name], view.look, survey.made_at)
    table = layout.lines(columns(view.look), rows, width)
    failed = [host for host in survey.hosts if host.reading and not host.ok and _named(host, wanted)]
    return [*table, *([Text()] if failed and rows else []), *not_read(failed, names)]


def _named(host: SurveyedHost, wanted: str) -> bool:
    return wanted in f"{host.name} {host.config.group or ''}".casefold()


def _matches(host: SurveyedHost, place: Place, wanted: str) -> bool:
    if not wanted or _named(host, wanted):
        return True
    words = [short_model(place.gpu.name), place.state.word, *(owner(p).name for p in place.processes)]
    return any(wanted in word.casefold() for word in words)


def _foot(view: View, width: int) -> Text:
    if view.problem:
        return Text(view.problem, "bold yellow")
    if view.is_typing:
        asks = LinePart("filter by host, group, user, model or state:", "bold", 1)
        return layout.in_line([asks, LinePart(f"{view.filter}_", "bold")], width, " ")
    if view.filter:
        first = [LinePart(f"filter: {view.filter}", "bold"), LinePart("(Esc clears it)", "bold", 1)]
        return layout.in_line([*first, *(part._replace(drop=part.drop + 2) for part in HELP)], width)
    return layout.in_line(HELP, width)
