"""What the page shows of the past, worked out by hand from a few runs."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from gpumon_static.config.settings import HistoryConfig, PageConfig
from gpumon_static.model import Gpu, HostReading, Machine
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.past_data import LEVELS, letters
from gpumon_static.publish.page.records import Page
from gpumon_static.publish.page.view import build_page
from gpumon_static.store.history.database import reading as open_history
from gpumon_static.store.history.past import pools, timelines
from gpumon_static.store.history.past.last_day import NO_BYTE, NO_WATTS
from tests.browser import OpenPage
from tests.builders import busy_gpu, failed, gpu, process, reading, slices
from tests.test_history import START, Lab, held_gpu
from tests.test_page_axe import violations


def page_at(lab: Lab, minute: float, *readings: HostReading, **spec: Any) -> Page:
    now = START + timedelta(minutes=minute)
    with open_history(lab.config.history_path) as connection:
        past = timelines.read(connection, now)
    timed = [replace(reading_, fetched_at=now) for reading_ in readings]
    return build_page(timed, lab.config, now, PageConfig("index.html", **spec), b"k" * 32, past)


def runs(lab: Lab, minutes: range, *readings: HostReading) -> None:
    for minute in minutes:
        lab.run(minute, *readings)


def card_of(page: Page, place: int = 0) -> Any:
    return page.hosts[0].cards[place]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


# Since when


def test_a_free_card_says_for_how_long(lab: Lab) -> None:
    free = reading("node1", [gpu()])
    runs(lab, range(0, 186, 5), free)
    assert card_of(page_at(lab, 185, free)).holder.text == "free for 3 h"


def test_a_busy_card_says_since_when_its_users_have_it(lab: Lab) -> None:
    busy = reading("node1", [busy_gpu()])
    lab.run(0, reading("node1", [gpu()]))
    runs(lab, range(10, 60, 5), busy)
    since = card_of(page_at(lab, 55, busy)).since
    assert (since.text, since.iso) == ("since 09:10", "2025-11-14T09:10Z")


def test_a_held_card_says_how_long_it_idles(lab: Lab) -> None:
    held = reading("node1", [held_gpu(0, "user3")])
    runs(lab, range(0, 9 * 60 + 1, 5), held)
    card = card_of(page_at(lab, 9 * 60, held))
    assert (card.holder.text, card.since.text) == ("user3", "idle 9 h")


def test_where_page_and_history_disagree_the_card_says_nothing(lab: Lab) -> None:
    runs(lab, range(0, 30, 5), reading("node1", [gpu()]))
    card = card_of(page_at(lab, 30, reading("node1", [busy_gpu()])))
    assert card.since is None


def test_the_tooltip_tells_the_last_day_in_words(lab: Lab, open_page: OpenPage) -> None:
    runs(lab, range(0, 120, 5), reading("node1", [busy_gpu()]))
    free = reading("node1", [gpu()])
    runs(lab, range(120, 245, 5), free)
    page = open_page(render_page(page_at(lab, 240, free)), at=START + timedelta(minutes=240)).page
    page.locator(".card").focus()
    # Nothing is known of the twenty hours before nine.
    expect(page.locator("#tip dl")).to_contain_text("Last 24 hbusy 2 h, free 2 h, unknown 20 h")


def test_the_means_of_each_hour_are_whole_and_an_hour_without_a_run_is_not_known(lab: Lab) -> None:
    """Two hours of different work, an hour without any run, then one that reports nothing but its memory."""
    busy = gpu(0, utilization=97.0, memory_used_mib=20 * 1024.0, temperature_c=61.0, power_w=300.0)
    hot = replace(busy, utilization=40.0, temperature_c=101.0, power_w=600.0)
    silent = replace(busy, utilization=None, temperature_c=-4.0, power_w=None)
    runs(lab, range(0, 60, 5), reading("node1", [busy]))
    runs(lab, range(60, 120, 5), reading("node1", [replace(busy, utilization=98.0)]))
    runs(lab, range(120, 150, 5), reading("node1", [hot]))
    runs(lab, range(150, 180, 5), reading("node1", [replace(hot, utilization=None)]))
    runs(lab, range(240, 300, 5), reading("node1", [silent]))
    with open_history(lab.config.history_path) as connection:
        day = timelines.read(connection, START + timedelta(minutes=299)).gpus["node1", "0"].day
    assert day
    assert list(day.utilization[-6:]) == [NO_BYTE, 97, 98, 40, NO_BYTE, NO_BYTE]
    assert list(day.memory[-6:]) == [NO_BYTE, 25, 25, 25, NO_BYTE, 25]
    assert list(day.temperature[-6:]) == [NO_BYTE, 61, 61, 101, NO_BYTE, 0], "frost is 0"
    assert day.power[-6:] == [NO_WATTS, 300, 300, 600, NO_WATTS, NO_WATTS]
    assert len(day.utilization) == len(day.power) == 24


# The ribbon


def test_the_ribbon_has_a_line_for_each_time_in_a_state(lab: Lab) -> None:
    runs(lab, range(0, 60, 5), reading("node1", [busy_gpu()]))
    runs(lab, range(60, 120, 5), reading("node1", [held_gpu(0, "bob")]))
    free = reading("node1", [gpu()])
    runs(lab, range(120, 196, 5), free)
    ribbon = card_of(page_at(lab, 195, free)).ribbon
    # At 12:15 the last of the 96 quarters begins: 9:00 is number 82; four quarters to an hour.
    assert ribbon == " 82b4h4f5"


def test_the_ribbon_is_dotted_while_the_host_is_silent_and_empty_without_runs(lab: Lab) -> None:
    free = reading("node1", [gpu()])
    runs(lab, range(0, 60, 5), free)
    runs(lab, range(60, 90, 5), failed("node1"))
    runs(lab, range(90, 120, 5), free)
    runs(lab, range(180, 196, 5), free)
    ribbon = card_of(page_at(lab, 195, free)).ribbon
    # Free 9:00 to 10:00 and 10:30 to 11:00, silent in between; from 11:00 to 12:00 there was no run.
    assert ribbon == " 82f4u2f2 4f1"


def test_a_ribbon_is_small_whatever_happened(lab: Lab) -> None:
    for minute in range(0, 24 * 60, 15):
        lab.run(minute, reading("node1", [busy_gpu() if minute % 2 else gpu()]))
    page = page_at(lab, 24 * 60, reading("node1", [gpu()]))
    assert len(card_of(page).ribbon) < 200


# Hosts that are down


def test_a_silent_host_shows_its_last_cards_which_count_nowhere(lab: Lab) -> None:
    runs(lab, range(0, 30, 5), reading("node1", [busy_gpu(0), gpu(1)]))
    runs(lab, range(30, 160, 5), failed("node1"))
    page = page_at(lab, 150, failed("node1"))
    host = page.hosts[0]
    assert [(c.index, c.word, c.holder, c.age) for c in host.last_cards] == [
        ("0", "was busy", "alice", "2 h ago"),
        ("1", "was free", "", "2 h ago"),
    ]
    assert str(host.last_cards[0].memory.quantity) == "40 / 80 GB"
    assert [str(card.utilization.quantity) for card in host.last_cards] == ["97 %", "0 %"]
    assert host.notice is not None
    assert host.notice.word == "down 2 h"
    assert page.attention[0].text == "down 2 h · timeout"
    assert (host.cards, page.models, page.headline.text) == ((), (), "No host answered")
    assert json.loads(page.history.data if page.history else "")["gpus"] == [[]]


def test_the_slices_of_a_silent_host_are_in_the_card_of_their_gpu(lab: Lab, open_page: OpenPage) -> None:
    cut = gpu(0, mig_mode=True, utilization=None, slices=slices(2, 1))
    runs(lab, range(0, 30, 5), reading("node1", [cut, gpu(1)]))
    runs(lab, range(30, 160, 5), failed("node1"))
    view = page_at(lab, 150, failed("node1"))
    assert [card.index for card in view.hosts[0].last_cards] == ["0:0", "0:1", "1"]
    opened = open_page(render_page(view), at=START + timedelta(minutes=150))
    cards = opened.page.locator(".card.past")
    expect(cards).to_have_count(2)
    expect(cards.first).to_contain_text("A100 80G")
    expect(cards.first).to_contain_text("2 h ago")
    expect(cards.first.locator(".slice")).to_have_count(2)
    expect(cards.first.locator(".slice").first).to_have_attribute(
        "title", re.compile("^slice 0, 1g.10gb: was (free|busy)")
    )
    assert len(set(cards.evaluate_all("all => all.map((card) => card.offsetHeight)"))) == 1
    assert opened.problems == []


# Idle holders


def test_who_holds_without_work_is_listed_with_a_polite_message(lab: Lab) -> None:
    both = reading("node1", [held_gpu(0, "user3"), busy_gpu(1)])
    runs(lab, range(0, 9 * 60 + 1, 5), both)
    page = page_at(lab, 9 * 60, both)
    assert page.history
    (row,) = page.history.idle
    assert (row.anchor, row.holder, row.memory, row.idle) == ("host-node1:0", "user3", "39 GB", "9 h")
    assert row.message == (
        "Hi user3, your process on node1 GPU 0 (A100 80G) has held 39 GB of memory for 9 h without using the GPU."
        " If you no longer need it, could you please stop it, so that others can run there? Thank you!"
    )


def test_a_gpu_that_was_handed_over_idle_counts_each_users_own_part(lab: Lab) -> None:
    first, second = (reading("node1", [held_gpu(0, user)]) for user in ("user3", "user4"))
    runs(lab, range(0, 9 * 60, 5), first)
    before = page_at(lab, 9 * 60 - 5, first).history
    assert before
    assert [(row.holder, row.idle) for row in before.idle] == [("user3", "8 h")]
    runs(lab, range(9 * 60, 11 * 60 + 1, 5), second)
    page = page_at(lab, 11 * 60, second)
    assert page.history
    (row,) = page.history.idle
    assert (row.holder, row.idle, row.idle_s) == ("user4", "2 h", 2 * 3600)
    assert row.message
    assert "Hi user4" in row.message
    assert "for 2 h without" in row.message
    card = card_of(page)
    assert card.since.text == "idle 2 h"
    assert card.when == "idle 2 h"


def test_time_at_work_before_is_not_idle_time(lab: Lab) -> None:
    runs(lab, range(0, 5 * 60, 5), reading("node1", [busy_gpu(processes=(process(user="user3"),))]))
    held = reading("node1", [held_gpu(0, "user3")])
    runs(lab, range(5 * 60, 7 * 60 + 1, 5), held)
    assert card_of(page_at(lab, 7 * 60, held)).since.text == "idle 2 h"


@pytest.mark.parametrize(("after", "listed"), [(1800, 1), (3601, 0)])
def test_how_long_is_too_long_is_in_the_config(lab: Lab, after: int, listed: int) -> None:
    lab.config = replace(lab.config, history=HistoryConfig(idle_after=after))
    held = reading("node1", [held_gpu(0, "user3")])
    runs(lab, range(0, 61, 5), held)
    page = page_at(lab, 60, held)
    assert page.history
    assert len(page.history.idle) == listed


# People


def test_gpu_hours_of_users_stand_in_a_table(lab: Lab) -> None:
    both = reading("node1", [busy_gpu(0, utilization=80.0), held_gpu(1, "bob")])
    runs(lab, range(0, 121, 5), both)
    page = page_at(lab, 120, both)
    assert page.history
    told = [(row.name, row.hours, row.held, str(row.efficiency)) for row in page.history.usage]
    assert told == [("alice", (2.0, 2.0, 2.0), 0.0, "80 %"), ("bob", (2.0, 2.0, 2.0), 2.0, "0 %")]


@pytest.mark.parametrize("tier", ["pseudonyms", "counts"])
def test_the_past_tells_no_more_about_people_than_the_page(lab: Lab, tier: str) -> None:
    secret = process(user="geheimrat", memory_mib=39000.0)
    up = reading("node1", [held_gpu(0, "geheimrat"), busy_gpu(1, processes=(secret,))])
    runs(lab, range(0, 121, 5), up)
    down = page_at(lab, 120, failed("node1"), users=tier)
    html = render_page(page_at(lab, 120, up, users=tier)) + render_page(down)
    assert "geheimrat" not in html
    assert "idle 2 h" in html


def test_a_page_of_one_group_tells_nothing_of_the_others(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "node1", "node2")
    lab.config = replace(
        lab.config, hosts=tuple(replace(h, group=g) for h, g in zip(lab.config.hosts, "ab", strict=True))
    )
    two = [reading("node1", [busy_gpu(0)]), reading("node2", [busy_gpu(1, processes=(process(user="zoe"),))])]
    runs(lab, range(0, 61, 5), *two)
    page = page_at(lab, 60, *two, groups=("a",))
    assert page.history
    assert [row.name for row in page.history.usage] == ["alice"]
    data = json.loads(page.history.data)
    assert [name for name, _ in data["hosts"]] == ["node1"]
    assert data["users"] == ["alice"]
    assert "node2" not in render_page(page)


# Numbers for the charts


def decoded(text: str, top: float) -> list[float | None]:
    gap, _, known = text.rpartition("~")
    text = " " * int(gap or 0) + known
    return [None if letter == " " else round(LEVELS.index(letter) * top / 63, 1) for letter in text]


def test_a_series_is_a_letter_per_point_and_a_space_for_a_gap() -> None:
    assert letters([0, 50, None, 100, 250], 100) == "Ag __"
    assert decoded("Ag __", 100) == [0, 50.8, None, 100, 100]


def test_charts_have_gaps_where_there_was_no_run(lab: Lab) -> None:
    busy = reading("node1", [busy_gpu(0, utilization=63.0), gpu(1, utilization=0.0)])
    runs(lab, range(0, 60, 5), busy)
    runs(lab, range(120, 180, 5), busy)
    data = json.loads(page_at(lab, 175, busy).history.data)  # type: ignore[union-attr]
    utilization, memory = (decoded(text, 100) for text in data["cluster"]["24h"])
    # 11:55: four quarters with data, four without, four with; 31.5 % and a quarter of the memory.
    assert utilization[-12:] == [31.7] * 4 + [None] * 4 + [31.7] * 4
    assert memory[-12:] == [25.4] * 4 + [None] * 4 + [25.4] * 4
    (model,) = data["models"]
    assert model[:2] == ["A100 80G", 2]
    assert decoded(model[2]["24h"], 2)[-12:] == [1.0] * 4 + [None] * 4 + [1.0] * 4


def test_with_many_hosts_the_charts_of_the_last_day_have_a_point_per_hour(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "MOST_IN_DETAIL", 0)
    busy = reading("node1", [busy_gpu(0, utilization=63.0), gpu(1, utilization=0.0)])
    runs(lab, range(0, 60, 5), busy)
    runs(lab, range(120, 180, 5), busy)
    page = page_at(lab, 175, busy)
    assert page.history
    data, machine = json.loads(page.history.data), json.loads(page.things)["machine"]
    for of in (data, machine):
        assert (of["step"]["24h"], of["count"]["24h"]) == (3600, 24)
        assert of["first"]["24h"] * 3600 == (START - timedelta(hours=21)).timestamp()
    # The hours from 9:00, 10:00 and 11:00 on.
    utilization, memory = (decoded(text, 100) for text in data["cluster"]["24h"])
    assert (len(utilization), utilization[-3:]) == (24, [31.7, None, 31.7])
    assert memory[-3:] == [25.4, None, 25.4]
    assert decoded(data["hosts"][0][1]["24h"][1], 100)[-3:] == [25.4, None, 25.4]
    assert decoded(data["models"][0][2]["24h"], 2)[-3:] == [1.0, None, 1.0]


def test_with_many_hosts_the_points_of_all_charts_are_further_apart(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "MOST_IN_DETAIL", 0)
    machine = Machine(64, 12.0, 9.0, 8.0, 524288.0, 262144.0)
    then = reading("node1", [busy_gpu(0, utilization=63.0), gpu(1, utilization=0.0)], machine=machine)
    now = reading("node1", [busy_gpu(0, utilization=100.0), gpu(1, utilization=0.0)], machine=machine)
    days = 3 * 24 * 60
    runs(lab, range(0, 61, 5), then)
    runs(lab, range(days, days + 61, 5), now)
    page = page_at(lab, days + 60, now)
    assert page.history
    data, machines = json.loads(page.history.data), json.loads(page.things)["machine"]
    hour, day = 3600, 86400
    assert list(data["step"].values()) == [hour, 6 * hour, day, 15 * day]
    assert list(data["count"].values()) == [24, 28, 30, 25]
    # 17 November, 10:00: what was three days ago is twelve points of six hours before the last, or three days.
    week, month, year = (decoded(data["cluster"][range_][0], 100) for range_ in ("7d", "30d", "1y"))
    assert (len(week), week[-13:]) == (28, [31.7, *[None] * 11, 50.8])
    assert (len(month), month[-4:]) == (30, [31.7, None, None, 50.8])
    # Both days are in the same half of a month.
    assert (len(year), year[-1]) == (25, 41.3)
    assert decoded(data["models"][0][2]["30d"], 2)[-4:] == [1.0, None, None, 1.0]
    assert (machines["step"]["7d"], machines["count"]["7d"]) == (day, 7)
    ((_, *ranges),) = machines["hosts"].values()
    memory = [decoded(series[1], 100)[-4:] for series in ranges[1:]]
    assert memory == [[50.8, None, None, 50.8]] * 2


@pytest.mark.parametrize(("most", "weeks"), [(0, 1), (400, 4)])
def test_a_usual_week_is_the_mean_of_four_and_with_many_hosts_the_last_one(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, most: int, weeks: int
) -> None:
    monkeypatch.setattr(pools, "MOST_IN_DETAIL", most)
    week = 7 * 24 * 60
    # Friday from 9:00 to 10:00, five times: 4, 0, 0, 0 and 2 of four GPUs free.
    for number, free in enumerate((4, 0, 0, 0, 2)):
        gpus = [gpu(index) if index < free else busy_gpu(index) for index in range(4)]
        runs(lab, range(number * week, number * week + 61, 5), reading("node1", gpus))
    data = json.loads(page_at(lab, 4 * week + 65, reading("node1", gpus)).history.data)  # type: ignore[union-attr]
    (model,) = data["models"]
    friday = decoded(model[3], 4)[4 * 24 + 9]
    assert friday == {1: 2.0, 4: 0.5}[weeks]


@pytest.mark.parametrize(("most", "range_", "before"), [(0, "24h", 23), (400, "7d", 83)])
def test_a_point_that_has_just_begun_does_not_say_that_none_is_free(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, most: int, range_: str, before: int
) -> None:
    """A run stands for the time after it: with the first run of an hour nothing of that hour is known yet."""
    monkeypatch.setattr(pools, "MOST_IN_DETAIL", most)
    half = reading("node1", [busy_gpu(0), gpu(1)])
    runs(lab, range(0, 61, 5), half)
    data = json.loads(page_at(lab, 60, half).history.data)  # type: ignore[union-attr]
    free = decoded(data["models"][0][2][range_], 2)
    assert (len(free), free[-1]) == (before, 1.0)


def test_the_last_day_of_a_gpu_has_its_owners(lab: Lab) -> None:
    runs(lab, range(0, 60, 5), reading("node1", [busy_gpu(power_w=300.0)]))
    free = reading("node1", [gpu(power_w=60.0)])
    runs(lab, range(60, 120, 5), free)
    data = json.loads(page_at(lab, 115, free).history.data)  # type: ignore[union-attr]
    utilization, memory, temperature, power, most_w, bands = data["gpus"][0][0]
    assert decoded(utilization, 100)[-2:] == [95.2, 0.0]
    assert decoded(memory, 100)[-2:] == [50.8, 0.0]
    assert decoded(temperature, 100)[-2:] == [31.7, 31.7]
    limit = free.gpus[0].power_limit_w
    assert limit == 400
    assert (decoded(power, limit)[-2:], most_w) == ([304.8, 50.8], 0), "of its limit, to a 16th"
    # At 10:55 nine o'clock is quarter 88: alice for an hour, then nobody.
    assert (bands, data["users"]) == ([88, 0, 92, -1], ["alice"])


def test_the_bands_have_nobody_where_there_was_no_run(lab: Lab) -> None:
    """Between two runs that are hours apart anybody may have had it."""
    held = reading("node1", [busy_gpu()])
    runs(lab, range(0, 60, 5), held)
    runs(lab, range(180, 240, 5), held)
    data = json.loads(page_at(lab, 235, held).history.data)  # type: ignore[union-attr]
    *_, bands = data["gpus"][0][0]
    owners = bands[1::2]
    assert owners == [0, -1, 0]
    assert 3 <= bands[2] - bands[0] <= 5, "held for an hour"
    assert 3 <= 96 - bands[4] <= 5, "and again for the last one"


@pytest.mark.parametrize("limit", [None, 200.0])
def test_power_above_the_limit_has_a_scale_of_its_own(lab: Lab, limit: float | None) -> None:
    now = reading("node1", [busy_gpu(power_w=250.0, power_limit_w=limit)])
    runs(lab, range(0, 60, 5), now)
    data = json.loads(page_at(lab, 55, now).history.data)  # type: ignore[union-attr]
    _, _, _, power, top_w, _ = data["gpus"][0][0]
    assert (decoded(power, top_w)[-1], top_w) == (250.0, 250)


def test_without_a_history_the_page_is_as_before(lab: Lab) -> None:
    now = START
    page = build_page([reading("node1", [gpu()], fetched_at=now)], lab.config, now)
    assert page.history is None
    assert 'id="history"' not in render_page(page)


# In a browser


def demo_page(lab: Lab) -> tuple[str, datetime]:
    gpus: list[Gpu] = [busy_gpu(0), held_gpu(1, "bob"), gpu(2)]
    both = [reading("node1", gpus), failed("node2")]
    lab.config = replace(lab.config, hosts=Lab(Path(), "node1", "node2").config.hosts)
    lab.run(0, reading("node1", gpus), reading("node2", [busy_gpu(7)]))
    runs(lab, range(5, 241, 5), *both)
    return render_page(page_at(lab, 240, *both)), START + timedelta(minutes=240)


def test_charts_are_drawn_and_read_out_and_nothing_complains(lab: Lab, open_page: OpenPage) -> None:
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
    lab: Lab, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
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
    lab: Lab, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, most: int, width: int
) -> None:
    monkeypatch.setattr(pools, "MOST_IN_DETAIL", most)
    there = reading("node1", [busy_gpu(0)], machine=Machine(64, 12.0, 9.0, 8.0, 524288.0, 262144.0))
    minutes = range(0, 31 * 24 * 60, 12 * 60)
    runs(lab, minutes, there)
    html, now = render_page(page_at(lab, minutes[-1], there)), START + timedelta(minutes=minutes[-1])
    page = open_page(html, at=now, timezone_id="UTC", viewport={"width": width, "height": 900}).page
    page.goto(f"{page.url}#host/node1")
    for range_ in ("24h", "7d", "30d"):
        page.locator(f"[name=thing-range][value='{range_}']").check()
        charts = page.locator(".panel-charts svg").evaluate_all(LABELS)
        assert charts
        for labels in charts:
            assert all(one[1] < two[0] for one, two in pairwise(labels)), range_


def test_a_picture_of_the_whole_of_supply_has_its_charts(lab: Lab, open_page: OpenPage) -> None:
    html, now = demo_page(lab)
    page = open_page(html, at=now, viewport={"width": 390, "height": 100}).page
    page.goto(page.url + "#supply")
    page.locator("#history svg").first.wait_for(state="attached")
    assert page.evaluate("document.getElementById('history').getBoundingClientRect().top") > 500


def test_the_tooltip_draws_the_last_day_of_its_gpu(lab: Lab, open_page: OpenPage) -> None:
    html, now = demo_page(lab)
    page = open_page(html, at=now).page
    page.locator(".card.busy").first.focus()
    detail = page.locator("#tip .detail")
    detail.wait_for()
    assert [h.inner_text().split(" ")[0] for h in detail.locator("h3").all()] == [
        "Held", "Utilization", "Memory", "Temperature", "Power",
    ]  # fmt: skip
    assert detail.locator(".bands text").text_content() == "alice"
    chart = detail.locator("div", has=page.get_by_role("heading", name="Temperature"))
    expect(chart).to_contain_text("83 °C")
    expect(page.locator("#tip")).to_contain_text("/ 83 °C")


def test_gpu_hours_sort_by_each_column(lab: Lab, open_page: OpenPage) -> None:
    uses = reading(
        "node1",
        [
            busy_gpu(0, utilization=80.0),
            held_gpu(1, "bob"),
            busy_gpu(2, utilization=None, processes=(process(user="carl"),)),
        ],
    )
    runs(lab, range(0, 121, 5), uses)
    page = open_page(render_page(page_at(lab, 120, uses)), at=START + timedelta(minutes=120)).page
    page.get_by_role("link", name="People").click()
    names = page.locator("[data-live=usage] tbody td:first-child")
    table = page.locator("[data-live=usage]")
    table.get_by_role("button", name="User").click()
    assert names.all_inner_texts() == ["alice", "bob", "carl"]
    table.get_by_role("button", name="Efficiency").click()
    assert names.all_inner_texts() == ["alice", "bob", "carl"]
    table.get_by_role("button", name="Efficiency").click()
    assert names.all_inner_texts() == ["bob", "alice", "carl"], "what is not known comes last"
    table.get_by_role("button", name="of these idle").click()
    assert names.first.inner_text() == "bob"


def test_times_on_cards_are_the_readers_own(lab: Lab, open_page: OpenPage) -> None:
    html, now = demo_page(lab)
    page = open_page(html, at=now, timezone_id="Asia/Tokyo").page
    assert page.locator("time.since").first.inner_text() == "busy since 18:00"
    assert page.locator("time.since").first.get_attribute("title") == "2025-11-14 09:00 UTC"


@pytest.mark.parametrize(
    ("zone", "first"),
    [("UTC", "Fri 09:00"), ("Asia/Tokyo", "Fri 18:00"), ("America/Los_Angeles", "Fri 01:00")],
)
def test_the_week_is_in_the_readers_zone(
    lab: Lab, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, zone: str, first: str
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


def test_without_javascript_since_ribbon_and_words_are_there(lab: Lab, open_page: OpenPage) -> None:
    html, _ = demo_page(lab)
    page = open_page(html, java_script_enabled=False).page
    assert page.get_by_text("busy since 09:00").is_visible()
    assert page.get_by_text("idle 4 h").first.is_visible()
    assert page.get_by_text("24 h: GPUs worked at 32 % on average").is_visible()
    assert page.get_by_text("A100 80G: of 4, free on average: 1.0 in 24 h").is_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_charts_and_details_have_no_axe_violations(lab: Lab, open_page: OpenPage, theme: str) -> None:
    html, now = demo_page(lab)
    page = open_page(html, at=now, color_scheme=theme, reduced_motion="reduce").page
    page.get_by_role("link", name="Supply").click()
    page.locator("#history-week .cell").first.wait_for()
    assert violations(page) == []
    page.get_by_role("link", name="Now").click()
    page.locator(".card.busy").first.focus()
    page.locator("#tip .detail").wait_for()
    assert violations(page) == []


def test_a_year_of_which_hours_are_known_is_drawn_as_those_days(lab: Lab, open_page: OpenPage) -> None:
    up = reading("node1", [busy_gpu()])
    for day in range(30):
        lab.run(day * 1440, up)
        lab.run(day * 1440 + 5, up)
    html = render_page(page_at(lab, 29 * 1440 + 5, up))
    page = open_page(html, at=START + timedelta(days=29, minutes=5), timezone_id="UTC").page
    page.get_by_role("link", name="Supply").click()
    page.locator("#history [value='1y']").check()
    chart = page.locator("#history-utilization svg")
    assert "over the last 30 days" in (chart.get_attribute("aria-label") or "")
    assert chart.locator("text").filter(has_text="Dec").count() >= 1
    assert chart.locator("text").filter(has_text="Mar").count() == 0


def test_a_printed_page_has_cards_bars_ribbons_and_charts(lab: Lab, open_page: OpenPage) -> None:
    html, now = demo_page(lab)
    page = open_page(html, at=now).page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    expect(page.locator("#history-utilization svg")).to_be_visible()
    expect(page.locator("#history-week .cell").first).to_be_visible()
    card = page.locator(".card.busy").first
    assert "gradient" in card.evaluate(
        "card => getComputedStyle(card.children[4], '::after').backgroundImage"
    )
    assert "gradient" in card.evaluate(
        "card => getComputedStyle(card.children[2], '::before').backgroundImage"
    )
    assert card.evaluate("card => getComputedStyle(card).printColorAdjust") == "exact"


def test_no_table_is_wider_than_the_paper(lab: Lab, open_page: OpenPage) -> None:
    html, now = demo_page(lab)
    page = open_page(html, at=now, viewport={"width": 718, "height": 1000}).page
    page.emulate_media(media="print")
    tables = page.locator("table").evaluate_all("all => all.map(one => one.getBoundingClientRect().right)")
    assert len(tables) > 5
    assert max(tables) <= 718


def test_when_nothing_fits_the_picker_says_at_which_hour_most_are_usually_free(
    lab: Lab, open_page: OpenPage
) -> None:
    taken, free = (reading("node1", [make(index) for index in range(2)]) for make in (busy_gpu, gpu))
    runs(lab, range(0, 60, 5), taken)
    runs(lab, range(60, 120, 5), free)
    runs(lab, range(120, 181, 5), taken)
    page = page_at(lab, 180, taken)
    shown = open_page(render_page(page), at=START + timedelta(minutes=180), timezone_id="Europe/Berlin").page
    expect(shown.locator("#answers")).to_contain_text("Most is held by alice (2).")
    expect(shown.locator("#answers")).to_contain_text("Usually most are free around 11:00: 2.0 of 2.")


def test_hours_of_users_without_a_name_lead_nowhere(lab: Lab) -> None:
    uses = reading("node1", [busy_gpu(0), busy_gpu(1, processes=(process(user=None),))])
    runs(lab, range(0, 121, 5), uses)
    page = page_at(lab, 120, uses)
    assert page.history
    assert {row.name: row.is_name for row in page.history.usage} == {"alice": True, "unknown user": False}
    html = render_page(page)
    assert 'href="#user/alice"' in html
    assert "#user/unknown" not in html
    assert 'id="user/unknown' not in html
