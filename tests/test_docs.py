"""The documents cannot drift from the program."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import click
import pytest

from gpumon_static.commands.cli import main
from gpumon_static.config import file as config_file
from gpumon_static.config import settings
from gpumon_static.model import Status
from gpumon_static.store import snapshot

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
EXAMPLE = (ROOT / "config.example.ini").read_text()


def keys() -> list[tuple[str, str]]:
    return [(section, f.name) for section, kind in settings.SECTIONS.items() for f in fields(kind)]


def test_the_example_config_loads(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text(EXAMPLE)
    loaded = config_file.load(tmp_path / "config.ini")
    assert [h.name for h in loaded.hosts][:2] == ["gpu01.lab.example", "gpu02.lab.example"]
    assert loaded.hosts[-1].gpus == 8


@pytest.mark.parametrize(("section", "key"), [pair for pair in keys() if pair[0] != "common"])
def test_the_example_config_shows_the_defaults(tmp_path: Path, section: str, key: str) -> None:
    (tmp_path / "example.ini").write_text(EXAMPLE)
    (tmp_path / "bare.ini").write_text("[common]\nhosts = 'a'\n")
    example, bare = (config_file.load(tmp_path / name) for name in ("example.ini", "bare.ini"))
    assert getattr(getattr(example, section), key) == getattr(getattr(bare, section), key)


@pytest.mark.parametrize(("section", "key"), keys())
def test_every_key_is_in_the_example_and_in_the_readme(section: str, key: str) -> None:
    assert f"\n{key} = " in EXAMPLE or f"\n# {key} = " in EXAMPLE
    assert f"`{key}`" in README


@pytest.mark.parametrize("key", settings.HOST_KEYS)
def test_every_key_of_a_host_is_in_the_readme(key: str) -> None:
    assert f"`{key}`" in README


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_and_option_is_in_the_readme(name: str) -> None:
    assert f"gpumon-static {name}" in README
    for parameter in main.commands[name].params:
        if isinstance(parameter, click.Option) and parameter.name not in ("debug", "config_path"):
            assert any(option in README for option in parameter.opts), f"{name} {parameter.opts}"


@pytest.mark.parametrize("status", Status)
def test_every_status_is_in_the_readme(status: Status) -> None:
    assert f"`{status}`" in README


@pytest.mark.parametrize("column", snapshot.COLUMNS)
def test_every_column_is_in_the_readme(column: str) -> None:
    assert f"`{column}`" in README


def test_the_config_in_the_readme_loads(tmp_path: Path) -> None:
    block = README.split("```toml\n")[1].split("```")[0]
    (tmp_path / "config.ini").write_text(block)
    assert config_file.load(tmp_path / "config.ini").hosts
