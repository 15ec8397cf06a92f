"""Fixtures that open a page in Chromium and write down everything it asks for or complains about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@dataclass
class Opened:
    page: Page
    problems: list[str] = field(default_factory=list)
    """Console messages of any kind, uncaught errors, dialogs, policy violations (Chromium logs those)."""
    requests: list[str] = field(default_factory=list)


OpenPage = Callable[..., Opened]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser, tmp_path: Path) -> Iterator[OpenPage]:
    """`open_page(html)` opens it from disk; `open_page(url=...)` what a server has.

    Other arguments are those of a Playwright context; `at` sets the reader's clock.
    """
    contexts: list[BrowserContext] = []

    def open_it(html: str = "", *, url: str = "", at: Any = None, **options: Any) -> Opened:
        context = chromium.new_context(**({"viewport": {"width": 1440, "height": 900}} | options))
        contexts.append(context)
        opened = _watch(context.new_page())
        if at is not None:
            opened.page.clock.set_fixed_time(at)
        if not url:
            file = tmp_path / "index.html"
            file.write_text(html, encoding="utf-8")
            url = file.as_uri()
        opened.page.goto(url)
        return opened

    yield open_it
    for context in contexts:
        context.close()


def _watch(page: Page) -> Opened:
    opened = Opened(page)

    def dismiss(dialog: Any) -> None:
        opened.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("console", lambda message: opened.problems.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: opened.problems.append(f"error: {error}"))
    page.on("dialog", dismiss)
    page.on("request", lambda request: opened.requests.append(request.url))
    return opened
