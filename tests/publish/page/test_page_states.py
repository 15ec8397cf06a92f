"""Empty and broken states, addresses that are wrong, and paper: what the page says where it has little to say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from gpumon_static.publish.page.html import render_page
from tests.browser import OpenPage
from tests.builders import failed, gpu, reading
from tests.labs import lab, page_of
from tests.things_lab import NOW, Kept, kept_lab
from tests.things_lab import page_of as page_with_past


@pytest.fixture(scope="module")
def kept() -> Iterator[Kept]:
    with kept_lab() as lab:
        yield lab


# No data


def test_before_the_first_fetch_every_tab_says_what_to_run(open_page: OpenPage) -> None:
    opened = open_page(page_of([]))
    page = opened.page
    expect(page.locator("#answers li")).to_have_text("No data yet: run gpumon-static fetch, then render.")
    expect(page.locator("#tell-me")).to_be_hidden()
    for place in ("people", "health"):
        page.locator(f".tabs [href='#{place}']").click()
        expect(page.locator(f"#{place} .empty")).to_have_text("No data yet: run gpumon-static fetch.")
    assert opened.problems == []


def test_what_is_not_known_is_not_called_healthy_or_unused(open_page: OpenPage) -> None:
    page = open_page(page_of([reading("node1", [gpu(0)])])).page
    expect(page.locator("#health .empty")).to_have_text(
        "4 hosts are not fetched yet. The others answer, and no GPU reports a fault."
    )
    page = open_page(page_of([failed(f"node{number}") for number in (1, 2, 3, 4, 10)])).page
    expect(page.locator("#answers li")).to_have_text("No GPU was read: nothing can be offered.")
    expect(page.locator("#people .empty")).to_have_text("No GPU was read: who uses what is not known.")


# Addresses

NOT_KNOWN = {
    "?view=foo": "view=foo is not a view: ignored",
    "?sort=foo": "sort=foo is not an order: ignored",
    "?n=many": "n=many is not a number of GPUs: ignored",
    "?n=0": "n=0 is not a number of GPUs: ignored",
    "?gb=abc": "gb=abc is not an amount in GB: ignored",
    "?free=maybe": "free=maybe is neither 0 nor 1: ignored",
    "?mine=maybe": "mine=maybe is neither 0 nor 1: ignored",
    "?kiosk=maybe": "kiosk=maybe is neither 0 nor 1: ignored",
    "?range=2w": "range=2w is not a range of time: ignored",
    "?supply=2w": "supply=2w is not a range of time: ignored",
    "?view=foo&mem=abc": "mem=abc is not an amount in GB: ignored · view=foo is not a view: ignored",
    "#nowhere": "#nowhere is not on this page",
    "#host-node77:3": "#host-node77:3 is not on this page",
    "#rack/7": "#rack/7 is not on this page",
}
KNOWN = (
    "?view=table ?view=cards ?sort=load ?n=2 ?mem=0.5 ?free ?free=1&mine=0 ?range=7d ?supply=1y #people #host/node1"
    " #host-node2:2 ?model=a100&group=vision"
).split()


def visit(page: Page, address: str) -> None:
    """A new page: a change of what follows the # alone would load nothing."""
    home = page.url.partition("?")[0].partition("#")[0]
    page.goto("about:blank")
    page.goto(home + address)


def test_what_an_address_asks_and_the_page_does_not_know_is_named(open_page: OpenPage) -> None:
    page = open_page(page_of(lab())).page
    for address, told in NOT_KNOWN.items():
        visit(page, address)
        expect(page.locator("#ignored")).to_have_text(told)
        expect(page.locator("#ignored")).to_be_visible()
        expect(page.locator(".card[tabindex]:visible, .slice[tabindex]:visible")).to_have_count(10)
    # Whoever goes on from there is not told for ever.
    page.get_by_role("link", name="People").click()
    expect(page.locator("#ignored")).to_be_hidden()
    visit(page, "?view=foo")
    page.get_by_role("searchbox").fill("node1")
    expect(page.locator("#ignored")).to_be_hidden()


def test_what_the_page_knows_is_not_complained_about(open_page: OpenPage) -> None:
    page = open_page(page_of(lab())).page
    for address in KNOWN:
        visit(page, address)
        assert (address, page.locator("#ignored").text_content()) == (address, "")
    visit(page, "?view=cards")
    expect(page.get_by_role("radio", name="Cards")).to_be_checked()


