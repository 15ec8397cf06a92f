"""`gpumon-static render`: the last readings to the page."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from gpumon_static.config import Config
from gpumon_static.files import write_atomic
from gpumon_static.publish.html import render_page
from gpumon_static.publish.view import build_page
from gpumon_static.store import snapshot


def render(config: Config, now: datetime) -> Path:
    """Everything is made before anything is written: a failure leaves the last page as it was."""
    readings = snapshot.read(config.csv_path)
    html = render_page(build_page(readings, config, now))
    write_atomic(config.page_path, html)
    return config.page_path
