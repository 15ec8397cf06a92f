"""Data that is dated ahead of the clock: stale, offered by nothing, and told in its own words.

A collector's clock was wrong and has been put back, or the reader's is behind. One rule, in times.py and in times.js.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from gpumon_static.commands.fetch import fetch
from gpumon_static.config.settings import PathsConfig
from gpumon_static.errors import GpumonError
from gpumon_static.model import HostReading, Status
from gpumon_static.publish.exports.files import free_txt
from gpumon_static.publish.exports.gpufree import gpufree
from gpumon_static.publish.exports.gpus_json import document
from gpumon_static.publish.exports.metrics import metrics_prom
from gpumon_static.publish.page.view import build_page
from gpumon_static.store import snapshot
from gpumon_static.survey.offers import Wanted
from gpumon_static.survey.survey import Survey, build_survey
from gpumon_static.terminal import free
from gpumon_static.terminal.rows import Look, host_rows
from gpumon_static.terminal.show import age_line
from gpumon_static.terminal.source import Source
from gpumon_static.times import Age
from tests.browser import OpenPage, Site
from tests.builders import NOW, READ_AT, config, gpu, host_config, reading
from tests.labs import lab, page_of

LIMIT = timedelta(minutes=11)
"""Of the usual interval of five minutes."""
AHEAD = timedelta(hours=3, minutes=5)
BEHIND = timedelta(hours=1, seconds=30)


def dated(readings: Sequence[HostReading], by: timedelta) -> list[HostReading]:
    return [replace(one, fetched_at=one.fetched_at + by) for one in readings]


def survey_of(readings: Sequence[HostReading], now: datetime = NOW) -> Survey:
    return build_survey(readings, config(*(one.host for one in readings)), now)


def written(folder: Path, readings: Sequence[HostReading]) -> Source:
    (folder / "gpus.json").write_text(json.dumps(document(survey_of(readings))))
    return Source(str(folder))


# The rule


@pytest.mark.parametrize(
    ("minutes", "is_stale", "words"),
    [
        (-181, True, "dated 3 h ahead of the clock"),
        (-12, True, "dated 12 min ahead of the clock"),
        (-11, False, "0 s ago"),
        (0, False, "0 s ago"),
        (11, False, "11 min ago"),
        (12, True, "12 min ago"),
    ],
)
def test_as_far_ahead_as_it_may_be_old_and_no_further(minutes: int, is_stale: bool, words: str) -> None:
    age = Age(60.0 * minutes, 660)
    assert (age.is_stale, age.words) == (is_stale, words)


def test_the_browser_has_the_same_rule(open_page: OpenPage) -> None:
    edges = (0, 1, 30, 59, 60, 61, 659, 660, 660.5, 661, 3600, 86400, 100 * 86400, 9e9)
    table = [
        (sign * edge, limit) for edge in edges for sign in (1, -1) for limit in (61, 660, 7260, 1_209_660)
    ]
    page = open_page(page_of(lab())).page
    told = page.evaluate(
        "table => table.map(([age, limit]) => { const a = gpumon.age(age, limit); return [a.isStale, a.isAhead, a.words]; })",
        table,
    )
    for (seconds, limit), (is_stale, is_ahead, words) in zip(table, told, strict=True):
        ours = Age(seconds, limit)
        assert (is_stale, is_ahead) == (ours.is_stale, ours.is_ahead), (seconds, limit)
        said = "just now" if seconds < 60 and not is_ahead else ours.words.removesuffix(" of the clock")
        assert words == said, (seconds, limit)


# All of the data


def test_no_file_offers_it_and_the_page_is_stale() -> None:
    readings = dated([reading("n1", [gpu(0)])], AHEAD)
    assert free_txt(survey_of(readings)) == ""
    page = build_page(readings, config("n1"), NOW)
    assert page.is_stale
    assert page.data_time
    assert page.data_time.is_ahead
    assert free_txt(survey_of(dated(readings, -AHEAD))) != ""


def test_clocks_that_differ_a_little_change_nothing() -> None:
    readings = [reading("n1", [gpu(0)], fetched_at=NOW + LIMIT)]
    assert free_txt(survey_of(readings)) != ""
    assert not build_page(readings, config("n1"), NOW).is_stale
    assert age_line(survey_of(readings)).plain.endswith(", 0 s ago")


def test_show_names_the_clock() -> None:
    told = age_line(survey_of(dated([reading("n1", [gpu(0)])], AHEAD))).plain
    assert told.startswith("STALE DATA of ")
    assert told.endswith(", dated 3 h ahead of the clock: the collector's clock is or was wrong")


@pytest.mark.parametrize(("by", "seen"), [(AHEAD, "3 h ahead"), (LIMIT, "0 s"), (-AHEAD, "3 h")])
def test_the_column_of_when_a_host_was_seen(by: timedelta, seen: str) -> None:
    survey = survey_of([reading("n1", [gpu(0)], fetched_at=NOW + by)])
    (row,) = host_rows(survey.hosts[0], survey.hosts[0].places(), "n1", Look(seen=True), survey)
    assert row["seen"].text == seen


def test_gpufree_offers_nothing(tmp_path: Path) -> None:
    (tmp_path / "gpufree").write_bytes(gpufree(""))
    written(tmp_path, [reading("n1", [gpu(0)], fetched_at=datetime.now(UTC) + AHEAD)])
    done = subprocess.run(
        [sys.executable, tmp_path / "gpufree", "--from", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("gpufree: the data is dated 3 h ahead of the clock: ")


def test_free_offers_nothing(tmp_path: Path) -> None:
    source = written(tmp_path, dated([reading("n1", [gpu(0)])], AHEAD))
    with pytest.raises(GpumonError) as told:
        free.find(source, Wanted(), NOW, use_old=False)
    assert str(told.value) == (
        "the data is dated 3 h ahead of the clock: the collector's clock is or was wrong (--old accepts it)"
    )
    found, _ = free.find(source, Wanted(), NOW, use_old=True)
    assert [offer.host for offer in found] == ["n1"]
    found, _ = free.find(source, Wanted(), NOW + AHEAD, use_old=False)
    assert [offer.host for offer in found] == ["n1"]


# One host of several


MIXED = [reading("n1", [gpu(0)], fetched_at=READ_AT + AHEAD), reading("n2", [gpu(0)])]


def test_one_host_that_is_ahead_neither_offers_nor_dates_the_others(tmp_path: Path) -> None:
    survey = survey_of(MIXED)
    assert survey.latest == READ_AT
    assert free_txt(survey).split()[0] == "n2"
    assert document(survey)["fetched_at"] == "2025-11-14T09:10:00Z"
    assert f"gpumon_last_fetch_timestamp_seconds {READ_AT.timestamp():.0f}" in "".join(metrics_prom(survey))
    found, _ = free.find(written(tmp_path, MIXED), Wanted(), NOW, use_old=False)
    assert [offer.host for offer in found] == ["n2"]


def test_the_host_that_is_ahead_shows_its_own_time() -> None:
    page = build_page(MIXED, config("n1", "n2"), NOW)
    assert not page.is_stale
    times = {host.name: host.read_at for host in page.hosts}
    assert times["n2"] is None
    assert times["n1"]
    assert times["n1"].is_old


@pytest.mark.parametrize("by", [AHEAD, -AHEAD])
def test_a_stale_host_is_no_place_for_later_either(tmp_path: Path, by: timedelta) -> None:
    """It would be listed as one that is free `now`."""
    readings = [reading("n1", [gpu(0)], fetched_at=READ_AT + by), reading("n2", [])]
    with pytest.raises(GpumonError) as told:
        free.answer(written(tmp_path, readings), Wanted(), NOW, most=3, form=None, use_old=False, when=False)
    assert "n1" not in str(told.value)


# In the browser


def look_again(page: Page) -> None:
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def offers(page: Page) -> int:
    return page.locator("#answers [data-copy]").count()


def test_a_page_made_of_data_that_is_ahead_says_so_and_offers_nothing(open_page: OpenPage) -> None:
    opened = open_page(page_of(dated(lab(), AHEAD)))
    page = opened.page
    expect(page.locator(".masthead .data-time")).to_contain_text("stale data dated 3 h ahead")
    expect(page.locator(".banner")).to_have_text(
        "The data is dated 3 h ahead of your clock: one of the clocks is wrong, and nothing is offered. "
        "What you see is dated 14 Nov 2025, 12:15."
    )
    expect(page.locator("#answers")).to_contain_text("dated 3 h ahead of your clock")
    assert "were free" in page.title()
    assert offers(page) == 0
    page.clock.set_system_time(NOW + AHEAD)
    look_again(page)
    expect(page.locator(".banner")).to_be_hidden()
    assert offers(page) > 0
    assert opened.problems == []


def test_from_disk_a_readers_clock_that_is_far_behind_offers_nothing(open_page: OpenPage) -> None:
    """Nobody can know which of the two is wrong."""
    page = open_page(page_of(lab()), at=NOW - BEHIND).page
    expect(page.locator(".masthead .age")).to_have_text("dated 58 min ahead")
    assert offers(page) == 0
    page.clock.set_system_time(NOW - timedelta(minutes=12))
    look_again(page)
    expect(page.locator(".masthead .age")).to_have_text("2 min ago")
    assert offers(page) > 0


def test_the_web_servers_clock_decides_where_it_is_known(open_page: OpenPage, site: Site) -> None:
    """A page that a wrong clock made and dated, and a reader whose clock is wrong just so."""
    site.write(page_of(dated(lab(), AHEAD), now=NOW + AHEAD, refresh=1))
    page = open_page(url=site.url, at=NOW + AHEAD).page
    expect(page.locator(".banner")).to_contain_text("dated 3 h ahead of the web server's clock")
    assert offers(page) == 0
    site.clock[0] = NOW + AHEAD
    expect(page.locator(".banner")).to_be_hidden()
    assert offers(page) > 0


def test_a_server_that_does_not_answer_leaves_the_readers_clock(open_page: OpenPage, site: Site) -> None:
    opened = open_page(at=NOW - BEHIND)
    site.write(page_of(lab(), refresh=60))
    asked: list[Route] = []
    opened.page.route(
        site.url, lambda route: asked.append(route) if asked_for_clock(route) else route.continue_()
    )
    opened.page.goto(site.url)
    expect(opened.page.locator(".masthead .age")).to_have_text("2 min ago")
    assert len(asked) == 1
    asked[0].abort()
    expect(opened.page.locator(".masthead .age")).to_have_text("dated 58 min ahead")
    assert offers(opened.page) == 0


def asked_for_clock(route: Route) -> bool:
    return route.request.method == "HEAD"


def test_a_host_that_is_ahead_offers_nothing_on_the_page(open_page: OpenPage) -> None:
    readings = lab()
    readings[2] = replace(readings[2], fetched_at=READ_AT + AHEAD)
    page = open_page(page_of(readings)).page
    expect(page.locator("#host-node3 .data-time")).to_contain_text("stale data dated 3 h ahead")
    expect(page.locator(".masthead .age")).to_have_text("2 min ago")
    assert offers(page) > 0
    assert "node3" not in page.locator("#answers").inner_text()
    # When the clock has caught up with it, everything else is stale.
    page.clock.set_system_time(READ_AT + AHEAD)
    look_again(page)
    expect(page.locator("#answers")).to_contain_text("nothing is offered")
    assert offers(page) == 0


def test_without_javascript_it_is_told_too(open_page: OpenPage) -> None:
    page = open_page(page_of(dated(lab(), AHEAD)), java_script_enabled=False).page
    expect(page.locator(".banner")).to_have_text(
        "The data is dated ahead of the collector's clock, which is or was wrong. What you see is dated 14 Nov 2025, 12:15 UTC."
    )


# The next run


def kept_after(
    tmp_path: Path, readings: Sequence[HostReading], only: str | None
) -> tuple[dict[str, datetime], list[str]]:
    """What load_data.csv has after a run, whose hosts all refuse, and what the run said."""
    hosts = [
        host_config(name, address="127.0.0.1", port=1, connect_timeout=2.0) for name in ("n1", "n2", "n3")
    ]
    setup = replace(config(*hosts), paths=PathsConfig(tmp_path / "data", tmp_path / "site"))
    snapshot.write(setup.csv_path, readings)
    said: list[str] = []
    asked = fetch(setup, clock=lambda: NOW, only=only, say=said.append)
    assert {one.status for one in asked} == {Status.REFUSED}
    return {one.host: one.fetched_at for one in snapshot.read(setup.csv_path)}, said


STORED = [
    reading("n1", [gpu(0)], fetched_at=READ_AT + AHEAD),
    reading("n2", [gpu(0)], fetched_at=READ_AT + AHEAD),
    reading("n3", [gpu(0)], fetched_at=NOW + LIMIT),
]


def test_a_run_replaces_what_is_ahead(tmp_path: Path) -> None:
    kept, _ = kept_after(tmp_path, STORED, None)
    assert kept == {"n1": NOW, "n2": NOW, "n3": NOW}


def test_a_run_of_some_hosts_keeps_no_reading_of_others_that_is_ahead(tmp_path: Path) -> None:
    """It would look fresh when the clock has caught up."""
    kept, said = kept_after(tmp_path, STORED, "n1")
    assert kept == {"n1": NOW, "n3": NOW + LIMIT}
    assert "load_data.csv: dropped 1 reading dated ahead of the clock; a whole fetch asks again" in said
