"""The scripts of the page: what each states about itself, the order that follows, and those that need no browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gpumon_static.errors import GpumonError
from gpumon_static.publish.page import html
from gpumon_static.system import resources
from tests.places import ROOT

SCRIPTS = sorted(path.name for path in (ROOT / "assets").glob("*.js") if path.name != "start.js")
COMMENT = re.compile(r"^\s*//.*$|\s// .*$", re.MULTILINE)


def stated(name: str) -> dict[str, set[str]]:
    text = (ROOT / "assets" / name).read_text()
    found = dict(re.findall(r"^// (takes|gives): (.*)$", text, re.MULTILINE))
    return {word: set(found.get(word, "").split()) for word in ("takes", "gives")}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_states_on_top_what_it_takes_and_gives(name: str) -> None:
    code = COMMENT.sub("", (ROOT / "assets" / name).read_text())
    given = set(re.findall(r"\bgpumon\.(\w+) = ", code))
    used = set(re.findall(r'(?<!")\bgpumon\.(\w+)', code))
    for names in re.findall(r"const \{ ([^}]*) \} = gpumon;", code):
        used |= {part.split(":")[0].strip() for part in names.split(",")}
    assert stated(name) == {"takes": used - given, "gives": given}


def test_each_script_comes_after_those_it_takes_from() -> None:
    order = html.script_order()
    assert sorted(order) == SCRIPTS
    there: set[str] = set()
    for name in order:
        assert stated(name)["takes"] <= there, name
        assert not stated(name)["gives"] & there, name
        there |= stated(name)["gives"]


def test_scripts_that_take_from_each_other_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "assets", tmp_path / "assets")
    script = tmp_path / "assets/times.js"
    script.write_text(script.read_text().replace("// gives:", "// takes: clock\n// gives:"))
    monkeypatch.setattr(resources, "find", lambda name: tmp_path / name)
    with pytest.raises(GpumonError, match="clock.js"):
        html.script_order.__wrapped__()


def test_what_changes_is_in_one_place() -> None:
    """No script but state.js puts a value on the global that it changes later."""
    code = COMMENT.sub("", "\n".join((ROOT / "assets" / name).read_text() for name in SCRIPTS))
    given = re.findall(r"\bgpumon\.(\w+) = ", code)
    assert sorted(given) == sorted(set(given))


def test_what_needs_no_browser_works_without_one() -> None:
    command = ["node", "--test", str(ROOT / "tests/node")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
