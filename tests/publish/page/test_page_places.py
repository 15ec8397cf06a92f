"""Tabs and things that open: each place of the page has an address, and back leads to where one was."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect

from tests.browser import OpenPage, Site
from tests.builders import NOW, busy_gpu, host_config, process, reading
from tests.labs import lab, page_of

PLACES = ("now", "people", "supply", "health")


def visible(page: Page) -> list[str]:
    shown = "all => all.filter(one => one.checkVisibility()).map(one => one.id)"
    return list(page.locator("main > .place").evaluate_all(shown))


def test_each_tab_is_a_place_with_an_address_and_back_leads_to_the_last(open_page: OpenPage) -> None:
    opened = open_page(page_of(lab()))
    page = opened.page
    assert visible(page) == ["now"]
    for name in PLACES[1:]:
        page.get_by_role("link", name=name.capitalize()).click()
        assert visible(page) == [name]
        assert page.url.endswith(f"#{name}")
        expect(page.locator(".tabs [aria-current]")).to_have_attribute("href", f"#{name}")
    page.go_back()
    assert visible(page) == ["supply"]
    page.go_back()
    page.go_back()
    assert visible(page) == ["now"]
    page.go_forward()
    assert visible(page) == ["people"]
    assert opened.problems == []


def test_a_link_to_where_one_is_already_adds_no_step_back(open_page: OpenPage) -> None:
    page = open_page(page_of(lab())).page
    page.locator("#host-node1 .host-name").click()
    for _ in range(2):
        page.evaluate("document.querySelector('#host-node1 .host-name').click()")
    assert visible(page) == ["thing"]
    page.go_back()
    assert visible(page) == ["now"]


@pytest.mark.parametrize("name", PLACES)
def test_a_link_to_a_tab_opens_it_with_the_masthead_in_sight(open_page: OpenPage, name: str) -> None:
    page = open_page(page_of(lab())).page
    page.goto("about:blank")
    page.go_back()
    page.evaluate(f"location.hash = '#{name}'")
    page.reload()
    assert visible(page) == [name]
    expect(page.locator("h1")).to_be_in_viewport()


def test_a_link_to_a_tab_of_a_stale_page_begins_at_its_top(open_page: OpenPage) -> None:
    page = open_page(page_of(lab()), at=NOW + timedelta(days=3), viewport={"width": 390, "height": 600}).page
    address = page.url
    page.goto("about:blank")
    page.goto(f"{address}#health")
    expect(page.locator(".banner")).to_be_visible()
    assert page.evaluate("scrollY") == 0


def test_the_search_stays_in_the_address_from_tab_to_tab(open_page: OpenPage) -> None:
    page = open_page(page_of(lab())).page
    page.get_by_role("searchbox").fill("node2")
    page.get_by_role("link", name="People").click()
    assert page.url.endswith("?q=node2#people")
    page.get_by_role("link", name="Now").click()
    expect(page.get_by_role("searchbox")).to_have_value("node2")
    assert page.locator(".host:visible").count() == 1


def test_without_javascript_the_tabs_lead_to_sections_that_follow_each_other(open_page: OpenPage) -> None:
    page = open_page(page_of(lab()), java_script_enabled=False, viewport={"width": 1000, "height": 500}).page
    for name in PLACES:
        expect(page.locator(f"#{name}")).to_be_visible()
    page.get_by_role("link", name="Health").click()
    expect(page.locator("#health h2").first).to_be_in_viewport()
    page.locator("#host-node2 .host-name").click()
    expect(page.locator("#host-node2 h2")).to_be_in_viewport()
    expect(page.locator("#thing")).to_be_hidden()


def test_health_counts_what_needs_attention_and_lists_it(open_page: OpenPage) -> None:
    page = open_page(page_of(lab())).page
    expect(page.locator(".tabs a").last).to_have_text(re.compile(r"Health\s+•2"))
    page.get_by_role("link", name="Health").click()
    expect(page.locator("#health .down tbody tr")).to_have_text([re.compile("node10.*timeout")])
    expect(page.locator("#health .faults tbody tr")).to_have_text([re.compile("node3 GPU 1.*ECC")])
    page.locator("#health .faults a").click()
    assert visible(page) == ["now"]
    expect(page.locator("[id='host-node3:1']")).to_be_in_viewport()
    page.go_back()
    assert visible(page) == ["health"]


def test_a_gpu_opens_as_a_panel_with_a_link_to_copy_and_a_way_back(open_page: OpenPage) -> None:
    opened = open_page(page_of(lab()))
    page = opened.page
    page.goto(f"{page.url}#gpu/node2/1")
    page.reload()
    assert visible(page) == ["thing"]
    expect(page.locator("#thing-title")).to_have_text("node2 GPU 1")
    expect(page.locator("#thing")).to_contain_text("alice")
    expect(page.locator("#thing")).to_contain_text("GPU-00000001")
    assert page.locator("#thing .thing-bar button").get_attribute("data-copy") == page.url
    expect(page.locator(".tabs [aria-current]")).to_have_attribute("href", "#now")
    page.locator("#thing .back").click()
    assert visible(page) == ["now"]
    page.go_back()
    assert visible(page) == ["thing"]
    page.keyboard.press("Escape")
    assert visible(page) == ["now"]
    assert opened.problems == []


def test_a_thing_that_is_gone_is_said_to_be_unknown(open_page: OpenPage) -> None:
    opened = open_page(page_of(lab()))
    opened.page.goto(f"{opened.page.url}#gpu/node77/%E0%A4%A")
    opened.page.reload()
    expect(opened.page.locator("#thing")).to_contain_text("There is no GPU node77/%E0%A4%A")
    assert opened.problems == []


def test_an_open_panel_follows_a_refresh(open_page: OpenPage, site: Site) -> None:
    site.write(page_of(lab(), refresh=1))
    page = open_page(url=site.url + "#gpu/node2/1").page
    expect(page.locator("#thing")).to_contain_text("alice")
    site.write(page_of(lab(node2_is_free=True), refresh=1, now=NOW + timedelta(minutes=1)))
    expect(page.locator("#thing .state")).to_have_text("free")
    assert visible(page) == ["thing"]


@pytest.mark.parametrize("how", ["click", "Enter", "tap"])
@pytest.mark.parametrize("back", ["Escape", "back"])
def test_a_card_opens_as_a_panel_and_gives_the_focus_back(open_page: OpenPage, how: str, back: str) -> None:
    hosts = tuple(host_config(f"n{number}") for number in range(40))
    crowd = [reading(host.name, [busy_gpu(i) for i in range(4)]) for host in hosts]
    page = open_page(page_of(crowd, hosts=hosts), has_touch=True).page
    card = page.locator("[id='host-n30:2']")
    card.scroll_into_view_if_needed()
    was = page.evaluate("scrollY")
    if how == "Enter":
        card.focus()
        page.keyboard.press("Enter")
    else:
        getattr(card, how)()
    assert visible(page) == ["thing"]
    assert page.url.endswith("#gpu/n30/2")
    expect(page.locator("#thing-title")).to_be_focused()
    assert page.evaluate("scrollY") == 0
    if back == "back":
        page.go_back()
    else:
        page.keyboard.press("Escape")
    assert visible(page) == ["now"]
    expect(card).to_be_focused()
    assert abs(page.evaluate("scrollY") - was) < 50


def with_job(number: int, user: str) -> str:
    """The page of a run in which one job has both GPUs of node1."""
    held = [busy_gpu(i, processes=(process(i, user=user, job=f"slurm:{number}"),)) for i in range(2)]
    return page_of([reading("node1", held)], refresh=1, now=NOW + timedelta(minutes=number))


@pytest.mark.parametrize(("address", "before", "after"), [
    ("#host/node1", "slurm:1", "slurm:2"),
    ("#user/jonas", "slurm:1", "slurm:2"),
])  # fmt: skip
def test_an_open_panel_shows_the_jobs_of_the_refresh(
    open_page: OpenPage, site: Site, address: str, before: str, after: str
) -> None:
    site.write(with_job(1, "jonas"))
    page = open_page(url=site.url + address).page
    expect(page.locator("#thing")).to_contain_text(before)
    site.write(with_job(2, "jonas"))
    expect(page.locator("#thing")).to_contain_text(after)
    expect(page.locator("#thing")).not_to_contain_text(before)


@pytest.mark.parametrize(("address", "heading"), [
    ("#job/slurm:1", "python · slurm:1"),
    ("#user/jonas", "jonas"),
])  # fmt: skip
def test_a_panel_whose_thing_is_gone_says_so(
    open_page: OpenPage, site: Site, address: str, heading: str
) -> None:
    site.write(with_job(1, "jonas"))
    page = open_page(url=site.url + address).page
    expect(page.locator("#thing h2")).to_have_text(heading)
    site.write(with_job(2, "mira"))
    expect(page.locator("#thing .thing-body")).to_contain_text(
        f"{heading} is gone: it was last on this page at"
    )
    expect(page.locator("#thing h2")).to_have_text(heading)
    expect(page.locator("#thing table")).to_have_count(0)


def test_back_from_a_panel_leads_to_where_one_was_on_the_page(open_page: OpenPage) -> None:
    hosts = tuple(host_config(f"n{number}") for number in range(40))
    crowd = [reading(host.name, [busy_gpu(i) for i in range(4)]) for host in hosts]
    page = open_page(page_of(crowd, hosts=hosts)).page
    page.locator("#host-n30").scroll_into_view_if_needed()
    was = page.evaluate("scrollY")
    assert was > 1000
    page.locator("[id='host-n30:2']").focus()
    page.keyboard.press("Enter")
    assert visible(page) == ["thing"]
    assert page.evaluate("scrollY") == 0
    page.locator("#thing .back").click()
    assert abs(page.evaluate("scrollY") - was) < 50


def test_a_panel_can_be_added_by_a_file_of_a_lab(open_page: OpenPage) -> None:
    page = open_page(page_of(lab())).page
    page.evaluate(
        """() => gpumon.places.register({ place: "rack", tab: "health", open(name, element) {
             element.append(`in ${name}`);
             return `Rack ${name}`;
           } })"""
    )
    page.evaluate("location.hash = gpumon.link('rack', 'B 7/left')")
    expect(page.locator("#thing-title")).to_have_text("Rack B 7/left")
    expect(page.locator("#thing .thing-body")).to_have_text("in B 7/left")
    expect(page.locator(".tabs [aria-current]")).to_have_attribute("href", "#health")
