"""What the site has for a terminal without an installation: gpufree, show.txt and show.ansi."""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpumon_static.commands.cli import main
from gpumon_static.commands.gpufree import _parser
from gpumon_static.commands.render import render
from gpumon_static.config import file as config_file
from gpumon_static.publish.exports.gpufree import gpufree
from gpumon_static.publish.exports.gpus_json import gpus_json
from gpumon_static.store import snapshot
from gpumon_static.survey.survey import build_survey
from tests.builders import NOW, busy_gpu, failed, gpu, process, reading
from tests.offers_lab import load as load_offers
from tests.offers_lab import readings_of

ISOLATED = [sys.executable, "-I", "-S"]
"""Without site-packages, the environment and the current directory: the standard library only."""


def rendered(folder: Path, site: str = "") -> Path:
    (folder / "config.ini").write_text(f"[common]\nhosts = ['a', 'b', 'c']\n[site]\n{site}")
    config = config_file.load(folder / "config.ini")
    held = gpu(1, memory_used_mib=40000.0, processes=(process(8, user="bob"), process(9, user="carol")))
    snapshot.write(config.csv_path, [reading("a", [busy_gpu(), held]), reading("b", [gpu()]), failed("c")])
    return render(config, NOW).parent


def options_of(question: dict[str, Any]) -> list[str]:
    options = ["-n", str(question.get("n", 1)), "--memory", f"{question.get('gb', 0)}G"]
    return options + ([f"--model={question['model']}"] if question.get("model") else [])


SAME = """
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
from gpumon_static.commands.gpufree import main
answers = []
for arguments in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main("", arguments)
    answers.append([status, out.getvalue(), err.getvalue()])
json.dump(answers, sys.stdout)
foreign = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
sys.stderr.write(" ".join(sorted(foreign - {"__main__"})))
"""


