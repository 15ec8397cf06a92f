"""What the page asks for, hostile names, and the age of the data."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect

from tests.browser import OpenPage, Site
from tests.builders import NOW, READ_AT, busy_gpu, gpu, process, reading
from tests.cards_lab import LAB, html_of, open_tips

# Safety


def use_everything(page: Page) -> None:
    for element in page.locator("#host-node1 .card").all():
        element.hover()
        page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("node")
    for view in ("Compact", "Table", "Cards"):
        page.get_by_title(view).click()
    page.locator("[name=n]").fill("1")
    page.locator("#answers button").first.click()
    page.locator("#theme").click()
    for tab in ("Supply", "Health", "People"):
        page.get_by_role("link", name=tab).click()
    page.locator(".people th button").first.click()


def test_the_page_from_disk_asks_for_nothing_and_complains_of_nothing(open_page: OpenPage) -> None:
    opened = open_page(html_of(*LAB))
    use_everything(opened.page)
    assert opened.problems == []
    assert opened.requests == [re.split("[?#]", opened.page.url)[0]]


def test_the_page_from_a_server_asks_for_nothing_else(open_page: OpenPage, site: Site) -> None:
    site.write(html_of(*LAB))
    opened = open_page(url=site.url)
    use_everything(opened.page)
    opened.page.wait_for_timeout(300)
    assert opened.problems == []
    assert site.asked == ["/"]


def test_hostile_names_are_inert_text(open_page: OpenPage) -> None:
    names = ["<img src=x onerror=alert(1)>", '"><script>alert(1)</script>', "{{7*7}}", "\u202eevil", "🦄"]
    crowd = tuple(process(pid, user=name, name=name, job=name) for pid, name in enumerate(names))
    opened = open_page(html_of(reading("a", [busy_gpu(processes=crowd)])))
    page = opened.page
    page.locator(".card").hover()
    expect(open_tips(page)).to_be_visible()
    shown = page.locator(".tip .users bdi").all_inner_texts()
    assert sorted(shown) == sorted(names)
    for place in page.locator(".tip td.user, .tip td.name").all():
        expect(place.locator("bdi").first).to_have_css("unicode-bidi", "isolate")
    assert page.evaluate("document.images.length") == 0
    assert opened.problems == []


def test_the_policy_stops_markup_that_got_into_the_page_all_the_same(open_page: OpenPage) -> None:
    opened = open_page(html_of(reading("a", [gpu()])))
    opened.page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "document.title = 'taken over'";
            document.body.append(script);
            const image = document.createElement("img");
            image.src = "http://127.0.0.1:9/x.png";
            document.body.append(image);
        }"""
    )
    opened.page.wait_for_timeout(200)
    assert opened.page.title() == "1 of 1 GPU free – GPU Monitor"
    assert len([problem for problem in opened.problems if "Content Security Policy" in problem]) == 2


# Time


@pytest.mark.parametrize(
    ("minutes", "age", "is_old"),
    [
        (2, "2 min ago", False),
        (16, "16 min ago", True),
        (200, "3 h ago", True),
        (3 * 1440 + 245, "3 d 4 h ago", True),
    ],
)
def test_the_browser_tells_the_age_of_the_data_and_marks_it_when_old(
    open_page: OpenPage, minutes: int, age: str, is_old: bool
) -> None:
    later = READ_AT + timedelta(minutes=minutes)
    page = open_page(html_of(reading("a", [gpu()])), at=later).page
    place = page.locator(".masthead .data-time")
    expect(place).to_contain_text(age)
    expect(place).to_contain_text("14 Nov 2025, 09:10 (UTC)")
    expect(place.get_by_text("stale data")).to_be_visible(visible=is_old)


def test_data_of_this_minute_is_just_now(open_page: OpenPage) -> None:
    page = open_page(html_of(reading("a", [gpu()], fetched_at=NOW)), at=NOW).page
    expect(page.locator(".masthead .age")).to_have_text("just now")


def test_a_clock_that_is_a_little_before_the_page_was_made_is_not_believed(open_page: OpenPage) -> None:
    page = open_page(html_of(reading("a", [gpu()])), at=NOW - timedelta(minutes=10)).page
    expect(page.locator(".masthead .age")).to_have_text("2 min ago")


def test_without_javascript_the_time_of_the_data_is_there(open_page: OpenPage) -> None:
    page = open_page(html_of(reading("a", [gpu()])), java_script_enabled=False).page
    expect(page.locator(".masthead time")).to_have_text("14 Nov 2025, 09:10 UTC")


def test_from_disk_the_page_loads_itself_again_but_not_under_an_open_tooltip(open_page: OpenPage) -> None:
    opened = open_page(html_of(reading("a", [gpu()]), refresh=60))
    opened.stop_the_clock()
    opened.page.locator(".card").hover()
    opened.pass_seconds(1)
    expect(open_tips(opened.page)).to_have_count(1)
    opened.pass_seconds(130)
    assert len(opened.requests) == 1
    with opened.page.expect_navigation():
        opened.page.mouse.move(5, 5)
        opened.pass_seconds(2)
    assert len(opened.requests) == 2


def test_the_page_never_reloads_when_refresh_is_zero(open_page: OpenPage) -> None:
    opened = open_page(html_of(reading("a", [gpu()]), refresh=0))
    opened.stop_the_clock()
    opened.pass_seconds(7_200)
    assert len(opened.requests) == 1
