"""`[site] contact`: who can be written to, and that no login changes where a message goes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from gpumon_static.config.file import load
from gpumon_static.errors import ConfigError
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.tabs.contact import contact_link, writer
from gpumon_static.publish.page.view import build_page
from tests.builders import NOW, busy_gpu, config, process, reading

MAIL = "mailto:{login}@lab.example"
CHAT = "https://chat.lab.example/messages/@{login}"
HOSTILE = (
    "", ".", "..", "../admin", "a,b", "a;b", "a b", "a@evil.example", "a%40evil.example", "a?bcc=b@evil.example",
    "a&cc=b", "a\nBcc: b", 'a"b', "<a>", "a/b", "a\\b", "javascript:alert(1)", "a#b", "{login}", "x" * 65,
    "\u202eadmin",
)  # fmt: skip


def test_a_login_is_put_into_the_address() -> None:
    assert contact_link(MAIL, "jonas.k") == "mailto:jonas.k@lab.example"
    assert contact_link(CHAT, "jonas_k") == "https://chat.lab.example/messages/@jonas_k"
    assert contact_link(CHAT, "jörg") == "https://chat.lab.example/messages/@j%C3%B6rg"


@pytest.mark.parametrize("login", HOSTILE)
@pytest.mark.parametrize("contact", [MAIL, CHAT])
def test_a_login_that_could_change_the_address_gets_no_link(contact: str, login: str) -> None:
    assert contact_link(contact, login, "subject", "text") == ""


def test_subject_and_text_arrive_as_they_were() -> None:
    text = "Hi, 50 % & more?\nThank you! #1 ü"
    link = contact_link(MAIL, "mira", "Held idle: node1 GPU 0", text)
    parts = urlsplit(link)
    assert (parts.scheme, parts.path) == ("mailto", "mira@lab.example")
    assert parse_qs(parts.query) == {"subject": ["Held idle: node1 GPU 0"], "body": [text]}
    assert len(contact_link(MAIL, "mira", "s", "x" * 100_000)) < 2000
    assert "body" not in contact_link(CHAT, "mira", "s", "text"), "a chat takes no text"


def test_a_shown_name_is_written_to_by_its_login() -> None:
    write = writer(MAIL, {"Jonas K.": "jonas jk2"})
    assert unquote(write("Jonas K.", "", "")) == "mailto:jonas@lab.example"
    assert writer(None, {})("jonas", "", "") == ""


@pytest.mark.parametrize(
    "value",
    ["{login}@lab.example", "http://chat/{login}", "https://{login}.lab.example/", "https://chat/x", "javascript:{login}",
     "mailto:{login}{login}@lab", "mailto:a b{login}@lab", "mailto:{user}@lab", "https://me:pw@chat/{login}",
     "mailto:{login}@" + 600 * "x"],
)  # fmt: skip
def test_other_addresses_are_errors_of_the_config(tmp_path: Path, value: str) -> None:
    (tmp_path / "config.ini").write_text(f'[common]\nhosts = ["a"]\n[site]\ncontact = "{value}"\n')
    with pytest.raises(ConfigError, match="site.contact"):
        load(tmp_path / "config.ini")


@pytest.mark.parametrize(("users", "is_there"), [("names", True), ("pseudonyms", False), ("counts", False)])
def test_only_a_page_with_names_has_addresses(users: str, is_there: bool) -> None:
    lab = config("node1")
    lab = replace(lab, site=replace(lab.site, contact=MAIL, users=users))
    there = reading("node1", [busy_gpu(processes=(process(user="mira"),))])
    text = render_page(build_page([there], lab, NOW, key=b"key"))
    assert ("mailto:" in text) is is_there
    assert ('href="mailto:mira@lab.example"' in text) is is_there


def test_a_hostile_login_is_text_and_no_link() -> None:
    lab = config("node1")
    lab = replace(lab, site=replace(lab.site, contact=MAIL))
    there = reading("node1", [busy_gpu(processes=(process(user='a"><b>?bcc=x@evil.example'),))])
    text = render_page(build_page([there], lab, NOW))
    assert "mailto:" not in text
    assert "<b>?bcc" not in text
