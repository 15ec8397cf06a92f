"""The small lab's page in a browser, and what is found on it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page

from tests.browser import OpenPage
from tests.labs import lab, page_of


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    return open_page(page_of(lab())).page


def shown_cards(page: Page) -> list[str]:
    ids = page.locator(":is(.card, .slice)[tabindex]:visible").evaluate_all(
        "cards => cards.map(card => card.id)"
    )
    return [anchor.removeprefix("host-") for anchor in ids]


def search(page: Page) -> Locator:
    return page.get_by_role("searchbox", name="Search")


def query(page: Page) -> str:
    return str(page.evaluate("location.search"))
