"""The strip of hosts, the table and the compact view."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.split.overview import extract, overview, part_page
from gpumon_static.publish.page.split.parts import Part
from gpumon_static.publish.page.view import build_page, make_ready
from tests.browser import OpenPage
from tests.builders import NOW, busy_gpu, config, gpu, reading, slices
from tests.find_lab import page as page
from tests.labs import lab, page_of

# Views


def test_the_strip_has_each_host_by_group_with_a_mark_per_gpu_and_leads_to_the_host(
    open_page: OpenPage,
) -> None:
    page = open_page(page_of(lab()), viewport={"width": 1000, "height": 400}).page
    link = page.locator(".strip a[href='#host-node4']")
    expect(link).to_have_text(re.compile("node4: 0 of 1 free"))
    expect(page.locator(".strip b")).to_have_text(["language", "teaching", "vision"])
    marks = page.locator(".strip a[href='#host-node2'] svg")
    kinds = marks.evaluate_all("pips => pips.map(p => p.classList[0])")
    assert kinds == ["free", "busy", "held"]
    expect(page.locator("#host-node4")).not_to_be_in_viewport()
    link.click()
    expect(page.locator("#host-node4 h2")).to_be_in_viewport()
    bar = page.locator(".toolbar").bounding_box()
    head = page.locator("#host-node4 h2").bounding_box()
    assert bar is not None
    assert head is not None
    assert bar["y"] == 0
    assert head["y"] >= bar["height"]


@pytest.mark.parametrize("is_large", [False, True])
def test_a_gpu_that_is_cut_has_one_mark_which_shows_whether_slices_are_free(
    open_page: OpenPage, is_large: bool
) -> None:
    cut = [gpu(place, mig_mode=True, utilization=None) for place in range(4)]
    taken = [(), (1,), (0, 1)]
    gpus = [replace(one, slices=slices(2, *busy)) for one, busy in zip(cut, taken, strict=False)]
    read = [reading("n1", [*gpus, busy_gpu(3), gpu(4)]), reading("n2", [gpus[1]])]
    whole = make_ready(read, config("n1", "n2"), NOW)
    parts = [Part(host.name, f"{host.name}.html", (host,)) for host in whole.survey.hosts]
    extracts = [extract(part_page(whole, part), part) for part in parts]
    made = overview(whole, parts, extracts) if is_large else build_page(read, config("n1", "n2"), NOW)
    page = open_page(render_page(made)).page
    drawn = page.locator(".strip svg").evaluate_all(
        "svgs => svgs.map(s => [s.closest('a').title, s.classList[0], s.getBoundingClientRect().width / 11])"
    )
    assert drawn == [
        ["n1: 2 of 5 free + 3 slices", "free", 1],
        ["n1: 2 of 5 free + 3 slices", "partly", 1],
        ["n1: 2 of 5 free + 3 slices", "busy", 2],
        ["n1: 2 of 5 free + 3 slices", "free", 1],
        ["n2: 0 of 1 free + 1 slice", "partly", 1],
    ]
    masks = page.locator(".strip svg").evaluate_all("svgs => svgs.map(s => getComputedStyle(s).maskImage)")
    assert "none" not in masks
    assert len(set(masks)) == 3, "a sign of its own"


def test_the_table_has_a_row_per_gpu_and_sorts_by_each_column(page: Page) -> None:
    page.get_by_title("Table").click()
    expect(page.locator(".hosts")).to_be_hidden()
    rows = page.locator(".table-view tr[data-card]")
    expect(rows).to_have_count(10)
    expect(rows.nth(1)).to_have_text(
        re.compile(r"node1.*1.*A100 80G.*busy.*97 %.*40 / 80 GB.*alice.*3 h.*31 °C.*52 W")
    )
    page.get_by_role("button", name="Load").click()
    expect(page.locator(".table-view th[aria-sort]")).to_have_text("Load")
    loads = rows.locator("td:nth-child(5)")
    expect(loads.first).to_have_text("97 %")
    expect(loads.last).to_have_text("–")
    page.get_by_role("button", name="Load").click()
    expect(loads.first).to_have_text("0 %")
    expect(loads.last).to_have_text("–")


def test_a_row_of_the_table_has_the_tooltip_of_its_card(page: Page) -> None:
    page.get_by_title("Table").click()
    page.locator(".table-view tbody tr").nth(1).focus()
    expect(page.locator(".tip")).to_contain_text("node1 · GPU 1")
    expect(page.locator(".tip")).to_contain_text("4711")


def test_the_compact_view_is_small_and_keeps_the_tooltips(page: Page) -> None:
    tall = page.locator("#host-node1").bounding_box()
    page.get_by_title("Compact").click()
    small = page.locator("#host-node1").bounding_box()
    assert tall is not None
    assert small is not None
    assert small["height"] < tall["height"] / 2
    page.locator("[id='host-node1:1']").hover()
    expect(page.locator(".tip")).to_contain_text("alice")
