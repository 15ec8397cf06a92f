"""A page of many GPUs: few elements, laid out and made as they are needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.split.overview import extract, overview, part_page
from gpumon_static.publish.page.split.parts import Part
from gpumon_static.publish.page.view import build_page, make_ready
from gpumon_static.survey.survey import build_survey
from tests.browser import OpenPage
from tests.builders import NOW, busy_gpu, config, gpu, host_config, reading, slices
from tests.labs import page_of


def test_a_gpu_is_few_elements_until_it_is_asked_for_more(open_page: OpenPage) -> None:
    def elements(count: int) -> int:
        hosts = tuple(host_config(f"n{number}") for number in range(count // 8))
        crowd = [reading(host.name, [busy_gpu(i) for i in range(8)]) for host in hosts]
        return int(
            open_page(page_of(crowd, hosts=hosts)).page.evaluate("document.querySelectorAll('*').length")
        )

    assert (elements(88) - elements(8)) / 80 < 9


def test_what_is_off_the_screen_is_not_laid_out_but_has_its_height(open_page: OpenPage) -> None:
    hosts = tuple(host_config(f"n{number}") for number in range(160))
    crowd = [reading(host.name, [busy_gpu(i) for i in range(4)]) for host in hosts]
    page = open_page(page_of(crowd, hosts=hosts)).page
    assert (
        page.locator("#host-n39 .card").first.evaluate(
            "card => card.checkVisibility({ contentVisibilityAuto: true })"
        )
        is False
    )
    assumed = page.locator("#host-n39").bounding_box()
    page.locator("#host-n39").scroll_into_view_if_needed()
    real = page.locator("#host-n39").bounding_box()
    assert assumed is not None
    assert real is not None
    assert abs(assumed["height"] - real["height"]) < 16


def test_a_long_table_is_made_as_it_is_scrolled_to(open_page: OpenPage) -> None:
    hosts = tuple(host_config(f"n{number}") for number in range(60))
    crowd = [reading(host.name, [busy_gpu(i) for i in range(8)]) for host in hosts]
    page = open_page(page_of(crowd, hosts=hosts)).page
    page.get_by_title("Table").click()
    rows = page.locator(".table-view tr[data-card]")
    expect(rows).to_have_count(200)
    rows.last.scroll_into_view_if_needed()
    expect(rows).to_have_count(400)
    rows.last.scroll_into_view_if_needed()
    expect(rows).to_have_count(480)


@pytest.mark.parametrize("is_large", [False, True])
def test_a_gpu_that_is_cut_has_one_mark_which_shows_whether_slices_are_free(
    open_page: OpenPage, is_large: bool
) -> None:
    cut = [gpu(place, mig_mode=True, utilization=None) for place in range(4)]
    taken = [(), (1,), (0, 1)]
    gpus = [replace(one, slices=slices(2, *busy)) for one, busy in zip(cut, taken, strict=False)]
    read = [reading("n1", [*gpus, busy_gpu(3), gpu(4)]), reading("n2", [gpus[1]])]
    setup = config("n1", "n2")
    whole = make_ready(build_survey(read, setup, NOW), setup)
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
