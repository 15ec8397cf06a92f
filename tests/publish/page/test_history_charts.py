"""Charts, tooltips and tables of the past in a browser, and on paper."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import expect

from gpumon_static.model import Gpu, Machine
from gpumon_static.publish.page.html import render_page
from gpumon_static.store.history import pools
from tests.browser import OpenPage, violations
from tests.builders import busy_gpu, failed, gpu, process, reading
from tests.past_lab import NINE, PastLab, held_gpu


@pytest.fixture
def lab(tmp_path: Path) -> PastLab:
    return PastLab(tmp_path)


def demo_page(lab: PastLab) -> tuple[str, datetime]:
    gpus: list[Gpu] = [busy_gpu(0), held_gpu(1, "bob"), gpu(2)]
    both = [reading("node1", gpus), failed("node2")]
    lab.config = replace(lab.config, hosts=PastLab(Path(), "node1", "node2").config.hosts)
    lab.run(0, reading("node1", gpus), reading("node2", [busy_gpu(7)]))
    lab.runs(range(5, 241, 5), *both)
    return render_page(lab.page(240, *both)), lab.at(240)


def test_charts_are_drawn_and_read_out_and_nothing_complains(lab: PastLab, open_page: OpenPage) -> None:
    html, now = demo_page(lab)
    opened = open_page(html, at=now, timezone_id="UTC")
    page = opened.page
    page.get_by_role("link", name="Supply").click()
    plot = page.locator("#history-utilization .plot")
    plot.wait_for()
    assert "on average 32 %" in page.locator("#history-utilization h3").inner_text()
    plot.focus()
    page.keyboard.press("ArrowLeft")
    assert plot.locator(".readout").inner_text().split("\n") == ["13:00", "all GPUs 32 %"]
    page.locator("#history [value='7d']").check()
    assert "range=7d" in page.url
    page.locator("[name=host]").select_option("node1")
    assert plot.locator("path.line").count() == 2
    page.locator("[name=host]").select_option("a line for each")
    assert plot.locator("path.line.each").count() == 2
    label = plot.locator("svg").get_attribute("aria-label") or ""
    assert "of all GPUs and each of 2 hosts" in label
    assert re.search(r"Highest node2 with \d+ %, lowest node1 with 32 %\.", label)
    plot.locator("svg").hover(position={"x": 450, "y": 100})
    assert page.locator("#history-week .cell").count() == 4
    assert page.locator(".card.past").count() == 1
    assert opened.problems == []


def test_charts_with_a_point_per_hour_are_drawn_over_the_same_day(
    lab: PastLab, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "MOST_IN_DETAIL", 0)
    html, now = demo_page(lab)
    opened = open_page(html, at=now, timezone_id="UTC")
    page = opened.page
    page.get_by_role("link", name="Supply").click()
    plot = page.locator("#history-utilization .plot")
    plot.focus()
    page.keyboard.press("ArrowLeft")
    assert plot.locator(".readout").inner_text().split("\n") == ["14 Nov, 13:00", "all GPUs 32 %"]
    page.goto(f"{page.url.partition('#')[0]}#host/node1")
    plot = page.locator(".panel-charts .plot").first
    plot.focus()
    page.keyboard.press("ArrowLeft")
    assert plot.locator(".readout").inner_text().split("\n")[0] == "14 Nov, 13:00"
    told = "GPU utilization and memory are means over 1 h: the page has many hosts."
    expect(page.get_by_text(told)).to_be_visible()
    page.locator("[name=thing-range][value='7d']").check()
    expect(page.get_by_text(told)).to_have_count(0)
    assert opened.problems == []


LABELS = """charts => charts.map((chart) => [...chart.querySelectorAll(".axis.middle")]
  .map((label) => label.getBoundingClientRect()).map((box) => [box.left, box.right]))"""


@pytest.mark.parametrize("most", [0, 400])
@pytest.mark.parametrize("width", [390, 1360])
def test_times_below_a_chart_do_not_run_into_each_other(
    lab: PastLab, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, most: int, width: int
) -> None:
    monkeypatch.setattr(pools, "MOST_IN_DETAIL", most)
    there = reading("node1", [busy_gpu(0)], machine=Machine(64, 12.0, 9.0, 8.0, 524288.0, 262144.0))
    minutes = range(0, 31 * 24 * 60, 12 * 60)
    lab.runs(minutes, there)
    html, now = render_page(lab.page(minutes[-1], there)), lab.at(minutes[-1])
    page = open_page(html, at=now, timezone_id="UTC", viewport={"width": width, "height": 900}).page
    page.goto(f"{page.url}#host/node1")
    for range_ in ("24h", "7d", "30d"):
        page.locator(f"[name=thing-range][value='{range_}']").check()
        charts = page.locator(".panel-charts svg").evaluate_all(LABELS)
        assert charts
        for labels in charts:
            assert all(one[1] < two[0] for one, two in pairwise(labels)), range_


def test_a_picture_of_the_whole_of_supply_has_its_charts(lab: PastLab, open_page: OpenPage) -> None:
    html, now = demo_page(lab)
    page = open_page(html, at=now, viewport={"width": 390, "height": 100}).page
    page.goto(page.url + "#supply")
    page.locator("#history svg").first.wait_for(state="attached")
    assert page.evaluate("document.getElementById('history').getBoundingClientRect().top") > 300


def test_the_panel_draws_the_last_day_of_its_gpu(lab: PastLab, open_page: OpenPage) -> None:
    html, now = demo_page(lab)
    page = open_page(html, at=now).page
    page.locator(".card.busy").first.click()
    detail = page.locator("#thing .detail")
    detail.wait_for()
    assert [h.inner_text().split(" ")[0] for h in detail.locator("h4").all()] == [
        "Held", "Utilization", "Memory", "Temperature", "Power",
    ]  # fmt: skip
    assert detail.locator(".bands text").text_content() == "alice"
    chart = detail.locator("div", has=page.get_by_role("heading", name="Temperature"))
    expect(chart).to_contain_text("83 °C")
    expect(page.locator("#thing .facts")).to_contain_text("/ 83 °C")


def test_gpu_hours_sort_by_each_column(lab: PastLab, open_page: OpenPage) -> None:
    uses = reading(
        "node1",
        [
            busy_gpu(0, utilization=80.0),
            held_gpu(1, "bob"),
            busy_gpu(2, utilization=None, processes=(process(user="carl"),)),
        ],
    )
    lab.runs(range(0, 121, 5), uses)
    page = open_page(render_page(lab.page(120, uses)), at=lab.at(120)).page
    page.get_by_role("link", name="People").click()
    names = page.locator("[data-live=usage] tbody td:first-child")
    table = page.locator("[data-live=usage]")
    table.get_by_role("button", name="User").click()
    assert names.all_inner_texts() == ["alice", "bob", "carl"]
    table.get_by_role("button", name="GPU active").click()
    assert names.all_inner_texts() == ["alice", "bob", "carl"]
    table.get_by_role("button", name="GPU active").click()
    assert names.all_inner_texts() == ["bob", "alice", "carl"], "what is not known comes last"
    table.get_by_role("button", name="of these idle").click()
    assert names.first.inner_text() == "bob"


def test_times_on_cards_are_the_readers_own(lab: PastLab, open_page: OpenPage) -> None:
    html, now = demo_page(lab)
    page = open_page(html, at=now, timezone_id="Asia/Tokyo").page
    assert page.locator("time.since").first.inner_text() == "busy since 18:00"
    assert page.locator("time.since").first.get_attribute("title") == "2025-11-14 09:00 UTC"


@pytest.mark.parametrize(
    ("zone", "first"),
    [("UTC", "Fri 09:00"), ("Asia/Tokyo", "Fri 18:00"), ("America/Los_Angeles", "Fri 01:00")],
)
def test_the_week_is_in_the_readers_zone(
    lab: PastLab, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, zone: str, first: str
) -> None:
    monkeypatch.setenv("TZ", "Australia/Sydney")
    time.tzset()
    try:
        html, now = demo_page(lab)
    finally:
        monkeypatch.undo()
        time.tzset()
    page = open_page(html, at=now, timezone_id=zone).page
    page.get_by_role("link", name="Supply").click()
    page.locator("#history-week .cell").first.wait_for()
    titles = page.locator("#history-week title").all_text_contents()
    known = [title for title in titles if "not known" not in title]
    assert known[0].startswith(f"{first}: ")
    assert len(known) == 4


def test_without_javascript_since_ribbon_and_words_are_there(lab: PastLab, open_page: OpenPage) -> None:
    html, _ = demo_page(lab)
    page = open_page(html, java_script_enabled=False).page
    assert page.get_by_text("busy since 09:00").is_visible()
    assert page.get_by_text("idle 4 h").first.is_visible()
    assert page.get_by_text("24 h: GPUs worked at 32 % on average").is_visible()
    assert page.get_by_text("A100 80G: of 4, free on average: 1.0 in 24 h").is_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_charts_and_details_have_no_axe_violations(lab: PastLab, open_page: OpenPage, theme: str) -> None:
    html, now = demo_page(lab)
    page = open_page(html, at=now, color_scheme=theme, reduced_motion="reduce").page
    page.get_by_role("link", name="Supply").click()
    page.locator("#history-week .cell").first.wait_for()
    assert violations(page) == []
    page.get_by_role("link", name="Now").click()
    page.locator(".card.busy").first.focus()
    page.locator("#tip").wait_for()
    assert violations(page) == []


def test_a_year_of_which_hours_are_known_is_drawn_as_those_days(lab: PastLab, open_page: OpenPage) -> None:
    up = reading("node1", [busy_gpu()])
    for day in range(30):
        lab.run(day * 1440, up)
        lab.run(day * 1440 + 5, up)
    html = render_page(lab.page(29 * 1440 + 5, up))
    page = open_page(html, at=NINE + timedelta(days=29, minutes=5), timezone_id="UTC").page
    page.get_by_role("link", name="Supply").click()
    page.locator("#history [value='1y']").check()
    chart = page.locator("#history-utilization svg")
    assert "over the last 30 days" in (chart.get_attribute("aria-label") or "")
    assert chart.locator("text").filter(has_text="Dec").count() >= 1
    assert chart.locator("text").filter(has_text="Mar").count() == 0


def test_a_printed_page_has_cards_bars_ribbons_and_charts(lab: PastLab, open_page: OpenPage) -> None:
    html, now = demo_page(lab)
    page = open_page(html, at=now).page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    card = page.locator(".card.busy").first
    assert "gradient" in card.evaluate(
        "card => getComputedStyle(card.children[4], '::after').backgroundImage"
    )
    assert "gradient" in card.evaluate(
        "card => getComputedStyle(card.children[2], '::before').backgroundImage"
    )
    assert card.evaluate("card => getComputedStyle(card).printColorAdjust") == "exact"
    page.evaluate("location.hash = '#supply'")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("#history-utilization svg")).to_be_visible()
    expect(page.locator("#history-week .cell").first).to_be_visible()


def test_no_table_is_wider_than_the_paper(lab: PastLab, open_page: OpenPage) -> None:
    html, now = demo_page(lab)
    page = open_page(html, at=now, viewport={"width": 718, "height": 1000}).page
    page.emulate_media(media="print")
    tables: list[float] = []
    for tab in ("now", "people", "supply", "health"):
        page.evaluate(f"location.hash = '#{tab}'")
        expect(page.locator(f"#{tab}")).to_be_visible()
        tables += page.locator("table:visible, .supply-rows:visible").evaluate_all(
            "all => all.map(one => one.getBoundingClientRect().right)"
        )
    assert len(tables) > 4
    assert max(tables) <= 718


def test_when_nothing_fits_the_picker_says_at_which_hour_most_are_usually_free(
    lab: PastLab, open_page: OpenPage
) -> None:
    taken, free = (reading("node1", [make(index) for index in range(2)]) for make in (busy_gpu, gpu))
    lab.runs(range(0, 60, 5), taken)
    lab.runs(range(60, 120, 5), free)
    lab.runs(range(120, 181, 5), taken)
    page = lab.page(180, taken)
    shown = open_page(render_page(page), at=lab.at(180), timezone_id="Europe/Berlin").page
    expect(shown.locator("#answers .ways div")).to_have_text(
        ["Ask alice (has 2)", "Usually most are free around 11:00: 2.0 of 2"]
    )


def test_hours_of_users_without_a_name_lead_nowhere(lab: PastLab) -> None:
    uses = reading("node1", [busy_gpu(0), busy_gpu(1, processes=(process(user=None),))])
    lab.runs(range(0, 121, 5), uses)
    page = lab.page(120, uses)
    assert page.history
    assert {row.name: row.is_name for row in page.history.usage} == {"alice": True, "unknown user": False}
    html = render_page(page)
    assert 'href="#user/alice"' in html
    assert "#user/unknown" not in html
    assert 'id="user/unknown' not in html
