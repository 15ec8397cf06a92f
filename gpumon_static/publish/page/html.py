"""A `Page` through Jinja to one self-contained HTML text.

CSS and JavaScript are put into the page, and its Content-Security-Policy allows just those, by their hashes:
were a host's text ever to become markup, it could neither run nor load anything.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined, TemplateError
from markupsafe import Markup

from gpumon_static import __version__
from gpumon_static.errors import GpumonError
from gpumon_static.publish.page.branding import Branding
from gpumon_static.publish.page.data import page_data
from gpumon_static.publish.page.words import LEGEND
from gpumon_static.system import resources

if TYPE_CHECKING:
    from gpumon_static.publish.page.records import Page

STYLES = (
    "theme.css levels.css icons.css page.css places.css summary.css question.css toolbar.css parts.css"
    " host.css card.css slices.css tooltip.css table.css history.css things.css panels.css tabs.css kiosk.css"
    " print.css"
).split()
HEAD_SCRIPTS = ["start.js"]
"""Before anything is drawn, so that nothing jumps or changes its colour."""
STATED = re.compile(r"// (takes|gives): (.*)")

PAGE_TEMPLATES = re.compile(r"(base|gpumon/base|index|partials/.*)\.html\.j2\Z")
OWN_STYLE, OWN_SCRIPT = "custom.css", "custom.js"
"""Files beside a lab's own templates that are put into the page after ours."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A text of ours or of the lab's, the only kind that goes into the page without escaping."""

    text: Markup
    hash: str


class PageTemplate:
    """What all pages of a site have in common, read once."""

    def __init__(self, branding: Branding | None = None) -> None:
        branding = branding or Branding()
        styles = [_files(STYLES), *_texts(branding.style), *_own(branding.templates, OWN_STYLE)]
        head_scripts = [_files(HEAD_SCRIPTS)]
        scripts = [_files(script_order()), *_own(branding.templates, OWN_SCRIPT)]
        policy = _policy(styles, [*head_scripts, *scripts])
        self._environment = _environment(branding.templates) if branding.templates else _our_environment()
        self._common = {
            "logo": branding.logo,
            "styles": styles,
            "head_scripts": head_scripts,
            "scripts": scripts,
            "policy": policy,
            "version": __version__,
            "legend": LEGEND,
            "build": _digest(policy),
        }

    def compile(self) -> None:
        """Now, and not with the first page: processes that are forked then have nothing to compile."""
        for name in filter(PAGE_TEMPLATES.match, self._environment.list_templates()):
            # One that no page uses is ignored; one that is used is reported with that page.
            with suppress(TemplateError):
                self._environment.get_template(name)

    def render(self, page: Page) -> str:
        try:
            return self._environment.get_template("index.html.j2").render(
                self._common,
                page=page,
                data=Markup(page.data or page_data(page)),  # noqa: S704 (escaped for a script element)
                past=Markup(page.history.data if page.history else ""),  # noqa: S704 (the same)
                things=Markup(page.things),  # noqa: S704 (the same)
            )
        except TemplateError as error:
            raise GpumonError(_template_problem(error)) from error


def render_page(page: Page, branding: Branding | None = None) -> str:
    return PageTemplate(branding).render(page)


@cache
def _our_environment() -> Environment:
    """Without a lab's own templates, which may change while this process runs."""
    return _environment()


def _environment(own: Path | None = None) -> Environment:
    """A lab's own templates come first; `gpumon/base.html.j2` is always ours, to be extended."""
    ours = FileSystemLoader(resources.find("templates"))
    loaders = [ours, PrefixLoader({"gpumon": ours})]
    environment = Environment(
        loader=ChoiceLoader([FileSystemLoader(own), *loaders] if own else loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"digest": _digest, "address": _address}
    return environment


def _address(name: str) -> str:
    """A name as a part of a place's address, written as assets/places.js writes it."""
    return quote(name, safe=":!*'()~", errors="replace")


def _digest(text: str) -> str:
    """Changes when anything of the text does: the browser replaces what has changed."""
    return hashlib.blake2s(text.encode(errors="replace"), digest_size=4).hexdigest()


def _template_problem(error: TemplateError) -> str:
    trace = error.__traceback__
    place = ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith(".j2"):
            place = f"{trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}: "
        trace = trace.tb_next
    name, line = getattr(error, "filename", None), getattr(error, "lineno", None)
    if name and line:
        place = f"{name}, line {line}: "
    return f"template: {place}{error.message or error}"


def _files(names: Iterable[str]) -> Asset:
    folder = resources.find("assets")
    return _asset("\n".join((folder / name).read_text(encoding="utf-8") for name in names))


@cache
def script_order() -> list[str]:
    """All scripts of the body, each after those that give what it takes; else by name.

    Each states both in the comment on top of it; assets/gpumon.js has the rule.
    """
    folder = resources.find("assets")
    stated = {path.name: _stated(path) for path in folder.glob("*.js") if path.name not in HEAD_SCRIPTS}
    givers = {name: file for file, of in stated.items() for name in of["gives"]}
    after = {file: {givers[name] for name in of["takes"]} for file, of in stated.items()}
    order: list[str] = ["gpumon.js"]
    while len(order) < len(after):
        ready = [file for file in sorted(after) if file not in order and after[file] <= {*order}]
        if not ready:
            raise GpumonError(f"these scripts take from each other: {', '.join({*after} - {*order})}")
        order += ready
    return order


def _stated(path: Path) -> dict[str, list[str]]:
    comment = takewhile(lambda line: line.startswith("//"), path.read_text(encoding="utf-8").splitlines())
    found = {match[1]: match[2].split() for line in comment if (match := STATED.fullmatch(line))}
    return {word: found.get(word, []) for word in ("takes", "gives")}


def _texts(text: str | None) -> list[Asset]:
    return [_asset(text)] if text else []


def _own(folder: Path | None, name: str) -> list[Asset]:
    path = folder / name if folder else None
    if path is None or not path.is_file():
        return []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise GpumonError(f"cannot read {path}: {error}") from error
    if "</style" in text.lower() or "</script" in text.lower():
        raise GpumonError(f"{path}: must not have </style or </script in it: it would end there")
    return [_asset(text)]


def _asset(text: str) -> Asset:
    digest = hashlib.sha256(text.encode()).digest()
    return Asset(Markup(text), f"'sha256-{base64.b64encode(digest).decode()}'")  # noqa: S704 (no host's text)


def _policy(styles: Iterable[Asset], scripts: Iterable[Asset]) -> str:
    """Images as data: are logo, signs and the tab's icon; the page asks the server for itself only."""
    allowed = {
        "default-src": "'none'",
        "style-src": " ".join(asset.hash for asset in styles),
        "script-src": " ".join(asset.hash for asset in scripts),
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{what} {sources}" for what, sources in allowed.items())
