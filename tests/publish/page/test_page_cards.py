"""One card, one contract: its words, its name, its tip and its panel; and what the panels of all things have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from gpumon_static.model import Allocated, Allocation, Fault, Gpu, HostReading
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.view import build_page
from tests.browser import OpenPage, violations
from tests.builders import READ_AT, busy_gpu, gpu, host_config, process, reading, slices
from tests.labs import page_of
from tests.things_lab import DAYS, NOW, Kept, kept_lab, lab_at
from tests.things_lab import page_of as page_with_past

MOST_LINES = 6
CROWD = tuple(
    process(pid, user=f"user-{pid % 7}", name="python train.py " * 5, memory_mib=5000.0) for pid in range(30)
)
SICK = (Fault("ecc-errors", "uncorrected: 2 in DRAM " * 4), Fault("persistence-off"))


def opened(open_page: OpenPage, readings: list[HostReading], **more: Any) -> Page:
    hosts = tuple(host_config(one.host) for one in readings)
    made = open_page(page_of(readings, hosts=hosts), **more)
    assert made.problems == []
    return made.page


@pytest.fixture(scope="module")
def kept() -> Iterator[Kept]:
    with kept_lab() as lab:
        yield lab


def in_slurm(one: Gpu, user: str = "jonas") -> Gpu:
    ends = READ_AT + timedelta(hours=5)
    return replace(one, allocation=Allocation(Allocated.YES, "7", None, user, READ_AT, ends))


# Words


def test_the_word_of_the_state_is_on_every_card(open_page: OpenPage, kept: Kept) -> None:
    """Also where a Slurm job has the GPU, and the last line has its end."""
    setup, past = kept
    allocated = [
        replace(one, gpus=tuple(in_slurm(each) if each.processes else each for each in one.gpus))
        for one in lab_at(DAYS * 24)
    ]
    page = open_page(render_page(build_page(allocated, setup, NOW, past=past)), at=NOW).page
    lines = page.locator(".card[tabindex]").evaluate_all(
        "all => all.map(one => one.lastElementChild.innerText)"
    )
    assert all(re.match(r"busy|idle|free", line) for line in lines), lines
    assert re.fullmatch(r"idle 5 d · until .*14:10", lines[2])
    assert re.fullmatch(r"busy · until .*14:10", lines[0])


def test_a_long_fault_leaves_the_word_of_the_state(open_page: OpenPage) -> None:
    sick = replace(in_slurm(busy_gpu(0)), faults=(Fault("remap-failed", "x"), Fault("ecc-errors", "y")))
    page = opened(open_page, [reading("n1", [sick, gpu(1)])], viewport={"width": 480, "height": 800})
    word = page.locator(".card time.ends")
    expect(word).to_contain_text("busy · until")
    width = word.evaluate(
        "time => { const range = document.createRange(); range.setStart(time.firstChild, 0);"
        " range.setEnd(time.firstChild, 4); return time.getBoundingClientRect().right - range.getBoundingClientRect().right; }"
    )
    assert width >= 0, "all of the word is in sight"


# Names


def test_a_card_is_called_by_host_number_model_state_and_user(open_page: OpenPage) -> None:
    both = (process(), process(2, user="bob", memory_mib=2048.0))
    cut = gpu(2, mig_mode=True, utilization=None, slices=slices(2, 1))
    page = opened(open_page, [reading("n1.lab.example", [gpu(0), busy_gpu(1, processes=both), cut])])
    cards = page.locator("[tabindex]:is(.card, .slice)")
    expect(cards.nth(0)).to_have_accessible_name("n1 GPU 0, A100 80G, free")
    expect(cards.nth(1)).to_have_accessible_name("n1 GPU 1, A100 80G, busy, alice, bob")
    expect(cards.nth(2)).to_have_accessible_name(re.compile(r"^n1 GPU 2 slice 0, .*, free$"))
    expect(page.locator(":is(.card, .slice)[title]")).to_have_count(0)


def test_a_title_is_no_name_without_javascript_either(open_page: OpenPage) -> None:
    both = (process(), process(2, user="bob", memory_mib=2048.0))
    page = opened(open_page, [reading("n1", [busy_gpu(0, processes=both)])], java_script_enabled=False)
    expect(page.locator(".card")).to_have_accessible_name("n1 GPU 0, A100 80G, busy, alice +1")
    expect(page.locator(".card")).to_have_attribute("title", "alice 40.0 GB, bob 2.0 GB")


def test_a_card_is_described_by_one_sentence(open_page: OpenPage) -> None:
    page = opened(
        open_page, [reading("n1", [replace(busy_gpu(0), processes=CROWD, faults=SICK), busy_gpu(1)])]
    )
    page.locator("[id='host-n1:1']").focus()
    expect(page.locator("[id='host-n1:1']")).to_have_accessible_description(
        "alice 40 GB; 31 °C · 52 of 400 W"
    )
    page.locator("[id='host-n1:0']").focus()
    described = page.locator("#tip-sentence").inner_text()
    assert ". " not in described


# The tip

OVER = """() => {
  const tip = document.querySelector(".tip").getBoundingClientRect();
  const own = document.querySelector(".tip").parentElement;
  const lines = [...document.querySelectorAll("#hosts .card > bdi, #hosts .card > .state")];
  return lines.filter((line) => !own.contains(line)).filter((line) => {
    const box = line.getBoundingClientRect();
    return box.left < tip.right && tip.left < box.right && box.top < tip.bottom && tip.top < box.bottom;
  }).map((line) => line.parentElement.id);
}"""


@pytest.mark.parametrize("width", [390, 768, 1440, 1920])
def test_a_tip_has_six_lines_at_most_and_covers_no_other_cards_first(open_page: OpenPage, width: int) -> None:
    one = replace(busy_gpu(0), processes=CROWD, faults=SICK)
    lab = [reading(f"n{number}", [replace(one, index=i) for i in range(8)]) for number in range(4)]
    page = opened(open_page, lab, viewport={"width": width, "height": 900}, reduced_motion="reduce")
    for anchor in ("host-n0:0", "host-n1:3", "host-n1:5", "host-n2:7", "host-n3:7"):
        card = page.locator(f"[id='{anchor}']")
        card.evaluate("card => card.scrollIntoView({ block: 'center' })")
        card.focus()
        tip = card.locator(".tip")
        expect(tip).to_be_visible()
        lines = tip.evaluate("tip => tip.clientHeight / parseFloat(getComputedStyle(tip).lineHeight)")
        assert lines < MOST_LINES
        assert page.evaluate(OVER) == [], anchor
        box, window = tip.bounding_box(), page.evaluate("[document.documentElement.clientWidth, innerHeight]")
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= window[0]
        assert box["y"] + box["height"] <= window[1]


def test_a_tip_has_users_and_their_memory_first(open_page: OpenPage) -> None:
    held = (
        process(77, user="bob", memory_mib=2048.0),
        process(4711),
        process(5, user="carol", memory_mib=512.0),
        process(6, user="dora", memory_mib=128.0),
    )
    page = opened(open_page, [reading("n1", [replace(in_slurm(busy_gpu(0, processes=held)), faults=SICK)])])
    page.locator(".card").hover()
    expect(page.locator(".tip")).to_be_visible()
    lines = page.locator(".tip > :not(.spoken)").all_inner_texts()
    assert re.sub(r"\s+", " ", lines[0]) == "alice 40 GB python 3 h bob 2.0 GB python 3 h + 2 more users"
    assert lines[1].startswith("31 °C · 52 of 400 W · until ")
    assert lines[2].startswith("ECC errors uncorrected: 2")
    page.mouse.move(5, 5)
    expect(page.locator(".tip")).to_have_count(0)


def test_a_click_on_the_tip_opens_the_card_and_one_escape_leads_back(open_page: OpenPage) -> None:
    page = opened(open_page, [reading("n1", [busy_gpu(0), gpu(1)])])
    page.locator("[id='host-n1:0']").hover()
    page.locator(".tip").click()
    expect(page.locator("#thing-title")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("[id='host-n1:0']")).to_be_focused()


# Panels


def test_the_panel_of_a_gpu_has_all_that_is_known_of_it(open_page: OpenPage) -> None:
    one = replace(busy_gpu(0, processes=(process(job="slurm:9"),)), faults=SICK)
    page = opened(open_page, [reading("n1", [one])])
    page.locator(".card").click()
    text = re.sub(r"\s+", " ", page.locator("#thing").inner_text())
    for known in (
        "n1 GPU 0", "busy alice since 06:10; 97 % busy", "ECC errors uncorrected: 2", "persistence off",
        "alice 40 GB 1 process", "4711 alice python slurm:9 40 GB 3 h", "NVIDIA A100-SXM4-80GB",
        "40 / 80 GB 40,920 of 81,920 MiB", "31 / 83 °C", "52 / 400 W", "GPU-00000000-1111-2222-3333-444444444444",
    ):  # fmt: skip
        assert known in text, known


@pytest.mark.parametrize(
    ("one", "sentence"),
    [
        (gpu(0), "free"),
        (busy_gpu(0), "busy alice since 06:10; 97 % busy"),
        (busy_gpu(0, utilization=0.0), "held idle alice since 06:10; idle"),
        (in_slurm(busy_gpu(0)), "busy alice since 06:10, until 14:10; 97 % busy"),
        (in_slurm(gpu(0)), "allocated jonas, until 14:10; idle"),
        (busy_gpu(0, processes=tuple(process(n, user=f"u{n}") for n in range(5))),
         "busy u0, u1, u2 and 2 more since 06:10; 97 % busy"),
        (Gpu(0, processes_known=False), "unknown"),
    ],
)  # fmt: skip
def test_the_panel_of_a_gpu_begins_with_who_has_it(open_page: OpenPage, one: Gpu, sentence: str) -> None:
    page = opened(open_page, [reading("n1", [one])])
    page.locator(".card").click()
    words = page.locator("#thing .summary").inner_text().removesuffix("its card")
    assert re.sub(r"\s+", " ", words).strip() == sentence


def test_a_host_begins_with_what_is_free_and_who_holds_the_rest(open_page: OpenPage, kept: Kept) -> None:
    page = open_page(render_page(page_with_past(kept)), at=NOW).page
    for place, sentence in (
        ("vision-01", "0 of 3 GPUs free; 2 busy; 1 held idle by mira"),
        ("vision-02", "1 of 2 GPUs free: 1; 1 busy"),
    ):
        page.evaluate("place => (location.hash = `#host/${place}`)", place)
        expect(page.locator("#thing .summary")).to_have_text(sentence)
    page.evaluate("location.hash = '#host/vision-03'")
    expect(page.locator("#thing .summary")).to_contain_text("timeout: no answer within 10 s")


def test_a_job_says_which_of_its_gpus_is_idle_and_for_how_long(open_page: OpenPage, kept: Kept) -> None:
    setup, past = kept
    first, *rest = lab_at(DAYS * 24)
    member = process(9, user="jonas", name="/usr/bin/python3", job="slurm:8841", elapsed_s=9000)
    idle = replace(first.gpus[2], processes=(member,))
    lazy = [replace(first, gpus=(*first.gpus[:2], idle)), *rest]
    page = open_page(render_page(build_page(lazy, setup, NOW, past=past)), at=NOW).page
    page.evaluate("location.hash = '#job/slurm:8841'")
    expect(page.locator("#thing .summary")).to_contain_text(
        "; GPU 3 of 4, vision-01 2, has been idle for 5 d"
    )
    expect(page.locator("#thing .work-bands .name")).to_have_text(
        ["vision-01 0", "vision-01 1", "vision-01 2", "vision-02 0"]
    )
    assert page.locator("#thing .work-bands rect.work").count() >= 4 * 20
    expect(page.locator("#thing .work-bands")).to_have_attribute("aria-label", re.compile("idle for 5 d"))


def test_the_panel_of_a_gpu_has_what_happened_to_it(open_page: OpenPage, kept: Kept) -> None:
    page = open_page(render_page(page_with_past(kept)), at=NOW).page
    page.evaluate("location.hash = '#gpu/vision-02/1'")
    expect(page.get_by_role("region", name="Table of events")).to_contain_text("ECC errors")
    page.evaluate("location.hash = '#gpu/vision-02/0'")
    expect(page.get_by_role("region", name="Table of events")).to_have_count(0)


PLACES = ("gpu/vision-01/0", "host/vision-01", "user/jonas", "job/slurm:8841")


@pytest.mark.parametrize("width", [320, 768, 1440, 1920])
def test_panels_fill_their_width_and_nothing_sticks_out(open_page: OpenPage, kept: Kept, width: int) -> None:
    page = open_page(render_page(page_with_past(kept)), at=NOW, viewport={"width": width, "height": 900}).page
    for place in PLACES:
        page.evaluate("place => (location.hash = `#${place}`)", place)
        expect(page.locator("#thing-title")).to_have_css("font-size", "22px")
        expect(page.locator("#thing .thing-body > .summary:first-child")).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
        room, most = page.evaluate(
            """() => [".thing-body", ".thing-body > *"].map((one) => Math.max(
              ...[...document.querySelectorAll(one)].map((part) => part.getBoundingClientRect().right)))"""
        )
        tables = page.locator("#thing .row > *").evaluate_all(
            "all => Math.max(...all.map(one => one.getBoundingClientRect().right))"
        )
        assert abs(room - most) < 1
        assert room - tables < 1, place


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_panels_and_tips_have_no_violations(open_page: OpenPage, kept: Kept, theme: str) -> None:
    page = open_page(
        render_page(page_with_past(kept)), at=NOW, color_scheme=theme, reduced_motion="reduce"
    ).page
    page.locator(".card.held").focus()
    assert violations(page) == []
    for place in PLACES:
        page.evaluate("place => (location.hash = `#${place}`)", place)
        assert (place, violations(page)) == (place, [])
