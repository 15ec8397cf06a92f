"""Fixtures that open a page in Chromium and write down everything it asks for or complains about."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, sync_playwright

from tests.builders import NOW

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


@dataclass
class Opened:
    page: Page
    problems: list[str] = field(default_factory=list)
    """Console messages of any kind, uncaught errors, dialogs, policy violations (Chromium logs those)."""
    requests: list[str] = field(default_factory=list)

    def stop_the_clock(self) -> None:
        """A few seconds ahead of its own. From then on no timer of the page can come before the test is ready for it."""
        self.page.clock.pause_at(self.page.evaluate("Date.now()") / 1000 + 10)

    def pass_seconds(self, seconds: int) -> None:
        self.page.clock.run_for(seconds * 1000)


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

    Other arguments are those of a Playwright context; `at` sets the reader's clock, which goes on from there.
    """
    contexts: list[BrowserContext] = []

    def open_it(html: str = "", *, url: str = "", at: Any = NOW, **options: Any) -> Opened:
        context = chromium.new_context(**({"viewport": {"width": 1440, "height": 900}} | options))
        contexts.append(context)
        # Playwright's own limit is 30 s, which a busy machine reaches.
        context.set_default_timeout(120_000)
        opened = _watch(context.new_page())
        opened.page.clock.set_system_time(at)
        if not url:
            file = tmp_path / "index.html"
            file.write_text(html, encoding="utf-8")
            url = file.as_uri()
        opened.page.goto(url)
        return opened

    yield open_it
    for context in contexts:
        context.close()


@dataclass
class Site:
    """A web server with one page, which a test may change, and the paths that were asked of it."""

    url: str
    file: Path
    asked: list[str]
    clock: list[datetime]
    """What its `Date` header says: the first of them."""

    def write(self, html: str) -> None:
        # In one step, as render does it, and each time a whole second newer: this server tells seconds only,
        # and would answer that a page of the same second has not changed.
        new = self.file.with_suffix(".new")
        new.write_text(html, encoding="utf-8")
        newer = self.file.stat().st_mtime + 1 if self.file.exists() else 1_000_000_000
        os.utime(new, (newer, newer))
        new.replace(self.file)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    asked: list[str] = []
    clock = [NOW]

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, *_: Any) -> None:
            asked.append(self.path)

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(clock[0].timestamp() if timestamp is None else timestamp)

        def log_error(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path)))
    threading.Thread(target=partial(server.serve_forever, poll_interval=0.05)).start()
    yield Site(f"http://127.0.0.1:{server.server_port}/", tmp_path / "index.html", asked, clock)
    server.shutdown()
    server.server_close()


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


def copies(page: Page, button: Locator) -> None:
    """Clicks, and sees that the button says so: it does for a moment only."""
    page.evaluate(
        """() => {
          window.said = "";
          const watch = new MutationObserver(() => (window.said += document.body.innerText));
          watch.observe(document.body, { subtree: true, childList: true });
        }"""
    )
    button.click()
    page.wait_for_function(r"() => /(?<!not )\bcopied\b/.test(said)")


def violations(page: Page) -> list[str]:
    page.evaluate(AXE + "\nundefined")
    found: list[dict[str, Any]] = page.evaluate(
        "axe.run({ resultTypes: ['violations'] }).then(result => result.violations)"
    )
    return [f"{v['id']}: {node['html'][:120]}" for v in found for node in v["nodes"]]
