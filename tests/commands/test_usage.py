"""What a user gets for a wrong command line: exit status 2 and a reason, and nothing changed."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpumon_static.commands import exits
from gpumon_static.commands.render import render
from gpumon_static.config import file as config_file
from gpumon_static.store import snapshot
from tests.builders import NOW, gpu, reading
from tests.command import PROGRAM

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process; returns its exit status, stdout and stderr."""
    monkeypatch.delenv("GPUMON_CONFIG", raising=False)
    monkeypatch.delenv("GPUMON_URL", raising=False)
    monkeypatch.chdir(tmp_path)

    def command(*words: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gpumon-static", *map(str, words)])
        status = exits._run()
        said = capsys.readouterr()
        return status, said.out, said.err

    return command


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['vision-1', 'vision-2']\n")
    config = config_file.load(tmp_path / "config.ini")
    snapshot.write(config.csv_path, [reading("vision-1", [gpu()]), reading("vision-2", [gpu()])])
    return tmp_path


WRONG = [
    ("fetch --only vision-[1", "is not a node set"),
    ("fetch --only nosuch", "not among the hosts"),
    ("check vision-[1", "is not a node set"),
    ("check nosuch", "not among the hosts"),
    ("show -n nosuch", "no configured host matches"),
    ("show -n nosuch --json", "no configured host matches"),
    ("top -n nosuch", "no configured host matches"),
    ("show --json --csv", "--json and --csv exclude each other"),
    ("history users --json --csv", "--csv and --json exclude each other"),
    ("history hosts --csv --json", "exclude each other"),
    ("history gpus --csv --json", "exclude each other"),
    ("history supply --csv --json", "exclude each other"),
    ("report --csv --json", "exclude each other"),
    ("report --month 2026-10 --since 7d", "exclude each other"),
    ("free --json --plain", "--plain and --json exclude each other"),
    ("wait --json --plain", "exclude each other"),
    ("free --from ftp://lab.example/", "is not an http or https address"),
    ("history users --since yesterday", "nor a date such as"),
    ("init new --hosts a[1", "is not a node set"),
    ("init new --hosts a --key /nonexist", "key_filename: /nonexist does not exist; nothing was written"),
]


@pytest.mark.parametrize(("line", "told"), WRONG, ids=[line for line, _ in WRONG])
def test_wrong_usage_exits_with_2_and_changes_nothing(run: Run, lab: Path, line: str, told: str) -> None:
    before = sorted(lab.rglob("*"))
    status, out, err = run(*line.split())
    assert (status, out) == (2, "")
    assert told in " ".join(err.split())
    assert sorted(lab.rglob("*")) == before


def test_without_a_config_the_ways_to_one_are_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(config_file, "OF_THE_SYSTEM", tmp_path / "etc/config.ini")
    for command in ("fetch", "render", "check", "show", "top", "free", "wait", "history users", "report"):
        status, _, err = run(*command.split())
        assert status == 2, command
        assert f"config.ini, {tmp_path}/xdg/gpumon-static/config.ini, {tmp_path}/etc/config.ini" in err
        assert "`gpumon-static init`" in err
        assert ("--from https://" in err and "$GPUMON_URL" in err) == (command in ("free", "wait")), command


def test_a_log_without_one_good_line_is_a_failure_that_changes_nothing(run: Run, lab: Path) -> None:
    for text in ("", "not,a,log\n", "timestamp,node,index,utilization,memory_used,memory_total\n"):
        (lab / "rntop.log").write_text(text)
        status, out, err = run("history", "import", "rntop.log")
        assert (status, out) == (1, "")
        assert "rntop.log has no line of rntop's log: nothing was added" in err
    assert "no history yet" in run("history", "users")[2]


def fill(lab: Path, *, with_page: bool = True) -> None:
    """One host, which is this one, so that a fetch asks nothing else."""
    (lab / "config.ini").write_text("[common]\nhosts = ['localhost']\n")
    config = config_file.load(lab / "config.ini")
    snapshot.write(config.csv_path, [reading("localhost", [gpu()])])
    if with_page:
        render(config, NOW)


CLOSED = (
    "show >&-",
    "free --old >&-",
    "fetch -q >&-",
    "fetch 2>&-",
    "fetch <&- >&- 2>&-",
    "render <&- >&- 2>&-",
)


def test_closed_streams_are_no_error_and_no_file_gets_what_is_printed(lab: Path) -> None:
    fill(lab)
    for line in CLOSED:
        done = subprocess.run(
            f"{shlex.join(PROGRAM)} {line}", shell=True, cwd=lab, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), line
    assert snapshot.read(lab / "data/load_data.csv")


def test_a_full_disk_behind_what_is_printed_is_one_line(lab: Path) -> None:
    fill(lab)
    for program in (
        shlex.join(PROGRAM) + " show",
        shlex.join(PROGRAM) + " free --old",
        f"{sys.executable} site/gpufree --old",
    ):
        done = subprocess.run(
            f"{program} >/dev/full", shell=True, cwd=lab, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert "cannot write what it prints: no space left on device" in done.stderr.lower()
        assert len(done.stderr.splitlines()) == 1


def test_gpufree_with_nowhere_to_print_is_quiet(lab: Path) -> None:
    fill(lab)
    for rest, status in ((">&-", 0), ("| true; exit ${PIPESTATUS[0]}", 141)):
        line = f"{sys.executable} site/gpufree --old --json {rest}"
        done = subprocess.run(["bash", "-c", line], cwd=lab, capture_output=True, text=True, check=False)
        # A reader may be gone before or after the line is written.
        assert done.returncode in (0, status), line
        assert done.stderr == ""


@pytest.mark.parametrize(
    ("line", "broken", "told"),
    [
        ("fetch", "data", "cannot lock {lab}/data/fetch.lock: {lab}/data is not a directory"),
        ("render", "site", "cannot write {lab}/site/gpus.json: {lab}/site is not a directory"),
        (
            "free",
            None,
            "cannot read {lab}/site: No such file or directory; `gpumon-static render` writes",
        ),
        (
            "show",
            "data/load_data.csv",
            "{lab}/data/load_data.csv is not UTF-8 text; run `gpumon-static fetch`",
        ),
    ],
)
def test_what_is_in_the_way_is_named(run: Run, lab: Path, line: str, broken: str | None, told: str) -> None:
    fill(lab, with_page=False)
    if broken == "data":
        shutil.rmtree(lab / "data")
    if broken:
        (lab / broken).write_bytes(b"\xff not ours")
    status, out, err = run(*line.split())
    assert (status, out) == (1, "")
    assert told.format(lab=lab) in err
    if broken:
        assert (lab / broken).read_bytes() == b"\xff not ours"


def test_quiet_is_about_hosts_and_not_about_our_own_files(run: Run, lab: Path) -> None:
    fill(lab, with_page=False)
    (lab / "data/history").write_text("in the way")
    status, _, err = run("fetch", "-q")
    assert status == 0
    assert "this run is not in it" in err
    assert "localhost" not in err
