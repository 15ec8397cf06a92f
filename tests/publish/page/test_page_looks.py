"""How the page looks: sizes, colours, themes, and what does not grow."""

from __future__ import annotations

from datetime import timedelta

import pytest
from playwright.sync_api import expect

from gpumon_static.model import GONE, Disk, Machine
from gpumon_static.publish.page.records import MOST_LAID_OUT
from tests.browser import OpenPage
from tests.builders import READ_AT, busy_gpu, gpu, process, reading
from tests.page_lab import LAB, TWO_MINUTES_LATER, card, html_of, open_tips

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


# Looks


@pytest.mark.parametrize("width", [320, 390, 768, 1024, 1440, 1920, 2560])
def test_cards_stand_in_a_grid_and_nothing_sticks_out(open_page: OpenPage, width: int) -> None:
    page = open_page(html_of(*LAB), viewport={"width": width, "height": 900}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.locator(".card[tabindex]").evaluate_all(
        "cards => cards.map(card => card.getBoundingClientRect()).map(box => [box.width, box.height])"
    )
    assert min(box[0] for box in boxes) >= 200
    assert len({round(box[1], 1) for box in boxes}) == 1


def test_a_card_does_not_grow_with_what_a_host_says(open_page: OpenPage) -> None:
    long = "a-name-without-any-end-" * 20
    talker = busy_gpu(1, name=long, processes=(process(user=long, name=long), process(2, user="b" + long)))
    page = open_page(html_of(reading("a", [gpu(0), talker]))).page
    quiet, loud = (box.bounding_box() for box in page.locator(".card").all())
    assert quiet is not None
    assert loud is not None
    assert (quiet["width"], quiet["height"]) == (loud["width"], loud["height"])


CONTRAST = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = channels(colour).slice(0, 3).map((value) => value / 255)
      .map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, two) => {
    const [low, high] = [light(one), light(two)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const surfaces = (element) => {
    const { backgroundColor, backgroundImage } = getComputedStyle(element);
    if (channels(backgroundColor)[3] === 0) return surfaces(element.parentElement);
    return [backgroundColor, ...(backgroundImage.match(/rgb\\([^)]*\\)/g) || [])];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    for (const surface of surfaces(element)) {
      found.push([walker.currentNode.data.trim(), ratio(getComputedStyle(element).color, surface)]);
    }
  }
  return found;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_has_enough_contrast(open_page: OpenPage, theme: str) -> None:
    gone = process(5, user=None, state=GONE, job="slurm 7")
    old = reading("node0", [busy_gpu(processes=(process(), gone))], fetched_at=READ_AT - timedelta(hours=3))
    page = open_page(
        html_of(old, *LAB), color_scheme=theme, at=TWO_MINUTES_LATER, reduced_motion="reduce"
    ).page
    card(page, "host-node0:0").focus()
    expect(open_tips(page)).to_have_count(1)
    contrasts = page.evaluate(CONTRAST)
    page.locator("[id='host-node0:0']").click()
    contrasts += page.evaluate(CONTRAST)
    assert {"unknown", "stale data", "slurm 7", "no processes", "no data"} <= {c[0] for c in contrasts}
    assert [(text, ratio) for text, ratio in contrasts if ratio < 4.5] == []


def test_the_dark_theme_is_dark_and_the_light_one_is_light(open_page: OpenPage) -> None:
    html = html_of(*LAB)
    lightness = [
        open_page(html, color_scheme=theme).page.evaluate(
            "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
        )
        for theme in ("light", "dark")
    ]
    assert lightness[0] > 230
    assert lightness[1] < 40


def test_a_printed_page_has_no_tooltips(open_page: OpenPage) -> None:
    page = open_page(html_of(*LAB)).page
    card(page, "host-node1:1").focus()
    expect(open_tips(page)).to_have_count(1)
    page.emulate_media(media="print")
    expect(open_tips(page)).to_have_count(0)
    expect(card(page, "host-node1:1").get_by_text("busy, 3 h")).to_be_visible()


@pytest.mark.parametrize("width", [390, 1000, 1440, 1920])
def test_the_meters_of_a_host_stay_together(open_page: OpenPage, width: int) -> None:
    disks = tuple(Disk(mount, 50.0, 100.0) for mount in ("/", "/data", "/scratch"))
    machine = Machine(64, 12.0, 9.0, 8.0, 524288.0, 122880.0, cpu_utilization=40.0, disks=disks)
    hosts = [
        reading("a", [gpu(i) for i in range(4)], machine=machine),
        reading("b", [gpu()], machine=machine),
    ]
    page = open_page(html_of(*hosts), viewport={"width": width, "height": 900}).page
    for host in ("a", "b"):
        head = page.locator(f"#host-{host} header")
        name, meters = (head.locator(part).bounding_box() for part in ("h2", ".meters"))
        assert name
        assert meters
        assert meters["y"] >= name["y"] + name["height"] - 1
        assert meters["height"] < 24, "one line"


@pytest.mark.parametrize(("hosts", "laid_out"), [(MOST_LAID_OUT, "visible"), (MOST_LAID_OUT + 1, "auto")])
def test_of_many_hosts_only_those_on_the_screen_are_laid_out(
    open_page: OpenPage, hosts: int, laid_out: str
) -> None:
    page = open_page(html_of(*(reading(f"n{number}", [gpu()]) for number in range(hosts)))).page
    last = page.locator(".host").last
    assert last.evaluate("host => getComputedStyle(host).contentVisibility") == laid_out
    last.scroll_into_view_if_needed()
    expect(last.locator(".card")).to_be_visible()
