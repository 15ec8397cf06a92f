"""Freshness: refresh in place, old data, what was freed, notifications; theme, kiosk and print."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect

from gpumon_static.model import HostReading
from tests.browser import Opened, OpenPage, Site
from tests.builders import NOW, READ_AT, busy_gpu, host_config, reading
from tests.labs import lab, page_of

LATER = NOW + timedelta(minutes=5)


@pytest.fixture
def opened(open_page: OpenPage, site: Site) -> Iterator[Opened]:
    """The lab's page from a server, asking again every second."""
    site.write(page_of(lab(), refresh=1))
    opened = open_page(url=site.url, viewport={"width": 1000, "height": 500})
    yield opened
    assert opened.problems == []


def change(site: Site) -> None:
    site.write(page_of(lab(node2_is_free=True), now=LATER, refresh=1))


def freed_card(page: Page) -> str:
    return page.locator("[id='host-node2:1'] .state").inner_text()


def test_a_change_comes_in_place(opened: Opened, site: Site) -> None:
    page = opened.page
    page.evaluate("window.same = true")
    assert freed_card(page) == "alice"
    change(site)
    expect(page.locator("[id='host-node2:1'] .state")).to_have_text("free")
    expect(page.locator(".free-count")).to_have_text("6 of 9 GPUs free + 1 slice")
    assert page.title() == "6 of 9 GPUs free + 1 slice – GPU Monitor"
    assert page.evaluate("window.same") is True
    assert set(site.asked) == {"/"}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ('\n<section class="host', '\n<section data-lab="1" class="host'),
        ("</header>\n<ul", "</header>\n<section>a part of their own</section>\n<ul"),
    ],
)
def test_hosts_of_a_labs_own_template_are_renewed_too(
    open_page: OpenPage, site: Site, ours: str, theirs: str
) -> None:
    site.write(page_of(lab(), refresh=1).replace(ours, theirs))
    page = open_page(url=site.url).page
    site.write(page_of(lab(node2_is_free=True), now=LATER, refresh=1).replace(ours, theirs))
    expect(page.locator("[id='host-node2:1'] .state")).to_have_text("free")
    expect(page.locator("#hosts > .host")).to_have_count(5)
    expect(page.locator("#hosts :is(.card, .slice)[tabindex]")).to_have_count(10)


def test_what_has_not_changed_stays_as_it_is(opened: Opened, site: Site) -> None:
    page = opened.page
    page.evaluate("for (const card of document.querySelectorAll('.card')) card.kept = true")
    change(site)
    expect(page.locator("[id='host-node2:1'] .state")).to_have_text("free")
    kept = "id => document.getElementById(id).kept === true"
    assert page.evaluate(kept, "host-node1:0") is True
    assert page.evaluate(kept, "host-node2:0") is False


def test_scroll_search_focus_and_an_open_tooltip_outlive_a_refresh(opened: Opened, site: Site) -> None:
    page = opened.page
    page.get_by_role("searchbox").fill("node")
    page.locator("[id='host-node2:1']").focus()
    page.evaluate("scrollTo(0, 480)")
    page.wait_for_function("() => scrollY === 480")
    page.evaluate("window.tip = document.querySelector('.tip')")
    expect(page.locator(".tip")).to_contain_text("alice")
    change(site)
    expect(page.locator(".tip")).to_contain_text("No processes.")
    expect(page.locator("[id='host-node2:1']")).to_be_focused()
    assert page.evaluate("scrollY") == 480
    expect(page.get_by_role("searchbox")).to_have_value("node")
    expect(page.locator(".tip")).to_have_count(1)