def test_a_thing_that_is_not_here_is_named_and_said_to_be_unknown(open_page: OpenPage) -> None:
    page = open_page(page_of(lab())).page
    for thing in ("host node77", "user nobody", "GPU node1/77", "job slurm:1"):
        place, _, name = thing.partition(" ")
        visit(page, f"#{place.lower()}/{name}")
        expect(page.locator("#thing-title")).to_have_text(name)
        expect(page.locator(".thing-body")).to_contain_text(f"There is no {thing} on this page now.")


def test_free_without_a_value_is_on_as_kiosk_is(open_page: OpenPage) -> None:
    page = open_page(page_of(lab())).page
    page.goto(page.url + "?free")
    expect(page.get_by_label("free only")).to_be_checked()
    expect(page.locator("#found")).to_contain_text("5 GPUs + 1 slice on 4 hosts")


def test_the_model_of_a_link_is_understood_by_cards_as_by_answers(open_page: OpenPage) -> None:
    page = open_page(page_of(lab())).page
    page.goto(page.url + "?model=rtx3090")
    expect(page.locator("#answers li a")).to_have_text(["node3"])
    expect(page.locator(".host:visible .host-name")).to_have_text(["node3"])


# Type

FONTS = """() => [...document.querySelectorAll("body *")]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.matches("option, .spoken"))
  .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
  .map((one) => { const { fontSize, fontWeight } = getComputedStyle(one); return [fontSize, fontWeight]; })"""


def test_four_sizes_and_two_weights_are_enough(open_page: OpenPage, kept: Kept) -> None:
    html = render_page(page_with_past(kept, reports=["2025-10"]))
    page = open_page(html, at=NOW).page
    fonts = []
    for place in ("", "people", "supply", "health", "host/vision-01", "user/jonas", "gpu/vision-01/0"):
        visit(page, f"#{place}")
        if not place:
            page.locator(".card.busy").first.focus()
            expect(page.locator(".tip")).to_be_visible()
        fonts += page.evaluate(FONTS)
    fonts += open_page(html, at=NOW, java_script_enabled=False).page.evaluate(FONTS)
    assert {size for size, _ in fonts} == {"13px", "15px", "22px", "36px"}
    assert {weight for _, weight in fonts} == {"400", "600"}


# Paper


def paper(page: Page) -> None:
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")


def chosen_on_paper(page: Page, part: str) -> list[str]:
    """What is left of buttons and menus there."""
    return page.locator(f"{part} .views label:visible").all_inner_texts()


def test_on_paper_ranges_are_named_and_no_buttons(open_page: OpenPage, kept: Kept) -> None:
    page = open_page(render_page(page_with_past(kept)), at=NOW).page
    page.goto(f"{page.url}?supply=7d&range=30d#supply")
    page.reload()
    paper(page)
    assert chosen_on_paper(page, ".supply") == ["7 d"]
    assert chosen_on_paper(page, "#history") == ["30 d"]
    edges = page.locator(".supply .views, #history .views, #history select").evaluate_all(
        "all => all.map((one) => getComputedStyle(one).borderTopWidth)"
    )
    assert set(edges) == {"0px"}
    # The heat map has the name of its model.
    expect(page.locator("#history [name=week]")).to_be_visible()


def test_on_paper_the_panel_of_a_host_names_its_range(open_page: OpenPage, kept: Kept) -> None:
    page = open_page(render_page(page_with_past(kept)), at=NOW).page
    page.goto(f"{page.url}#host/vision-01")
    page.reload()
    paper(page)
    assert chosen_on_paper(page, "#thing") == ["24 h"]


def test_paper_has_the_tab_that_is_open_with_its_date(open_page: OpenPage, kept: Kept) -> None:
    page = open_page(render_page(page_with_past(kept)), at=NOW, viewport={"width": 300, "height": 900}).page
    paper(page)
    wide = page.locator(".models").evaluate("one => one.scrollWidth - one.clientWidth")
    assert wide <= 0
    expect(page.locator(".data-time .moment")).to_be_visible()
    for tab in ("people", "supply", "health"):
        page.goto(f"{page.url.partition('#')[0]}#{tab}")
        page.reload()
        paper(page)
        assert page.locator(".place:visible").evaluate_all("all => all.map((one) => one.id)") == [tab]
        expect(page.locator(f"#{tab}-place")).to_be_visible()
        expect(page.locator(".data-time .moment")).to_be_visible()
    expect(page.locator("#events-chart svg")).to_be_visible()
    assert page.locator(".events button:visible").count() == 0
