"""`gpumon-static render`: the last readings to the site's pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from gpumon_static.config.settings import Config
from gpumon_static.model import HostReading
from gpumon_static.publish.exports.files import build_exports
from gpumon_static.publish.exports.gpufree import NAME as GPUFREE
from gpumon_static.publish.exports.gpufree import gpufree
from gpumon_static.publish.exports.show_text import SHOW_FILES, show_files
from gpumon_static.publish.page.branding import load_branding
from gpumon_static.publish.page.split.site import render_site
from gpumon_static.publish.page.view import make_ready
from gpumon_static.publish.reports.months import empty_report, month_reports, report_months
from gpumon_static.store import events_file, site_files, snapshot
from gpumon_static.store.events import EventMemory
from gpumon_static.store.history import past as history_past
from gpumon_static.store.history.engine import HistoryError
from gpumon_static.store.history.past import Past
from gpumon_static.store.history.reader import ask
from gpumon_static.store.slurm import slurm_file
from gpumon_static.store.slurm.slurm_file import ClusterReport
from gpumon_static.survey.privacy import key_for
from gpumon_static.survey.survey import build_survey
from gpumon_static.survey.workers import lost_workers
from gpumon_static.system.files import Content, write_for_web
from gpumon_static.system.memory import gc_paused


@dataclass(frozen=True)
class _Kept:
    """What the data directory has, read once for all files of the site."""

    readings: Sequence[HostReading]
    clusters: Sequence[ClusterReport]
    past: Past | None
    events: EventMemory
    key: bytes
    """Of pseudonyms."""

    @classmethod
    def of(cls, config: Config, now: datetime, readings: Sequence[HostReading], key: bytes) -> _Kept:
        clusters = slurm_file.read(slurm_file.path_in(config.paths.data))
        return cls(readings, clusters, _past(config, now), _events(config), key)


def render(config: Config, now: datetime) -> Path:
    """Render all files, then replace them together: a failure leaves all files as they were."""
    site = config.paths.site
    with gc_paused():
        readings = snapshot.read(config.csv_path)
        files = _files(config, now, _Kept.of(config, now, readings, key_for(config, config.pages)))
        made = write_for_web({site / name: content for name, content in files.items()})
    site_files.remove_others(config.paths.data, site, made)
    return config.page_path


def render_only(config: Config, now: datetime) -> None:
    """The same without writing; where there is no data yet, of no data. Raises `GpumonError`."""
    readings = snapshot.read(config.csv_path) if config.csv_path.exists() else []
    for content in _files(config, now, _Kept.of(config, now, readings, b"check")).values():
        if not isinstance(content, str | bytes):
            deque(content, maxlen=0)
    # That of a month is made once: its template is tried at any time.
    empty_report(config, now)


def _files(config: Config, now: datetime, kept: _Kept) -> dict[str, Content]:
    branding = load_branding(config)
    # The data before the pages that are read with it.
    lost = lost_workers(kept.events)
    survey = build_survey(kept.readings, config, now, key=kept.key, clusters=kept.clusters)
    survey = replace(survey, lost_workers=lost)
    files: dict[str, Content] = {**build_exports(survey, config, kept.events, snapshot.to_csv)}
    if config.site.gpufree:
        files[GPUFREE] = gpufree(config.site.url or "")
    files |= month_reports(config, now, kept.key)
    # The reports show what the main page shows, and so only that one links to them.
    months = report_months(config, files)
    taken = [*files, *SHOW_FILES, *(page.file for page in config.pages)]
    main, *others = config.pages
    pages = render_site(make_ready(survey, config, main, kept.key, kept.past, months), branding, taken)
    for page in others:
        its_survey = build_survey(kept.readings, config, now, page, kept.key, kept.clusters)
        whole = make_ready(replace(its_survey, lost_workers=lost), config, page, kept.key, kept.past)
        pages |= render_site(whole, branding, [*taken, *pages])
    # Made last, since at 80,000 GPUs its rows would be in memory beside the pages in work.
    return {**files, **(show_files(survey) if config.site.show else {}), **pages}


def _events(config: Config) -> EventMemory:
    """The events of the feed; none where they cannot be read, which `fetch` reports."""
    try:
        return events_file.load(events_file.path_in(config.paths.data))
    except events_file.UnreadableEvents:
        return EventMemory()


def _past(config: Config, now: datetime) -> Past | None:
    """The history; None where it cannot be read. `fetch` and `history` report why."""
    if not config.history.enabled:
        return None
    try:
        by_group = any(config.groups.values())
        idle_after = config.history.idle_after
        return ask(
            config.history_path,
            lambda reader: history_past.read(reader, now, by_group=by_group, idle_after=idle_after),
        )
    except HistoryError:
        return None
