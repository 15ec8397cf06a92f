"""Readings, config and the time to a `Page`: every decision about what is shown is made here.

Hosts are built in host_view.py, their cards in cards.py, tooltips in tooltips.py, single words in words.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from gpumon_static.model import HostReading
from gpumon_static.publish.page.host_view import Frame, build_host
from gpumon_static.publish.page.past import PastView, namer
from gpumon_static.publish.page.records import Attention, HostView, Kind, Page
from gpumon_static.publish.page.summary import build_headline, build_models, build_tallies
from gpumon_static.publish.page.tabs.health import build_health, shown_events
from gpumon_static.publish.page.tabs.history import build_history
from gpumon_static.publish.page.tabs.jobs import MOST_JOBS, build_jobs
from gpumon_static.publish.page.tabs.people import build_people
from gpumon_static.publish.page.tabs.supply import build_supply
from gpumon_static.publish.page.things_data import things_data
from gpumon_static.publish.page.words import moment
from gpumon_static.survey.faults import usual_drivers
from gpumon_static.survey.jobs import find_jobs
from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.shown_names import logins_of
from gpumon_static.survey.slurm.demand import demand_lines, idle_lines
from gpumon_static.survey.survey import Survey, build_survey
from gpumon_static.text import clip

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config, PageConfig
    from gpumon_static.store.history.timelines import Past
    from gpumon_static.store.slurm.slurm_file import ClusterReport

MOST_ATTENTION = 8
SHORT_FAULT_LETTERS = 60


def build_page(
    readings: Sequence[HostReading],
    config: Config,
    now: datetime,
    spec: PageConfig | None = None,
    key: bytes = b"",
    past: Past | None = None,
    reports: Sequence[str] = (),
    clusters: Sequence[ClusterReport] = (),
) -> Page:
    """`spec`: which of the config's pages, index.html by default; `key`: for pseudonyms.

    `reports`: the months that have one.
    """
    spec = spec or config.pages[0]
    survey = build_survey(readings, config, now, spec, key, clusters)
    shown = [host.reading for host in survey.hosts if host.reading]
    drivers = usual_drivers(survey.hosts, config.site.ignore_faults)
    who = namer(survey.tier, key, config.users)
    history = PastView(past, who, config.history.idle_after) if past else None
    anchors = _anchors(host.name for host in survey.hosts)
    jobs = find_jobs(survey)
    frame = Frame(survey, drivers, history, jobs)
    views = [build_host(host, anchors[host.name], frame) for host in survey.hosts]
    headline = build_headline(survey)
    attention = (*_slurm_attention(survey), *_attention(views))
    latest = survey.latest
    data_time = moment(latest, now, survey.stale_after_s) if latest else None
    tells_names = survey.tier is not Tier.COUNTS
    shown_history = build_history(history, views, everything=not spec.groups) if history else None
    events = shown_events(survey, history)
    usage = shown_history.usage if shown_history else ()
    return Page(
        title=survey.title,
        tab_title=f"{headline.number} {headline.text} – {survey.title}".lstrip(),
        headline=headline,
        data_time=data_time,
        models=build_models(survey.hosts),
        tallies=build_tallies(survey.hosts),
        attention=attention[:MOST_ATTENTION],
        more_attention=attention[MOST_ATTENTION:],
        hosts=tuple(views),
        people=build_people(shown) if tells_names else None,
        tells_names=tells_names,
        logins=logins_of(config.users) if survey.tier is Tier.NAMES else {},
        footer=config.site.footer,
        made_at=moment(now, now, survey.stale_after_s),
        is_stale=data_time is not None and data_time.is_old,
        refresh_s=survey.refresh_s,
        interval_s=survey.interval_s,
        stale_after_s=survey.stale_after_s,
        history=shown_history,
        jobs=build_jobs(jobs.all, now),
        more_jobs=max(0, len(jobs.all) - MOST_JOBS),
        supply=build_supply(history, spec.groups, now) if history else None,
        reports=tuple(sorted(reports, reverse=True)),
        health=build_health(survey, views, history, config.site.ignore_faults),
        things=things_data(survey, jobs.all, usage, events, history),
        demand=(*idle_lines(survey), *demand_lines(survey.clusters, now)),
    )


def _slurm_attention(survey: Survey) -> Iterator[Attention]:
    """A Slurm that did not answer: its facts are missing on all cards."""
    for report in survey.clusters:
        told = report.error or report.status.value if not report.ok else report.note
        if told:
            yield Attention("health", report.name, clip(told, SHORT_FAULT_LETTERS))


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
