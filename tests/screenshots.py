"""`make screenshots`: the demo's page for the docs: light, dark, with an open tooltip, Supply, on a phone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, Page, sync_playwright

from gpumon_static.commands.fetch import fetch
from gpumon_static.commands.render import render
from gpumon_static.demo.lab import DemoSpec
from gpumon_static.demo.run import Pipelines, demo
from tests.browser import ARGUMENTS

DOCS = Path(__file__).parent.parent / "docs"
HOSTS = 14
SEED = 1
DAYS = 30
FONTS = """<?xml version="1.0"?>
<fontconfig>
  <include>/etc/fonts/fonts.conf</include>
  <match><edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit></match>
</fontconfig>
"""
"""As on the machines of most readers; a plain Debian has DejaVu in the place of a font for screens."""


def main() -> None:
    DOCS.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        directory = Path(folder) / "demo"
        demo(
            DemoSpec(SEED, HOSTS, None), directory, Pipelines(fetch, render), clock=_now, say=_say, days=DAYS
        )
        fonts = Path(folder) / "fonts.conf"
        fonts.write_text(FONTS)
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=ARGUMENTS,
            env={**os.environ, "FONTCONFIG_FILE": str(fonts)},
        )
        page_file = directory / "site" / "index.html"
        _shoot(browser, page_file, "light")
        _shoot(browser, page_file, "dark")
        _shoot(browser, page_file, "tooltip", before=_open_a_tooltip)
        _shoot(browser, page_file, "supply", height=760, before=_open_supply)
        _shoot(browser, page_file, "phone", width=390, height=844)
        browser.close()


def _shoot(
    browser: Browser,
    page_file: Path,
    name: str,
    *,
    width: int = 1440,
    height: int = 900,
    before: Callable[[Page], None] = lambda _: None,
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if name == "dark" else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(page_file.as_uri())
    page.locator("#answers li").first.wait_for()
    before(page)
    target = DOCS / f"screenshot-{name}.png"
    page.screenshot(path=target)
    _say(f"{target.name}: {target.stat().st_size / 1000:.0f} kB")
    context.close()


def _open_a_tooltip(page: Page) -> None:
    """Of a card with a fault, which has most to show."""
    card = page.locator(".card:has(.card-fault)").first
    card.evaluate("card => card.scrollIntoView({block: 'center'})")
    card.hover()
    page.wait_for_timeout(500)


def _open_supply(page: Page) -> None:
    page.locator("a[href='#supply']").first.click()
    page.locator("#supply-title").wait_for()


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    main()
