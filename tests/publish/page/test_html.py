"""The page as HTML: self-contained, escaped, bounded."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from urllib.parse import unquote

import jinja2
import pytest

from gpumon_static.model import Gpu, HostReading
from gpumon_static.publish.page import html
from gpumon_static.publish.page.view import build_page
from gpumon_static.system import resources
from tests.builders import NOW, busy_gpu, config, failed, gpu, process, reading, slices

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    '"><script>alert(1)</script>',
    "{{7777*7777}}",
    "\u202egnp.exe",
    "🦄",
]


class Elements(HTMLParser):
    """Every start tag of a page with its attributes, and the text inside style and script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inlined: dict[str, list[str]] = {"style": [], "script": []}
        self._is_data = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._is_data = dict(attrs).get("type") == "application/json"

    def handle_data(self, data: str) -> None:
        if self.cdata_elem in self.inlined and not self._is_data:
            self.inlined[self.cdata_elem].append(data)

    def values(self, attribute: str) -> list[str]:
        return [str(attributes[attribute]) for _, attributes in self.found if attribute in attributes]


def page_of(*readings: HostReading, refresh: int = 0, title: str = "GPU Monitor") -> str:
    hosts = config(*(r.host for r in readings), refresh=refresh, title=title)
    return html.render_page(build_page(readings, hosts, NOW))


def full_page() -> str:
    return page_of(
        reading("a", [gpu(0), busy_gpu(1), Gpu(2, processes_known=False)], warning="infoROM is corrupted"),
        reading("b", [gpu(0, mig_mode=True, slices=slices(3, 1))]),
        *(failed(f"c{number}") for number in range(12)),
        refresh=60,
    )


def policy(elements: Elements) -> dict[str, list[str]]:
    content = next(
        str(attributes["content"])
        for tag, attributes in elements.found
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    return {words[0]: words[1:] for words in (part.split() for part in content.split(";"))}


def test_the_policy_allows_what_is_inlined_and_nothing_else() -> None:
    elements = Elements(full_page())
    rules = policy(elements)
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        digests = [hashlib.sha256(text.encode()).digest() for text in elements.inlined[tag]]
        assert rules[rule] == [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
    assert rules["default-src"] == ["'none'"]
    assert "unsafe" not in repr(rules)


def test_the_policy_stands_before_everything_it_is_about() -> None:
    tags = [tag for tag, _ in Elements(full_page()).found]
    assert tags.index("meta") < tags.index("title") < tags.index("style") < tags.index("script")


def test_nothing_is_loaded_from_anywhere() -> None:
    elements = Elements(full_page())
    assert elements.values("src") == []
    assert elements.values("srcset") == []
    links = [href for href in elements.values("href") if not href.startswith("#")]
    # The feed is there to be found, and the footer's links to be clicked; browsers do not load them.
    footer = ["gpufree", "free.txt", "gpus.json", "badge.svg", "feed.xml"]
    assert [link.split(",")[0] for link in links] == ["feed.xml", "data:image/svg+xml", *footer]
    styles = "".join(elements.inlined["style"])
    assert not re.search(r"@import", styles)
    assert set(re.findall(r'url\("(data:|#)', styles)) == {"data:"}
    assert len(re.findall(r'url\("(?:data:|#)', styles)) == styles.count("url(")


def test_no_attribute_holds_style_or_script() -> None:
    attributes = {name for _, attributes in Elements(full_page()).found for name in attributes}
    assert {name for name in attributes if name == "style" or name.startswith("on")} == set()


def test_every_link_and_every_description_has_its_target() -> None:
    elements = Elements(full_page())
    ids = elements.values("id")
    assert len(ids) == len(set(ids))
    named = elements.values("aria-labelledby")
    links = [unquote(href.removeprefix("#")) for href in elements.values("href") if href.startswith("#")]
    assert len(named) == 14 + 2 + 6 + 1
    assert set(named) | set(links) <= set(ids)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_every_place_stays_text(text: str) -> None:
    plain = page_of(
        reading("a", [busy_gpu(processes=(process(job="job"),))], warning="w"), failed("b"), title="t"
    )
    someone = process(user=text, name=text, job=text)
    hostile = page_of(
        reading(
            "a",
            [busy_gpu(name=text, uuid=text, processes=(someone,))],
            warning=text,
            driver_version=text,
            cuda_version=text,
        ),
        failed("b", error=text),
        title=text,
    )
    assert [tag for tag, _ in Elements(hostile).found] == [tag for tag, _ in Elements(plain).found]
    assert "60481729" not in hostile


def test_the_data_block_is_json_that_cannot_end_its_script() -> None:
    names = ["</script><script>x</script>", "<!--", "\u2028", "&lt;", "🦄"]
    crowd = tuple(process(pid, user=name) for pid, name in enumerate(names))
    text = page_of(reading("a", [busy_gpu(processes=crowd)]))
    found = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)
    assert found
    block = found.group(1)
    assert not set("<>&\u2028\u2029") & set(block)
    data = json.loads(block)
    assert sorted(data["users"]) == sorted(names)
    [host] = data["hosts"]
    assert host[:2] == ["host-a", "a"]
    assert host[-1][0][:6] == ["0", 1, 0, 97, 41000, 81920]


def test_templates_mark_nothing_as_safe() -> None:
    templates = list(resources.find("templates").rglob("*.j2"))
    assert len(templates) > 5
    for template in templates:
        assert not re.search(r"\|\s*safe|autoescape|Markup", template.read_text(encoding="utf-8")), template


def test_a_template_that_asks_for_something_unknown_fails_instead_of_showing_nothing() -> None:
    with pytest.raises(jinja2.UndefinedError):
        html._environment().from_string("{{ page.no_such_thing }}").render(
            page=build_page([], config("a"), NOW)
        )


@pytest.mark.parametrize(("refresh", "expected"), [(60, ["60"]), (0, [])])
def test_without_javascript_the_browser_asks_again_as_configured(refresh: int, expected: list[str]) -> None:
    text = page_of(reading("a", [gpu()]), refresh=refresh)
    inside = re.findall(r'<noscript><meta http-equiv="refresh" content="(\d+)"></noscript>', text)
    assert inside == expected


def test_an_idle_gpu_costs_well_under_three_kilobytes() -> None:
    one, many = (
        len(page_of(reading("a", [gpu(index) for index in range(count)])).encode()) for count in (1, 101)
    )
    assert (many - one) / 100 < 1300


def test_a_host_that_lists_ten_thousand_processes_does_not_make_the_page_explode() -> None:
    def size(count: int) -> int:
        crowd = tuple(process(pid, user="u" * 500, name="n" * 5000, job="j" * 5000) for pid in range(count))
        return len(page_of(reading("a", [busy_gpu(processes=crowd)])))

    assert size(10_000) - size(10) < 100
    assert size(10_000) - size(0) < 7000


def test_no_file_of_ours_ends_the_element_it_is_put_into() -> None:
    for asset in resources.find("assets").iterdir():
        assert not re.search(r"</(?:style|script)", asset.read_text(encoding="utf-8"), re.IGNORECASE), asset
