"""`gpumon-static render`: the last readings to the site's pages."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from gpumon_static.config.settings import Config
from gpumon_static.files import write_for_web
from gpumon_static.publish.exports.files import build_exports
from gpumon_static.publish.page.branding import load_branding
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.view import build_page
from gpumon_static.store import events_file, snapshot
from gpumon_static.store.history import timelines
from gpumon_static.store.history.database import HistoryError, reading
from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.pseudonyms import read_key


def render(config: Config, now: datetime) -> Path:
    """Everything is made before anything is written: a failure leaves the last pages as they were."""
    readings = snapshot.read(config.csv_path)
    branding = load_branding(config)
    needs_key = any(page.users == Tier.PSEUDONYMS for page in config.pages)
    key = read_key(config.paths.data) if needs_key else b""
    past = _past(config, now)
    pages = {
        config.paths.site / spec.file: render_page(
            build_page(readings, config, now, spec, key, past), branding
        )
        for spec in config.pages
    }
    memory = events_file.load(events_file.path_in(config.paths.data))
    exports = build_exports(readings, config, now, memory, key, snapshot.to_csv)
    # The data before the pages that are read with it.
    for name, content in exports.items():
        write_for_web(config.paths.site / name, content)
    for path, html in pages.items():
        write_for_web(path, html)
    return config.page_path


def _past(config: Config, now: datetime) -> timelines.Past | None:
    """The page does without where there is none; why, `fetch` and `history` tell."""
    if not config.history.enabled:
        return None
    try:
        with reading(config.history_path) as connection:
            return timelines.read(connection, now)
    except HistoryError:
        return None
