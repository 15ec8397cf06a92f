"""Where can I run, who holds what, and pages of many hosts."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser import OpenPage, copies
from tests.builders import busy_gpu, host_config, reading
from tests.find_lab import page as page
from tests.find_lab import query, search, shown_cards
from tests.labs import HOSTS, lab, page_of

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


# Where can I run?


def answers(page: Page) -> list[str]:
    return [re.sub(r"\s+", " ", text) for text in page.locator("#answers li").all_inner_texts()]


def copied(page: Page) -> list[str]:
    return [str(b.get_attribute("data-copy")) for b in page.locator("#answers [data-copy]").all()]


def lines(host: str, devices: str) -> list[str]:
    """To come from elsewhere, and for whoever is there."""
    there = f"env CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={devices} $SHELL"
    return [f"ssh -t {host} '{there} -l'", there]


def test_the_picker_puts_hosts_with_room_first(page: Page) -> None:
    page.get_by_label("GB").fill("40")
    page.get_by_label("GPUs", exact=True).first.fill("1")
    first, second = answers(page)
    assert first.startswith("node1 : 0 A100 80G, 80 GB")
    assert second.startswith("node2 : 0")
    assert "only 2.2 GB of RAM free" in second
    assert "⚠" not in first


def test_the_picker_copies_what_is_needed_to_run(open_page: OpenPage) -> None:
    page = open_page(page_of(lab()), permissions=["clipboard-read", "clipboard-write"]).page
    page.get_by_label("GPUs", exact=True).first.fill("2")
    assert copied(page) == lines("node1", "0,2")
    assert query(page) == "?n=2"
    copies(page, page.get_by_role("button", name="copy CUDA"))
    assert page.evaluate("navigator.clipboard.readText()") == copied(page)[1]


def test_the_picker_knows_ports_slices_and_sick_cards(page: Page) -> None:
    page.locator("#find [name=model]").select_option("RTX 3090")
    assert copied(page) == lines("-p 2222 node3", "0")
    page.get_by_label("GPUs", exact=True).first.fill("2")
    assert answers(page) == ["No host has 2 free RTX 3090s now. node3 comes closest, with 1 of 2."]
    page.get_by_label("GPUs", exact=True).first.fill("1")
    page.locator("#find [name=model]").select_option("1g.10gb A100 80G")
    assert copied(page) == lines("node4", "MIG-0")


def test_when_nothing_fits_the_picker_says_who_holds_a_gpu_idle(page: Page) -> None:
    page.get_by_label("GPUs", exact=True).first.fill("8")
    assert answers(page) == [
        "No host has 8 free GPUs now. node1 comes closest, with 2 of 8. Most is held by alice (2), bob (1), mia (1)."
        " Held idle: node2 GPU 2 (bob)"
    ]
    expect(page.get_by_role("button", name="tell me")).to_be_visible()
    page.locator("#answers").get_by_role("link", name="alice").click()
    expect(page.locator("#thing h2")).to_have_text("alice")


def test_when_nothing_fits_in_a_group_or_for_words_those_are_named_who_hold_that(page: Page) -> None:
    page.get_by_label("GPUs", exact=True).first.fill("8")
    page.locator("#find [name=group]").select_option("teaching")
    assert answers(page) == ["No host has 8 free GPUs now (group teaching). Most is held by mia (1)."]
    page.locator("#find [name=group]").select_option("")
    page.locator("#find [name=q]").fill("node2")
    assert answers(page) == [
        "No host has 8 free GPUs now (“node2”). node2 comes closest, with 1 of 8. Most is held by alice (1), bob (1)."
        " Held idle: node2 GPU 2 (bob)"
    ]


def test_on_plain_http_copying_works_without_the_clipboard_api(open_page: OpenPage) -> None:
    page = open_page(page_of(lab()), permissions=["clipboard-read", "clipboard-write"]).page
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true })")
    copies(page, page.get_by_role("button", name="copy ssh").first)
    page.evaluate("delete navigator.clipboard")
    assert page.evaluate("navigator.clipboard.readText()") == copied(page)[0]


# Users


def test_the_users_table_tells_who_holds_what_where_with_a_total(page: Page) -> None:
    rows = page.locator(".people tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0).locator("td")).to_have_text(["alice", "2", "80 GB", "2", "node1: 1; node2: 1"])
    expect(rows.nth(1).locator("td")).to_have_text(["mia", "1", "4.9 GB", "1", "node4: 0:1"])
    expect(rows.nth(2).locator("td")).to_have_text(["bob", "1", "2.0 GB", "1", "node2: 2"])
    expect(page.locator(".people tfoot")).to_have_text(re.compile(r"3 users\s*4\s*87 GB\s*4"))


def test_the_users_table_sorts(page: Page) -> None:
    page.get_by_role("link", name="People").click()
    names = page.locator(".people tbody td:first-child")
    page.locator(".people").get_by_role("button", name="Memory").click()
    expect(names).to_have_text(["alice", "mia", "bob"])
    page.locator(".people").get_by_role("button", name="Memory").click()
    expect(names).to_have_text(["bob", "mia", "alice"])
    page.locator(".people").get_by_role("button", name="User").click()
    expect(names).to_have_text(["alice", "bob", "mia"])


def test_a_phone_has_it_all_and_nothing_sticks_out(open_page: OpenPage) -> None:
    more = [host_config(f"another-node-{number}") for number in range(20)]
    page = open_page(page_of(lab(), hosts=(*HOSTS, *more)), **PHONE).page
    for view in ("Compact", "Table", "Cards"):
        page.get_by_title(view).tap()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    search(page).fill("bob")
    assert shown_cards(page) == ["node2:2"]


# Scale


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
