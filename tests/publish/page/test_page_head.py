"""The head of Now: counts, question, answers, tiles, attention; how far down the first card is, and what stands out."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from gpumon_static.model import Fault, HostReading, Machine
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.view import build_page
from tests.browser import OpenPage
from tests.builders import NOW, READ_AT, busy_gpu, config, failed, gpu, host_config, process, reading
from tests.labs import lab, page_of

L40S = {"name": "NVIDIA L40S", "memory_total_mib": 46068.0, "memory_used_mib": 4.0}
T4 = {"name": "Tesla T4", "memory_total_mib": 15360.0, "memory_used_mib": 4.0}


def opened(open_page: OpenPage, readings: list[HostReading], query: str = "", **more: Any) -> Page:
    hosts = tuple(host_config(one.host) for one in readings)
    made = open_page(page_of(readings, hosts=hosts), **more)
    if query:
        made.page.goto(made.page.url + query)
    assert made.problems == []
    return made.page


# Memory


def test_who_asks_for_48_gb_is_shown_48_gb(open_page: OpenPage) -> None:
    page = opened(open_page, [reading("node1", [gpu(0, **L40S), gpu(1, **T4)])], "?mem=48")
    expect(page.locator("#answers li")).to_contain_text("node1: 0L40S, 48 GB")
    expect(page.locator("#answers [title='46064 MiB']")).to_have_count(1)
    expect(page.locator(".card:visible")).to_have_count(1)
    expect(page.locator(".card:visible")).to_contain_text("0 / 48")


def test_tiles_keep_the_stock_whatever_is_asked(open_page: OpenPage) -> None:
    held = busy_gpu(2, **L40S | {"memory_used_mib": 40000.0})
    readings = [reading("node1", [gpu(0, **L40S), gpu(1, **T4), held])]
    page = opened(open_page, readings)
    counts = page.locator(".model-count")
    expect(counts).to_have_text(["1/2", "1/1"])
    page.locator("#find [name=mem]").fill("20")
    expect(counts).to_have_text(["1 fit /2", "0 fit /1"])
    expect(page.locator(".models .none")).to_have_count(1)
    # Who has a card of that size is of interest, whatever is left on it.
    expect(page.locator(".card:visible")).to_have_count(2)
    page.locator("#find [name=mem]").fill("")
    expect(counts).to_have_text(["1/2", "1/1"])


# What is counted


def test_gpus_of_hosts_that_are_down_are_counted(open_page: OpenPage) -> None:
    readings = [reading("node1", [gpu(0), busy_gpu(1)]), failed("node2")]
    setup = config(host_config("node1"), host_config("node2", gpus=6))
    page = open_page(render_page(build_page(readings, setup, NOW))).page
    expect(page.locator(".free-count")).to_have_text("1 of 8 GPUs free")
    expect(page.locator(".tallies .failed")).to_have_text(re.compile("6 unreachable"))
    page.locator(".tallies .failed button").click()
    expect(page.locator(".host:visible")).to_have_count(1)
    expect(page.locator("#host-node2")).to_be_visible()
    assert page.url.endswith("?state=failed")
    page.locator(".tallies .failed button").click()
    expect(page.locator(".host:visible")).to_have_count(2)


def test_the_number_of_health_is_what_is_listed_there(open_page: OpenPage) -> None:
    sick = (Fault("ecc-errors", "2"), Fault("remap-failed"))
    page = opened(open_page, [reading("node1", [gpu(0, faults=sick), gpu(1)]), failed("node2")])
    expect(page.locator(".tabs .count")).to_contain_text("•3")
    expect(page.locator(".attention summary b")).to_have_text("3")
    expect(page.locator(".attention li:visible")).to_have_count(0)
    page.locator(".attention summary").click()
    expect(page.locator(".attention li:visible")).to_have_count(3)
    page.get_by_role("link", name="Health").click()
    expect(page.locator("#health :is(.down, .faults) tbody tr")).to_have_count(3)


# Words


def test_a_person_who_is_searched_for_is_no_reason_to_offer_nothing(open_page: OpenPage) -> None:
    page = opened(open_page, lab(), "?q=alice")
    expect(page.locator("#answers")).to_contain_text(re.compile(r"alice holds \d GPUs? on \d host"))
    expect(page.locator("#answers")).not_to_contain_text("No host has")
    assert page.locator("#answers [data-copy]").count() > 0


def test_more_hosts_are_counted_and_not_capped(open_page: OpenPage) -> None:
    page = opened(open_page, [reading(f"n{number}", [gpu(0)]) for number in range(50)])
    expect(page.locator("#more-answers")).to_have_text("+ 47 more hosts")
    page.locator("#more-answers").click()
    expect(page.locator("#answers li")).to_have_count(31)
    expect(page.locator("#answers li").last).to_have_text("and 20 more hosts: the cards below show them")


def test_nothing_fits_is_a_sentence_for_what_was_asked(open_page: OpenPage) -> None:
    jonas = busy_gpu(0, **T4 | {"processes": (process(user="jonas"),)})
    mira = busy_gpu(1, **L40S | {"processes": (process(user="mira"),)})
    page = opened(open_page, [reading("node1", [jonas, mira, gpu(2, **L40S)])], "?n=2&mem=40")
    expect(page.locator("#answers")).to_contain_text(
        "No host has 2 free GPUs with 40 GB now. node1 comes closest, with 1 of 2."
    )
    expect(page.locator("#answers .ways div")).to_have_text(["Ask mira (has 1)"])
    expect(page.locator("#answers")).not_to_contain_text("jonas")


def test_the_title_follows_tab_and_panel(open_page: OpenPage) -> None:
    page = opened(open_page, lab())
    assert page.title() == "5 of 9 GPUs free + 1 slice – GPU Monitor"
    page.get_by_role("link", name="Health").click()
    assert page.title() == "Health – GPU Monitor"
    page.evaluate("location.hash = '#gpu/node2/1'")
    expect(page).to_have_title("node2 GPU 1 – GPU Monitor")
    page.keyboard.press("Escape")
    expect(page).to_have_title("5 of 9 GPUs free + 1 slice – GPU Monitor")


def test_stale_data_speaks_in_the_past(open_page: OpenPage) -> None:
    page = opened(open_page, lab(), at=READ_AT + timedelta(days=3))
    expect(page).to_have_title("5 of 9 GPUs were free + 1 slice – GPU Monitor")
    were = page.locator(".was").evaluate_all(
        "all => all.map(one => getComputedStyle(one, '::before').content)"
    )
    assert set(were) == {'"were "'}
    said = "card => [getComputedStyle(card.children[1], '::before').content, getComputedStyle(card.children[4], '::before').content]"
    assert page.locator(".card.free").first.evaluate(said) == ['"was"', '"then"']


def test_a_panel_has_one_time_zone(open_page: OpenPage) -> None:
    page = opened(open_page, lab(), "#gpu/node2/1", timezone_id="Asia/Tokyo", at=READ_AT + timedelta(days=3))
    expect(page.locator("#thing")).not_to_contain_text("UTC")


def test_the_legend_explains_the_signs(open_page: OpenPage) -> None:
    page = opened(open_page, lab())
    page.get_by_role("button", name="What the signs mean").click()
    expect(page.locator("#legend")).to_be_visible()
    expect(page.locator("#legend dt")).to_contain_text(["free", "busy", "held idle", "allocated"])
    box = page.locator("#legend").bounding_box()
    assert box
    assert box["height"] < 900
    page.keyboard.press("Escape")
    expect(page.locator("#legend")).to_be_hidden()


# Two seconds


def crowd(hosts: int) -> list[HostReading]:
    machine = Machine(64, 12.0, 9.0, 8.0, 524288.0, 122880.0)
    return [
        reading(f"vision-{number:02}", [gpu(0), *(busy_gpu(i) for i in range(1, 8))], machine=machine)
        for number in range(hosts - 1)
    ] + [failed("vision-99")]


@pytest.mark.parametrize(("hosts", "most"), [(14, 400), (100, 480)])
def test_the_first_card_is_in_the_upper_half_of_the_window(
    open_page: OpenPage, hosts: int, most: int
) -> None:
    page = opened(open_page, crowd(hosts))
    top = page.locator(".card").first.evaluate("card => card.getBoundingClientRect().top")
    assert top < most


@pytest.mark.parametrize("width", [390, 768, 1440, 1920])
def test_the_head_of_a_host_has_two_lines(open_page: OpenPage, width: int) -> None:
    note = "reserved for the shared task of the language group until Friday, ask first by day"
    hosts = tuple(host_config(f"vision-{number:02}", note=note) for number in range(3))
    page = open_page(page_of(crowd(4), hosts=hosts), viewport={"width": width, "height": 900}).page
    tall = page.locator(".host > header").evaluate_all("all => all.map(one => one.offsetHeight)")
    assert max(tall[:3]) <= 60
