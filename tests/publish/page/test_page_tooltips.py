"""Tooltips: with a mouse, a keyboard, a finger, and without JavaScript."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from gpumon_static.model import GONE
from tests.browser import OpenPage, copies
from tests.builders import busy_gpu, gpu, process, reading
from tests.cards_lab import card, html_of, open_tips, tip

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def outside(page: Page, tooltip: Locator) -> list[float]:
    """How far the tooltip sticks out of the window on each side; the fade must be over."""
    box = tooltip.bounding_box()
    assert box is not None
    width, height = page.evaluate("[document.documentElement.clientWidth, innerHeight]")
    sides = [-box["x"], -box["y"], box["x"] + box["width"] - width, box["y"] + box["height"] - height]
    return [side for side in sides if side > 0]


# Tooltips


def test_the_pointer_opens_a_tooltip_with_users_before_processes(open_page: OpenPage) -> None:
    held = (
        process(77, user="bob", memory_mib=2048.0, job="slurm 99"),
        process(4711),
        process(5, user=None, state=GONE, memory_mib=512.0),
    )
    page = open_page(html_of(reading("a", [busy_gpu(processes=held), gpu(1)]))).page
    expect(open_tips(page)).to_have_count(0)
    card(page, "host-a:0").hover()
    expect(tip(page, "host-a:0")).to_be_visible()
    text = tip(page, "host-a:0").inner_text()
    wanted = [
        "alice",
        "40 GB",
        "bob",
        "2.0 GB",
        "PID",
        "4711",
        "3 h",
        "77",
        "slurm 99",
        "Memory free",
        "UUID",
    ]
    places = [text.index(word) for word in wanted]
    assert places == sorted(places)
    expect(tip(page, "host-a:0").locator("tr.gone")).to_contain_text("ended process")
    page.mouse.move(5, 5)
    expect(open_tips(page)).to_have_count(0)


def test_the_keyboard_opens_one_tooltip_after_the_other(open_page: OpenPage) -> None:
    page = open_page(html_of(reading("a", [gpu(0), busy_gpu(1)]), reading("b", [gpu(0), gpu(1)]))).page
    page.locator("#host-a .host-name").focus()
    page.keyboard.press("Tab")
    expect(card(page, "host-a:0")).to_be_focused()
    expect(tip(page, "host-a:0")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(card(page, "host-a:1")).to_be_focused()
    expect(tip(page, "host-a:1")).to_be_visible()
    expect(open_tips(page)).to_have_count(1)
    page.keyboard.press("ArrowDown")
    expect(card(page, "host-b:1")).to_be_focused()
    page.keyboard.press("Home")
    expect(card(page, "host-b:0")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(tip(page, "host-a:0")).to_be_visible()


def test_tab_goes_from_a_card_into_its_tooltip_and_on_to_the_next_host(open_page: OpenPage) -> None:
    page = open_page(html_of(reading("a", [gpu(0), busy_gpu(1)]), reading("b", [gpu(0)]))).page
    card(page, "host-a:0").focus()
    page.keyboard.press("Tab")
    expect(tip(page, "host-a:0").get_by_role("link", name="GPU 0")).to_be_focused()
    page.keyboard.press("Tab")
    expect(tip(page, "host-a:0").get_by_role("button", name="Copy GPU-00000000")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("#host-b .host-name")).to_be_focused()
    page.keyboard.press("Tab")
    expect(card(page, "host-b:0")).to_be_focused()


def test_a_tall_tooltip_scrolls_by_keyboard(open_page: OpenPage) -> None:
    crowd = tuple(process(pid, user=f"user-{pid}", job="slurm:1") for pid in range(10))
    page = open_page(
        html_of(reading("a", [busy_gpu(processes=crowd)])), viewport={"width": 800, "height": 400}
    ).page
    card(page, "host-a:0").focus()
    assert tip(page, "host-a:0").evaluate("tip => tip.scrollTop") == 0
    page.keyboard.press("PageDown")
    page.wait_for_function("() => document.querySelector('.tip').scrollTop > 100")


def test_the_uuid_in_a_tooltip_can_be_copied(open_page: OpenPage) -> None:
    page = open_page(html_of(reading("a", [gpu(0)])), permissions=["clipboard-read", "clipboard-write"]).page
    card(page, "host-a:0").hover()
    copies(page, tip(page, "host-a:0").get_by_role("button", name="Copy GPU-00000000"))
    assert page.evaluate("navigator.clipboard.readText()") == "GPU-00000000-1111-2222-3333-444444444444"


def test_a_screen_reader_gets_the_tooltip_as_the_description_of_its_card(open_page: OpenPage) -> None:
    page = open_page(html_of(reading("a", [busy_gpu()]))).page
    page.locator(".card").focus()
    described = page.locator(".card").get_attribute("aria-describedby")
    expect(page.locator(f"[id='{described}']")).to_have_attribute("role", "tooltip")
    expect(page.locator(".card")).to_have_accessible_description(
        re.compile(
            "^a · GPU 0 .*alice 40 GB 1 process .*4711 alice python 40 GB 3 h .*Temperature 31 / 83 °C"
        )
    )


@pytest.mark.parametrize("opened_by", ["pointer", "keyboard"])
def test_escape_closes_the_tooltip(open_page: OpenPage, opened_by: str) -> None:
    page = open_page(html_of(reading("a", [busy_gpu()]))).page
    if opened_by == "pointer":
        page.locator(".card").hover()
    else:
        page.locator(".card").focus()
    expect(open_tips(page)).to_have_count(1)
    page.keyboard.press("Escape")
    expect(open_tips(page)).to_have_count(0)


def test_a_tooltip_closed_by_escape_stays_closed_until_the_pointer_comes_back(open_page: OpenPage) -> None:
    page = open_page(html_of(reading("a", [busy_gpu()]))).page
    page.locator(".card > p").first.hover()
    expect(open_tips(page)).to_have_count(1)
    page.keyboard.press("Escape")
    page.locator(".card > bdi").hover()
    page.wait_for_timeout(300)
    expect(open_tips(page)).to_have_count(0)
    page.mouse.move(5, 5)
    page.wait_for_timeout(300)
    page.locator(".card > bdi").hover()
    expect(open_tips(page)).to_have_count(1)


def test_the_pointer_can_move_into_the_tooltip(open_page: OpenPage) -> None:
    page = open_page(html_of(reading("a", [busy_gpu()]))).page
    page.locator(".card").hover()
    expect(open_tips(page)).to_have_count(1)
    page.locator(".tip dd").last.hover()
    page.wait_for_timeout(300)
    expect(open_tips(page)).to_have_count(1)


@pytest.mark.parametrize("width", [390, 768, 1440])
def test_no_tooltip_is_cut_off_at_the_edge_of_the_window(open_page: OpenPage, width: int) -> None:
    crowd = tuple(process(pid, user=f"user-{pid % 7}", name="python train.py " * 5) for pid in range(30))
    lab = [reading(f"n{number}", [busy_gpu(i, processes=crowd) for i in range(8)]) for number in range(4)]
    page = open_page(html_of(*lab), viewport={"width": width, "height": 800}).page
    for number in (0, 3):
        for index in (0, 2, 5, 7):
            anchor = f"host-n{number}:{index}"
            card(page, anchor).focus()
            expect(tip(page, anchor)).to_be_visible()
            assert outside(page, tip(page, anchor)) == []


def test_a_tooltip_stands_beside_its_card_and_follows_it(open_page: OpenPage) -> None:
    lab = [reading(f"n{number}", [busy_gpu(i) for i in range(8)]) for number in range(8)]
    page = open_page(html_of(*lab)).page
    card(page, "host-n0:0").focus()
    page.mouse.wheel(0, 40)
    page.wait_for_function("() => scrollY === 40")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def distance() -> float:
        below, above = tip(page, "host-n0:0").bounding_box(), card(page, "host-n0:0").bounding_box()
        assert below is not None
        assert above is not None
        return below["y"] - above["y"] - above["height"]

    assert 0 <= distance() <= 8


def test_a_finger_opens_a_card_and_no_tooltip(open_page: OpenPage) -> None:
    page = open_page(html_of(reading("a", [gpu(0), busy_gpu(1)])), **PHONE).page
    card(page, "host-a:1").tap()
    expect(page.locator("#thing-title")).to_have_text("a GPU 1")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#thing .back").tap()
    expect(card(page, "host-a:1")).to_be_visible()
    expect(open_tips(page)).to_have_count(0)


def test_without_javascript_the_title_of_a_card_lists_users_and_memory(open_page: OpenPage) -> None:
    held = (process(), process(2, user="bob", memory_mib=2048.0))
    html = html_of(reading("a", [gpu(0), busy_gpu(1, processes=held)]))
    page = open_page(html, java_script_enabled=False).page
    expect(card(page, "host-a:1")).to_have_attribute("title", "alice 40.0 GB, bob 2.0 GB")
    expect(card(page, "host-a:1")).to_contain_text("alice +1")
    bar = "card => getComputedStyle(card.children[2], '::before').backgroundImage"
    assert "97%" in card(page, "host-a:1").evaluate(bar)