def test_the_table_keeps_scroll_focus_and_tooltip_when_a_refresh_comes(
    open_page: OpenPage, site: Site
) -> None:
    hosts = tuple(host_config(f"n{number}") for number in range(100))

    def crowd(load: float) -> list[HostReading]:
        return [reading(host.name, [busy_gpu(i, utilization=load) for i in range(8)]) for host in hosts]

    site.write(page_of(crowd(50.0), hosts=hosts, refresh=1))
    page = open_page(url=site.url + "?view=table").page
    rows = page.locator("tr[data-card]")
    for shown in (200, 400, 600):
        expect(rows).to_have_count(shown)
        rows.last.scroll_into_view_if_needed()
    row = page.locator("tr[data-card='host-n60:3']")
    row.scroll_into_view_if_needed()
    row.focus()
    expect(row.locator(".tip")).to_contain_text("alice")
    before = page.evaluate("scrollY")
    assert before > 3000
    site.write(page_of(crowd(60.0), hosts=hosts, now=LATER, refresh=1))
    expect(row.locator(":scope > td").nth(4)).to_have_text("60 %")
    assert page.evaluate("scrollY") == before
    expect(row).to_be_focused()
    expect(row.locator(".tip")).to_contain_text("alice")


def test_a_filter_holds_for_what_a_refresh_brings(opened: Opened, site: Site) -> None:
    page = opened.page
    page.get_by_label("free only").check()
    expect(page.locator("#host-node2 .card:visible")).to_have_count(1)
    change(site)
    expect(page.locator("#host-node2 .card:visible")).to_have_count(2)


def test_no_box_moves_when_a_refresh_comes(opened: Opened, site: Site) -> None:
    boxes = "[...document.querySelectorAll('.card, .host, .toolbar')].map(e => JSON.stringify(e.getBoundingClientRect()))"
    before = opened.page.evaluate(boxes)
    change(site)
    expect(opened.page.locator("[id='host-node2:1'] .state")).to_have_text("free")
    assert opened.page.evaluate(boxes) == before


def test_hosts_come_and_go(opened: Opened, site: Site) -> None:
    site.write(page_of([r for r in lab() if r.host != "node1"], now=LATER, refresh=1))
    expect(opened.page.locator("#host-node1 .notice .state")).to_have_text("not fetched yet")


def test_paused_means_paused(opened: Opened, site: Site) -> None:
    page = opened.page
    page.get_by_role("button", name="Pause").click()
    change(site)
    page.wait_for_timeout(2500)
    assert freed_card(page) == "alice"
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("[id='host-node2:1'] .state")).to_have_text("free")


def test_nobody_looks_nothing_is_asked(opened: Opened, site: Site) -> None:
    page = opened.page
    page.evaluate("Object.defineProperty(document, 'hidden', { get: () => true })")
    page.wait_for_timeout(1200)
    site.asked.clear()
    page.wait_for_timeout(2500)
    assert site.asked == []


def test_a_server_that_is_gone_is_said_and_forgotten_when_it_is_back(open_page: OpenPage, site: Site) -> None:
    site.write(page_of(lab(), refresh=1))
    page = open_page(url=site.url).page
    site.file.rename(site.file.with_suffix(".away"))
    banner = page.get_by_text("This page could not be refreshed")
    expect(banner).to_be_visible()
    change(site)
    expect(banner).to_be_hidden()
    expect(page.locator("[id='host-node2:1'] .state")).to_have_text("free")


def test_a_new_version_of_the_program_loads_the_page_anew(open_page: OpenPage, site: Site) -> None:
    html = page_of(lab(), refresh=1)
    site.write(html)
    page = open_page(url=site.url).page
    page.evaluate("window.same = true")
    with page.expect_navigation():
        site.write(html.replace('data-build="', 'data-build="new'))
    assert page.evaluate("window.same") is None


# Old data


def test_after_two_missed_intervals_a_banner_says_so_and_the_colours_go(open_page: OpenPage) -> None:
    page = open_page(page_of(lab()), at=READ_AT + timedelta(minutes=2)).page
    surface = "getComputedStyle(document.querySelector('.card.free')).backgroundColor"
    fresh = page.evaluate(surface)
    expect(page.locator(".banner")).to_be_hidden()
    page.clock.set_system_time(READ_AT + timedelta(minutes=10, seconds=30))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator(".banner")).to_be_hidden()
    page.clock.set_system_time(READ_AT + timedelta(minutes=12))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator(".banner")).to_have_text(
        "The data is 12 min old: 2 updates were missed. What you see was true at 14 Nov 2025, 09:10."
    )
    red, green, blue = (int(part) for part in page.evaluate(surface)[4:-1].split(","))
    assert max(red, green, blue) - min(red, green, blue) < 8
    assert page.evaluate(surface) != fresh