def test_it_answers_as_free_does_with_the_standard_library_only(tmp_path: Path) -> None:
    """All labs and questions of offers.json, in one process that has nothing but the file."""
    (tmp_path / "gpufree").write_bytes(gpufree(""))
    asked = []
    labs = load_offers()
    for number, one in enumerate([*labs["by hand"], *labs["generated"]]):
        read, setup = readings_of(one["hosts"])
        path = tmp_path / f"{number}.json"
        path.write_text("".join(gpus_json(build_survey(read, setup, NOW))))
        for place, case in enumerate(one["cases"]):
            form = (["--json"], ["--plain"], [])[place % 3]
            vendor = ([], [], ["--vendor", "nvidia"], ["--vendor", "amd"])[place % 4]
            asked.append(
                [*options_of(case["question"]), *vendor, "--from", str(path), "--old", "--most", "9", *form]
            )
        asked.append(["--when", "--from", str(path), "--old"])
    assert len(asked) > 100
    done = subprocess.run(
        [*ISOLATED, "-c", SAME, str(tmp_path / "gpufree")],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "gpumon_static"
    for arguments, (status, out, err) in zip(asked, json.loads(done.stdout), strict=True):
        ours = CliRunner().invoke(main, ["free", *arguments])
        assert out == ours.stdout, arguments
        if ours.exception:
            assert (status, err) == (1, f"gpufree: {ours.exception}\n"), arguments


def test_it_has_the_options_of_free_and_wait() -> None:
    ours = {name for one in ("free", "wait") for option in main.commands[one].params for name in option.opts}
    its = {name for action in _parser()._actions for name in action.option_strings}
    assert its - ours == {"--wait", "--age", "--version", "-h", "--help"}
    assert ours - its == {"--config", "-c", "--debug"}


def test_it_is_one_file_that_python_runs_as_it_was_downloaded(tmp_path: Path) -> None:
    site = rendered(tmp_path, "url = 'http://127.0.0.1:1/gpus/'\n")
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    program = downloads / "gpufree"
    program.write_bytes((site / "gpufree").read_bytes())

    def run(*words: str | Path) -> tuple[int, str, str]:
        line = [*ISOLATED, str(program), *map(str, words)]
        done = subprocess.run(line, cwd=downloads, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    assert run("--plain", "--old", "--from", site) == (0, "b 0\n", "")
    status, _, err = run("--json", "--plain")
    assert (status, "not allowed with" in err) == (2, True)
    status, _, err = run("--memory", "40X")
    assert (status, "'40X' is not an amount of memory such as 40G" in err) == (2, True)
    # By itself it asks the page it belongs to, which is not up here.
    status, _, err = run()
    assert status == 1
    assert "http://127.0.0.1:1/gpus/gpus.json cannot be read" in err


def test_where_the_config_has_no_address_it_says_what_to_type(tmp_path: Path) -> None:
    (tmp_path / "gpufree").write_bytes((rendered(tmp_path) / "gpufree").read_bytes())

    def run(*words: str) -> tuple[int, str]:
        line = [*ISOLATED, "gpufree", *words]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, env={}, check=False)
        return done.returncode, done.stderr

    status, err = run("-n", "2")
    assert status == 2
    assert "downloaded from:  --from https://lab.example/gpu-monitor/\n" in err
    assert "export GPUMON_URL=https://lab.example/gpu-monitor/\n" in err
    status, err = run("--from", "lab.example/gpu-monitor")
    assert (status, "an address starts with https:// or http://" in err) == (1, True)


def test_it_is_the_same_file_each_time_and_written_once(tmp_path: Path) -> None:
    site = rendered(tmp_path)
    first = (site / "gpufree").stat()
    gpufree.cache_clear()
    rendered(tmp_path)
    again = (site / "gpufree").stat()
    assert (again.st_ino, again.st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    rendered(tmp_path, "url = 'https://lab.example/gpus/'\n")
    assert (site / "gpufree").stat().st_ino != first.st_ino
    with zipfile.ZipFile(site / "gpufree") as archive:
        assert "'https://lab.example/gpus/'" in archive.read("__main__.py").decode()
    assert (site / "gpufree").stat().st_size < 50_000
    rendered(tmp_path, "gpufree = false\nshow = false\n")
    assert not {path.name for path in site.iterdir()} & {"gpufree", "show.txt", "show.ansi", "show.txt.gz"}


def test_the_age_of_the_data_for_nagios_and_icinga(tmp_path: Path) -> None:
    """A dead man's switch without Prometheus: a line, and the exit status of a plugin."""
    site = rendered(tmp_path)
    program = tmp_path / "gpufree"
    program.write_bytes((site / "gpufree").read_bytes())

    def run(age: str, place: Path = site) -> tuple[int, str]:
        command = [sys.executable, "-I", str(program), "--age", age, "--from", str(place)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.stderr == ""
        return done.returncode, done.stdout

    document = json.loads((site / "gpus.json").read_text())

    def dated(minutes: int) -> None:
        at = datetime.now(UTC) - timedelta(minutes=minutes)
        changed = document | {"fetched_at": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
        (site / "gpus.json").write_text(json.dumps(changed))

    dated(5)
    assert run("15m") == (0, "OK: the data is 5 min old; at most 15 min is allowed\n")
    dated(40)
    assert run("15m") == (2, "CRITICAL: the data is 40 min old; at most 15 min is allowed\n")
    dated(-41)
    code, line = run("15m")
    assert (code, line.startswith("CRITICAL: the data is dated 4")) == (2, True)
    code, line = run("15m", tmp_path / "nowhere")
    assert (code, line[:9]) == (3, "UNKNOWN: ")


def test_the_line_for_old_pythons_is_one_that_they_can_read() -> None:
    """RHEL 8 has Python 3.6."""
    text = zipfile.ZipFile(io.BytesIO(gpufree(""))).read("__main__.py").decode()
    ast.parse(text, feature_version=(3, 6))


def test_old_pythons_are_told_so(tmp_path: Path) -> None:
    (tmp_path / "gpufree").write_bytes(gpufree(""))
    with zipfile.ZipFile(tmp_path / "gpufree") as archive:
        text = archive.read("__main__.py").decode()
    # Python 2 can read it, too.
    assert re.match(
        r"import sys\nif sys\.version_info < \(3, 9\):\n    sys\.exit\(\"gpufree: needs Python 3\.9 ", text
    )


SHOWN = {
    "names": ["alice", "bob", "carol"],
    "counts": ["1 user", "2 users"],
}


@pytest.mark.parametrize("tier", SHOWN)
def test_the_table_of_show_for_curl(tmp_path: Path, tier: str) -> None:
    site = rendered(tmp_path, f"users = '{tier}'\n")
    text, coloured = ((site / name).read_text() for name in ("show.txt", "show.ansi"))
    lines = text.splitlines()
    for words in SHOWN[tier]:
        assert words in text
    assert ("alice" in text) == ("alice" in coloured) == (tier == "names")
    assert "\x1b" not in text
    assert "\x1b[32m" in coloured
    # A line of each GPU has its host, for grep; a host that failed has its reason.
    assert [line.split()[0] for line in lines if line.startswith(("a ", "b "))] == ["a", "a", "a", "b"]
    assert any(line.startswith("c  timeout: ") for line in lines)
    assert "1 of 3 GPUs free" in text
    assert lines[-1] == "Data of 2025-11-14T09:10:00Z"
    assert "ago" not in lines[-1]
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).splitlines()[-1] == lines[-1]
