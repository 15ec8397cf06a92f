"""`gpumon-static report` and the site's reports/: one HTML file, users as the page shows them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import pytest

from gpumon_static.commands.render import render
from gpumon_static.config.file import load
from gpumon_static.store import snapshot
from gpumon_static.store.pseudonyms import pseudonym, read_key
from tests.builders import busy_gpu, gpu, process, reading
from tests.command import gpumon
from tests.past_lab import PastLab

CONFIG = """
[common]
hosts = ["node1", "node2"]
[hosts.node1]
group = "vision"
[hosts.node2]
group = "language"
[users]
bob = "Bob Ross"
[site]
title = "Vision & Co"
interval = 3600
"""
NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC)


def configured(place: Path, more: str = "") -> None:
    (place / "config.ini").write_text(CONFIG + more)


def fill(place: Path, until: datetime, days: int = 5, model: str = "NVIDIA H100 80GB HBM3") -> None:
    """Hourly runs: H100s that are never free on node1; on node2 bob holds one of two A100s idle."""
    config = load(place / "config.ini")
    h100s = [busy_gpu(n, uuid=f"H-{n}", name=model) for n in range(2)]
    idle = gpu(0, uuid="A-0", memory_used_mib=40000.0, processes=(process(user="bob", memory_mib=39000.0),))
    lab = PastLab(place)
    lab.config = config
    for ago in range(24 * days, -1, -1):
        at = until - timedelta(hours=ago)
        second = busy_gpu(1, uuid="A-1") if ago % 2 else gpu(1, uuid="A-1")
        readings = [reading("node1", h100s, fetched_at=at), reading("node2", (idle, second), fetched_at=at)]
        lab.run_dated(readings)
    lab.write()
    snapshot.write(config.csv_path, readings)


def words_of(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_a_report_is_one_file_with_the_verdicts(tmp_path: Path) -> None:
    configured(tmp_path)
    fill(tmp_path, datetime.now(UTC).replace(microsecond=0))
    done = gpumon("report", "--since", "4d", "-o", "supply.html", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    page = (tmp_path / "supply.html").read_text()
    told = words_of(page)
    assert "Vision & Co: GPU supply" in told
    assert "H100 80G short: none free most of the time; 2 at once never 2 100 0 (0) 0 100 100 0" in told
    assert "A100 80G 1.0 GPUs are held idle: reclaim before buying; 2 at once never 2" in told
    assert re.search(r"A100 80G Bob Ross 4\.\d", told)
    assert not re.search(r"<script|<img|<link|https?:|url\(", page)
    assert gpumon("report", "--since", "4d", cwd=tmp_path).stdout.startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("form", ["html", "csv", "json"])
@pytest.mark.parametrize("tier", ["pseudonyms", "counts"])
def test_users_are_shown_as_on_the_page(tmp_path: Path, tier: str, form: str) -> None:
    configured(tmp_path, f'users = "{tier}"\n')
    fill(tmp_path, datetime.now(UTC).replace(microsecond=0))
    options = [] if form == "html" else [f"--{form}"]
    text = gpumon("report", "--since", "4d", *options, cwd=tmp_path).stdout
    # A pseudonym may be a bobcat.
    assert not re.search(r"\bbob\b", text, re.IGNORECASE)
    shown = pseudonym("bob", read_key(tmp_path / "data")) if tier == "pseudonyms" else "1 user"
    assert shown in text


def test_a_month_is_the_whole_of_it_and_nothing_else(tmp_path: Path) -> None:
    configured(tmp_path)
    fill(tmp_path, NOVEMBER + timedelta(days=2), days=36)
    document = json.loads(gpumon("report", "--month", "2026-10", "--json", cwd=tmp_path).stdout)
    assert (document["since"], document["until"]) == ("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z")
    idle = next(row for row in document["rows"] if row["model"] == "A100 80G")
    assert (idle["known_days"], idle["held_idle_gpu_days"], idle["coverage_percent"]) == (31.0, 31.0, 100.0)
    assert idle["held_idle_by"] == "Bob Ross 31.0"


@pytest.mark.parametrize("options", [("--month", "2026-13"), ("--month", "2026-10", "--since", "3d")])
def test_a_time_that_is_none_is_a_usage_error(tmp_path: Path, options: tuple[str, ...]) -> None:
    configured(tmp_path)
    done = gpumon("report", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert "--month" in done.stderr


def test_a_page_of_some_groups_has_a_report_of_these(tmp_path: Path) -> None:
    configured(tmp_path, 'pages = [{ file = "index.html", groups = ["language"] }]\n')
    fill(tmp_path, datetime.now(UTC).replace(microsecond=0))
    told = words_of(gpumon("report", "--since", "4d", cwd=tmp_path).stdout)
    assert "language A100 80G" in told
    assert "H100" not in told
    as_csv = gpumon("report", "--since", "4d", "--csv", cwd=tmp_path).stdout
    assert "A100" in as_csv
    assert "H100" not in as_csv


def test_what_a_host_calls_its_gpus_is_text(tmp_path: Path) -> None:
    configured(tmp_path)
    fill(tmp_path, datetime.now(UTC).replace(microsecond=0), days=1, model="<script>alert(1)</script>")
    page = gpumon("report", cwd=tmp_path).stdout
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in page


def test_without_a_history_there_is_a_sentence(tmp_path: Path) -> None:
    configured(tmp_path)
    done = gpumon("report", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("gpumon-static: no history yet")


# In the site


def test_render_writes_a_month_once_when_it_is_over(tmp_path: Path) -> None:
    configured(tmp_path)
    reports = tmp_path / "site/reports"
    fill(tmp_path, NOVEMBER - timedelta(hours=1))
    render(load(tmp_path / "config.ini"), NOVEMBER + timedelta(minutes=1))
    assert not reports.exists(), "its last hour is not known yet"
    fill(tmp_path, NOVEMBER)
    render(load(tmp_path / "config.ini"), NOVEMBER + timedelta(minutes=2))
    assert sorted(path.name for path in reports.iterdir()) == ["2026-10.html", "2026-10.html.gz"]
    told = words_of((reports / "2026-10.html").read_text())
    assert "October 2026" in told
    assert "By group and model" in told
    before = (reports / "2026-10.html").stat().st_mtime_ns
    render(load(tmp_path / "config.ini"), NOVEMBER + timedelta(hours=1))
    assert (reports / "2026-10.html").stat().st_mtime_ns == before


@pytest.mark.parametrize("history", ["true", "false"])
def test_a_stricter_tier_reaches_the_reports_that_are_there(tmp_path: Path, history: str) -> None:
    configured(tmp_path)
    fill(tmp_path, NOVEMBER)
    render(load(tmp_path / "config.ini"), NOVEMBER)
    report = tmp_path / "site/reports/2026-10.html"
    assert "Bob Ross" in report.read_text()
    configured(tmp_path, f'users = "counts"\n[history]\nenabled = {history}\n')
    render(load(tmp_path / "config.ini"), NOVEMBER + timedelta(hours=1))
    assert "Bob Ross" not in report.read_text()
    assert ("1 user" in report.read_text()) == (history == "true")


def test_a_month_of_which_nothing_is_known_has_no_report(tmp_path: Path) -> None:
    configured(tmp_path)
    fill(tmp_path, NOVEMBER + timedelta(days=3), days=1)
    render(load(tmp_path / "config.ini"), NOVEMBER + timedelta(days=3))
    assert not (tmp_path / "site/reports").exists()
