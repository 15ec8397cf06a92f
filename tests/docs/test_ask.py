"""Ask your own question: those of docs/ask.md, and the data frames of docs/notebooks.md, on the demo's past."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gpumon_static import frames
from gpumon_static.config import file as config_file
from gpumon_static.errors import GpumonError, UsageError
from gpumon_static.store import snapshot
from gpumon_static.store.history import questions
from gpumon_static.store.history.reader import Period, ask
from gpumon_static.store.history.views.asking import Question, answer
from tests.builders import busy_gpu, failed, gpu, reading
from tests.places import ROOT
from tools import notebook_plots

PAGE = (ROOT / "docs" / "ask.md").read_text()
COOKBOOK = dict(re.findall(r"^### (.*?)\n.*?```sql\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The config of a demo lab with a past of ten days."""
    return notebook_plots.demo_history(tmp_path_factory.mktemp("demo"), days=10)


def rows_of(demo: Path, sql: str) -> Rows:
    def take(found: Any) -> Rows:
        names = [column.name for column in found.columns]
        return [dict(zip(names, row, strict=True)) for row in found.cursor.fetchall()]

    return answer(demo.parent / "data" / "history", Question(sql), take)


# The cookbook


def test_there_are_at_least_ten_questions() -> None:
    assert len(COOKBOOK) >= 10


@pytest.mark.parametrize("title", COOKBOOK)
def test_a_question_of_the_cookbook_has_an_answer(demo: Path, title: str) -> None:
    rows = rows_of(demo, COOKBOOK[title])
    assert rows
    assert all(any(row[name] is not None for row in rows) for name in rows[0])


def test_the_longest_job_comes_first(demo: Path) -> None:
    hours = [row["hours"] for row in rows_of(demo, COOKBOOK["Who ran the longest jobs?"])]
    assert hours == sorted(hours, reverse=True)
    assert hours[0] > 24


def test_energy_and_hours_are_those_of_history_users(demo: Path) -> None:
    found = {row["user"]: row for row in rows_of(demo, COOKBOOK["How much energy did each user take?"])}
    history = demo.parent / "data" / "history"
    for use in ask(history, lambda reader: questions.users(reader, Period(0, 4_000_000_000))):
        if use.user in found:
            assert found[use.user]["gpu_hours"] == pytest.approx(use.total_s / 3600, abs=0.06)
    assert len(found) > 3


def test_every_weekday_is_there(demo: Path) -> None:
    days = [row["weekday"] for row in rows_of(demo, COOKBOOK["How many GPU hours on each weekday?"])]
    assert days == "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


# Data frames


def test_a_snapshot_has_real_types(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['n1', 'n2']\n")
    snapshot.write(tmp_path / "data/load_data.csv", [reading("n1", [busy_gpu(), gpu(1)]), failed("n2")])
    frame = frames.snapshot(tmp_path / "config.ini")
    assert list(frame["host"]) == ["n1", "n1", "n2"]
    kinds = {
        name: str(frame[name].dtype)
        for name in ("gpu_index", "gpu_utilization_percent", "fetched_at", "gpu_mig_mode")
    }
    assert kinds == {
        "gpu_index": "Int64",
        "gpu_utilization_percent": "Float64",
        "fetched_at": "datetime64[us, UTC]",
        "gpu_mig_mode": "boolean",
    }
    assert frame["gpu_index"].isna().tolist() == [False, False, True]
    assert frame["elapsed_s"].max() == 10800


def test_runs_are_within_their_period(demo: Path) -> None:
    frame = frames.runs("2026-11-10T00:00+00:00", "2026-11-11T00:00+00:00", demo)
    assert frame["fetched_at"].max() < pd.Timestamp("2026-11-11", tz="UTC")
    assert set(frame["state"]) <= {"free", "busy", "held", "unknown", "down"}
    assert (str(frame["temperature_c"].dtype), str(frame["is_offered"].dtype)) == ("Int64", "boolean")
    assert isinstance(frame["held_by"].iloc[0], list)


def test_gpu_hours_by_several_parts_add_up(demo: Path) -> None:
    whole = frames.gpu_hours(config=demo)
    parts = frames.gpu_hours(by=["user", "host", "group", "model"], config=demo)
    assert list(parts.columns[:4]) == ["user", "host", "group", "model"]
    summed = parts.groupby("user")["gpu_hours"].sum()
    assert summed.sort_index().tolist() == pytest.approx(
        whole.set_index("user")["gpu_hours"].sort_index().tolist()
    )
    used = ask(
        demo.parent / "data" / "history", lambda reader: questions.users(reader, Period(0, 4_000_000_000))
    )
    assert whole["gpu_hours"].sum() == pytest.approx(sum(use.total_s for use in used) / 3600)


@pytest.mark.parametrize("by", ["nobody", [], ["user", "colour"]])
def test_hours_by_something_else_are_refused(demo: Path, by: Any) -> None:
    with pytest.raises(UsageError, match="choose from user, host, group, model"):
        frames.gpu_hours(by=by, config=demo)


def test_holdings_and_jobs_are_frames_with_times(demo: Path) -> None:
    held, jobs = frames.holdings(config=demo), frames.jobs(config=demo)
    assert (held["held_until"] >= held["held_from"]).all()
    assert held["gpu_seconds"].sum() == pytest.approx(frames.gpu_hours(config=demo)["gpu_hours"].sum() * 3600)
    assert str(jobs["started_at"].dtype) == "datetime64[us, UTC]"
    assert jobs["is_running"].any()
    assert not jobs["is_running"].all()


def test_what_is_not_there_is_an_error_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['n1']\n")
    with pytest.raises(GpumonError, match="no history yet"):
        frames.jobs(config=tmp_path / "config.ini")
    with pytest.raises(UsageError, match="nor a date"):
        frames.runs("soon", config=tmp_path / "config.ini")


def test_the_plots_of_the_page_have_data(demo: Path) -> None:
    hours, week = notebook_plots.hours_by_user(demo), notebook_plots.busy_by_hour(demo)
    assert len(hours) > 3
    assert week.shape == (7, 12)
    page = (ROOT / "docs" / "notebooks.md").read_text()
    for picture in re.findall(r"\]\((notebook-.*?)\)", page):
        assert (ROOT / "docs" / picture).stat().st_size > 1000
    assert config_file.load(demo).hosts


@pytest.mark.parametrize("command", ["fetch", "render", "show", "show --at 1m", "free", "history users"])
def test_only_frames_import_pandas(tmp_path: Path, command: str) -> None:
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['127.0.0.9']\n[fetch]\ntransport = 'local'\n")
    code = (
        "import sys; from gpumon_static.__main__ import run\n"
        "for words in (['fetch'], ['render'], sys.argv[1:]):\n"
        "    sys.argv = ['gpumon-static', *words]\n"
        "    try: run()\n"
        "    except SystemExit: pass\n"
        "print(sorted({'pandas', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert (tmp_path / "site" / "index.html").exists()
