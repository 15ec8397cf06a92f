"""`render`: several pages in one run, a lab's own look, and all or nothing."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from gpumon_static.commands.render import render
from gpumon_static.config import file as config_file
from gpumon_static.errors import ConfigError, GpumonError
from gpumon_static.publish.page.branding import PAPER, Branding, image_kind, readable
from gpumon_static.store import snapshot
from tests.builders import NOW, busy_gpu, gpu, reading

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
SVG = b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>'

HOSTS = """
[common]
hosts = ["a", "b"]
[hosts.a]
group = "vision"
[hosts.b]
group = "language"
"""


def rendered(folder: Path, site: str) -> Path:
    path = folder / "config.ini"
    path.write_text(HOSTS + site)
    config = config_file.load(path)
    if not config.csv_path.exists():
        snapshot.write(config.csv_path, [reading("a", [busy_gpu()]), reading("b", [gpu()])])
    return render(config, NOW).parent


PAGES = """
[[site.pages]]
file = "corridor.html"
title = "In the corridor"
users = "counts"
[[site.pages]]
file = "vision.html"
users = "pseudonyms"
groups = ["vision"]
"""


def test_several_pages_with_their_own_tier_title_and_groups(tmp_path: Path) -> None:
    site = rendered(tmp_path, PAGES)
    pages = {path.name: path.read_text() for path in site.glob("*.html")}
    assert sorted(pages) == ["corridor.html", "index.html", "vision.html"]
    assert {name for name, text in pages.items() if "alice" in text} == {"index.html"}
    assert "<h1>In the corridor</h1>" in pages["corridor.html"]
    assert "<h1>GPU Monitor</h1>" in pages["vision.html"]
    assert 'id="host-b"' in pages["corridor.html"]
    assert 'id="host-b"' not in pages["vision.html"]
    assert re.search(r"[a-z]+-[a-z]+-\d{3}", pages["vision.html"].split("<body")[1])


def test_pseudonyms_are_the_same_in_the_next_run(tmp_path: Path) -> None:
    site = rendered(tmp_path, PAGES)
    first = (site / "vision.html").read_text()
    rendered(tmp_path, PAGES)
    assert (site / "vision.html").read_text() == first
    assert not list(site.glob("*.key"))


def test_the_main_page_can_be_said_in_the_list_too(tmp_path: Path) -> None:
    site = rendered(tmp_path, '[[site.pages]]\nfile = "index.html"\nusers = "counts"\n')
    assert [path.name for path in site.glob("*.html")] == ["index.html"]
    assert "alice" not in (site / "index.html").read_text()


@pytest.mark.parametrize(
    ("pages", "problem"),
    [
        (
            '[[site.pages]]\nfile = "../x.html"',
            "site.pages 1.file: must be a file name such as 'corridor.html'",
        ),
        ('[[site.pages]]\nfile = "x.html"\nuser = "counts"', "site.pages 1.user: unknown key"),
        (
            '[[site.pages]]\nfile = "x.html"\ngroups = ["visoin"]',
            "site.pages 1.groups: no host is in 'visoin'",
        ),
        (
            '[[site.pages]]\nfile = "x.html"\n[[site.pages]]\nfile = "x.html"',
            "site.pages 2.file: x.html is written twice",
        ),
        ('[[site.pages]]\nusers = "none"\nfile = "x.html"', "site.pages 1.users: must be 'names' or"),
        ('[site]\npages = "x.html"', "site.pages: must be written as [[site.pages]]"),
        ('[site]\naccent = "red"', "site.accent: must be a colour such as '#1f57c3'"),
        ('[site]\nusers = "all"', "site.users: must be 'names' or 'pseudonyms' or 'counts'"),
        ("[site]\ninterval = 0", "site.interval: must be a whole number from 1"),
    ],
)
def test_what_is_wrong_with_the_sites_config_is_said(tmp_path: Path, pages: str, problem: str) -> None:
    (tmp_path / "config.ini").write_text(HOSTS + pages)
    with pytest.raises(ConfigError) as caught:
        config_file.load(tmp_path / "config.ini")
    assert len(caught.value.problems) == 1
    assert problem in caught.value.problems[0]


# A lab's own look


def test_own_templates_override_block_by_block(tmp_path: Path) -> None:
    own = tmp_path / "mine"
    own.mkdir()
    (own / "index.html.j2").write_text(
        '{% extends "base.html.j2" %}{% block footer %}<p>Ask {{ page.title }}</p>{% endblock %}'
    )
    (own / "custom.css").write_text(".card { border-width: 3px; }")
    text = (rendered(tmp_path, '[site]\ntemplates = "mine"\n') / "index.html").read_text()
    assert "<p>Ask GPU Monitor</p>" in text
    assert "Page made" not in text
    assert "A100 80G" in text
    assert "<style>.card { border-width: 3px; }</style>" in text


def test_our_base_can_be_extended_by_a_base_of_the_labs(tmp_path: Path) -> None:
    own = tmp_path / "mine"
    own.mkdir()
    (own / "base.html.j2").write_text('{% extends "gpumon/base.html.j2" %}{% block people %}{% endblock %}')
    text = (rendered(tmp_path, '[site]\ntemplates = "mine"\n') / "index.html").read_text()
    assert 'class="people"' not in text
    assert "A100 80G" in text


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("\n{% block x %}", "index.html.j2, line 2: Unexpected end of template"),
        (
            '{% extends "base.html.j2" %}\n{% block footer %}{{ page.nothing }}{% endblock %}',
            "line 2: .*nothing",
        ),
    ],
)
def test_a_mistake_in_an_own_template_names_file_and_line_and_leaves_the_last_page(
    tmp_path: Path, template: str, problem: str
) -> None:
    own = tmp_path / "mine"
    own.mkdir()
    settings = '[site]\ntemplates = "mine"\n' + PAGES
    site = rendered(tmp_path, settings)
    before = (site / "index.html").read_text()
    (own / "index.html.j2").write_text(template)
    with pytest.raises(GpumonError, match=problem):
        rendered(tmp_path, settings.replace("In the corridor", "New"))
    assert (site / "index.html").read_text() == before
    assert "In the corridor" in (site / "corridor.html").read_text()


def test_logo_accent_and_footer(tmp_path: Path) -> None:
    (tmp_path / "logo.svg").write_bytes(SVG)
    site = '[site]\nlogo = "logo.svg"\naccent = "#00FF00"\nfooter = "Help: https://wiki.example/gpu <b>"\n'
    text = (rendered(tmp_path, site) / "index.html").read_text()
    assert f'src="data:image/svg+xml;base64,{base64.b64encode(SVG).decode()}"' in text
    assert '<a href="https://wiki.example/gpu" rel="noopener noreferrer">' in text
    assert "&lt;b&gt;" in text
    light, dark = re.findall(r"--accent: light-dark\((#\w+), (#\w+)\);\n}", text)[-1]
    assert dark == "#00ff00"
    assert light != dark


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"hello", "is not an SVG, PNG"), (PNG + bytes(70_000), "at most 64 kB"), (None, "cannot be read")],
)
def test_a_logo_that_cannot_be_shown_is_an_error(tmp_path: Path, content: bytes | None, problem: str) -> None:
    if content is not None:
        (tmp_path / "logo.png").write_bytes(content)
    with pytest.raises(ConfigError, match=problem):
        rendered(tmp_path, '[site]\nlogo = "logo.png"\n')


def test_what_an_image_is_is_seen_inside_it() -> None:
    assert image_kind(PNG) == "image/png"
    assert image_kind(b"RIFF0000WEBPVP8 ") == "image/webp"
    assert image_kind(b"\xff\xd8\xff\xe0") == "image/jpeg"
    assert image_kind(b"GIF89a") == "image/gif"
    assert image_kind(b"MZ") is None


def test_any_accent_can_be_read_in_both_themes() -> None:
    assert readable("#1f57c3", PAPER) == "#1f57c3"
    assert readable("#ffff00", PAPER) == "#737300"
    assert Branding().style is None