@pytest.mark.parametrize("minutes", [12, 3 * 24 * 60])
def test_stale_data_offers_nothing(open_page: OpenPage, minutes: int) -> None:
    page = open_page(page_of(lab()), at=READ_AT + timedelta(minutes=2)).page
    assert page.locator("#answers [data-copy]").count() > 0
    page.clock.set_system_time(READ_AT + timedelta(minutes=minutes))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#answers li")).to_have_count(1)
    expect(page.locator("#answers")).to_contain_text("nothing is offered")
    assert page.locator("#answers [data-copy]").count() == 0


def test_a_host_that_was_not_read_in_the_last_runs_offers_nothing(open_page: OpenPage) -> None:
    readings = lab()
    readings[0] = replace(readings[0], fetched_at=READ_AT - timedelta(minutes=8))
    page = open_page(page_of(readings), at=READ_AT + timedelta(minutes=2)).page
    first = page.locator("#answers li a").first
    expect(first).to_have_text("node3")
    assert "node1" in page.locator("#answers").inner_text()
    page.clock.set_system_time(READ_AT + timedelta(minutes=4))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#answers")).not_to_contain_text("node1")
    expect(first).to_have_text("node3")


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_readers_clock_that_is_wrong_neither_invents_nor_hides_missed_updates(
    open_page: OpenPage, site: Site, hours: int
) -> None:
    wrong = timedelta(hours=hours)
    site.write(page_of(lab(), refresh=1))
    page = open_page(url=site.url, at=NOW + wrong).page
    age = page.locator(".masthead .age")
    expect(age).to_have_text("2 min ago")
    expect(page.locator(".banner")).to_be_hidden()
    site.clock[0] = NOW + timedelta(minutes=40)
    expect(age).to_have_text("42 min ago")
    expect(page.locator(".banner")).to_contain_text("The data is 42 min old: 8 updates were missed.")


def test_every_time_is_in_the_readers_zone_which_is_named_once(open_page: OpenPage) -> None:
    page = open_page(page_of(lab()), timezone_id="Asia/Tokyo").page
    time = page.locator(".masthead time")
    expect(time).to_have_text("14 Nov 2025, 18:10")
    expect(time).to_have_attribute("title", "2025-11-14 09:10 UTC")
    expect(page.locator("footer time")).to_have_text("14 Nov 2025, 18:12")
    assert page.locator("body").inner_text().count("GMT+9") == 1
    assert "UTC" not in page.locator("body").inner_text()
    page.clock.set_system_time(READ_AT + timedelta(minutes=12))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator(".banner")).to_contain_text("was true at 14 Nov 2025, 18:10.")


def test_the_interval_is_the_configs(open_page: OpenPage) -> None:
    page = open_page(page_of(lab(), interval=3600), at=READ_AT + timedelta(hours=2)).page
    expect(page.locator(".banner")).to_be_hidden()


def test_without_javascript_a_page_made_from_old_data_says_so(open_page: OpenPage) -> None:
    html = page_of(lab(), now=READ_AT + timedelta(days=3))
    page = open_page(html, java_script_enabled=False).page
    expect(page.locator(".banner")).to_contain_text("What you see was true at 14 Nov 2025, 09:10 UTC.")


# Since the last visit, and notifications


def test_what_was_freed_since_the_last_visit_is_marked(open_page: OpenPage, site: Site) -> None:
    site.write(page_of(lab()))
    page = open_page(url=site.url).page
    expect(page.locator("#since")).to_be_hidden()
    page.clock.set_system_time(NOW + timedelta(hours=2, minutes=5))
    site.write(page_of(lab(node2_is_free=True), now=NOW + timedelta(hours=2, minutes=5)))
    page.reload()
    expect(page.locator("#since")).to_have_text("1 freed since your last visit, 2 h ago")
    expect(page.locator(".card.freed")).to_have_id("host-node2:1")
    page.reload()
    expect(page.locator(".card.freed")).to_have_count(1)


