"""`render`: several pages in one run, a lab's own look, and all or nothing."""

from __future__ import annotations

import base64
import gzip
import json
import re
import signal
import subprocess
import sys
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


BLOCKS_OF_0_1_0 = (
    "title icon head header banner summary picker attention toolbar hosts idle people history footer scripts"
).split()


@pytest.mark.parametrize("block", BLOCKS_OF_0_1_0)
def test_a_template_that_overrides_a_block_of_0_1_0_still_does(tmp_path: Path, block: str) -> None:
    own = tmp_path / "mine"
    own.mkdir()
    text = '{% extends "base.html.j2" %}{% block NAME %}<!-- of the lab -->{{ super() }}{% endblock %}'
    (own / "index.html.j2").write_text(text.replace("NAME", block))
    page = (rendered(tmp_path, '[site]\ntemplates = "mine"\n') / "index.html").read_text()
    assert page.count("<!-- of the lab -->") == 1
    assert "A100 80G" in page


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


# All files of a render, or none


def on_a_small_disk(folder: Path, room_kb: int) -> str:
    """A render on a disk of its own, then one of other pages with so much room left: what it said and changed."""
    folder.mkdir()
    site = rendered(folder, PAGES)
    size = sum(path.stat().st_size // 4096 * 4 + 4 for path in site.iterdir()) + 8
    script = f"""
mount --make-rprivate /
mount -t tmpfs -o size={size + room_kb}k tmpfs {site}
cd {folder}
{sys.executable} -m gpumon_static render
sha256sum site/* > before
sed -i 's/In the corridor/Somewhere else/' config.ini
code=0
{sys.executable} -m gpumon_static render || code=$?
sha256sum site/* > after
cmp -s before after && echo same || echo changed
echo "exit $code"
ls -A site | grep tmp || true
"""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-euc", script], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_a_disk_that_fills_up_between_two_files_leaves_every_file_as_it_was(tmp_path: Path) -> None:
    ends = set()
    for room_kb in (0, 120, 400, 4000):
        told = on_a_small_disk(tmp_path / str(room_kb), room_kb)
        if "exit 1" in told:
            assert told.startswith("same\nexit 1\ngpumon-static: cannot write "), told
            assert told.endswith("No space left on device\n"), told
        else:
            assert told == "changed\nexit 0\n"
        ends.add(told.split()[2])
    assert ends == {"0", "1"}


def test_a_read_only_site_stays_as_it_was(tmp_path: Path) -> None:
    site = rendered(tmp_path, PAGES)
    before = {path.name: path.read_bytes() for path in site.iterdir()}
    script = f"mount --make-rprivate /; mount --bind {site} {site}; mount -o remount,bind,ro {site}"
    command = f"{script}; exec {sys.executable} -m gpumon_static render -c {tmp_path}/config.ini"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-euc", command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"gpumon-static: cannot write {site}/gpus.json: Read-only file system\n"
    assert {path.name: path.read_bytes() for path in site.iterdir()} == before


def test_a_file_that_cannot_be_replaced_is_found_before_the_others_are(tmp_path: Path) -> None:
    site = rendered(tmp_path, PAGES)
    before = {path.name: path.read_bytes() for path in site.iterdir() if path.name != "vision.html"}
    (site / "vision.html").unlink()
    (site / "vision.html").mkdir()
    with pytest.raises(GpumonError, match=r"cannot write .*/vision.html: Is a directory$"):
        rendered(tmp_path, PAGES.replace("In the corridor", "Somewhere else"))
    assert {path.name: path.read_bytes() for path in site.iterdir() if path.is_file()} == before


def test_a_render_that_is_killed_never_leaves_an_older_packed_page(tmp_path: Path) -> None:
    """Killed at each rename: at most the pair between whose renames it happened differs, and only for a while."""
    site = rendered(tmp_path, "")
    names = [path.name for path in site.iterdir()]
    for number in range(len(names)):
        title = f"Title {number}"
        (tmp_path / "config.ini").write_text(f'{HOSTS}[site]\nfooter = "{title}"\n')
        script = f"""
import os, signal
from pathlib import Path
from gpumon_static.commands.cli import main
replace, renames = Path.replace, []
def counted(self, target):
    if len(renames) == {number}:
        os.kill(os.getpid(), signal.SIGKILL)
    renames.append(target)
    return replace(self, target)
Path.replace = counted
main(["render", "-c", {str(tmp_path / "config.ini")!r}])
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
        assert done.returncode == -signal.SIGKILL
        packed = {n: gzip.decompress((site / f"{n}.gz").read_bytes()) for n in names if f"{n}.gz" in names}
        torn = [name for name, content in packed.items() if (site / name).read_bytes() != content]
        assert len(torn) <= 1, (number, torn)
        assert all(title.encode() in packed[name] for name in torn if name.endswith(".html"))


def test_what_is_no_longer_made_is_removed_if_we_made_it(tmp_path: Path) -> None:
    """A page that was taken out of the config stays readable for ever otherwise."""
    site = rendered(tmp_path, "[site]\ncsv = true\n" + PAGES)
    (site / "own.html").write_text("the lab's own")
    (site / "vision.html").write_text("somebody has put another page here")
    assert rendered(tmp_path, "") == site
    names = {path.name for path in site.iterdir()}
    assert not names & {
        "corridor.html",
        "corridor.html.gz",
        "load_data.csv",
        "load_data.csv.gz",
        "vision.html.gz",
    }
    assert names >= {"own.html", "vision.html", "index.html", "index.html.gz", "gpus.json"}
    # Its owner may make it again.
    assert (rendered(tmp_path, PAGES) / "corridor.html").exists()


def test_files_of_another_site_and_links_are_left_alone(tmp_path: Path) -> None:
    old = rendered(tmp_path, PAGES)
    (old / "corridor.html").rename(tmp_path / "kept.html")
    (old / "corridor.html").symlink_to(tmp_path / "kept.html")
    assert (rendered(tmp_path, "[paths]\nsite = 'elsewhere'\n") / "index.html").exists()
    assert (old / "vision.html").exists()
    rendered(tmp_path, PAGES.replace("corridor", "lift"))
    (old / "lift.html").unlink()
    (old / "lift.html").symlink_to(tmp_path / "kept.html")
    rendered(tmp_path, "")
    assert (old / "corridor.html").is_symlink()
    assert (old / "lift.html").is_symlink()
    assert (tmp_path / "kept.html").exists()


def test_a_damaged_list_of_files_removes_nothing_and_stops_nothing(tmp_path: Path) -> None:
    site = rendered(tmp_path, PAGES)
    outside = json.dumps({"site": str(site), "files": {"../config.ini": ""}})
    for content in ("", "[]", '{"site": 1}', outside):
        (tmp_path / "data/site-files.json").write_text(content)
        assert rendered(tmp_path, "[site]\ncsv = true\n") == site
        assert (site / "corridor.html").exists()
        assert (tmp_path / "config.ini").exists()
