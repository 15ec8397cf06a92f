"""Readings, config and the time to a `Page`: every decision about what is shown is made here.

Hosts are built in host_view.py, their cards in cards.py, tooltips in tooltips.py, single words in words.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from gpumon_static.model import HostReading
from gpumon_static.publish.page.host_view import Frame, build_host
from gpumon_static.publish.page.past import PastView, namer
from gpumon_static.publish.page.records import Attention, HistoryView, HostView, Kind, Page
from gpumon_static.publish.page.summary import build_headline, build_models, build_tallies
from gpumon_static.publish.page.tabs.contact import Writer, writer
from gpumon_static.publish.page.tabs.health import build_health, health_summary, shown_events
from gpumon_static.publish.page.tabs.history import build_history
from gpumon_static.publish.page.tabs.jobs import MOST_JOBS, build_jobs
from gpumon_static.publish.page.tabs.people import build_people
from gpumon_static.publish.page.tabs.supply import build_supply
from gpumon_static.publish.page.things_data import things_data
from gpumon_static.publish.page.words import moment
from gpumon_static.store.clock import EARLIEST_VALID
from gpumon_static.survey.faults import usual_drivers
from gpumon_static.survey.jobs import Jobs
from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.shown_names import logins_of
from gpumon_static.survey.slurm.demand import demand_lines, idle_lines
from gpumon_static.survey.survey import Survey, build_survey
from gpumon_static.text import clip

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config, PageConfig
    from gpumon_static.store.history.past import Past
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
    survey = build_survey(readings, config, now, spec, key, clusters)
    return page_of(make_ready(survey, config, spec, key, past, reports))


@dataclass(frozen=True)
class Whole:
    """What a page is made of, or several that together have all of these hosts."""

    survey: Survey
    config: Config
    spec: PageConfig
    history: PastView | None
    drivers: dict[str, str]
    anchors: dict[str, str]
    """By name; the same on each page of a site."""
    reports: Sequence[str] = ()
    write: Writer | None = None
    """To users: None where the page shows no names."""
    is_part: bool = False
    """Other pages have other hosts, and an overview has what concerns them all."""


def make_ready(
    survey: Survey,
    config: Config,
    spec: PageConfig | None = None,
    key: bytes = b"",
    past: Past | None = None,
    reports: Sequence[str] = (),
) -> Whole:
    """As `build_page`; `survey`: of this page."""
    who = namer(survey.tier, key, config.users)
    return Whole(
        survey=survey,
        config=config,
        spec=spec or config.pages[0],
        history=PastView(past, who, config.history.idle_after) if past else None,
        drivers=usual_drivers(survey.hosts, config.site.ignore_faults),
        anchors=_anchors(host.name for host in survey.hosts),
        reports=reports,
        write=writer(config.site.contact, logins_of(config.users)) if survey.tier is Tier.NAMES else None,
    )


def page_of(whole: Whole) -> Page:
    survey, history = whole.survey, whole.history
    jobs = survey.jobs
    frame = Frame(survey, whole.drivers, history)
    views = [build_host(host, whole.anchors[host.name], frame) for host in survey.hosts]
    shown_history = (
        build_history(
            history, views, everything=not whole.spec.groups and not whole.is_part, write=whole.write
        )
        if history
        else None
    )
    attention = (*own_attention(survey), *chain(*attention_of(views)))
    return assembled(whole, views, jobs, shown_history, attention, things_of(whole, jobs, shown_history))


def assembled(
    whole: Whole,
    views: Sequence[HostView],
    jobs: Jobs,
    shown_history: HistoryView | None,
    attention: Sequence[Attention],
    things: str,
) -> Page:
    """The page of these parts; the rest of it follows from the survey."""
    survey, config, history = whole.survey, whole.config, whole.history
    shown = [host.reading for host in survey.hosts if host.reading]
    headline = build_headline(survey, views)
    now, latest = survey.made_at, survey.latest
    data_time = moment(latest, now, survey.stale_after_s) if latest else None
    tells_names = survey.tier is not Tier.COUNTS
    health = build_health(survey, views, history, config.site.ignore_faults, own_attention(survey))
    idle = shown_history.idle_people if shown_history else ()
    return Page(
        title=survey.title,
        tab_title=f"{headline.number} {headline.text} – {survey.title}".lstrip(),
        headline=headline,
        data_time=data_time,
        models=build_models(survey.hosts, views),
        tallies=build_tallies(survey.hosts, views),
        attention=tuple(attention[:MOST_ATTENTION]),
        more_attention=tuple(attention[MOST_ATTENTION:]),
        hosts=tuple(views),
        people=build_people(shown, survey.given, history, whole.write) if tells_names else None,
        tells_names=tells_names,
        logins=logins_of(config.users) if survey.tier is Tier.NAMES else {},
        footer=config.site.footer,
        made_at=moment(now, now, survey.stale_after_s),
        is_stale=data_time is not None and data_time.is_old,
        refresh_s=survey.refresh_s,
        interval_s=survey.interval_s,
        stale_after_s=survey.stale_after_s,
        history=shown_history,
        no_history=f"The collector: {_no_date(now)}." if now < EARLIEST_VALID else "",
        jobs=build_jobs(jobs.all, now),
        more_jobs=max(0, len(jobs.all) - MOST_JOBS),
        supply=build_supply(history, whole.spec.groups, now, survey.clusters)
        if history and not whole.is_part
        else None,
        reports=tuple(sorted(whole.reports, reverse=True)),
        health=replace(health, summary=health_summary(health, idle)),
        things=things,
        url=(config.site.url or "") if whole.spec == config.pages[0] else "",
        has_gpufree=config.site.gpufree,
        demand=() if whole.is_part else (*idle_lines(survey), *demand_lines(survey.clusters, now)),
    )


def things_of(whole: Whole, jobs: Jobs, shown_history: HistoryView | None, *, each: bool = True) -> str:
    usage = shown_history.usage if shown_history else ()
    events = shown_events(whole.survey, whole.history)
    return things_data(whole.survey, jobs.all, usage, events, whole.history, each=each)


def own_attention(survey: Survey) -> Iterator[Attention]:
    """What concerns all cards: a collector without a date, a Slurm without an answer, a lost Dask worker."""
    if survey.made_at < EARLIEST_VALID:
        yield Attention("health", "Collector", _no_date(survey.made_at))
    for report in survey.clusters:
        message = report.error or report.status.value if not report.ok else report.note
        if message:
            yield Attention("health", report.name, clip(message, SHORT_FAULT_LETTERS))
    for name, why in survey.lost_workers:
        yield Attention("health", name, clip(why, SHORT_FAULT_LETTERS))


def _no_date(made_at: datetime) -> str:
    return f"its clock is at {made_at:%Y-%m-%d}: no history is kept until it is set"


def attention_of(views: Sequence[HostView]) -> tuple[list[Attention], list[Attention], list[Attention]]:
    """Hosts that failed, then the faults of those that answered, then those of GPUs."""
    failed: list[Attention] = []
    faulty: list[Attention] = []
    for view in views:
        if view.notice and view.notice.kind is Kind.FAILED:
            # What Slurm has to add, that it does not answer, is on its card.
            message = f"{view.notice.word} · {view.notice.status}"
            failed.append(Attention(view.anchor, view.name, message, view.page))
        else:
            short = (clip(fault, SHORT_FAULT_LETTERS) for fault in view.faults)
            faulty += [Attention(view.anchor, view.name, fault, view.page) for fault in short]
    on_gpus = [replace(entry, page=view.page) for view in views for entry in view.gpu_faults]
    return failed, faulty, on_gpus


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
