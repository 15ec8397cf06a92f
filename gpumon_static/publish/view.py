"""Readings, config and the time to a `Page`: every decision about what is shown is made here.

Hosts are built in host_view.py, their cards in cards.py, tooltips in tooltips.py, single words in words.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gpumon_static.model import HostReading
from gpumon_static.publish import health
from gpumon_static.publish.history_view import build_history
from gpumon_static.publish.host_view import Frame, build_host
from gpumon_static.publish.page import Attention, HostView, Kind, Page
from gpumon_static.publish.past import PastView, namer
from gpumon_static.publish.people import build_people
from gpumon_static.publish.privacy import Tier, veil
from gpumon_static.publish.shown_names import logins_of, with_shown_names, without_command_lines
from gpumon_static.publish.summary import build_headline, build_models, build_tallies
from gpumon_static.publish.words import clip, moment, natural_key

if TYPE_CHECKING:
    from gpumon_static.config import Config, PageConfig
    from gpumon_static.store.timelines import Past

GRACE = timedelta(minutes=1)
"""What a run may take until its data is on the page, before it counts as missed."""

MOST_ATTENTION = 8
SHORT_FAULT_LETTERS = 60


def build_page(
    readings: Sequence[HostReading],
    config: Config,
    now: datetime,
    spec: PageConfig | None = None,
    key: bytes = b"",
    past: Past | None = None,
) -> Page:
    """`spec`: which of the config's pages, index.html by default; `key`: for pseudonyms."""
    spec = spec or config.pages[0]
    tier = Tier(spec.users or config.site.users)
    told = health.without(readings, config.site.ignore_faults)
    told = with_shown_names(told, config.users) if tier is Tier.NAMES else told
    if not config.site.show_command_lines:
        told = without_command_lines(told)
    names = (*config.users, *config.users.values())
    read = {reading.host: reading for reading in veil(told, tier, key, names)}
    chosen = (host for host in config.hosts if not spec.groups or host.group in spec.groups)
    hosts = sorted(chosen, key=lambda host: natural_key(host.name))
    shown = [read[host.name] for host in hosts if host.name in read]
    latest = max((reading.fetched_at for reading in shown), default=None)
    stale_after = timedelta(seconds=2 * config.site.interval) + GRACE
    ignored = config.site.ignore_faults
    drivers = health.usual_drivers(hosts, read, ignored)
    history = PastView(past, namer(tier, key, config.users), config.history.idle_after) if past else None
    frame = Frame(config.busy, tier, latest, stale_after, now, ignored, drivers, history)
    anchors = _anchors(host.name for host in hosts)
    views = [build_host(host, read.get(host.name), anchors[host.name], frame) for host in hosts]
    headline = build_headline(shown, len(hosts), config.busy)
    attention = _attention(views)
    title = spec.title or config.site.title
    data_time = moment(latest, now, stale_after) if latest else None
    return Page(
        title=title,
        tab_title=f"{headline.number} {headline.text} – {title}".lstrip(),
        headline=headline,
        data_time=data_time,
        models=build_models(shown, config.busy),
        tallies=build_tallies(shown, config.busy),
        attention=attention[:MOST_ATTENTION],
        more_attention=attention[MOST_ATTENTION:],
        hosts=tuple(views),
        people=None if tier is Tier.COUNTS else build_people(shown),
        tells_names=tier is not Tier.COUNTS,
        logins=logins_of(config.users) if tier is Tier.NAMES else {},
        footer=config.site.footer,
        made_at=moment(now, now, stale_after),
        is_stale=data_time is not None and data_time.is_old,
        refresh_s=config.site.refresh,
        interval_s=config.site.interval,
        stale_after_s=int(stale_after.total_seconds()),
        history=build_history(history, views, everything=not spec.groups) if history else None,
    )


def _attention(views: Iterable[HostView]) -> tuple[Attention, ...]:
    """Hosts that failed first, then the faults of those that answered."""
    views = list(views)
    failed = [
        Attention(view.anchor, view.name, f"{view.notice.word} · {view.notice.status}")
        for view in views
        if view.notice and view.notice.kind is Kind.FAILED
    ]
    faulty = [
        Attention(view.anchor, view.name, clip(fault, SHORT_FAULT_LETTERS))
        for view in views
        for fault in view.faults
    ]
    on_gpus = [entry for view in views for entry in view.gpu_faults]
    return (*failed, *faulty, *on_gpus)


def _anchors(names: Iterable[str]) -> dict[str, str]:
    """The place of each host on the page, as a link can name it: the same from one run to the next.

    Without a colon, which the ids of its cards have.
    """
    anchors: dict[str, str] = {}
    for name in names:
        anchor = "host-" + re.sub(r"[^A-Za-z0-9._-]", "-", name)
        while anchor in anchors:
            anchor += "_"
        anchors[anchor] = name
    return {name: anchor for anchor, name in anchors.items()}
