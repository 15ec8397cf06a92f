"""A site that is too large for one page: an overview, and a page for each part of its hosts."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from gpumon_static.commands.render import render
from gpumon_static.config import file as config_file
from gpumon_static.errors import GpumonError
from gpumon_static.model import HostReading
from gpumon_static.publish.page.records import Page
from gpumon_static.publish.page.split import site as split_site
from gpumon_static.publish.page.split.overview import Extract
from gpumon_static.publish.page.split.overview import overview as overview_of
from gpumon_static.publish.page.split.parts import SLUG_LETTERS, Part, parts_of
from gpumon_static.publish.page.view import Whole
from gpumon_static.store import snapshot
from gpumon_static.survey.offers import Wanted, offers
from gpumon_static.survey.survey import SurveyedHost, build_survey
from tests.browser import OpenPage, Site, violations
from tests.builders import NOW, busy_gpu, config, failed, gpu, host_config, reading

LAB = """
[common]
hosts = ["node[1-5]", "vision[1-2]", "login"]
[hosts."vision[1-2]"]
group = "Computer vision"
[site]
title = "Lab"
refresh = 0
"""
PARTS = ["index-computer-vision.html", "index-hosts.html", "index-node-1.html", "index-node-2.html"]
SMALL = {"name": "NVIDIA GeForce RTX 3090", "memory_total_mib": 24576.0}


def lab() -> list[HostReading]:
    """56 GPUs: 8 on each of 7 hosts; and one host that does not answer."""
    nodes = [
        reading(f"node{number}", [gpu(i) if i < number else busy_gpu(i) for i in range(8)])
        for number in range(1, 6)
    ]
    vision = [reading(f"vision{number}", [gpu(i, **SMALL) for i in range(8)]) for number in (1, 2)]
    return [*nodes, *vision, failed("login")]


def rendered(folder: Path, split: int, more: str = "", readings: list[HostReading] | None = None) -> Path:
    path = folder / "config.ini"
    path.write_text(f"{LAB}split = {split}\n{more}")
    settings = config_file.load(path)
    snapshot.write(settings.csv_path, readings or lab())
    return render(settings, NOW).parent


def pages(site: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(site.glob("*.html"))}


def data_of(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data"[^>]*>(.*?)</script>', html, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def cards(html: str) -> list[str]:
    return re.findall(r'<li class="card [^>]* id="(host-[^"]*)"', html)


def test_every_host_is_on_just_one_page_and_the_overview_lists_them_all(tmp_path: Path) -> None:
    made = pages(rendered(tmp_path, 30))
    assert list(made) == [*PARTS, "index.html"]
    assert cards(made["index.html"]) == []
    everything = [card for name in PARTS for card in cards(made[name])]
    assert len(everything) == len(set(everything)) == 56
    for host, file in {"node3": "index-node-1", "node4": "index-node-2", "login": "index-hosts"}.items():
        home = [name for name in PARTS if f'id="host/{host}"' in made[name]]
        assert home == [f"{file}.html"]
        # Without JavaScript as well.
        assert f'<a href="{file}.html#host/{host}"' in made["index.html"]
    assert "56" in re.sub("<[^>]+>", "", made["index.html"].split('class="free-count"')[1][:200])


def test_the_counts_of_the_pages_add_up_to_those_of_the_overview(tmp_path: Path) -> None:
    made = pages(rendered(tmp_path, 30))
    rows = re.findall(
        r'<tr><td><a href="([^"]*)"><bdi>([^<]*)</bdi></a></td>((?:<td class="number[^"]*">\d+</td>)+)',
        made["index.html"],
    )
    # Free, GPUs, hosts, down.
    counts = {name: tuple(map(int, re.findall(r">(\d+)<", numbers))) for _, name, numbers in rows}
    assert counts == {
        "Computer vision": (16, 16, 2, 0),
        "login": (0, 0, 1, 1),
        "node[1-3]": (6, 24, 3, 0),
        "node[4-5]": (9, 16, 2, 0),
    }
    assert [file for file, _, _ in rows] == PARTS
    assert re.search(r"<strong>31</strong>", made["index.html"])


def test_the_overview_has_of_gpus_that_are_taken_only_their_kind(tmp_path: Path) -> None:
    data = data_of(pages(rendered(tmp_path, 30))["index.html"])
    columns = data["columns"]
    by_name = {row[1]: dict(zip(columns["host"], row, strict=True)) for row in data["hosts"]}
    gpus = dict(zip(columns["gpus"], by_name["node2"]["gpus"], strict=False))
    assert gpus["kinds"] == "00111111"
    assert [place for place, *_ in gpus["offered"]] == [0, 1]
    assert "alice" not in json.dumps(data)
    assert data["parts"][by_name["node4"]["part"]] == ["node[4-5]", "index-node-2.html"]


@pytest.mark.parametrize("split", [0, 56 + 8, 10_000])
def test_what_is_not_too_large_is_one_page_and_the_others_are_removed(tmp_path: Path, split: int) -> None:
    assert len(pages(rendered(tmp_path, 30))) == 5
    site = rendered(tmp_path, split)
    assert list(pages(site)) == ["index.html"]
    assert not list(site.glob("index-*"))
    assert len(cards(pages(site)["index.html"])) == 56


def test_each_page_of_the_config_is_split_by_its_own_hosts_on_its_own_tier(tmp_path: Path) -> None:
    more = """
