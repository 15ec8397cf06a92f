"""Commands in the docs: each page writes them in one way, and that way works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

DOCS = ROOT / "docs"
HOW = "how-commands-are-written"
COMMANDS = "fetch|render|check|show|top|free|wait|history|report|init|probe|notify"
LINE = re.compile(rf"^(?:    |\$ )?gpumon-static (?:{COMMANDS})", re.MULTILINE)
PAGES = sorted(page for page in DOCS.glob("*.md") if LINE.search(page.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_with_a_command_without_a_path_says_who_runs_it(page: Path) -> None:
    assert f"commands.md#{HOW}" in page.read_text() or page.name == "commands.md"


def test_there_are_such_pages() -> None:
    assert {"ask.md", "history.md", "terminal.md"} <= {page.name for page in PAGES}


def test_the_shell_of_the_account_finds_program_and_config(tmp_path: Path) -> None:
    section = (DOCS / "commands.md").read_text().partition("## How commands are written")[2]
    line = next(text for text in section.splitlines() if text.startswith("export "))
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['other-config']\n")
    here = line.replace("/opt/gpumon-static/bin", str(Path(sys.executable).parent))
    here = here.replace("/etc/gpumon-static/config.ini", f"{tmp_path}/config.ini")
    script = f"{here}\ngpumon-static show"
    done = subprocess.run(["sh", "-c", script], cwd="/", capture_output=True, text=True, timeout=120)
    # Nothing was fetched yet: the config was found, and names its own data directory.
    assert str(tmp_path) in done.stderr
