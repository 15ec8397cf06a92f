"""The page for every kind of sight, window and paper."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import OpenPage
from tests.builders import busy_gpu, failed, gpu, host_config, reading
from tests.labs import lab, page_of


def pixel(page: Page, spot: Locator, dx: float, dy: float) -> tuple[int, ...]:
    """The colour on the screen, after every filter: a picture of one pixel, read by hand."""
    box = spot.bounding_box()
    assert box
    clip = {"x": round(box["x"] + dx), "y": round(box["y"] + dy), "width": 1, "height": 1}
    data = b"".join(_chunks(page.screenshot(clip=clip), b"IDAT"))  # type: ignore[arg-type]
    return tuple(zlib.decompress(data)[1:4])


def _chunks(png: bytes, wanted: bytes) -> Iterator[bytes]:
    at = 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == wanted:
            yield png[at + 8 : at + 8 + length]
        at += 12 + length


def luminance(colour: tuple[int, ...]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("sight", ["none", "deuteranopia", "protanopia", "achromatopsia"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_free_stands_out_and_busy_recedes_for_every_kind_of_sight(
    open_page: OpenPage, theme: str, sight: str
) -> None:
    page = open_page(page_of([reading("node1", [gpu(0), busy_gpu(1)])]), color_scheme=theme).page
    page.context.new_cdp_session(page).send("Emulation.setEmulatedVisionDeficiency", {"type": sight})
    cards = [page.locator(f"[id='host-node1:{index}']") for index in (0, 1)]
    paper = luminance(pixel(page, page.locator("body"), 4, 4))
    free, busy = (luminance(pixel(page, card, 12, 6)) for card in cards)
    assert distance(free, paper) >= 3 * distance(busy, paper)
    assert distance(free, busy) > 0.2


def distance(one: float, two: float) -> float:
    """Contrast, from nothing on."""
    low, high = sorted((one, two))
    return (high + 0.05) / (low + 0.05) - 1


def test_one_tab_stop_leads_past_everything_to_the_hosts(open_page: OpenPage) -> None:
    page = open_page(page_of(lab()), viewport={"width": 1000, "height": 500}).page
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    expect(page.locator(".skip")).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("#host-node1 .host-name")).to_be_focused()


def test_zoomed_to_200_percent_the_sticky_bar_takes_at_most_a_quarter(open_page: OpenPage) -> None:
    hosts = tuple(host_config(f"n{number}", group=f"g{number % 9}") for number in range(100))
    crowd = [reading(host.name, [busy_gpu(i) for i in range(8)]) for host in hosts]
    page = open_page(page_of(crowd, hosts=hosts), viewport={"width": 720, "height": 450}).page
    page.locator("#host-n50").scroll_into_view_if_needed()
    box = page.locator(".toolbar").bounding_box()
    assert box
    assert box["y"] == pytest.approx(0, abs=1)
    assert box["height"] <= 450 / 4


def test_forced_colours_show_what_is_selected(open_page: OpenPage) -> None:
    page = open_page(page_of(lab()), forced_colors="active").page
    page.locator(".models button").first.click()
    outline = "element => getComputedStyle(element).outlineStyle"
    assert page.locator(".models [aria-pressed=true]").evaluate(outline) == "solid"
    assert page.locator(".models [aria-pressed=false]").first.evaluate(outline) == "none"
    chosen = page.locator("#find .views label:has(:checked)")
    assert chosen.evaluate(outline) == "solid"
    now, people = page.locator(".tabs a").nth(0), page.locator(".tabs a").nth(1)
    edge = "element => getComputedStyle(element).borderBottomColor"
    assert now.evaluate(edge) != people.evaluate(edge)


def test_a_phone_has_the_question_and_its_answers_first_and_tiles_in_one_row(open_page: OpenPage) -> None:
    page = open_page(page_of(lab()), viewport={"width": 390, "height": 844}).page
    tops = [page.locator(part).bounding_box() for part in ("#find", "#answers", ".models", ".strip")]
    assert [box["y"] for box in tops if box] == sorted(box["y"] for box in tops if box)
    rows = page.locator(".models li").evaluate_all("all => all.map(one => one.offsetTop)")
    assert len(rows) == 3
    assert len(set(rows)) == 1
    sizes = page.locator("#find input, #find select").evaluate_all(
        "all => all.map(one => getComputedStyle(one).fontSize)"
    )
    assert set(sizes) == {"16px"}


def test_a_picture_of_the_whole_page_has_no_holes(open_page: OpenPage) -> None:
    hosts = tuple(host_config(f"n{number}") for number in range(40))
    crowd = [reading(host.name, [gpu(i) for i in range(8)]) for host in hosts]
    page = open_page(page_of(crowd, hosts=hosts)).page
    hidden = page.locator(".card").evaluate_all(
        "cards => cards.filter(card => !card.checkVisibility({ contentVisibilityAuto: true })).length"
    )
    assert hidden == 0


def test_the_kiosk_is_read_from_five_metres(open_page: OpenPage) -> None:
    page = open_page(page_of(lab()), viewport={"width": 1920, "height": 1080}).page
    page.goto(page.url + "?kiosk")
    sizes = page.locator(".free-count *, .models button, .card > *").evaluate_all(
        "all => all.filter(one => one.checkVisibility()).map(one => parseFloat(getComputedStyle(one).fontSize))"
    )
    assert min(sizes) >= 28
    assert max(sizes) <= 48
    tiles, cards = page.locator(".models").bounding_box(), page.locator(".card").first.bounding_box()
    assert tiles
    assert cards
    assert tiles["y"] < cards["y"]


def test_the_kiosk_shows_whole_rows_and_turns_to_every_host(open_page: OpenPage) -> None:
    names = [f"n{number}" for number in range(9)]
    readings = [reading(name, [gpu(index) for index in range(8)]) for name in names]
    page = open_page(
        page_of(readings, hosts=tuple(map(host_config, names))), viewport={"width": 1920, "height": 1080}
    ).page
    page.goto(page.url + "?kiosk")
    whole = """() => [...document.querySelectorAll('.host')].filter((host) => host.checkVisibility({ visibilityProperty: true }))
        .map((host) => [host.id, host.getBoundingClientRect()])
        .filter(([, box]) => box.bottom > 0 && box.top < innerHeight)
        .map(([id, box]) => [id, box.top >= -1 && box.bottom <= innerHeight + 1])"""
    for view in ("cards", "compact"):
        page.goto(page.url.partition("?")[0] + f"?kiosk&view={view}")
        seen = set()
        for _ in range(page.evaluate("gpumon.kiosk.pages()")):
            shown = page.evaluate(whole)
            assert shown
            assert all(is_whole for _, is_whole in shown)
            seen |= {host for host, _ in shown}
            expect(page.locator(".models")).to_be_in_viewport()
            page.evaluate("gpumon.kiosk.turn()")
        assert seen == {f"host-{name}" for name in names}


def kiosk(open_page: OpenPage, hosts: int, gpus: int, query: str = "", **window: int) -> Page:
    names = [f"n{number}" for number in range(hosts)]
    readings = [reading(name, [gpu(0), *(busy_gpu(index) for index in range(1, gpus))]) for name in names]
    size = {"width": 1920, "height": 1080} | window
    page = open_page(page_of(readings, hosts=tuple(map(host_config, names))), viewport=size).page
    page.goto(f"{page.url}?kiosk{query}")
    return page


@pytest.mark.parametrize(
    ("hosts", "gpus", "query"), [(5, 8, ""), (1, 4, ""), (100, 8, ""), (9, 4, "&view=cards")]
)
def test_the_rows_of_the_kiosk_fill_the_height(
    open_page: OpenPage, hosts: int, gpus: int, query: str
) -> None:
    page = kiosk(open_page, hosts, gpus, query)
    last = page.locator(".host:visible").last.bounding_box()
    assert last
    assert 1080 - 32 <= last["y"] + last["height"] <= 1080
    sizes = page.locator("main *").evaluate_all(
        """all => all.filter((one) => one.checkVisibility() && one.getBoundingClientRect().width > 1
               && [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
             .map((one) => parseFloat(getComputedStyle(one).fontSize)).filter((size) => size > 0)"""
    )
    assert min(sizes) >= 28
    assert max(sizes) <= 48


def test_the_kiosk_of_a_large_lab_has_come_round_in_a_few_minutes(open_page: OpenPage) -> None:
    page = kiosk(open_page, 100, 8)
    assert page.evaluate("gpumon.kiosk.pages()") <= 12
    # How many are free is a number: marks are small from five metres.
    assert (
        page.locator("#host-n0 header").evaluate("one => getComputedStyle(one, '::after').content") == '"1/8"'
    )
    page.goto(page.url + "&view=cards")
    assert page.evaluate("gpumon.kiosk.pages()") > 12


def test_a_host_that_is_taller_than_the_kiosk_comes_in_whole_rows_of_cards(open_page: OpenPage) -> None:
    page = kiosk(open_page, 1, 16, "&view=cards")
    seen = []
    for _ in range(page.evaluate("gpumon.kiosk.pages()")):
        boxes = page.locator(".card:visible").evaluate_all(
            "cards => cards.map((card) => [card.id, card.getBoundingClientRect().bottom])"
        )
        assert max(bottom for _, bottom in boxes) <= 1080
        seen += [anchor for anchor, _ in boxes]
        page.evaluate("gpumon.kiosk.turn()")
    assert seen == [f"host-n0:{index}" for index in range(16)]


def test_on_a_low_screen_the_kiosk_has_the_models_first_and_then_the_hosts(open_page: OpenPage) -> None:
    page = kiosk(open_page, 4, 4, "&view=cards", width=1280, height=420)
    expect(page.locator(".models")).to_be_in_viewport()
    page.evaluate("gpumon.kiosk.turn()")
    expect(page.locator(".models")).to_be_hidden()
    box = page.locator(".host:visible").first.bounding_box()
    assert box
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 420


def test_on_a_tablet_the_masthead_is_one_line_and_hosts_of_a_group_stand_below_each_other(
    open_page: OpenPage,
) -> None:
    names = [f"n{number}" for number in range(12)]
    readings = [reading(name, [gpu(index) for index in range(8)]) for name in names]
    hosts = tuple(host_config(name, group="vision") for name in names)
    page = open_page(page_of(readings, hosts=hosts, refresh=60), viewport={"width": 768, "height": 1024}).page
    title, tools = (page.locator(one).bounding_box() for one in (".masthead h1", ".masthead .tools"))
    assert title
    assert tools
    assert abs(title["y"] - tools["y"]) < 8
    lefts = page.locator(".strip a").evaluate_all(
        "all => all.map((one) => Math.round(one.getBoundingClientRect().left))"
    )
    label = page.locator(".strip b").bounding_box()
    assert label
    assert lefts.count(min(lefts)) > 1
    assert min(lefts) >= label["x"] + label["width"]


def test_hosts_of_one_row_begin_at_one_height(open_page: OpenPage) -> None:
    page = open_page(page_of([failed("node1"), failed("node2")])).page
    tops = page.locator(".host").evaluate_all("all => all.map((one) => one.querySelector('h2').offsetTop)")
    assert tops[0] == tops[1]


def test_on_a_phone_health_says_what_to_do_without_scrolling_aside(open_page: OpenPage) -> None:
    page = open_page(page_of(lab()), viewport={"width": 390, "height": 844}).page
    page.goto(f"{page.url}#health")
    for words in page.locator(":is(.down, .faults) .words").all():
        box = words.bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390


def test_answers_cards_strip_and_tiles_follow_one_question(open_page: OpenPage) -> None:
    page = open_page(page_of(lab())).page
    page.get_by_label("Group").select_option("vision")
    expect(page.locator("#answers li")).to_have_count(2)
    expect(page.locator(".host:visible .host-name")).to_have_text(["node1", "node2"])
    expect(page.locator(".strip a:visible")).to_have_count(2)
    expect(page.locator(".models button").nth(0)).to_contain_text("3 fit /7")
    expect(page.locator(".models button").nth(1)).to_contain_text("0 fit /2")
    page.get_by_label("GPUs", exact=True).first.fill("2")
    expect(page.locator("#answers li a")).to_have_text(["node1"])
    expect(page.locator(".host:visible .host-name")).to_have_text(["node1"])
    expect(page.locator("#answers li")).to_contain_text("reserved until 1 December")
    page.get_by_label("Group").select_option("")
    page.get_by_label("GPUs", exact=True).first.fill("1")
    expect(page.locator(".models button").nth(0)).to_contain_text("3/7")


def test_a_host_with_a_note_is_offered_after_those_without(open_page: OpenPage) -> None:
    both = [reading("node1", [gpu(0), gpu(1)]), reading("node3", [gpu(0)])]
    page = open_page(page_of(both)).page
    expect(page.locator("#answers li a")).to_have_text(["node3", "node1"])
    expect(page.locator("#answers li").nth(1)).to_contain_text("reserved until 1 December")


def test_a_thousand_hosts_are_blocks_that_are_filled_as_far_as_they_are_free(open_page: OpenPage) -> None:
    hosts = tuple(host_config(f"n{number}") for number in range(200))
    crowd = [reading(host.name, [gpu(0), busy_gpu(1)]) for host in hosts]
    page = open_page(page_of(crowd, hosts=hosts)).page
    blocks = page.locator(".strip a")
    expect(blocks).to_have_count(200)
    expect(blocks.first).to_have_attribute("title", "n0: 1 of 2 free")
    assert "50%" in blocks.first.evaluate("block => getComputedStyle(block).backgroundImage")
    box = page.locator(".toolbar").bounding_box()
    assert box
    assert box["height"] <= 900 / 4