[[site.pages]]
file = "hall.html"
users = "counts"
[[site.pages]]
file = "vision.html"
groups = ["Computer vision"]
"""
    made = pages(rendered(tmp_path, 30, more))
    hall = [name for name in made if name.startswith("hall")]
    assert hall == [*(name.replace("index", "hall") for name in PARTS), "hall.html"]
    assert [name for name in made if name.startswith("vision")] == ["vision.html"]
    assert "alice" in made["index-node-1.html"]
    assert not [name for name in hall if "alice" in made[name]]


def test_a_silent_host_moves_no_other_to_another_page(tmp_path: Path) -> None:
    before = pages(rendered(tmp_path, 30))
    silent = [failed(one.host) if one.host in ("node1", "node2") else one for one in lab()]
    after = pages(rendered(tmp_path, 30, readings=silent))
    assert list(after) == list(before)
    for number in range(1, 6):
        homes = [
            [name for name in PARTS if f'id="host/node{number}"' in made[name]] for made in (before, after)
        ]
        assert homes[0] == homes[1]


def split_up(*names: str, split: int, gpus: int = 1, taken: tuple[str, ...] = (), **more: Any) -> list[Part]:
    settings = config(*(host_config(name, **more) for name in names))
    survey = build_survey([reading(name, [gpu(i) for i in range(gpus)]) for name in names], settings, NOW)
    hosts: tuple[SurveyedHost, ...] = survey.hosts
    return parts_of(hosts, split, "index.html", taken)


def test_parts_have_the_names_of_their_groups_or_node_sets() -> None:
    names = [f"gpu{number:04}.lab2.example" for number in range(1, 26)]
    parts = split_up(*names, split=10)
    assert [part.name for part in parts] == [
        "gpu[0001-0010].lab2.example",
        "gpu[0011-0020].lab2.example",
        "gpu[0021-0025].lab2.example",
    ]
    assert [part.file for part in parts] == [f"index-gpu-lab2-example-{n}.html" for n in (1, 2, 3)]
    # Hosts with names of their own are together, and not a page each.
    parts = split_up("euler", "gauss", "10.0.0.1", "fe80::1", *(f"n{number}" for number in range(9)), split=8)
    assert sorted(len(part.hosts) for part in parts) == [1, 4, 8]


def test_files_of_parts_are_short_safe_and_no_two_are_the_same() -> None:
    for group in ("../../etc/passwd", "Ä ö/\\?#%", "x" * 200, "A b", "-"):
        parts = split_up("a1", "a2", split=1, group=group, taken=("index-a-b-1.html", "INDEX-A-B-2.HTML"))
        files = [part.file for part in parts]
        assert len(set(files)) == 2
        assert all(re.fullmatch(r"index-[a-z0-9][a-z0-9-]*\.html", file) for file in files)
        assert max(map(len, files)) <= len("index--1.html") + SLUG_LETTERS
        assert not {"index-a-b-1.html", "index-a-b-2.html"} & set(files)


def test_pages_made_in_processes_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    alone = pages(rendered(tmp_path / "one", 30))
    monkeypatch.setattr(split_site, "PAYS_FROM", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert pages(rendered(tmp_path / "two", 30)) == alone


def test_a_lab_s_template_that_no_page_uses_stops_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are compiled before the processes start."""
    own = tmp_path / "own"
    (own / "partials").mkdir(parents=True)
    (own / "partials/unused.html.j2").write_text("{% nonsense %}")
    (own / "index.html.j2").write_text(
        '{% extends "gpumon/base.html.j2" %}{% block footer %}ours{% endblock %}'
    )
    monkeypatch.setattr(split_site, "PAYS_FROM", 0)
    site = rendered(tmp_path, 30, f'templates = "{own}"')
    pages = sorted(site.glob("index*.html"))
    assert len(pages) > 2
    assert all("ours" in page.read_text() for page in pages)
    (own / "index.html.j2").write_text('{% include "partials/unused.html.j2" %}')
    with pytest.raises(GpumonError, match=r"unused\.html\.j2, line 1"):
        rendered(tmp_path, 30, f'templates = "{own}"')


