"""See that a built site loads nothing from the network when it is read: `python -m tools.offline docs-site`.

Links that a reader may click are fine. What a browser fetches by itself is not: scripts, styles, images.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

CLICKED = {"a", "area"}
NOT_FETCHED = {"canonical", "next", "prev"}
REMOTE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
IN_STYLES = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)


def main() -> None:
    found = list(remote_addresses(Path(sys.argv[1])))
    for line in found:
        print(f"loaded from the network: {line}", file=sys.stderr)
    raise SystemExit(bool(found))


def remote_addresses(site: Path) -> Iterator[str]:
    for page in sorted(site.rglob("*.html")):
        yield from (f"{page.name}: {address}" for address in _in_html(page.read_text(encoding="utf-8")))
    for style in sorted(site.rglob("*.css")):
        yield from (f"{style.name}: {address}" for address in IN_STYLES.findall(style.read_text()))


def _in_html(text: str) -> list[str]:
    parser = _Fetched()
    parser.feed(text)
    return parser.found + IN_STYLES.findall(text)


class _Fetched(HTMLParser):
    """Addresses in `src` and `href` that a browser fetches by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in CLICKED or given.get("rel") in NOT_FETCHED:
            return
        for name in ("src", "href", "srcset", "data", "poster"):
            if REMOTE.match(given.get(name) or ""):
                self.found.append(str(given[name]))


if __name__ == "__main__":
    main()
