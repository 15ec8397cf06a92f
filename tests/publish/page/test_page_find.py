"""Finding: search, filters, the URL, views, the picker, the users' table, me."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import Locator, Page, expect

from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.view import build_page
from tests.browser import OpenPage, copies
from tests.builders import NOW, busy_gpu, config, failed, gpu, host_config, process, reading, slices
from tests.labs import HOSTS, lab, page_of

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    return open_page(page_of(lab())).page


def shown_cards(page: Page) -> list[str]:
    ids = page.locator(":is(.card, .slice)[tabindex]:visible").evaluate_all(
        "cards => cards.map(card => card.id)"
    )
    return [anchor.removeprefix("host-") for anchor in ids]


def search(page: Page) -> Locator:
    return page.get_by_role("searchbox", name="Search")


# What flashes does so for a moment, which may be over when a busy machine looks.
SEE_FLASHES = """() => {
  window.flashed = new Set();
  const seen = (changes) => changes.filter(({ target }) => target.classList.contains("flash"))
    .forEach(({ target }) => flashed.add(target));
  new MutationObserver(seen).observe(document, { subtree: true, attributeFilter: ["class"] });
}"""


def query(page: Page) -> str:
    return str(page.evaluate("location.search"))


# Search and filters


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        ("node2", ["node2:0", "node2:1", "node2:2"]),
        ("alice", ["node1:1", "node2:1"]),
        ("ALICE node1", ["node1:1"]),
        ("3090", ["node3:0", "node3:1"]),
        ("december", ["node1:0", "node1:1", "node1:2"]),
        ("language", ["node3:0", "node3:1"]),
        ("held", ["node2:2"]),
        ("no-such-thing", []),
        (
            "80gb",
            ["node1:0", "node1:1", "node1:2", "node2:0", "node2:1", "node2:2", "node4:0.0", "node4:0.1"],
        ),
        ("a100 80GB node1", ["node1:0", "node1:1", "node1:2"]),
        ("ecc", ["node3:1"]),
        ("node1 2", ["node1:2"]),
        ("node4 0:1", ["node4:0.1"]),
        ("00000002-1111", ["node1:2", "node2:2"]),
        ("550.90 language", ["node3:0", "node3:1"]),
        ("python node1", ["node1:1"]),
        ("4711 node2", ["node2:1"]),
        ("fan", []),
        ("temperature", []),
    ],
)
def test_search_looks_at_host_user_model_note_group_and_state(
    page: Page, text: str, cards: list[str]
) -> None:
    search(page).fill(text)
    assert shown_cards(page) == cards


def test_a_job_is_found(open_page: OpenPage) -> None:
    running = [reading("node1", [gpu(0), busy_gpu(1, processes=(process(job="slurm:8841"),))])]
    page = open_page(page_of(running)).page
    search(page).fill("8841")
    assert shown_cards(page) == ["node1:1"]


@pytest.mark.parametrize("text", ["timeout", "failed", "down", "no answer within"])
def test_a_failed_host_is_found_by_its_name_and_its_status(page: Page, text: str) -> None:
    search(page).fill(text)
    expect(page.locator(".host:visible .host-name")).to_have_text(["node10"])
    expect(page.locator(".strip a:visible")).to_have_text([re.compile("node10")])
    page.get_by_title("Table").click()
    expect(page.locator(".table-view tbody tr")).to_have_text(["node10down timeout · no answer within 10 s"])
    page.locator(".table-view a").click()
    expect(page.locator("#thing-title")).to_have_text("node10")


def test_search_says_how_much_it_found_and_what_to_do_when_nothing(page: Page) -> None:
    search(page).fill("vision")
    expect(page.locator("#found")).to_have_text("6 GPUs on 2 hosts, 3 free")
    search(page).fill("zzz")
    expect(page.get_by_text("Nothing matches “zzz”.")).to_be_visible()
    page.get_by_role("button", name="Show everything").click()
    expect(page.locator(".host:visible")).to_have_count(5)
    expect(search(page)).to_have_value("")


def test_slash_goes_to_the_search_and_escape_leaves_it_empty(page: Page) -> None:
    page.keyboard.press("/")
    expect(search(page)).to_be_focused()
    page.keyboard.type("a/b")
    expect(search(page)).to_have_value("a/b")
    page.keyboard.press("Escape")
    expect(search(page)).to_have_value("")
    expect(search(page)).not_to_be_focused()
    expect(page.locator(".host:visible")).to_have_count(5)


def test_free_only(page: Page) -> None:
    page.get_by_label("free only").check()
    assert shown_cards(page) == ["node1:0", "node1:2", "node2:0", "node3:0", "node3:1", "node4:0.0"]
    assert query(page) == "?free=1"


def test_model_group_and_memory(page: Page) -> None:
    page.locator("#find [name=model]").select_option("RTX 3090")
    assert shown_cards(page) == ["node3:0", "node3:1"]
    page.locator("#find [name=model]").select_option("")
    page.get_by_label("Group").select_option("vision")
    page.get_by_role("spinbutton", name="with GB").fill("80")
    assert shown_cards(page) == ["node1:0", "node1:1", "node1:2", "node2:0", "node2:1", "node2:2"]
    assert query(page) == "?group=vision&mem=80"


def test_a_click_on_a_model_in_the_summary_filters_by_it_and_another_click_undoes_it(page: Page) -> None:
    tile = page.get_by_role("button", name=re.compile("RTX 3090"))
    tile.click()
    expect(tile).to_have_attribute("aria-pressed", "true")
    assert shown_cards(page) == ["node3:0", "node3:1"]
    tile.click()
    assert len(shown_cards(page)) == 10


def test_free_only_counts_as_the_headline_does(page: Page) -> None:
    expect(page.locator(".free-count")).to_have_text("5 of 9 GPUs free + 1 slice")
    page.get_by_label("free only").check()
    expect(page.locator("#found")).to_have_text("5 GPUs + 1 slice on 4 hosts, 5 + 1 slice free")


def test_a_gpu_of_which_all_slices_are_free_counts_as_one(open_page: OpenPage) -> None:
    cut = [gpu(0, mig_mode=True, slices=slices(7)), gpu(1, mig_mode=True, slices=slices(7, 3)), gpu(2)]
    page = open_page(page_of([reading("node1", cut)])).page
    expect(page.locator(".free-count")).to_have_text("2 of 3 GPUs free + 13 slices")
    expect(page.locator("#host-node1 .about")).to_contain_text("2 of 3 free + 13 slices")
    page.get_by_label("free only").check()
    expect(page.locator("#found")).to_have_text("2 GPUs + 13 slices on 1 host, 2 + 13 slices free")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("?q=zzz&free=1", "Nothing matches “zzz”."),
        ("?q=alice&free=1", "Nothing matches all of these: free, “alice”."),
        ("?mem=200&group=vision", "Nothing matches 200 GB."),
        ("?model=RTX 3090&group=vision", "Nothing matches all of these: group vision, RTX 3090."),
        ("?n=8", "Nothing matches 8 to run on together."),
        ("?mine=1", "Nothing matches mine, without a login in “I am”."),
    ],
)
def test_where_nothing_matches_the_page_says_which_condition(
    open_page: OpenPage, query: str, told: str
) -> None:
    page = open_page(page_of(lab())).page
    page.goto(page.url + query)
    expect(page.locator("#nothing span")).to_have_text(told)


def test_zero_in_a_link_means_off_and_what_is_no_number_is_ignored_with_a_note(open_page: OpenPage) -> None:
    page = open_page(page_of(lab())).page
    address = page.url
    page.goto(address + "?free=0&kiosk=0&mine=0")
    assert len(shown_cards(page)) == 10
    expect(page.get_by_label("free only")).not_to_be_checked()
    expect(page.locator(".tools")).to_be_visible()
    for given in ("abc", "-3", "1e400"):
        page.goto(f"{address}?mem={given}")
        assert len(shown_cards(page)) == 10
        expect(page.locator("#ignored")).to_have_text(f"mem={given} is not an amount in GB: ignored")
    page.goto(address + "?mem=30")
    expect(page.get_by_role("spinbutton", name="with GB")).to_have_value("30")
    expect(page.locator("#ignored")).to_be_hidden()


def test_a_link_to_a_host_clears_what_hides_it_and_no_more(page: Page) -> None:
    search(page).fill("node1")
    page.get_by_label("Group").select_option("vision")
    page.evaluate("scrollTo(0, 0)")
    page.evaluate(SEE_FLASHES)
    page.locator(".attention summary").click()
    page.locator(".attention a", has_text="node3").click()
    page.wait_for_function("flashed.has(document.getElementById('host-node3'))")
    expect(page.locator("#host-node3 h2")).to_be_in_viewport()
    assert query(page) == ""
    page.get_by_label("free only").check()
    page.locator("#find [name=model]").select_option("A100 80G")
    page.locator(".attention a", has_text="node3").click()
    assert query(page) == "?free=1"


@pytest.mark.parametrize("query", ["?q=node1", "?view=table", "?free=1"])
def test_an_address_with_a_gpu_in_it_leads_there_whatever_hides_it(open_page: OpenPage, query: str) -> None:
    page = open_page(page_of(lab()), viewport={"width": 1000, "height": 500}).page
    page.goto(f"{page.url}{query}#host-node2:2")
    row = "tr[data-card='host-node2:2']" if "table" in query else "[id='host-node2:2']"
    expect(page.locator(row)).to_be_in_viewport()


def test_a_link_to_a_host_leads_to_its_row_in_the_table(open_page: OpenPage) -> None:
    hosts = tuple(host_config(f"n{number}") for number in range(60))
    crowd = [reading(host.name, [busy_gpu(i) for i in range(8)]) for host in hosts[:-1]]
    page = open_page(page_of([*crowd, failed("n59")], hosts=hosts)).page
    page.get_by_title("Table").click()
    row = page.locator("tr[data-card='host-n57:0']")
    expect(row).to_have_count(0)
    page.evaluate(SEE_FLASHES)
    page.locator(".strip a[href='#host-n57']").click()
    expect(row).to_be_in_viewport()
    page.wait_for_function("flashed.has(document.querySelector(`tr[data-card='host-n57:0']`))")
    page.locator(".attention summary").click()
    page.locator(".attention a", has_text="n59").click()
    expect(page.locator("tr[data-host='host-n59']")).to_be_in_viewport()
    expect(page.locator("tr[data-host='host-n59']")).to_have_text("n59down timeout · no answer within 10 s")


def test_a_link_shares_the_view(open_page: OpenPage) -> None:
    opened = open_page(page_of(lab()))
    opened.page.goto(opened.page.url + "?q=node1&free=1&view=table&n=2&gb=40")
    page = opened.page
    expect(search(page)).to_have_value("node1")
    expect(page.get_by_label("free only")).to_be_checked()
    expect(page.get_by_role("radio", name="Table")).to_be_checked()
    expect(page.locator(".table-view tbody tr")).to_have_count(2)
    expect(page.get_by_role("spinbutton", name="with GB")).to_have_value("40")
    expect(page.get_by_label("GPUs", exact=True).first).to_have_value("2")
    assert opened.problems == []


@pytest.mark.parametrize(
    ("order", "hosts"),
    [
        ("", ["node1", "node2", "node3", "node4", "node10"]),
        ("free", ["node1", "node3", "node2", "node4", "node10"]),
        ("load", ["node2", "node3", "node1", "node4", "node10"]),
    ],
)
def test_hosts_are_sorted_by_name_free_or_load(page: Page, order: str, hosts: list[str]) -> None:
    page.get_by_label("Sort").select_option("load")
    page.get_by_label("Sort").select_option(order)
    expect(page.locator(".host-name")).to_have_text(hosts)


def test_me_is_marked_summed_up_and_remembered(page: Page) -> None:
    page.get_by_label("I am").fill("Alice")
    expect(page.locator(".card.mine")).to_have_count(2)
    expect(page.locator("#found")).to_have_text("Alice holds 2 GPUs with 80 GB in use")
    page.get_by_label("mine", exact=True).check()
    assert shown_cards(page) == ["node1:1", "node2:1"]
    # The browser hears of a changed address a moment later than the page, and loads again what it has heard of.
    expect(page).to_have_url(re.compile("mine=1"))
    page.goto(page.url)
    expect(page.get_by_label("I am")).to_have_value("Alice")
    assert shown_cards(page) == ["node1:1", "node2:1"]


def test_who_has_a_name_to_show_is_found_by_login_too(open_page: OpenPage) -> None:
    settings = replace(config(*HOSTS), users={"alice": "Dr. A. Liddell"})
    page = open_page(render_page(build_page(lab(), settings, NOW))).page
    expect(page.locator("[id='host-node1:1'] .state")).to_have_text("Dr. A. Liddell")
    page.get_by_label("I am").fill("Alice")
    expect(page.locator(".card.mine")).to_have_count(2)
    search(page).fill("alice")
    assert shown_cards(page) == ["node1:1", "node2:1"]
    search(page).fill("liddell")
    assert shown_cards(page) == ["node1:1", "node2:1"]


def test_every_model_of_the_summary_leads_to_its_cards(page: Page) -> None:
    tiles = page.locator(".models button")
    for place in range(tiles.count()):
        tile = tiles.nth(place)
        tile.click()
        wanted = tile.get_attribute("data-model")
        assert shown_cards(page), wanted
        models = page.locator(":is(.card[tabindex], .cut):visible > bdi").all_text_contents()
        assert wanted
        assert all(model.endswith(wanted) or wanted.endswith(model) for model in models)
        tile.click()


# Views


def test_the_strip_has_each_host_by_group_with_a_mark_per_gpu_and_leads_to_the_host(
    open_page: OpenPage,
) -> None:
    page = open_page(page_of(lab()), viewport={"width": 1000, "height": 400}).page
    link = page.locator(".strip a[href='#host-node4']")
    expect(link).to_have_text(re.compile("node4: 0 of 1 free"))
    expect(page.locator(".strip b")).to_have_text(["language", "teaching", "vision"])
    marks = page.locator(".strip a[href='#host-node2'] svg")
    kinds = marks.evaluate_all("pips => pips.map(p => p.classList[0])")
    assert kinds == ["free", "busy", "held"]
    expect(page.locator("#host-node4")).not_to_be_in_viewport()
    link.click()
    expect(page.locator("#host-node4 h2")).to_be_in_viewport()
    bar = page.locator(".toolbar").bounding_box()
    head = page.locator("#host-node4 h2").bounding_box()
    assert bar is not None
    assert head is not None
    assert bar["y"] == 0
    assert head["y"] >= bar["height"]


def test_the_table_has_a_row_per_gpu_and_sorts_by_each_column(page: Page) -> None:
    page.get_by_title("Table").click()
    expect(page.locator(".hosts")).to_be_hidden()
    rows = page.locator(".table-view tr[data-card]")
    expect(rows).to_have_count(10)
    expect(rows.nth(1)).to_have_text(
        re.compile(r"node1.*1.*A100 80G.*busy.*97 %.*40 / 80 GB.*alice.*3 h.*31 °C.*52 W")
    )
    page.get_by_role("button", name="Load").click()
    expect(page.locator(".table-view th[aria-sort]")).to_have_text("Load")
    loads = rows.locator("td:nth-child(5)")
    expect(loads.first).to_have_text("97 %")
    expect(loads.last).to_have_text("–")
    page.get_by_role("button", name="Load").click()
    expect(loads.first).to_have_text("0 %")
    expect(loads.last).to_have_text("–")


def test_a_row_of_the_table_has_the_tooltip_of_its_card(page: Page) -> None:
    page.get_by_title("Table").click()
    page.locator(".table-view tbody tr").nth(1).focus()
    expect(page.locator(".table-view tbody tr").nth(1).locator(".tip")).to_contain_text("alice")


def test_the_compact_view_is_small_and_keeps_the_tooltips(page: Page) -> None:
    tall = page.locator("#host-node1").bounding_box()
    page.get_by_title("Compact").click()
    small = page.locator("#host-node1").bounding_box()
    assert tall is not None
    assert small is not None
    assert small["height"] < tall["height"] / 2
    page.locator("[id='host-node1:1']").hover()
    expect(page.locator(".tip")).to_be_visible()
    expect(page.locator(".tip")).to_contain_text("alice")


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
    page.get_by_role("spinbutton", name="with GB").fill("40")
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
        "No host has 8 free GPUs now. node1 comes closest, with 2 of 8."
        " Ask alice (has 2), bob (has 1), mia (has 1) Held idle node2 GPU 2 (bob)"
    ]
    expect(page.get_by_role("button", name="tell me")).to_be_visible()
    page.locator("#answers").get_by_role("link", name="alice").click()
    expect(page.locator("#thing h2")).to_have_text("alice")


def test_when_nothing_fits_in_a_group_or_for_words_those_are_named_who_hold_that(page: Page) -> None:
    page.get_by_label("GPUs", exact=True).first.fill("8")
    page.locator("#find [name=group]").select_option("teaching")
    assert answers(page) == ["No host has 8 free GPUs now (group teaching). Ask mia (has 1)"]
    page.locator("#find [name=group]").select_option("")
    page.locator("#find [name=q]").fill("node2")
    assert answers(page) == [
        "No host has 8 free GPUs now (“node2”). node2 comes closest, with 1 of 8."
        " Ask alice (has 1), bob (has 1) Held idle node2 GPU 2 (bob)"
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
