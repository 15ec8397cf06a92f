"""The documents cannot drift from the program."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from gpumon_static.config import file as config_file
from gpumon_static.config import settings
from gpumon_static.config.checks import EVENT_TYPES
from gpumon_static.errors import AlreadyRunning, ConfigError, GpumonError
from gpumon_static.model import STATUS_MEANINGS, Status
from gpumon_static.model.rules import RULES
from gpumon_static.publish.exports.metrics import FAMILIES
from gpumon_static.store import columns
from tests.places import ROOT
from tools import offline, reference
from tools.command_reference import all_commands, option_names, options_of

README = (ROOT / "README.md").read_text()
EXAMPLE = (ROOT / "config.example.ini").read_text()
PAGES = sorted((ROOT / "docs").glob("*.md"))
COMMANDS = {context.command_path: context for context in all_commands()}
FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def doc(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def keys() -> list[tuple[str, str]]:
    return [(section, f.name) for section, kind in settings.SECTIONS.items() for f in fields(kind)]


# config.example.ini


def test_the_example_config_loads(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text(EXAMPLE)
    loaded = config_file.load(tmp_path / "config.ini")
    assert [h.name for h in loaded.hosts][:2] == ["gpu01.lab.example", "gpu02.lab.example"]
    assert loaded.hosts[-1].gpus == 8


@pytest.mark.parametrize(("section", "key"), [pair for pair in keys() if pair[0] not in ("common", "slurm")])
def test_the_example_config_shows_the_defaults(tmp_path: Path, section: str, key: str) -> None:
    (tmp_path / "example.ini").write_text(EXAMPLE)
    (tmp_path / "bare.ini").write_text("[common]\nhosts = 'a'\n")
    example, bare = (config_file.load(tmp_path / name) for name in ("example.ini", "bare.ini"))
    assert getattr(getattr(example, section), key) == getattr(getattr(bare, section), key)


def test_the_slurm_of_the_example_config_loads(tmp_path: Path) -> None:
    start = EXAMPLE.index("# [slurm]")
    section = EXAMPLE[start : EXAMPLE.index("\n\n", start)]
    shown = re.sub("^# ", "", section, flags=re.MULTILINE)
    (tmp_path / "config.ini").write_text(EXAMPLE.replace(section, shown))
    (cluster,) = config_file.load(tmp_path / "config.ini").clusters
    assert (cluster.asked.alias, len(cluster.hosts), cluster.order) == ("login1", 4, (3, 2, 1, 0))
    assert all(f"\n{f.name} = " in shown for f in fields(settings.SlurmConfig))


# The generated tables


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_in_step_with_the_code(page: Path) -> None:
    assert page.read_text() == reference.filled(page.read_text()), "run `make docs`"


def test_every_table_is_on_a_page() -> None:
    placed = [name for page in PAGES for _, name, _ in reference.BLOCK.findall(page.read_text())]
    assert sorted(placed) == sorted(reference.TABLES)


def test_a_page_that_is_out_of_step_is_found() -> None:
    old = "<!-- generated: statuses -->\n\n| `ok` | fine |\n\n<!-- /generated -->\n"
    assert reference.filled(old) != old


@pytest.mark.parametrize(("section", "key"), keys())
def test_every_key_is_in_the_example_and_in_the_table(section: str, key: str) -> None:
    assert f"\n{key} = " in EXAMPLE or f"\n# {key} = " in EXAMPLE
    (row,) = (
        row
        for part in doc("config.md").split(f"| `[{section}]` |")[1:]
        for row in re.split(r"\n\| `\[", part)[0].splitlines()
        if re.match(rf"(\|  \|)? `{key}` \|", row)
    )
    assert row.strip("| ").split(" | ")[-1].strip()


@pytest.mark.parametrize("key", settings.HOST_KEYS)
def test_every_key_of_a_host_is_in_the_table(key: str) -> None:
    assert f"`{key}`" in doc("config.md").split("`[hosts.NAME]`", 1)[1]


def test_the_table_of_keys_says_what_a_key_takes() -> None:
    text = doc("config.md")
    assert "| `workers` | `64` | a whole number from 1 to 1000 |" in text
    assert '| `transport` | `"paramiko"` | `"paramiko"` or `"openssh"` or `"local"` |' in text
    assert '| `idle_after` | `"1h"` | a length of time such as' in text
    assert '| `disks` | `["/"]` | a list of strings |' in text
    assert "| `csv` | `false` | true or false |" in text


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_a_section_with_all_its_options(path: str) -> None:
    section = doc("commands.md").split(f"\n## `{path}`\n")[1].split("\n## ")[0]
    listed = {
        name for row in re.findall(r"^\| (`-.*?) \| \S", section, re.MULTILINE) for name in words_in(row)
    }
    assert listed == {name for option in options_of(COMMANDS[path]) for name in option_names(option)}, (
        f"options of {path}"
    )


def words_in(cell: str) -> list[str]:
    """`-n`, `--number NUMBER`: the first word of each code."""
    return [code.split()[0] for code in re.findall(r"`([^`]+)`", cell)]


def test_subcommands_and_short_options_are_among_them() -> None:
    assert "gpumon-static history export" in COMMANDS
    section = doc("commands.md").split("\n## `gpumon-static history export`\n")[1]
    assert "| `-o`, `--output PATH` |" in section


@pytest.mark.parametrize("status", Status)
def test_every_status_has_a_meaning_and_something_to_do(status: Status) -> None:
    assert f"| `{status}` | {STATUS_MEANINGS[status]} |" in doc("outputs.md")
    if status is not Status.OK:
        assert f"`{status}`" in doc("connecting.md").split("## When a host does not answer")[1]


@pytest.mark.parametrize("column", columns.COLUMNS)
def test_every_column_has_a_meaning(column: str) -> None:
    assert re.search(rf"^\| `{column}` \| \S", doc("outputs.md"), re.MULTILINE)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_metric_is_in_the_table(name: str) -> None:
    assert re.search(
        rf"^\| `{name}` \| .*\| {re.escape(FAMILIES[name])} \|$", doc("outputs.md"), re.MULTILINE
    )


@pytest.mark.parametrize("rule", RULES)
def test_every_health_rule_is_in_the_table(rule: str) -> None:
    assert re.search(rf"^\| `{rule}` \| \S", doc("health.md"), re.MULTILINE)


@pytest.mark.parametrize("event", EVENT_TYPES)
def test_every_event_is_explained(event: str) -> None:
    assert f"| `{event}` |" in doc("notifications.md")


@pytest.mark.parametrize("code", [GpumonError.exit_code, ConfigError.exit_code, AlreadyRunning.exit_code])
def test_every_exit_status_is_explained(code: int) -> None:
    assert f"\n| {code} |" in doc("commands.md")


def test_every_block_of_the_templates_is_named() -> None:
    blocks = re.findall(r"{% block (\w+) %}", (ROOT / "templates/base.html.j2").read_text())
    assert blocks
    listed = doc("page.md").split("Blocks:")[1].split(". ")[0]
    assert re.findall(r"`(\w+)`", listed) == blocks


# What is written by hand


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_a_config_on_a_page_is_valid(tmp_path: Path, page: Path) -> None:
    for indent, language, code in FENCED.findall(page.read_text()):
        # Commands to choose from are one key several times.
        if language != "toml" or code.count("\ncommand = ") > 1:
            continue
        text = re.sub(f"^{indent}", "", code, flags=re.MULTILINE)
        own = tomllib.loads(text)
        for name in ("logo", "templates"):
            if name in own.get("site", {}):
                (tmp_path / own["site"][name]).touch()
        hosts = "[common]\nhosts = 'a'\n[hosts.a]\ngroup = 'vision'\n"
        hosts = "" if "hosts" in own.get("common", {}) else hosts
        (tmp_path / "config.ini").write_text(f"{hosts}{text}")
        assert config_file.load(tmp_path / "config.ini").hosts


def test_the_readme_fits_on_two_screens() -> None:
    assert len(README.splitlines()) <= 200


def test_the_readme_has_no_picture_that_a_package_index_could_not_show() -> None:
    assert not re.findall(r"!\[|<img", README)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_between_files_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)", (ROOT / name).read_text()):
        assert target.startswith("https://") or (ROOT / target).is_file(), target


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    named = re.findall(r"`((?:deploy|tests|templates|assets|tools|docs)/[\w./-]+)`", page.read_text())
    for path in named:
        assert (ROOT / path).exists(), path


def test_modules_that_the_architecture_names_are_there() -> None:
    rooms = "collect|store|survey|publish|terminal|check|commands|config|demo|notify"
    named = re.findall(rf"`((?:{rooms})/[\w./]+)`", doc("architecture.md"))
    assert len(named) > 20
    for path in named:
        assert (ROOT / "gpumon_static" / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_is_in_the_menu(page: Path) -> None:
    assert f": {page.name}\n" in (ROOT / "mkdocs.yml").read_text()


# tools/offline.py


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//cdn.example/x.css">',
        "<style>@import 'https://cdn.example/x.css';</style>",
        '<img src="http://cdn.example/x.png">',
    ],
)
def test_what_a_built_page_would_load_from_the_network_is_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "index.html").write_text(f"<html>{text}</html>")
    (found,) = offline.remote_addresses(tmp_path)
    assert "cdn.example" in found


def test_links_to_click_and_local_files_are_fine(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<a href="https://lab.example/">x</a><script src="x.js"></script>')
    (tmp_path / "x.css").write_text("a { background: url('x.png') }")
    assert list(offline.remote_addresses(tmp_path)) == []


def test_no_example_lets_curl_read_a_file_that_a_hosts_text_names() -> None:
    """With `-d "$TEXT"`, a text that begins with @ is the name of a file to send."""
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "config.example.ini"]
    found = [line for page in pages for line in page.read_text().splitlines() if "curl" in line]
    assert any("--data-raw" in line for line in found)
    assert [
        line
        for line in found
        if re.search(r"""(?:-d|--data(?:-\w+)?)[ =]\\?"?\$""", line) and "--data-raw" not in line
    ] == []
