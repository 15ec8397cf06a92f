"""The tabs' rows: what a user held in a day, outages, days of a host, and what is held idle by person."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import expect

from gpumon_static.model import Gpu
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.records import ICONS, IdleRow
from gpumon_static.publish.page.tabs.held_day import _outline
from gpumon_static.publish.page.tabs.idle import MOST_GPUS, idle_people
from gpumon_static.publish.page.tabs.outages import beat_paths, event_rows
from gpumon_static.publish.page.view import build_page
from gpumon_static.store.events import Event
from gpumon_static.survey.privacy import Tier
from tests.browser import OpenPage, violations
from tests.builders import NOW, busy_gpu, config, gpu, process, reading
from tests.past_lab import PastLab, held_gpu


def event(kind: str, host: str, hours: float, status: str | None = None) -> Event:
    at = NOW + timedelta(hours=hours)
    return Event(f"{kind} {host} {hours}", kind, host, None, at, at, status=status)


def test_an_outage_is_one_row_with_its_length() -> None:
    events = [
        event("host-up", "b", 30),
        event("host-down", "a", 20, "driver"),
        event("host-up", "a", 11),
        event("host-down", "b", 5, "timeout"),
        event("host-down", "a", 2, "timeout"),
    ]
    rows = event_rows(events, Tier.NAMES)
    assert [(row.host, row.lasted, row.title) for row in rows] == [
        ("a", "", "gives no data: driver"),
        ("b", "1 d 1 h", "gives no data: timeout"),
        ("a", "9 h", "gives no data: timeout"),
    ]
    first = NOW + timedelta(hours=2)
    assert rows[2].text.startswith(f"{first:%a} {first.day} {first:%b %Y, %H:%M} to ")


def test_a_return_without_its_outage_stays_a_row() -> None:
    rows = event_rows([event("host-up", "a", 3), event("host-up", "a", 1)], Tier.NAMES)
    assert [row.kind for row in rows] == ["host-up", "host-up"]


def test_days_of_a_host_are_two_areas() -> None:
    up, down = beat_paths(" 0099 1")
    assert up == "M1 0h2v9h-2zM6 0h1v7h-1z"
    assert down == "M3 0h2v9h-2zM6 7h1v2h-1z", "however short, it is seen"
    assert beat_paths("") == ("", "")


def test_what_was_held_is_an_area_for_each_stretch() -> None:
    assert _outline([0, 2, 2, 1, 0, 3], 3) == "M1 3v-2h2v1h1V3zM5 3v-3h1V3z"


def idle_row(user: str, index: int, hours: int) -> IdleRow:
    return IdleRow(
        host="node1",
        anchor=f"host-node1:{index}",
        index=str(index),
        model="A100 80G",
        holder=user,
        memory="39 GB",
        idle=f"{hours} h",
        idle_s=hours * 3600,
        message=f"Hi {user}",
        looks=f"idle at each of {12 * hours} looks since Sun 25 Oct 01:10 CET",
        users=((user, True),),
    )


def test_what_is_held_idle_is_summed_by_person() -> None:
    asked: list[tuple[str, str, str]] = []

    def write(name: str, subject: str, text: str) -> str:
        asked.append((name, subject, text))
        return f"to {name}"

    rows = [idle_row("mira", 0, 9), idle_row("jonas", 1, 6), idle_row("jonas", 2, 5)]
    jonas, mira = idle_people(rows, write)
    assert (jonas.number, jonas.idle, jonas.longest, jonas.write) == (2, "11 h", "6 h", "to jonas")
    assert (mira.message, mira.write) == ("Hi mira", "to mira")
    assert "node1 GPU 1 (A100 80G): 39 GB of memory, idle at each of 72 looks since Sun" in jonas.message
    assert "node1 GPU 2" in jonas.message
    assert ("jonas", "Held idle: node1 GPU 1 and 1 more", jonas.message) in asked


def test_a_message_about_many_gpus_stays_short() -> None:
    (one,) = idle_people([idle_row("mira", number, 1) for number in range(1000)])
    assert (len(one.gpus), one.more, one.number) == (MOST_GPUS, 1000 - MOST_GPUS, 1000)
    assert len(one.message) < 2000


@pytest.fixture
def lab(tmp_path: Path) -> PastLab:
    return PastLab(tmp_path)


def test_a_day_of_a_user_and_of_a_host_follows_the_runs(lab: PastLab) -> None:
    both = reading("node1", [held_gpu(0, "user3"), busy_gpu(1)])
    lab.runs(range(0, 9 * 60 + 1, 5), both)
    page = lab.page(9 * 60, both)
    assert page.people
    assert page.health
    row = next(row for row in page.people.rows if row.name == "user3")
    assert row.day
    assert (row.day.top, row.day.busy) == (1, "")
    assert row.day.held.count("M") == 1
    (beat,) = page.health.availability
    assert (beat.share, beat.down) == ("100.0", "")
    assert beat.up == "M29 0h1v9h-1z", "one day is known, today"
    assert page.health.summary == "1 GPU is held idle by 1 user."


AMD = {"name": "AMD Instinct MI300X", "vendor": "amd"}


def lab_html(*gpus: Gpu) -> str:
    return render_page(build_page([reading("node1", gpus)], config("node1"), NOW))


def of(user: str, index: int) -> Gpu:
    return busy_gpu(index, processes=(process(user=user),))


def test_ones_own_row_is_the_first_whatever_the_order(open_page: OpenPage) -> None:
    html = lab_html(of("mira", 0), of("mira", 1), of("jonas", 2), of("zoe", 3))
    page = open_page(html).page
    names = page.locator(".people tbody .who")
    page.locator("[name=me]").fill("zoe")
    page.goto(f"{page.url.partition('#')[0]}#people")
    expect(names).to_have_text(["zoe", "mira", "jonas"])
    expect(page.locator(".people tr.mine")).to_have_count(1)
    page.locator(".people").get_by_role("button", name="User").click()
    expect(names).to_have_text(["zoe", "jonas", "mira"])


def test_vendor_is_a_choice_where_there_are_two(open_page: OpenPage) -> None:
    page = open_page(lab_html(gpu(0), gpu(1))).page
    expect(page.get_by_label("Vendor")).to_be_hidden()
    page = open_page(lab_html(gpu(0), gpu(1, **AMD))).page
    page.get_by_label("Vendor").select_option("AMD")
    expect(page.locator(".card:visible")).to_have_count(1)
    expect(page.locator("#answers")).to_contain_text("node1: 1")
    assert "vendor=AMD" in page.url


def test_embedded_it_is_now_without_tabs_and_question(open_page: OpenPage) -> None:
    page = open_page(lab_html(gpu(0), of("mira", 1))).page
    page.goto(f"{page.url}?embed")
    expect(page.locator(".card:visible")).to_have_count(2)
    expect(page.locator(".free-count")).to_be_visible()
    for gone in (".tabs", ".tools", ".ask", "footer"):
        expect(page.locator(gone)).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []


@pytest.mark.parametrize(("gpus", "icon"), [([gpu()], "free"), ([busy_gpu()], "none"), ([], "unknown")])
def test_the_icon_shows_whether_something_is_free(gpus: list[Gpu], icon: str) -> None:
    page = build_page([reading("node1", gpus)], config("node1"), NOW)
    assert page.icon == ICONS[icon]
    assert f'<link rel="icon" href="{ICONS[icon]}">' in render_page(page)
    assert not set(" <>\"'{}#") & set(ICONS[icon].partition(",")[2])


def test_the_description_has_the_labs_name_and_no_numbers() -> None:
    page = build_page([reading("node1", [gpu()])], config("node1", title="Vision Lab"), NOW)
    head = render_page(page).partition("<style>")[0]
    assert '<meta name="description" content="Vision Lab: which' in head
    assert '<meta property="og:title" content="Vision Lab">' in head


@pytest.mark.parametrize("width", [320, 390, 768, 1440, 1920])
def test_no_tab_is_wider_than_the_window(lab: PastLab, open_page: OpenPage, width: int) -> None:
    both = reading("node1", [held_gpu(0, "user3"), busy_gpu(1)])
    lab.runs(range(0, 3 * 60 + 1, 5), both)
    html = render_page(lab.page(180, both))
    page = open_page(html, at=lab.at(180), viewport={"width": width, "height": 900}).page
    for tab in ("people", "supply", "health"):
        page.goto(f"{page.url.partition('#')[0]}#{tab}")
        expect(page.locator(f"#{tab}-place")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), tab
        cut = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.ariaLabel)"
        assert page.locator(".scroll:visible").evaluate_all(cut) == [], tab
