"""The supply of a period as one self-contained HTML text, through templates/report.html.j2."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined, TemplateError
from markupsafe import Markup

from gpumon_static import __version__
from gpumon_static.errors import GpumonError
from gpumon_static.survey.supply import SupplyRow, hour_words
from gpumon_static.system import resources
from gpumon_static.text import DASH

STYLE = "report.css"
TEMPLATE = "report.html.j2"
MOST_NAMED = 8
"""Users in one row; the rest is counted."""


@dataclass(frozen=True, slots=True)
class SupplySection:
    title: str
    rows: Sequence[SupplyRow]
    by_group: bool


@dataclass(frozen=True, slots=True)
class SupplyReport:
    title: str
    period: str
    """October 2026, or from when to when."""
    made: str
    zone: str
    """Of the hours of the week."""
    scope: str
    """What is shown of whom, as one word: a report with another one is stale."""
    sections: Sequence[SupplySection]

    @property
    def is_slurm(self) -> bool:
        """Whether Slurm reported on any GPU."""
        return any(row.allocated is not None for section in self.sections for row in section.rows)


def render_supply(report: SupplyReport, templates: Path | None = None) -> str:
    """`templates`: a lab's own, which come first."""
    style = (resources.find("assets") / STYLE).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    try:
        template = _environment(templates).get_template(TEMPLATE)
        return template.render(
            report=report,
            style=Markup(style),  # noqa: S704 (a file of ours)
            policy=f"default-src 'none'; style-src 'sha256-{digest}'",
            version=__version__,
            most_named=MOST_NAMED,
        )
    except TemplateError as error:
        raise GpumonError(f"template: {TEMPLATE}: {error.message or error}") from error


def _environment(own: Path | None) -> Environment:
    folders = [FileSystemLoader(folder) for folder in (own, resources.find("templates")) if folder]
    environment = Environment(
        loader=ChoiceLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": _percent, "points": _points, "week_hour": _week_hour}
    return environment


def _percent(share: float | None) -> str:
    return DASH if share is None else f"{100 * share:.0f}"


def _points(change: float | None) -> str:
    return DASH if change is None else f"{100 * change:+.0f}"


def _week_hour(hour: int | None) -> str:
    return hour_words(hour) or DASH
