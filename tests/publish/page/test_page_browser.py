"""The page as a reader has it: in Chromium, with a mouse, a keyboard, a finger, and without JavaScript."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from gpumon_static.model import Gpu, Status
from tests.browser import OpenPage
from tests.builders import failed, gpu, reading
from tests.cards_lab import LAB, card, html_of, open_tips, tip

# What is there


def test_the_page_says_how_many_gpus_are_free_and_what_each_host_has(open_page: OpenPage) -> None:
    page = open_page(html_of(*LAB)).page
    expect(page.locator(".free-count")).to_have_text("1 of 10 GPUs free + 5 slices")
    expect(page.locator(".host-name")).to_have_text(["node1", "node2", "node10"])
    expect(page.locator(".card")).to_have_count(4 + 6 + 1)
    expect(page.locator(".card.free")).to_have_count(1)
    expect(page.locator(".card.busy")).to_have_count(1 + 5)
    expect(page.locator(".slice.free")).to_have_count(5)
    expect(page.locator(".slice.busy")).to_have_count(2)
    expect(page.locator(".card.held")).to_have_count(1)
    expect(page.locator(".card.unknown")).to_have_count(1)
    expect(page.locator(".card.failed")).to_contain_text("nvidia-smi cannot talk to the driver")


@pytest.mark.parametrize("width", [390, 1440, 1920])
def test_a_gpu_cut_into_seven_is_one_card_as_tall_as_the_others(open_page: OpenPage, width: int) -> None:
    page = open_page(html_of(*LAB), viewport={"width": width, "height": 900}).page
    cut = card(page, "host-node2:0")
    expect(cut).to_contain_text("A100 80G5 of 7 free")
    heights = page.locator("#host-node2 .card").evaluate_all("all => all.map(one => one.offsetHeight)")
    assert len(set(heights)) == 1
    assert cut.evaluate("card => card.querySelector('.slices').scrollHeight <= card.clientHeight")
    for mark in cut.locator(".slice > bdi").all():
        inside = mark.evaluate(
            """mark => {
            const [text, box] = [mark, mark.closest(".card")].map((one) => one.getBoundingClientRect());
            return text.height > 0 && text.bottom <= box.bottom && mark.scrollWidth <= mark.clientWidth + 1;
        }"""
        )
        assert inside, "index and profile of each are seen whole"


def test_a_slice_has_a_tooltip_a_place_among_the_keys_and_its_old_address(open_page: OpenPage) -> None:
    page = open_page(html_of(*LAB)).page
    card(page, "host-node2:0.1").hover()
    expect(tip(page, "host-node2:0.1")).to_contain_text("node2 · GPU 0 · slice 1")
    expect(tip(page, "host-node2:0.1")).to_contain_text("mia")
    page.mouse.move(0, 0)
    card(page, "host-node2:0.6").focus()
    page.keyboard.press("ArrowRight")
    expect(card(page, "host-node2:1")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.locator("#thing h2")).to_have_text("node2 GPU 0:6")
    page.evaluate("location.hash = '#gpu/node2/0'")
    expect(page.locator("#thing h2")).to_have_text("node2 GPU 0")
    expect(page.locator("#thing tbody tr")).to_have_count(7)
    page.evaluate("location.hash = '#host-node2:0.1'")
    expect(card(page, "host-node2:0.1")).to_be_in_viewport()


def test_of_a_cut_gpu_only_the_slices_that_are_asked_for_are_shown(open_page: OpenPage) -> None:
    page = open_page(html_of(*LAB)).page
    page.get_by_label("free only").check()
    expect(card(page, "host-node2:0").locator(".slice:visible")).to_have_count(5)
    page.get_by_label("free only").uncheck()
    page.get_by_role("searchbox", name="Search").fill("alice")
    expect(card(page, "host-node2:1")).to_be_visible()
    expect(card(page, "host-node2:0")).to_be_hidden()


def test_what_is_not_known_is_shown_as_a_dash_and_nowhere_as_a_zero(open_page: OpenPage) -> None:
    page = open_page(html_of(reading("a", [Gpu(1, processes_known=False)]))).page
    page.locator(".card").hover()
    expect(open_tips(page)).to_be_visible()
    text = page.locator(".card").inner_text()
    assert "0" not in text
    assert text.count("–") == 2 + 5


def test_the_state_is_told_by_a_word_and_an_icon_beside_the_colour(open_page: OpenPage) -> None:
    page = open_page(html_of(*LAB)).page
    cards = page.locator("#host-node1 .card")
    expect(cards).to_have_text(
        [
            re.compile(word)
            for word in ("free.*no processes", "alice.*busy, 3 h", "alice.*held idle", "unknown")
        ]
    )
    states = cards.locator(".state")
    icons = states.evaluate_all("all => all.map(state => getComputedStyle(state, '::before').maskImage)")
    assert len(set(icons)) == 4
    assert all(icon.startswith('url("data:image/svg+xml') for icon in icons)
    surfaces = page.locator("#host-node1 .card").evaluate_all(
        "cards => cards.map(card => ['backgroundColor', 'backgroundImage', 'borderStyle']"
        ".map(name => getComputedStyle(card)[name]).join())"
    )
    assert len(set(surfaces)) == 4


def test_when_everything_is_down_nothing_is_green_or_red(open_page: OpenPage) -> None:
    page = open_page(html_of(failed("a"), failed("b", Status.AUTH, "the key was refused"))).page
    expect(page.locator(".free-count")).to_have_text("No host answered")
    expect(page.locator(".card.failed")).to_have_count(2)
    expect(page.locator(".card.free, .card.busy, .card.held")).to_have_count(0)
    surfaces = page.locator(".card").evaluate_all(
        "cards => cards.map(c => getComputedStyle(c).backgroundColor)"
    )
    for surface in surfaces:
        red, green, blue = (int(part) for part in surface.removeprefix("rgb(").rstrip(")").split(","))
        assert max(red, green, blue) - min(red, green, blue) < 8


def test_an_entry_that_needs_attention_leads_to_its_host(open_page: OpenPage) -> None:
    crowd = [reading(f"n{number}", [gpu(i) for i in range(8)]) for number in range(20)]
    page = open_page(html_of(*crowd, failed("z9"))).page
    expect(page.locator("#host-z9")).not_to_be_in_viewport()
    page.locator(".attention summary").click()
    page.locator(".attention").get_by_role("link", name="z9").click()
    expect(page.locator("#host-z9")).to_be_in_viewport()