NOTES = """() => {
  window.notes = [];
  window.Notification = class {
    static permission = "default";
    static requestPermission() { this.permission = "granted"; return Promise.resolve("granted"); }
    constructor(title, options) { notes.push([title, options.body]); }
  };
}"""


def test_whoever_asks_is_told_when_a_search_has_more_free_gpus(opened: Opened, site: Site) -> None:
    page = opened.page
    page.evaluate(NOTES)
    page.get_by_role("searchbox").fill("node2")
    page.get_by_role("button", name="Notify me").click()
    expect(page.get_by_role("button", name="Notify me")).to_have_attribute("aria-pressed", "true")
    # It goes on asking where nobody looks: that is what it is for.
    page.evaluate("Object.defineProperty(document, 'hidden', { get: () => true })")
    change(site)
    page.wait_for_function("() => notes.length > 0")
    assert page.evaluate("notes") == [["1 more GPU free", "2 GPUs free in your search: node2"]]


def test_the_bell_survives_a_reload_and_knows_what_was_free_before(open_page: OpenPage, site: Site) -> None:
    site.write(page_of(lab(), refresh=60))
    page = open_page(url=site.url).page
    page.add_init_script(NOTES.removeprefix("() => {").removesuffix("}").replace('"default"', '"granted"'))
    page.reload()
    bell = page.get_by_role("button", name="Notify me")
    bell.click()
    page.reload()
    expect(bell).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("notes") == []
    site.write(page_of(lab(node2_is_free=True), now=LATER, refresh=60))
    page.reload()
    assert page.evaluate("notes[0][0]") == "1 more GPU free"
    bell.click()
    page.reload()
    expect(bell).to_have_attribute("aria-pressed", "false")


def test_nobody_is_told_who_did_not_ask(opened: Opened, site: Site) -> None:
    opened.page.evaluate(NOTES)
    change(site)
    expect(opened.page.locator("[id='host-node2:1'] .state")).to_have_text("free")
    assert opened.page.evaluate("notes") == []


# Theme, kiosk, print


def test_the_theme_is_toggled_and_sticks(open_page: OpenPage, site: Site) -> None:
    site.write(page_of(lab()))
    page = open_page(url=site.url, color_scheme="light").page
    lightness = "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
    button = page.get_by_role("button", name="Theme: system")
    button.click()
    page.get_by_role("button", name="Theme: light").click()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert page.evaluate(lightness) < 40
    page.reload()
    assert page.evaluate(lightness) < 40
    page.get_by_role("button", name="Theme: dark").click()
    assert page.evaluate(lightness) > 230


def test_the_kiosk_has_no_controls_and_turns_its_pages(open_page: OpenPage, site: Site) -> None:
    names = [f"n{number}" for number in range(12)]
    crowd = [reading(name, [busy_gpu(index) for index in range(8)]) for name in names]
    site.write(page_of(crowd, hosts=tuple(host_config(name) for name in names)))
    opened = open_page(url=site.url + "?kiosk", viewport={"width": 1280, "height": 720})
    page = opened.page
    expect(page.locator(".free-count")).to_be_visible()
    for gone in ("#find", ".ask", ".tools", ".people", "footer"):
        expect(page.locator(gone)).to_be_hidden()
    page.clock.install()
    page.reload()
    first = page.locator(".host:visible").evaluate_all("hosts => hosts.map((host) => host.id)")
    page.clock.run_for(16_000)
    second = page.locator(".host:visible").evaluate_all("hosts => hosts.map((host) => host.id)")
    assert first
    assert second
    assert not set(first) & set(second)
    expect(page.locator(".models")).to_be_visible()
    page.clock.run_for(15_000 * 10)
    assert opened.problems == []


def test_print_shows_cards_and_no_controls(open_page: OpenPage) -> None:
    page = open_page(page_of(lab()), color_scheme="dark").page
    page.emulate_media(media="print")
    for gone in ("#find", ".ask", ".tools-line", ".tools"):
        expect(page.locator(gone)).to_be_hidden()
    expect(page.locator("[id='host-node1:0']").get_by_text("free")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
