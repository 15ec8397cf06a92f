"""Hosts, users and jobs as panels; the tabs People, Supply and Health: what a reader gets in a browser."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.tabs.people import MOST_PEOPLE
from gpumon_static.publish.page.things_data import MOST_LETTERS
from gpumon_static.publish.page.view import build_page
from gpumon_static.store.history import past as past_module
from gpumon_static.store.history.machines import MachinePast
from gpumon_static.store.history.past import MACHINE_RANGES
from gpumon_static.store.history.pools import grids, machine_grids
from gpumon_static.store.history.reader import ask
from gpumon_static.survey.jobs import find_jobs
from gpumon_static.survey.supply import supply_rows
from gpumon_static.survey.survey import build_survey
from gpumon_static.terminal.history.supply import supply_report
from tests.browser import OpenPage, violations
from tests.builders import READ_AT, busy_gpu, config, host_config, process, reading
from tests.things_lab import DAYS, NOW, Kept, kept_lab, lab_at, page_of


@pytest.fixture(scope="module")
def kept() -> Iterator[Kept]:
    with kept_lab() as lab:
        yield lab


def opened(open_page: OpenPage, kept: Kept, place: str, **more: Any) -> Page:
    page = open_page(render_page(page_of(kept, reports=["2025-10"])), at=NOW, **more)
    page.page.goto(f"{page.page.url}#{place}")
    page.page.reload()
    assert page.problems == []
    return page.page


# Jobs


def test_page_and_survey_have_the_same_jobs(kept: Kept) -> None:
    page = page_of(kept)
    jobs = find_jobs(build_survey(lab_at(DAYS * 24), kept[0], NOW)).all
    assert [(row.address, row.size) for row in page.jobs] == [(job.address, job.size) for job in jobs]
    data = json.loads(page.things)["jobs"]
    assert [row[0] for row in data] == [job.address for job in jobs]
    (first, *_) = page.jobs
    assert (first.id, first.users, first.size) == ("slurm:8841", ("jonas",), "3 GPUs on 2 hosts")
    assert [(short, gpus) for _, short, gpus in first.places] == [("vision-01", "0, 1"), ("vision-02", "0")]


def test_the_panel_of_a_gpu_leads_to_the_job_and_to_its_user(open_page: OpenPage, kept: Kept) -> None:
    page = opened(open_page, kept, "gpu/vision-01/0")
    fact = page.locator("#thing .facts div", has_text="Part of a job")
    expect(fact).to_contain_text("3 GPUs on 2 hosts")
    fact.get_by_role("link").click()
    expect(page.locator("#thing-title")).to_have_text("python3 · slurm:8841")
    page.go_back()
    page.locator("#thing .summary").get_by_role("link", name="jonas").click()
    expect(page.locator("#thing-title")).to_have_text("jonas")
    page.goto(f"{page.url.partition('#')[0]}#gpu/vision-01/2")
    expect(page.locator("#thing")).to_contain_text("jupyter")
    expect(page.locator("#thing")).not_to_contain_text("Part of a job")


def test_hosts_and_users_are_links_in_the_tables_of_people_and_health(
    open_page: OpenPage, kept: Kept
) -> None:
    page = opened(open_page, kept, "people")
    page.locator(".people tr", has_text="jonas").get_by_role("link", name="vision-02").click()
    expect(page.locator("#thing-title")).to_have_text("vision-02")
    page.goto(page.url.replace("#host/vision-02", "#health"))
    page.locator(".idle").get_by_role("link", name="mira").click()
    expect(page.locator("#thing-title")).to_have_text("mira")
    page.go_back()
    page.locator(".drivers").get_by_role("link", name="vision-02").click()
    expect(page.locator("#thing-title")).to_have_text("vision-02")


def test_a_job_opens_by_its_address(open_page: OpenPage, kept: Kept) -> None:
    page = opened(open_page, kept, "people")
    page.locator(".jobs a", has_text="python3").first.click()
    assert page.url.endswith("#job/slurm:8841")
    expect(page.locator("#thing-title")).to_have_text("python3 · slurm:8841")
    expect(page.locator("#thing .list tbody tr")).to_have_count(3)
    expect(page.locator("#thing .facts")).to_contain_text("3 GPUs on 2 hosts")
    page.locator("#thing .facts a", has_text="jonas").click()
    expect(page.locator("#thing-title")).to_have_text("jonas")
    page.go_back()
    expect(page.locator("#thing-title")).to_have_text("python3 · slurm:8841")


def test_a_link_to_a_job_of_the_minute_before_is_still_valid(open_page: OpenPage) -> None:
    """As tests/survey/test_jobs.py has it for Python."""
    pair = [busy_gpu(n, processes=(process(n, name="train", elapsed_s=3600),)) for n in range(2)]
    text = render_page(build_page([reading("n1", pair)], config("n1"), READ_AT))
    page = open_page(text, at=READ_AT).page
    minutes = {minute: page.evaluate(f"gpumon.things.job('alice,train,2025-11-14T08:{minute}Z')?.address ?? null")
               for minute in ("07", "09", "10", "11", "13")}  # fmt: skip
    assert minutes == {"07": None, "13": None} | dict.fromkeys(
        ("09", "10", "11"), "alice,train,2025-11-14T08:10Z"
    )
    assert page.evaluate("gpumon.things.job('alice,train,tomorrow')") is None
    assert page.evaluate("gpumon.things.job('bob,train,2025-11-14T08:10Z')") is None


# Many users


def test_users_beyond_the_first_are_shown_on_demand_and_sorted_with_the_others(open_page: OpenPage) -> None:
    busy = [busy_gpu(n, processes=(process(n, user=f"u{n:03}"),)) for n in range(MOST_PEOPLE + 30)]
    view = build_page([reading("n1", busy)], config("n1"), READ_AT)
    text = render_page(view)
    opened = open_page(text, at=READ_AT)
    page = opened.page
    rows = page.locator(".people tbody tr")
    page.goto(f"{page.url}#people")
    expect(rows).to_have_count(MOST_PEOPLE)
    expect(page.locator(".people tfoot")).to_contain_text("230 users")
    page.get_by_role("button", name="+ 30 more users").click()
    expect(rows).to_have_count(MOST_PEOPLE + 30)
    page.locator(".people tr", has_text="u229").get_by_role("link", name="u229").click()
    expect(page.locator("#thing-title")).to_have_text("u229")
    page.reload()
    page.goto(f"{page.url.split('#')[0]}#people")
    page.locator(".people th", has_text="User").first.click()
    page.locator(".people th", has_text="User").first.click()
    expect(rows.first).to_contain_text("u229")
    assert opened.problems == []


def test_without_javascript_a_sentence_says_where_the_other_users_are(open_page: OpenPage) -> None:
    busy = [busy_gpu(n, processes=(process(n, user=f"u{n:03}"),)) for n in range(MOST_PEOPLE + 1)]
    text = render_page(build_page([reading("n1", busy)], config("n1"), READ_AT))
    page = open_page(text, java_script_enabled=False).page
    expect(page.locator(".people tbody tr")).to_have_count(MOST_PEOPLE)
    expect(page.locator(".people .explained")).to_have_text(
        "+ 1 more user, in gpus.json.", use_inner_text=True
    )
    expect(page.locator(".people .explained a")).to_be_visible()


# Hosts and users


def test_a_host_opens_with_its_past_its_users_and_what_happened(open_page: OpenPage, kept: Kept) -> None:
    page = opened(open_page, kept, "host/vision-01")
    body = page.locator("#thing .thing-body")
    expect(body.locator(".note")).to_have_text("ask first by day")
    expect(body.locator(".facts")).to_contain_text("550.90.07")
    expect(body.locator(".facts")).to_contain_text(re.compile(r"Answered, 30 d\s*100 %"))
    titles = body.locator(".panel-charts h4")
    names = ["GPU utilization", "GPU memory", "CPU", "RAM", "Fullest disk", "Load"]
    expect(titles).to_have_text([re.compile(f"^{name}") for name in names])
    expect(titles.nth(4)).to_contain_text("up to 95 %")
    expect(titles.nth(5)).to_contain_text("up to 12.5")
    page.get_by_label("7 d", exact=True).last.check()
    expect(titles.nth(2)).to_contain_text("40 % on average")
    expect(body.get_by_role("region", name="Table of users")).to_contain_text("jonas")
    page.goto(f"{page.url.partition('#')[0]}#host/vision-03")
    expect(body.get_by_role("region", name="Table of events")).to_contain_text("gives no data: timeout")


def test_a_user_opens_with_gpus_jobs_bands_and_hours(open_page: OpenPage, kept: Kept) -> None:
    page = opened(open_page, kept, "user/mira")
    body = page.locator("#thing .thing-body")
    expect(body.locator(".summary")).to_have_text(
        "1 GPU on 1 host; 0 % busy; 120 GPU h in 7 d, 120 of them idle"
    )
    expect(body.locator(".held-bands")).to_have_attribute(
        "aria-label", re.compile("vision-01 2 for 23 h|1 d")
    )
    rows = body.get_by_role("region", name="Table of GPU hours").locator("tbody tr")
    expect(rows).to_have_text([re.compile(r"24 h24\.0 h24\.0 h0 %"), re.compile("7 d"), re.compile("30 d")])
    page.evaluate("localStorage.setItem('gpumon.me', 'mira')")
    page.reload()
    expect(page.locator("#thing-title")).to_have_text("mira (you)")


def test_what_the_page_does_not_know_says_so(open_page: OpenPage, kept: Kept) -> None:
    for place in ("host/nowhere", "user/nobody", "job/slurm:1", "job/,,"):
        page = opened(open_page, kept, place)
        expect(page.locator("#thing .thing-body")).to_contain_text("There is no")


# Supply


def test_supply_says_what_the_terminal_says(kept: Kept) -> None:
    """For each range: the words, and each share rounded."""
    page = page_of(kept)
    assert page.supply
    assert [table.key for table in page.supply.tables] == ["7d", "30d", "90d", "1y"]
    for table in page.supply.tables:
        whole, by_group = kept[1].supply[table.key]
        for lines, answer, grouped in ((table.lines, whole, False), (table.group_lines, by_group, True)):
            report = supply_report(supply_rows(answer), by_group=grouped)
            told = [
                dict(zip([column.name for column in report.columns], row, strict=True)) for row in report.rows
            ]
            assert len(lines) == len(told) > 1
            for line, row in zip(lines, told, strict=True):
                assert (line.model, line.gpus, line.words) == (row["model"], row["gpus"], row["words"])
                for shown, key in ((line.busy, "busy"), (line.held, "held_idle"), (line.coverage, "coverage"),
                                   (line.none_free, "none_free"), (line.two, "two_free")):  # fmt: skip
                    exact = row[f"{key}_percent"]
                    assert shown == "–" if exact is None else abs(float(shown) - float(str(exact))) <= 0.55


def test_long_periods_of_large_labs_go_without_names(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_module, "MOST_GPU_DAYS", 0)
    again = ask(kept[0].history_path, lambda reader: past_module.read(reader, NOW, by_group=True))
    bare = again.supply["7d"][0]
    pairs = zip(supply_rows(bare), supply_rows(kept[1].supply["7d"][0]), strict=True)
    # All that is held idle counts as reclaimable where nobody looks for how long it was held.
    unnamed: dict[str, Any] = {"held_days": 0, "held_users": 0, "held_long": None}
    for without, with_names in pairs:
        assert without.held_by == ()
        assert without.held_days == pytest.approx(with_names.held_days, rel=0.01)
        assert replace(without, held_by=with_names.held_by, **unnamed) == replace(with_names, **unnamed)


def test_supply_shows_one_period_and_the_worst_hour_in_the_readers_zone(
    open_page: OpenPage, kept: Kept
) -> None:
    page = opened(open_page, kept, "supply")
    expect(page.locator(".supply-range:visible")).to_have_count(1)
    expect(page.locator(".supply-range:visible .explained").first).to_contain_text("5 days")
    page.locator(".supply").get_by_label("1 y", exact=True).check()
    assert "supply=1y" in page.url
    page.reload()
    expect(page.locator(".supply-range:visible")).to_have_attribute("data-range", "1y")
    expect(page.locator(".reports a")).to_have_attribute("href", "reports/2025-10.html")


def test_worst_hours_are_moved_to_the_readers_zone(open_page: OpenPage) -> None:
    """The collector is in UTC + 1, the reader in New York."""
    cell = '<section class="supply" data-offset="60"><div class="supply-range" data-range="30d"><i data-hour="{}">'
    text = render_page(build_page([], config("n1"), READ_AT))
    for hour, expected in ((0, "Sun 18 h"), (30, "Tue 0 h"), (167, "Sun 17 h")):
        html = text.replace("</main>", cell.format(hour) + "</i></div></section></main>")
        page = open_page(html, timezone_id="America/New_York", at=READ_AT).page
        assert page.locator("[data-hour]").text_content() == expected


# Health


def test_health_lists_everything_that_needs_a_hand(kept: Kept) -> None:
    health = page_of(kept).health
    assert health
    assert [(row.host, row.status, row.down) for row in health.down] == [("vision-03", "timeout", "9 h")]
    assert [(row.host, row.gpu, row.word) for row in health.faults] == [
        ("vision-02", "1", "ECC errors (uncorrected: 2)")
    ]
    assert [(row.host, row.mount, row.percent) for row in health.disks] == [
        ("vision-01", "/data", 95),
        ("vision-02", "/data", 95),
    ]
    assert [(row.group, row.version, row.named) for row in health.drivers] == [
        ("vision", "535.183.01", "vision-02"),
        ("vision", "550.90.07", "vision-01"),
    ]
    assert [(row.host, row.share) for row in health.availability] == [
        ("vision-03", "92.5"),
        ("vision-01", "100.0"),
        ("vision-02", "100.0"),
    ]
    assert [bool(row.down) for row in health.availability] == [True, False, False]
    assert [(row.kind, row.host) for row in health.events] == [
        ("host-down", "vision-03"),
        ("gpu-fault", "vision-02"),
    ]


def test_events_are_chosen_by_host_kind_and_time(open_page: OpenPage, kept: Kept) -> None:
    page = opened(open_page, kept, "health")
    rows = page.locator("#events-list tbody tr")
    expect(rows).to_have_count(2)
    page.get_by_label("Kind", exact=True).select_option("gpu-fault")
    expect(rows).to_have_text([re.compile("vision-02GPU 1: ECC errors")])
    page.locator("#events").get_by_label("Host").select_option("vision-03")
    expect(page.locator("#events-chart")).to_have_text("Nothing happened in this time.")


@pytest.mark.parametrize("users", ["pseudonyms", "counts"])
def test_other_tiers_show_no_more_here_than_elsewhere(kept: Kept, users: str) -> None:
    text = repr(page_of(kept, users))
    for secret in ("jonas", "mira", "8841", "within 10 s", "uncorrected", "/data"):
        assert secret not in text, secret
    if users == "counts":
        assert json.loads(page_of(kept, users).things)["used"] == {}
        assert "python3" not in text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_place_has_violations(open_page: OpenPage, kept: Kept, theme: str) -> None:
    page = opened(open_page, kept, "people", color_scheme=theme, reduced_motion="reduce")
    for place in (
        "people",
        "supply",
        "health",
        "host/vision-01",
        "host/vision-03",
        "user/jonas",
        "job/slurm:8841",
    ):
        page.goto(f"{page.url.partition('#')[0]}#{place}")
        page.wait_for_timeout(50)
        assert violations(page) == [], place


def test_without_javascript_all_tables_are_there(open_page: OpenPage, kept: Kept) -> None:
    page = open_page(render_page(page_of(kept)), java_script_enabled=False).page
    for selector in (".jobs", ".down", ".faults", ".disks", ".drivers", "#events-list"):
        expect(page.locator(f"{selector} table").first).to_be_visible()
    for selector in (".supply-range[data-range='1y'] .verdict", ".beats li"):
        expect(page.locator(selector).first).to_be_visible()


def test_with_many_hosts_their_series_stay_within_a_bound(kept: Kept) -> None:
    setup, past = kept
    names = [f"h{number}" for number in range(1250)]
    # Seconds of a point of the last day, and how many there are; from 401 hosts on they are read by the hour.
    for count, step, number in ((3, 900, 96), (600, 2 * 3600, 12), (1250, 4 * 3600, 6)):
        ranges = machine_grids(count)
        points = {
            key: MachinePast(
                ranges[key].first(int(NOW.timestamp())),
                {name: array("f", [50.0, 50.0, 50.0, 1.0] * ranges[key].points) for name in names[:count]},
            )
            for key in MACHINE_RANGES
        }
        many = replace(past, machines=points, grids=grids(count), machine_grids=ranges)
        wide = replace(setup, hosts=tuple(host_config(name) for name in names[:count]))
        page = build_page([], wide, NOW, past=many)
        machine = json.loads(page.things)["machine"]
        letters = sum(len(text) for _, ranges in machine["hosts"].values() for row in ranges for text in row)
        assert letters <= MOST_LETTERS
        assert (machine["step"]["24h"], machine["count"]["24h"]) == (step, number)
        assert all(
            len(set(text.rpartition("*")[2])) == 1
            for _, ranges in machine["hosts"].values()
            for row in ranges
            for text in row
        )
