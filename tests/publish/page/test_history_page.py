"""What the page shows of the past, worked out by hand from a few runs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from gpumon_static.config.settings import HistoryConfig
from gpumon_static.model import Machine
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.past_data import LEVELS, letters
from gpumon_static.publish.page.records import Page
from gpumon_static.publish.page.view import build_page
from gpumon_static.store.history import pools
from gpumon_static.store.history.last_day import NO_BYTE, NO_WATTS
from tests.browser import OpenPage
from tests.builders import busy_gpu, failed, gpu, process, reading, slices
from tests.past_lab import NINE, PastLab, held_gpu


def card_of(page: Page, place: int = 0) -> Any:
    return page.hosts[0].cards[place]


@pytest.fixture
def lab(tmp_path: Path) -> PastLab:
    return PastLab(tmp_path)


# Since when


def test_a_free_card_says_for_how_long(lab: PastLab) -> None:
    free = reading("node1", [gpu()])
    lab.runs(range(0, 186, 5), free)
    assert card_of(lab.page(185, free)).holder.text == "free for 3 h"


def test_a_busy_card_says_since_when_its_users_have_it(lab: PastLab) -> None:
    busy = reading("node1", [busy_gpu()])
    lab.run(0, reading("node1", [gpu()]))
    lab.runs(range(10, 60, 5), busy)
    since = card_of(lab.page(55, busy)).since
    assert (since.text, since.iso) == ("since 09:10", "2025-11-14T09:10Z")


def test_a_held_card_says_how_long_it_idles(lab: PastLab) -> None:
    held = reading("node1", [held_gpu(0, "user3")])
    lab.runs(range(0, 9 * 60 + 1, 5), held)
    card = card_of(lab.page(9 * 60, held))
    assert (card.holder.text, card.since.text) == ("user3", "idle 9 h")


def test_where_page_and_history_disagree_the_card_says_nothing(lab: PastLab) -> None:
    lab.runs(range(0, 30, 5), reading("node1", [gpu()]))
    card = card_of(lab.page(30, reading("node1", [busy_gpu()])))
    assert card.since is None


def test_the_tooltip_tells_the_last_day_in_words(lab: PastLab, open_page: OpenPage) -> None:
    lab.runs(range(0, 120, 5), reading("node1", [busy_gpu()]))
    free = reading("node1", [gpu()])
    lab.runs(range(120, 245, 5), free)
    page = open_page(render_page(lab.page(240, free)), at=lab.at(240)).page
    page.locator(".card").focus()
    # Nothing is known of the twenty hours before nine.
    expect(page.locator("#tip")).to_contain_text("24 h: busy 2 h, free 2 h, unknown 20 h")


def test_the_means_of_each_hour_are_whole_and_an_hour_without_a_run_is_not_known(lab: PastLab) -> None:
    """Two hours of different work, an hour without any run, then one that reports nothing but its memory."""
    busy = gpu(0, utilization=97.0, memory_used_mib=20 * 1024.0, temperature_c=61.0, power_w=300.0)
    hot = replace(busy, utilization=40.0, temperature_c=101.0, power_w=600.0)
    silent = replace(busy, utilization=None, temperature_c=-4.0, power_w=None)
    lab.runs(range(0, 60, 5), reading("node1", [busy]))
    lab.runs(range(60, 120, 5), reading("node1", [replace(busy, utilization=98.0)]))
    lab.runs(range(120, 150, 5), reading("node1", [hot]))
    lab.runs(range(150, 180, 5), reading("node1", [replace(hot, utilization=None)]))
    lab.runs(range(240, 300, 5), reading("node1", [silent]))
    day = lab.past_at(299).gpus["node1", "0"].day
    assert day
    assert list(day.utilization[-6:]) == [NO_BYTE, 97, 98, 40, NO_BYTE, NO_BYTE]
    assert list(day.memory[-6:]) == [NO_BYTE, 25, 25, 25, NO_BYTE, 25]
    assert list(day.temperature[-6:]) == [NO_BYTE, 61, 61, 101, NO_BYTE, 0], "frost is 0"
    assert day.power[-6:] == [NO_WATTS, 300, 300, 600, NO_WATTS, NO_WATTS]
    assert len(day.utilization) == len(day.power) == 24


# The ribbon


def test_the_ribbon_has_a_line_for_each_time_in_a_state(lab: PastLab) -> None:
    lab.runs(range(0, 60, 5), reading("node1", [busy_gpu()]))
    lab.runs(range(60, 120, 5), reading("node1", [held_gpu(0, "bob")]))
    free = reading("node1", [gpu()])
    lab.runs(range(120, 196, 5), free)
    ribbon = card_of(lab.page(195, free)).ribbon
    # At 12:15 the last of the 96 quarters begins: 9:00 is number 82; four quarters to an hour.
    assert ribbon == " 82b4h4f5"


def test_the_ribbon_is_dotted_while_the_host_is_silent_and_empty_without_runs(lab: PastLab) -> None:
    free = reading("node1", [gpu()])
    lab.runs(range(0, 60, 5), free)
    lab.runs(range(60, 90, 5), failed("node1"))
    lab.runs(range(90, 120, 5), free)
    lab.runs(range(180, 196, 5), free)
    ribbon = card_of(lab.page(195, free)).ribbon
    # Free 9:00 to 10:00 and 10:30 to 11:00, silent in between; from 11:00 to 12:00 there was no run.
    assert ribbon == " 82f4u2f2 4f1"


def test_a_ribbon_is_small_whatever_happened(lab: PastLab) -> None:
    for minute in range(0, 24 * 60, 15):
        lab.run(minute, reading("node1", [busy_gpu() if minute % 2 else gpu()]))
    page = lab.page(24 * 60, reading("node1", [gpu()]))
    assert len(card_of(page).ribbon) < 200


# Hosts that are down


def test_a_silent_host_shows_its_last_cards_which_count_as_unreachable(lab: PastLab) -> None:
    lab.runs(range(0, 30, 5), reading("node1", [busy_gpu(0), gpu(1)]))
    lab.runs(range(30, 160, 5), failed("node1"))
    page = lab.page(150, failed("node1"))
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
    assert (host.cards, page.headline.text) == ((), "No host answered")
    assert [(model.free, model.total) for model in page.models] == [(0, 2)], "they are still the lab's"
    assert [(tally.count, tally.word) for tally in page.tallies] == [(2, "unreachable")]
    assert json.loads(page.history.data if page.history else "")["gpus"] == [[]]


def test_the_slices_of_a_silent_host_are_in_the_card_of_their_gpu(lab: PastLab, open_page: OpenPage) -> None:
    cut = gpu(0, mig_mode=True, utilization=None, slices=slices(2, 1))
    lab.runs(range(0, 30, 5), reading("node1", [cut, gpu(1)]))
    lab.runs(range(30, 160, 5), failed("node1"))
    view = lab.page(150, failed("node1"))
    assert [card.index for card in view.hosts[0].last_cards] == ["0:0", "0:1", "1"]
    opened = open_page(render_page(view), at=lab.at(150))
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


def test_who_holds_without_work_is_listed_with_a_polite_message(lab: PastLab) -> None:
    both = reading("node1", [held_gpu(0, "user3"), busy_gpu(1)])
    lab.runs(range(0, 9 * 60 + 1, 5), both)
    page = lab.page(9 * 60, both)
    assert page.history
    (row,) = page.history.idle
    assert (row.anchor, row.holder, row.memory, row.idle) == ("host-node1:0", "user3", "39 GB", "9 h")
    assert row.message == (
        "Hi user3, your process on node1 GPU 0 (A100 80G) holds 39 GB of memory, and the GPU was"
        " idle at each of 109 looks since Fri 14 Nov 09:00 UTC. Work between two looks is not seen. If you no longer need it, could you please stop it, so that others can run there? Thank you!"
    )


def test_a_gpu_that_was_handed_over_idle_counts_each_users_own_part(lab: PastLab) -> None:
    first, second = (reading("node1", [held_gpu(0, user)]) for user in ("user3", "user4"))
    lab.runs(range(0, 9 * 60, 5), first)
    before = lab.page(9 * 60 - 5, first).history
    assert before
    assert [(row.holder, row.idle) for row in before.idle] == [("user3", "8 h")]
    lab.runs(range(9 * 60, 11 * 60 + 1, 5), second)
    page = lab.page(11 * 60, second)
    assert page.history
    (row,) = page.history.idle
    assert (row.holder, row.idle, row.idle_s) == ("user4", "2 h", 2 * 3600)
    assert row.message
    assert "Hi user4" in row.message
    assert "idle at each of 25 looks since Fri 14 Nov 18:00 UTC" in row.message
    card = card_of(page)
    assert card.since.text == "idle 2 h"
    assert card.when == "idle 2 h"


def test_time_at_work_before_is_not_idle_time(lab: PastLab) -> None:
    lab.runs(range(0, 5 * 60, 5), reading("node1", [busy_gpu(processes=(process(user="user3"),))]))
    held = reading("node1", [held_gpu(0, "user3")])
    lab.runs(range(5 * 60, 7 * 60 + 1, 5), held)
    assert card_of(lab.page(7 * 60, held)).since.text == "idle 2 h"


@pytest.mark.parametrize(("after", "listed"), [(1800, 1), (3601, 0)])
def test_how_long_is_too_long_is_in_the_config(lab: PastLab, after: int, listed: int) -> None:
    lab.config = replace(lab.config, history=HistoryConfig(idle_after=after))
    held = reading("node1", [held_gpu(0, "user3")])
    lab.runs(range(0, 61, 5), held)
    page = lab.page(60, held)
    assert page.history
    assert len(page.history.idle) == listed


# People


def test_gpu_hours_of_users_stand_in_a_table(lab: PastLab) -> None:
    both = reading("node1", [busy_gpu(0, utilization=80.0), held_gpu(1, "bob")])
    lab.runs(range(0, 121, 5), both)
    page = lab.page(120, both)
    assert page.history
    told = [(row.name, row.hours, row.held, str(row.efficiency)) for row in page.history.usage]
    assert told == [("alice", (2.0, 2.0, 2.0), 0.0, "80 %"), ("bob", (2.0, 2.0, 2.0), 2.0, "0 %")]


@pytest.mark.parametrize("tier", ["pseudonyms", "counts"])
def test_the_past_tells_no_more_about_people_than_the_page(lab: PastLab, tier: str) -> None:
    secret = process(user="geheimrat", memory_mib=39000.0)
    up = reading("node1", [held_gpu(0, "geheimrat"), busy_gpu(1, processes=(secret,))])
    lab.runs(range(0, 121, 5), up)
    down = lab.page(120, failed("node1"), users=tier)
    html = render_page(lab.page(120, up, users=tier)) + render_page(down)
    assert "geheimrat" not in html
    assert "idle 2 h" in html


def test_a_page_of_one_group_tells_nothing_of_the_others(tmp_path: Path) -> None:
    lab = PastLab(tmp_path, "node1", "node2")
    lab.config = replace(
        lab.config, hosts=tuple(replace(h, group=g) for h, g in zip(lab.config.hosts, "ab", strict=True))
    )
    two = [reading("node1", [busy_gpu(0)]), reading("node2", [busy_gpu(1, processes=(process(user="zoe"),))])]
    lab.runs(range(0, 61, 5), *two)
    page = lab.page(60, *two, groups=("a",))
    assert page.history
    assert [row.name for row in page.history.usage] == ["alice"]
    data = json.loads(page.history.data)
    assert [name for name, _ in data["hosts"]] == ["node1"]
    assert data["users"] == ["alice"]
    assert "node2" not in render_page(page)


# Numbers for the charts


def decoded(text: str, top: float) -> list[float | None]:
    gap, _, known = text.rpartition("~")
    length, _, rest = known.rpartition("*")
    text = " " * int(gap or 0) + (rest[:1] * int(length) + rest[1:] if length else rest)
    return [None if letter == " " else round(LEVELS.index(letter) * top / 63, 1) for letter in text]


def test_a_series_is_a_letter_per_point_and_a_space_for_a_gap() -> None:
    assert letters([0, 50, None, 100, 250], 100) == "Ag __"
    assert decoded("Ag __", 100) == [0, 50.8, None, 100, 100]
    assert letters([*[None] * 9, *[0] * 5, 100], 100) == "9~5*A_"
    assert letters([*[None] * 2, *[0] * 5, 100], 100) == "2~5*A_", "spaces before a number would be levels"
    assert decoded("9~5*A_", 100) == [*[None] * 9, *[0] * 5, 100]


def test_charts_have_gaps_where_there_was_no_run(lab: PastLab) -> None:
    busy = reading("node1", [busy_gpu(0, utilization=63.0), gpu(1, utilization=0.0)])
    lab.runs(range(0, 60, 5), busy)
    lab.runs(range(120, 180, 5), busy)
    data = json.loads(lab.page(175, busy).history.data)  # type: ignore[union-attr]
    utilization, memory = (decoded(text, 100) for text in data["cluster"]["24h"])
    # 11:55: four quarters with data, four without, four with; 31.5 % and a quarter of the memory.
    assert utilization[-12:] == [31.7] * 4 + [None] * 4 + [31.7] * 4
    assert memory[-12:] == [25.4] * 4 + [None] * 4 + [25.4] * 4
    (model,) = data["models"]
    assert model[:2] == ["A100 80G", 2]
    assert decoded(model[2]["24h"], 2)[-12:] == [1.0] * 4 + [None] * 4 + [1.0] * 4


def test_with_many_hosts_the_charts_of_the_last_day_have_a_point_per_hour(
    lab: PastLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "MOST_IN_DETAIL", 0)
    busy = reading("node1", [busy_gpu(0, utilization=63.0), gpu(1, utilization=0.0)])
    lab.runs(range(0, 60, 5), busy)
    lab.runs(range(120, 180, 5), busy)
    page = lab.page(175, busy)
    assert page.history
    data, machine = json.loads(page.history.data), json.loads(page.things)["machine"]
    for of in (data, machine):
        assert (of["step"]["24h"], of["count"]["24h"]) == (3600, 24)
        assert of["first"]["24h"] * 3600 == (NINE - timedelta(hours=21)).timestamp()
    # The hours from 9:00, 10:00 and 11:00 on.
    utilization, memory = (decoded(text, 100) for text in data["cluster"]["24h"])
    assert (len(utilization), utilization[-3:]) == (24, [31.7, None, 31.7])
    assert memory[-3:] == [25.4, None, 25.4]
    assert decoded(data["hosts"][0][1]["24h"][1], 100)[-3:] == [25.4, None, 25.4]
    assert decoded(data["models"][0][2]["24h"], 2)[-3:] == [1.0, None, 1.0]


def test_with_many_hosts_the_points_of_all_charts_are_further_apart(
    lab: PastLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "MOST_IN_DETAIL", 0)
    machine = Machine(64, 12.0, 9.0, 8.0, 524288.0, 262144.0)
    then = reading("node1", [busy_gpu(0, utilization=63.0), gpu(1, utilization=0.0)], machine=machine)
    now = reading("node1", [busy_gpu(0, utilization=100.0), gpu(1, utilization=0.0)], machine=machine)
    days = 3 * 24 * 60
    lab.runs(range(0, 61, 5), then)
    lab.runs(range(days, days + 61, 5), now)
    page = lab.page(days + 60, now)
    assert page.history
    data, machines = json.loads(page.history.data), json.loads(page.things)["machine"]
    hour, day = 3600, 86400
    assert list(data["step"].values()) == [hour, 6 * hour, day, 15 * day]
    assert list(data["count"].values()) == [24, 28, 30, 25]
    # 17 November, 10:00: what was three days ago is twelve points of six hours before the last, or three days.
    week, month, year = (decoded(data["cluster"][range_][0], 100) for range_ in ("7d", "30d", "1y"))
    assert (len(week), week[-13:]) == (28, [31.7, *[None] * 11, 50.8])
    assert (len(month), month[-4:]) == (30, [31.7, None, None, 50.8])
    # Both days are in the same half of a month: 65 minutes of 31.5 % and, so far, 60 of 50 %.
    assert (len(year), year[-1]) == (25, 39.7)
    assert decoded(data["models"][0][2]["30d"], 2)[-4:] == [1.0, None, None, 1.0]
    assert (machines["step"]["7d"], machines["count"]["7d"]) == (day, 7)
    ((_, ranges),) = machines["hosts"].values()
    memory = [decoded(series[1], 100)[-4:] for series in ranges[1:]]
    assert memory == [[50.8, None, None, 50.8]] * 2


@pytest.mark.parametrize("most", [0, 400])
def test_a_usual_week_is_the_mean_of_four_however_many_hosts_there_are(
    lab: PastLab, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(pools, "MOST_IN_DETAIL", most)
    week = 7 * 24 * 60
    # Friday from 9:00 to 10:00, five times: 4, 0, 0, 0 and 2 of four GPUs free.
    for number, free in enumerate((4, 0, 0, 0, 2)):
        gpus = [gpu(index) if index < free else busy_gpu(index) for index in range(4)]
        lab.runs(range(number * week, number * week + 61, 5), reading("node1", gpus))
    data = json.loads(lab.page(4 * week + 65, reading("node1", gpus)).history.data)  # type: ignore[union-attr]
    (model,) = data["models"]
    friday = decoded(model[3], 4)[4 * 24 + 9]
    assert friday == 0.5


@pytest.mark.parametrize(("most", "range_", "points"), [(0, "24h", 24), (400, "7d", 84)])
def test_a_point_that_has_just_begun_does_not_say_that_none_is_free(
    lab: PastLab, monkeypatch: pytest.MonkeyPatch, most: int, range_: str, points: int
) -> None:
    """A run stands for the time after it: the first run of an hour is all that is known of it so far."""
    monkeypatch.setattr(pools, "MOST_IN_DETAIL", most)
    half = reading("node1", [busy_gpu(0), gpu(1)])
    lab.runs(range(0, 61, 5), half)
    data = json.loads(lab.page(60, half).history.data)  # type: ignore[union-attr]
    free = decoded(data["models"][0][2][range_], 2)
    assert (len(free), free[-1]) == (points, 1.0)


def test_the_last_day_of_a_gpu_has_its_owners(lab: PastLab) -> None:
    lab.runs(range(0, 60, 5), reading("node1", [busy_gpu(power_w=300.0)]))
    free = reading("node1", [gpu(power_w=60.0)])
    lab.runs(range(60, 120, 5), free)
    data = json.loads(lab.page(115, free).history.data)  # type: ignore[union-attr]
    utilization, memory, temperature, power, most_w, bands, spent, peaks = data["gpus"][0][0]
    assert decoded(utilization, 100)[-2:] == [95.2, 0.0]
    assert decoded(memory, 100)[-2:] == [50.8, 0.0]
    assert decoded(temperature, 100)[-2:] == [31.7, 31.7]
    limit = free.gpus[0].power_limit_w
    assert limit == 400
    assert (decoded(power, limit)[-2:], most_w) == ([304.8, 50.8], 0), "of its limit, to a 16th"
    # At 10:55 nine o'clock is quarter 88: alice for an hour; the ribbon has it free from then on.
    assert (bands, data["users"]) == ([88, 0], ["alice"])
    assert spent == [60, 0, 55], "minutes busy, held idle and free"
    assert peaks == [97, 50, 31, 300], "single readings, not means of an hour"


def test_the_bands_have_nobody_where_there_was_no_run(lab: PastLab, open_page: OpenPage) -> None:
    """Between two runs that are hours apart anybody may have had it."""
    held = reading("node1", [busy_gpu()])
    lab.runs(range(0, 60, 5), held)
    lab.runs(range(180, 240, 5), held)
    page = open_page(render_page(lab.page(235, held)), at=lab.at(235)).page
    bands = page.evaluate("gpumon.past.of(gpumon.state.hosts[0].gpus[0]).bands")
    owners = bands[1::2]
    assert owners == [0, -1, 0]
    assert 3 <= bands[2] - bands[0] <= 5, "held for an hour"
    assert 3 <= 96 - bands[4] <= 5, "and again for the last one"


@pytest.mark.parametrize("limit", [None, 200.0])
def test_power_above_the_limit_has_a_scale_of_its_own(lab: PastLab, limit: float | None) -> None:
    now = reading("node1", [busy_gpu(power_w=250.0, power_limit_w=limit)])
    lab.runs(range(0, 60, 5), now)
    data = json.loads(lab.page(55, now).history.data)  # type: ignore[union-attr]
    _, _, _, power, top_w, *_ = data["gpus"][0][0]
    assert (decoded(power, top_w)[-1], top_w) == (250.0, 250)


def test_without_a_history_the_page_is_as_before(lab: PastLab) -> None:
    now = NINE
    page = build_page([reading("node1", [gpu()], fetched_at=now)], lab.config, now)
    assert page.history is None
    assert 'id="history"' not in render_page(page)
