"""`gpumon-static render`: the last readings to the site's pages."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from gpumon_static.commands.report import empty_report, month_reports, report_months
from gpumon_static.config.settings import Config
from gpumon_static.publish.exports.files import build_exports
from gpumon_static.publish.exports.gpufree import NAME as GPUFREE
from gpumon_static.publish.exports.gpufree import gpufree
from gpumon_static.publish.exports.show_text import SHOW_FILES, show_files
from gpumon_static.publish.page.branding import load_branding
from gpumon_static.publish.page.split.site import render_site
from gpumon_static.publish.page.view import make_ready
from gpumon_static.store import events_file, site_files, snapshot
from gpumon_static.store.events import EventMemory
from gpumon_static.store.history import past as history_past
from gpumon_static.store.history.engine import HistoryError
from gpumon_static.store.history.reader import ask
from gpumon_static.store.pseudonyms import read_key
from gpumon_static.store.slurm import slurm_file
from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.survey import build_survey
from gpumon_static.system.files import Content, write_for_web
from gpumon_static.system.memory import no_search_for_cycles


def render(config: Config, now: datetime) -> Path:
    """Render all files, then replace them together: a failure leaves all files as they were."""
    site = config.paths.site
    with no_search_for_cycles():
        made = write_for_web({site / name: content for name, content in _files(config, now).items()})
    site_files.remove_others(config.paths.data, site, made)
    return config.page_path


def render_only(config: Config, now: datetime) -> None:
    """The same without writing; where there is no data yet, of no data. Raises `GpumonError`."""
    branding = load_branding(config)
    readings = snapshot.read(config.csv_path) if config.csv_path.exists() else []
    for page in config.pages:
        render_site(make_ready(readings, config, now, page, b"check", _past(config, now)), branding)
    empty_report(config, now)


def _files(config: Config, now: datetime) -> dict[str, Content]:
    readings = snapshot.read(config.csv_path)
    branding = load_branding(config)
    needs_key = any(page.users == Tier.PSEUDONYMS for page in config.pages)
    key = read_key(config.paths.data) if needs_key else b""
    past = _past(config, now)
    memory = _events(config)
    # The data before the pages that are read with it.
    clusters = slurm_file.read(slurm_file.path_in(config.paths.data))
    survey = build_survey(readings, config, now, key=key, clusters=clusters)
    files: dict[str, Content] = {**build_exports(survey, config, memory, snapshot.to_csv)}
    if config.site.gpufree:
        files[GPUFREE] = gpufree(config.site.url or "")
    files |= month_reports(config, now)
    months = report_months(config, files)
    taken = [*files, *SHOW_FILES, *(page.file for page in config.pages)]
    pages: dict[str, Content] = {}
    for page in config.pages:
        # The reports show what the main page shows, and so only that one links to them.
        reports, known = (months, survey) if page == config.pages[0] else ((), None)
        whole = make_ready(readings, config, now, page, key, past, reports, clusters, known)
        pages |= render_site(whole, branding, [*taken, *pages])
    # Made last, since at 80,000 GPUs its rows would be in memory beside the pages in work.
    return {**files, **(show_files(survey) if config.site.show else {}), **pages}


def _events(config: Config) -> EventMemory:
    """The events of the feed; none where they cannot be read, which `fetch` reports."""
    try:
        return events_file.load(events_file.path_in(config.paths.data))
    except events_file.UnreadableEvents:
        return EventMemory()


def _past(config: Config, now: datetime) -> history_past.Past | None:
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
