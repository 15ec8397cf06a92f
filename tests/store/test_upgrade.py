"""Files of every release keep working. At each release, its files are added to tests/releases/ and stay."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from tests.command import gpumon
from tests.places import TESTS

RELEASES = sorted((TESTS / "releases").iterdir())


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory as that release left it."""
    return Path(shutil.copytree(request.param, tmp_path / "old"))


def hosts_and_users(directory: Path) -> tuple[set[str], set[str]]:
    with (directory / "data/load_data.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {r["host"] for r in rows}, {r["user"] for r in rows if r["user"]}


def hours_by_user(directory: Path) -> dict[str, float]:
    if (directory / "data/history.db").exists():
        assert gpumon("history", "convert", cwd=directory).returncode == 0
    done = gpumon("history", "users", "--since", "10y", "--json", cwd=directory)
    assert (done.returncode, done.stderr) == (0, "")
    return {row["user"]: row["gpu_hours"] for row in json.loads(done.stdout)["rows"]}


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
    _, users = hosts_and_users(old)
    hours = hours_by_user(old)
    assert users
    assert users <= hours.keys(), "who was at work in its last run has hours"
    assert all(hours[user] > 0 for user in users)


def test_a_fetch_of_today_goes_on_with_its_files(old: Path) -> None:
    before = hours_by_user(old)
    assert before
    done = gpumon("fetch", "--quiet", cwd=old)
    assert (done.returncode, done.stderr) == (0, "")
    hosts, _ = hosts_and_users(old)
    assert hosts, "the hosts are gone, their rows say so"
    after = hours_by_user(old)
    assert after.keys() == before.keys(), "nobody of the past is lost"
    for user, hours in before.items():
        # The last run of that release stands for one interval, which today's closes.
        assert hours <= after[user] < hours + 1, user
