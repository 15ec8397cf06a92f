"""The page as a reader has it: in Chromium, with a mouse, a keyboard, a finger, and without JavaScript."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from playwright.sync_api import Locator, Page, expect

from gpumon_static.model import Gpu, Status
from tests.browser import OpenPage, Site, copies
from tests.builders import NOW, READ_AT, busy_gpu, failed, gpu, process, reading
from tests.page_lab import LAB, card, html_of, open_tips

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def tip(page: Page, anchor: str) -> Locator:
    return page.locator(f"[id='{anchor}'] .tip")


def outside(page: Page, tooltip: Locator) -> list[float]:
    """How far the tooltip sticks out of the window on each side; the fade must be over."""
    box = tooltip.bounding_box()
    assert box is not None
    width, height = page.evaluate("[document.documentElement.clientWidth, innerHeight]")
    sides = [-box["x"], -box["y"], box["x"] + box["width"] - width, box["y"] + box["height"] - height]
    return [side for side in sides if side > 0]


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
    expect(tip(page, "host-node2:0.1")).to_contain_text("mia")
    page.mouse.move(0, 0)
    card(page, "host-node2:0.6").focus()
    page.keyboard.press("ArrowRight")
    expect(card(page, "host-node2:1")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.locator("#thing h2")).to_have_text("node2 GPU 0 slice 6")
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
    text = page.locator(".card").inner_text()
    assert ("0" in text, text.count("–")) == (False, 2)
    page.locator(".card").click()
    known = page.locator("#thing .facts").inner_text()
    assert ("0" in known, known.count("–")) == (False, 5)


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


# Tooltips


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


def test_tab_goes_from_a_card_to_the_next_host(open_page: OpenPage) -> None:
    page = open_page(html_of(reading("a", [gpu(0), busy_gpu(1)]), reading("b", [gpu(0)]))).page
    card(page, "host-a:0").focus()
    page.keyboard.press("Tab")
    expect(page.locator("#host-b .host-name")).to_be_focused()
    page.keyboard.press("Tab")
    expect(card(page, "host-b:0")).to_be_focused()


def test_the_uuid_in_a_panel_can_be_copied(open_page: OpenPage) -> None:
    page = open_page(html_of(reading("a", [gpu(0)])), permissions=["clipboard-read", "clipboard-write"]).page
    card(page, "host-a:0").click()
    copies(page, page.get_by_role("button", name="Copy GPU-00000000"))
    assert page.evaluate("navigator.clipboard.readText()") == "GPU-00000000-1111-2222-3333-444444444444"


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
    page.locator(".tip p").first.hover()
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
    page.locator(".card").click()
    shown = page.locator("#thing .users bdi").all_inner_texts()
    assert sorted(shown) == sorted(names)
    for place in page.locator("#thing td:is(:nth-child(2), :nth-child(3))").all():
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
