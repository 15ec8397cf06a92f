"""A `Page` through Jinja to one self-contained HTML text.

CSS and JavaScript are put into the page, and its Content-Security-Policy allows just those, by their hashes:
were a host's text ever to become markup, it could neither run nor load anything.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gpumon_static import __version__, resources

if TYPE_CHECKING:
    from gpumon_static.publish.page import Page

STYLES = ("theme.css", "page.css", "summary.css", "card.css", "tooltip.css", "print.css")
SCRIPTS = ("age.js", "tooltip.js", "refresh.js")


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of ours, the only kind of text that goes into the page without escaping."""

    text: Markup
    hash: str


def render_page(page: Page) -> str:
    styles = [_asset(name) for name in STYLES]
    scripts = [_asset(name) for name in SCRIPTS]
    return (
        _environment()
        .get_template("index.html.j2")
        .render(
            page=page,
            styles=styles,
            scripts=scripts,
            policy=_policy(styles, scripts),
            version=__version__,
        )
    )


def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(resources.find("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _asset(name: str) -> Asset:
    text = (resources.find("assets") / name).read_text(encoding="utf-8")
    digest = hashlib.sha256(text.encode()).digest()
    return Asset(Markup(text), f"'sha256-{base64.b64encode(digest).decode()}'")  # noqa: S704 (our own file)


def _policy(styles: Iterable[Asset], scripts: Iterable[Asset]) -> str:
    """Images as data: is for the icon of the tab, which else the browser would ask the server for."""
    allowed = {
        "default-src": "'none'",
        "style-src": " ".join(asset.hash for asset in styles),
        "script-src": " ".join(asset.hash for asset in scripts),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{what} {sources}" for what, sources in allowed.items())