def test_no_card_is_sent_back_by_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of 80,000 GPUs would take longer to send than the pages to make."""
    seen: list[Extract] = []

    def overview(whole: Whole, parts: Sequence[Part], extracts: Sequence[Extract]) -> Page:
        seen.extend(extracts)
        return overview_of(whole, parts, extracts)

    monkeypatch.setattr(split_site, "overview", overview)
    rendered(tmp_path, 30)
    sent = pickle.dumps(seen)
    assert seen
    assert b"node1" in sent
    assert not any(record in sent for record in (b"Card", b"Tooltip", b"Numbers"))


def test_no_reading_is_sent_to_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has inherited them: to send those of 80,000 GPUs took two seconds of CPU, and their memory again."""

    def refuse(_: object) -> str:
        raise AssertionError("sent")

    monkeypatch.setattr(split_site, "PAYS_FROM", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    for kind in (HostReading, SurveyedHost, Part):
        monkeypatch.setattr(kind, "__reduce__", refuse)
    assert len(pages(rendered(tmp_path, 30))) > 2


def test_a_process_that_is_killed_leaves_all_files_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pages(rendered(tmp_path, 0))
    monkeypatch.setattr(split_site, "PAYS_FROM", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(split_site, "part_page", lambda *_: os._exit(9))
    with pytest.raises(GpumonError, match="was killed"):
        rendered(tmp_path, 30)
    assert pages(tmp_path / "site") == before


# In the browser


@pytest.fixture
def url(site: Site) -> str:
    """A web server with the lab's site."""
    return site.url + rendered(site.file.parent, 30).name + "/"


SLOW = """
import os, sys, time
from gpumon_static.__main__ import run
from gpumon_static.publish.page.split import site
site.PAYS_FROM = 1
site.part_page = lambda *_: os.write(1, b"at work") and time.sleep(60)
sys.argv[1:] = ["render"]
run()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_render_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    rendered(tmp_path, 20)
    before = {path.name: path.read_bytes() for path in (tmp_path / "site").iterdir()}
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW], cwd=tmp_path, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.read(7) == "at work"
    # Ctrl-C is sent to all of them, SIGTERM to the command alone.
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    _, said = process.communicate(timeout=120)
    assert (process.returncode, said) == (128 + number, "gpumon-static: interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert {path.name: path.read_bytes() for path in (tmp_path / "site").iterdir()} == before


def test_a_host_that_is_searched_for_is_opened_on_its_page_and_the_way_back_leads_here(
    open_page: OpenPage, url: str
) -> None:
    opened = open_page(url=url)
    page = opened.page
    page.get_by_role("searchbox", name="Search").fill("node4")
    found = page.get_by_role("list", name="Hosts found").get_by_role("listitem")
    expect(found).to_have_text(["node4 4 of 8 GPUs free · A100 80G"])
    expect(page.locator(".strip a:visible")).to_have_count(1)
    found.get_by_role("link").click()
    expect(page).to_have_url(f"{url}index-node-2.html#host/node4")
    expect(page.get_by_role("heading", name="node4")).to_be_visible()
    page.get_by_role("link", name="Lab", exact=True).click()
    expect(page).to_have_url(f"{url}index.html")
    for text, number in (("vision", 2), ("3090", 2), ("held", 0), ("busy", 5), ("timeout", 1), ("", 8)):
        page.get_by_role("searchbox", name="Search").fill(text)
        expect(page.locator(".strip a:visible")).to_have_count(number)
    assert opened.problems == []


@pytest.mark.parametrize("hash_", ["#host/node5", "#gpu/node5/3", "#host-node5", "#host-node5:3"])
def test_addresses_lead_to_the_page_that_has_the_thing(open_page: OpenPage, url: str, hash_: str) -> None:
    """From the overview, and through it from the page of another part."""
    for start in ("index.html", "index-node-1.html"):
        opened = open_page(url=f"{url}{start}{hash_}")
        expect(opened.page).to_have_url(f"{url}index-node-2.html{hash_}")
        expect(opened.page.get_by_text(" on this page now.")).to_have_count(0)
    opened.page.goto(f"{url}index-node-1.html#supply")
    expect(opened.page).to_have_url(f"{url}index.html#supply")


def test_an_address_of_nothing_ends_on_the_overview(open_page: OpenPage, url: str) -> None:
    page = open_page(url=f"{url}index-node-1.html#host/gone").page
    expect(page).to_have_url(f"{url}index.html#host/gone")
    expect(page.get_by_text(" on this page now.")).to_be_visible()


def test_the_answers_of_the_overview_are_those_of_free_and_lead_to_the_cards(
    open_page: OpenPage, url: str, site: Site
) -> None:
    page = open_page(url=f"{url}?n=3&mem=40").page
    told = json.loads((site.file.parent / "site" / "gpus.json").read_text())
    wanted = Wanted(count=3, memory_mib=40e9 / 2**20)
    answers = [f"{offer.host}: {offer.devices.replace(',', ', ')}" for offer in offers(told, wanted, NOW)]
    assert len(answers) == 3
    lines = page.locator("#answers li").all_inner_texts()
    assert ["".join(line.split("A100")[0].splitlines()) for line in lines] == answers
    page.locator("#answers a").first.click()
    expect(page).to_have_url(re.compile(r"/index-node-2\.html#host-node5$"))
    expect(page.locator("[id='host-node5:0']")).to_be_in_viewport()


def test_links_of_attention_lead_to_the_host(open_page: OpenPage, url: str) -> None:
    page = open_page(url=url, java_script_enabled=False).page
    page.locator(".attention summary").click()
    page.locator(".attention").get_by_role("link", name="login").click()
    expect(page).to_have_url(f"{url}index-hosts.html#host-login")
    page.goto(url)
    page.locator(".strip").get_by_role("link", name="node4").click()
    expect(page).to_have_url(f"{url}index-node-2.html#host/node4")
    page.goto(url)
    page.get_by_role("link", name="Computer vision").click()
    expect(page.locator(".card")).to_have_count(16)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_overview_and_a_part_have_no_violations(open_page: OpenPage, url: str, theme: str) -> None:
    page = open_page(url=url, color_scheme=theme, reduced_motion="reduce").page
    assert violations(page) == []
    page.get_by_role("searchbox").fill("node")
    assert violations(page) == []
    page.goto(f"{url}index-node-1.html")
    assert violations(page) == []


def test_the_overview_follows_new_data(open_page: OpenPage, site: Site) -> None:
    folder = site.file.parent
    rendered(folder, 30)
    text = (folder / "config.ini").read_text().replace("refresh = 0", "refresh = 1")
    (folder / "config.ini").write_text(text)
    settings = config_file.load(folder / "config.ini")
    render(settings, NOW)
    opened = open_page(url=f"{site.url}site/index.html")
    expect(opened.page.locator(".free-count strong")).to_have_text("31")
    opened.page.get_by_role("searchbox").fill("node1")
    expect(opened.page.locator("#found-hosts li")).to_have_text(["node1 1 of 8 GPUs free · A100 80G"])
    free = reading("node1", [gpu(i) for i in range(8)])
    snapshot.write(settings.csv_path, [free, *lab()[1:]])
    render(settings, NOW.replace(second=30))
    expect(opened.page.locator(".free-count strong")).to_have_text("38")
    expect(opened.page.locator("#found-hosts li")).to_have_text(["node1 8 of 8 GPUs free · A100 80G"])
    assert opened.problems == []


def test_all_hosts_that_are_found_are_shown_on_demand(open_page: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "config.ini"
    path.write_text('[common]\nhosts = ["n[1-70]"]\n[site]\nrefresh = 0\nsplit = 20\n')
    settings = config_file.load(path)
    snapshot.write(settings.csv_path, [reading(f"n{number}", [gpu(0)]) for number in range(1, 71)])
    page = open_page(url=render(settings, NOW).as_uri()).page
    page.get_by_role("searchbox").fill("n")
    expect(page.locator("#found-hosts a")).to_have_count(60)
    page.get_by_role("button", name="+ 10 more hosts").click()
    expect(page.locator("#found-hosts a")).to_have_count(70)
    expect(page.locator("#found-hosts a").nth(60)).to_be_focused()
    expect(page.locator("#found-hosts button")).to_have_count(0)
