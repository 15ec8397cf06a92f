"""Files of every release keep working. At each release, its files are added to tests/releases/ and stay."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from tests.command import gpumon

RELEASES = sorted((Path(__file__).parent / "releases").iterdir())


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory as that release left it."""
    return Path(shutil.copytree(request.param, tmp_path / "old"))


def hosts_and_users(directory: Path) -> tuple[set[str], set[str]]:
    with (directory / "data/load_data.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {r["host"] for r in rows}, {r["user"] for r in rows if r["user"]}


def test_its_config_and_csv_make_todays_page(old: Path) -> None:
    done = gpumon("render", cwd=old)
    assert (done.returncode, done.stderr) == (0, "")
    page = (old / "site/index.html").read_text()
    hosts, _ = hosts_and_users(old)
    assert hosts
    for host in hosts:
        assert host in page


def test_its_csv_is_shown_in_the_terminal(old: Path) -> None:
    hosts, _ = hosts_and_users(old)
    shown = json.loads(gpumon("show", "--json", cwd=old).stdout)
    assert {host["name"] for host in shown["hosts"]} == hosts


def test_its_history_answers(old: Path) -> None:
    done = gpumon("history", "users", "--since", "10y", "--json", cwd=old)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) > 0


def test_a_fetch_of_today_goes_on_with_its_files(old: Path) -> None:
    before = gpumon("history", "users", "--since", "10y", "--json", cwd=old).stdout
    done = gpumon("fetch", "--quiet", cwd=old)
    assert (done.returncode, done.stderr) == (0, "")
    hosts, _ = hosts_and_users(old)
    assert hosts, "the hosts are gone, their rows say so"
    after = gpumon("history", "users", "--since", "10y", "--json", cwd=old).stdout
    assert len(json.loads(after)) == len(json.loads(before)), "nothing of the past is lost"
