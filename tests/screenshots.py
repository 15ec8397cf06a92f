"""`make screenshots`: the demo's page, light and dark, for the README."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from playwright.sync_api import Browser, sync_playwright

from gpumon_static.commands.fetch import fetch
from gpumon_static.commands.render import render
from gpumon_static.demo.lab import DemoSpec
from gpumon_static.demo.run import Pipelines, demo
from tests.browser import ARGUMENTS

DOCS = Path(__file__).parent.parent / "docs"
HOSTS = 12
SEED = 1
DAYS = 30


def main() -> None:
    DOCS.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        directory = Path(folder) / "demo"
        demo(
            DemoSpec(SEED, HOSTS, None), directory, Pipelines(fetch, render), clock=_now, say=_say, days=DAYS
        )
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        _shoot(browser, directory / "site" / "index.html", "light")
        _shoot(browser, directory / "site" / "index.html", "dark")
        browser.close()


def _shoot(browser: Browser, page_file: Path, theme: Literal["light", "dark"]) -> None:
    context = browser.new_context(
        viewport={"width": 1440, "height": 1080}, color_scheme=theme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(page_file.as_uri())
    page.locator("#answers li").first.wait_for()
    target = DOCS / f"screenshot-{theme}.png"
    page.screenshot(path=target)
    _say(f"{target.name}: {target.stat().st_size / 1000:.0f} kB")
    context.close()


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    main()
