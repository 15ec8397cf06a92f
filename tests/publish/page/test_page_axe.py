"""No violation that axe-core knows, in both themes and every view."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from gpumon_static.model import Fault
from tests.browser import OpenPage, violations
from tests.builders import READ_AT, busy_gpu, gpu, reading
from tests.labs import lab, page_of


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", ["", "compact", "table"])
def test_the_page_has_no_violations(open_page: OpenPage, theme: str, view: str) -> None:
    html = page_of(lab(), footer="Help: https://wiki.example", refresh=0)
    page = open_page(html, color_scheme=theme, reduced_motion="reduce").page
    if view:
        page.goto(f"{page.url}?view={view}")
    assert violations(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_tab_and_every_panel_has_no_violations(open_page: OpenPage, theme: str) -> None:
    page = open_page(page_of(lab()), color_scheme=theme, reduced_motion="reduce").page
    for place in ("people", "supply", "health", "host/node2", "user/alice", "gpu/node2/1"):
        page.evaluate("place => (location.hash = place)", place)
        assert (place, violations(page)) == (place, [])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_open_tooltip_has_no_violations(open_page: OpenPage, theme: str) -> None:
    sick = replace(busy_gpu(1), faults=(Fault("ecc-errors", "3 uncorrectable"), Fault("persistence-off")))
    html = page_of([reading("node1", [gpu(0), sick])])
    page = open_page(html, color_scheme=theme, reduced_motion="reduce").page
    page.locator("[id='host-node1:1']").focus()
    expect(page.locator(".tip")).to_be_visible()
    assert violations(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_old_data_and_an_empty_search_have_no_violations(open_page: OpenPage, theme: str) -> None:
    page = open_page(page_of(lab()), color_scheme=theme, at=READ_AT + timedelta(days=3)).page
    assert violations(page) == []
    page.get_by_role("searchbox").fill("zzz")
    assert violations(page) == []
