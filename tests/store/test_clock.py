"""A clock that was wrong for a while costs nothing: neither the past, nor events, nor what is kept."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpumon_static.collect import lab as lab_module
from gpumon_static.commands import fetch as fetch_module
from gpumon_static.commands.render import render
from gpumon_static.config.settings import Config, HistoryConfig, NotifyConfig, PathsConfig
from gpumon_static.model import HostReading
from gpumon_static.store import events_file
from gpumon_static.store.events import Event
from gpumon_static.store.history import questions
from gpumon_static.store.history.reader import Period, Reader, ask
from gpumon_static.system.resources import own_command
from tests.builders import busy_gpu, config, failed, gpu, reading
from tests.command import gpumon

START = datetime(2025, 11, 14, 9, 0, tzinfo=UTC)
DAY = 24 * 60
YEAR = 365 * DAY
BUSY = reading("node1", [busy_gpu()])
FREE = reading("node1", [gpu()])
DOWN = failed("node1")


class Lab:
    """Runs of fetch, at minutes after nine by its clock; the hosts' answers are given."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        paths = PathsConfig(directory / "data", directory / "site")
        self.config: Config = replace(config("node1"), path=directory / "config.ini", paths=paths)
        self.said: list[str] = []
        self._answer: list[HostReading] = []
        monkeypatch.setattr(lab_module, "ask", lambda *_, **__: self._answer)

    def runs(self, minutes: Sequence[float], answer: HostReading = BUSY) -> None:
        for minute in minutes:
            at = START + timedelta(minutes=minute)
            self._answer = [replace(answer, fetched_at=at)]
            fetch_module.fetch(self.config, clock=lambda at=at: at, say=self.said.append)  # type: ignore[misc]

    def minutes(self, path: Path | None = None) -> list[float]:
        """Of the runs in the history."""
        rows = self.rows("SELECT DISTINCT epoch(run_at)::BIGINT FROM rows ORDER BY 1", path)
        return [(at - START.timestamp()) / 60 for (at,) in rows]

    def rows(self, query: str, path: Path | None = None) -> list[tuple[Any, ...]]:
        """Of a query over `rows`, all rows of the history."""

        def question(reader: Reader) -> list[tuple[Any, ...]]:
            table = reader.rows(Period(0, 4_000_000_000))
            return reader.engine.rows(query.replace("FROM rows", f"FROM ({table})"))

        return ask(path or self.config.history_path, question)

    def everything(self) -> list[tuple[Any, ...]]:
        return self.rows("SELECT COLUMNS(*)::VARCHAR FROM rows ORDER BY ALL")

    def use(self, minute: float) -> questions.GpuUse:
        """What `history gpus` shows at that time."""
        now = int((START + timedelta(minutes=minute)).timestamp())

        def question(reader: Reader) -> list[questions.GpuUse]:
            return questions.gpus(reader, questions.period(reader, now - 30 * 86400, now))

        (use,) = ask(self.config.history_path, question)
        return use

    def events(self) -> list[Event]:
        return events_file.load(events_file.path_in(self.config.paths.data)).events

    def copies(self) -> list[Path]:
        return sorted(self.config.paths.data.glob("history.before-*"))


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(tmp_path, monkeypatch)


def every_five(start: float, end: float) -> list[float]:
    return [float(minute) for minute in range(int(start), int(end) + 1, 5)]


@pytest.mark.parametrize("back", [70, 3 * DAY, 20 * YEAR])
def test_one_run_before_ntp_costs_nothing(lab: Lab, back: int) -> None:
    lab.runs(every_five(0, 80))
    before = lab.everything()
    lab.runs([80 - back], FREE)
    assert lab.everything() == before
    assert len(lab.said) == 1
    assert "this run is not recorded" in lab.said[0]
    with lab.config.csv_path.open() as file:
        (row,) = csv.DictReader(file)
    assert row["gpu_utilization"] == "0", "the CSV has what was read"
    lab.runs([85])
    assert lab.minutes() == every_five(0, 85)
    assert lab.use(85).busy_s == 85 * 60
    assert len(lab.said) == 1
    assert lab.copies() == []


def test_a_clock_that_is_put_back_a_little_is_waited_for(lab: Lab) -> None:
    lab.runs([0, 5, 40])
    before = lab.everything()
    lab.runs([10, 15])
    assert lab.everything() == before
    assert lab.said == [
        "clock: the clock was put back; recording resumes in 1800 s",
        "clock: the clock was put back; recording resumes in 1500 s",
    ]
    lab.runs([45])
    # 9:00 to 9:10, 9:40 to 9:45.
    assert lab.use(45).busy_s == 900


def test_a_clock_that_is_back_for_good_is_believed_after_an_hour_of_runs(lab: Lab) -> None:
    lab.runs([*every_five(0, 115), *range(120, 601, 40)])
    lab.runs(every_five(61, 120))
    assert lab.minutes()[-1] == 116, "the twelfth run is recorded"
    assert lab.minutes() == [*every_five(0, 115), 116]
    *doubts, dropped = lab.said
    assert len(doubts) == 11
    repair = own_command("history", "repair", "--drop-after", "2025-11-14T10:01:00Z")
    assert doubts[0] == (
        "clock: the clock is 8 h behind the last recorded run: this run is not recorded; after 12 such runs"
        f" in a row it is believed (1 so far), or at once with `{repair}`"
    )
    assert dropped == (
        "history: 13 runs from 2025-11-14T11:00:00Z on dropped; history.before-20251114T105600 has them"
        " still; they were ahead of the clock"
    )
    (copy,) = lab.copies()
    assert lab.minutes(copy)[-13:] == list(range(120, 601, 40)), "nothing is lost"
    lab.runs(every_five(121, 130))
    assert len(lab.said) == 12
    assert (lab.use(126).busy_s, lab.use(126).unknown_s) == (126 * 60, 0), "no minute is counted twice"


@pytest.mark.parametrize("ahead", [DAY, YEAR])
@pytest.mark.parametrize("wrong", [1, 3])
def test_a_clock_that_was_ahead_for_some_runs_leaves_no_trace(lab: Lab, ahead: int, wrong: int) -> None:
    lab.runs(every_five(0, 30))
    right = lab.rows("SELECT run_at::VARCHAR, host, card, state, held_by FROM rows ORDER BY ALL")
    lab.runs(every_five(ahead + 35, ahead + 30 + 5 * wrong), FREE)
    since = 30 + 5 * wrong
    needed = max(3, wrong + 1)
    lab.runs(every_five(since + 5, since + 5 * (needed - 1)))
    assert len(lab.minutes()) == 7 + wrong, "until then it is not clear which clock is right"
    lab.runs([since + 5 * needed])
    assert lab.minutes() == [*every_five(0, 30), since + 5 * needed]
    assert len(lab.copies()) == 1
    use = lab.use(since + 5 * needed)
    # The last sample stands for five minutes.
    assert (use.busy_s, use.free_s) == (35 * 60, 0)
    assert use.unknown_s == 5 * 60 * (needed + wrong - 1)
    columns = "run_at::VARCHAR, host, card, state, held_by"
    kept = lab.rows(f"SELECT {columns} FROM rows ORDER BY ALL")
    assert kept[: len(right)] == right
    assert {state for *_, state, _ in kept} == {"busy"}


def test_since_when_a_gpu_is_taken_survives_a_clock_that_was_ahead(lab: Lab) -> None:
    lab.runs([0], FREE)
    lab.runs(every_five(5, 30))
    lab.runs([DAY + 35])
    lab.runs(every_five(40, 50))

    def last(reader: Reader) -> tuple[int, ...]:
        path = reader.folder / "last.parquet"
        columns = "since, taken_since, known_at"
        return reader.engine.row(f"SELECT {columns} FROM '{path}' WHERE card <> ''")

    row = ask(lab.config.history_path, last)
    assert [(at - START.timestamp()) / 60 for at in row] == [5, 5, 50]


def test_a_gpu_that_was_first_seen_by_a_wrong_clock_is_new_again(lab: Lab) -> None:
    lab.runs([YEAR, YEAR + 5])
    lab.runs(every_five(0, 20))
    assert lab.minutes() == [10, 15, 20]
    assert (lab.use(20).busy_s, lab.use(20).unknown_s) == (600, 0)


def test_without_a_network_no_clock_is_believed(lab: Lab) -> None:
    lab.runs(every_five(0, 60))
    lab.runs(every_five(-DAY, -DAY + 100), DOWN)
    assert lab.minutes() == every_five(0, 60)
    assert lab.copies() == []


def test_a_clock_of_before_our_time_is_never_believed(lab: Lab) -> None:
    lab.runs(every_five(-30 * YEAR, -30 * YEAR + 100))
    assert not lab.config.history_path.exists()
    lab.runs([0, 5])
    assert lab.minutes() == [0, 5]


def test_events_go_on_by_a_clock_that_stays_in_1970(lab: Lab) -> None:
    lab.config = replace(lab.config, notify=NotifyConfig(samples=1))
    start = (datetime(1970, 1, 1, tzinfo=UTC) - START).total_seconds() / 60
    lab.runs([start, start + 5], FREE)
    lab.runs([start + 10], DOWN)
    lab.runs([start + 15], FREE)
    assert [event.type for event in lab.events()] == ["host-down", "host-up"]
    assert all("1970" in line and "not recorded in the history" in line for line in lab.said)
    assert lab.said


def test_doubts_are_forgotten_when_the_clock_is_right_again(lab: Lab) -> None:
    lab.runs(every_five(0, 60))
    for boot in range(2):
        lab.runs(every_five(-DAY, -DAY + 50))
        lab.runs([65 + 5 * boot])
    assert lab.minutes() == every_five(0, 70)
    assert lab.copies() == []


def test_a_clock_that_was_ahead_does_not_silence_events(lab: Lab) -> None:
    lab.config = replace(lab.config, notify=NotifyConfig(samples=1))
    lab.runs([0, 5], FREE)
    lab.runs([DAY], DOWN)
    lab.runs([10, 15, 20, 25], FREE)
    lab.runs([30], DOWN)
    assert [(event.type, event.host) for event in lab.events()] == [
        ("host-down", "node1"),
        ("host-up", "node1"),
        ("host-down", "node1"),
    ]
    assert max(event.at for event in lab.events()) == START + timedelta(minutes=30), "none is of tomorrow"
    assert 0 <= (lab.events()[1].lasted_s or 0) <= 3600


def test_events_need_no_history_to_know_that_a_clock_was_ahead(lab: Lab) -> None:
    lab.config = replace(lab.config, notify=NotifyConfig(samples=1), history=HistoryConfig(enabled=False))
    lab.runs([0, DAY, 5, 10, 15], FREE)
    lab.runs([20], DOWN)
    assert [event.type for event in lab.events()] == ["host-down"]


def test_a_run_of_some_hosts_does_not_record_the_others_times_of_tomorrow(lab: Lab) -> None:
    lab.runs([0, 5])
    later = START + timedelta(minutes=10)
    lab._answer = [replace(BUSY, fetched_at=later + timedelta(days=1))]
    fetch_module.fetch(lab.config, clock=lambda: later, say=lab.said.append)
    assert lab.minutes() == [0, 5]


def test_nothing_is_pruned_by_a_clock_that_is_ahead(lab: Lab) -> None:
    lab.config = replace(lab.config, history=HistoryConfig(keep=7))
    lab.runs(every_five(0, 60))
    lab.runs(range(YEAR, YEAR + 2 * DAY, 180))
    assert lab.minutes()[:13] == every_five(0, 60)
    lab.runs(every_five(65, 130))
    assert lab.minutes()[:13] == every_five(0, 60)
    assert lab.minutes()[-1] == 130


def test_after_a_long_pause_what_is_old_goes_a_week_later(lab: Lab) -> None:
    lab.config = replace(lab.config, history=HistoryConfig(keep=7))
    lab.runs(every_five(0, 60))
    lab.runs(range(100 * DAY, 109 * DAY, 360))
    assert lab.minutes()[0] > 100 * DAY


def test_a_year_ahead_invents_no_unknown_hours_meanwhile(lab: Lab) -> None:
    lab.runs(every_five(0, 30))
    lab.runs([YEAR, YEAR + 5])
    lab.runs([40])
    assert (lab.use(41).busy_s, lab.use(41).unknown_s) == (35 * 60, 6 * 60)


def test_the_page_is_made_while_the_clock_is_doubted(lab: Lab) -> None:
    lab.runs(every_five(0, 30))
    lab.runs([YEAR, YEAR + 5])
    lab.runs([40])
    page = render(lab.config, START + timedelta(minutes=41)).read_text()
    assert "A100" in page


# history repair


def installed(lab: Lab) -> Path:
    directory = lab.config.path.parent
    lab.config.path.write_text("[common]\nhosts = ['node1']\n")
    return directory


def test_the_admin_can_say_which_clock_was_right(lab: Lab) -> None:
    lab.runs(every_five(0, 30))
    lab.runs(every_five(DAY, DAY + 50))
    directory = installed(lab)
    done = gpumon("history", "repair", "--drop-after", "2025-11-14T09:30:00Z", cwd=directory)
    (copy,) = lab.copies()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"11 runs from 2025-11-15T09:00:00Z on dropped; {copy.name} has them still\n"
    assert lab.minutes() == every_five(0, 30)
    assert lab.minutes(copy) == every_five(DAY, DAY + 50)
    assert copy.stat().st_mode & 0o777 == 0o700
    lab.runs([35])
    assert lab.said == []
    assert lab.minutes() == every_five(0, 35)


def test_there_may_be_nothing_to_drop(lab: Lab) -> None:
    lab.runs([0, 5])
    done = gpumon("history", "repair", "--drop-after", "2025-11-14T09:30:00Z", cwd=installed(lab))
    assert (done.returncode, done.stdout) == (0, "nothing was recorded after 2025-11-14T09:30:00Z\n")
    assert lab.copies() == []


def test_repair_needs_a_time(lab: Lab) -> None:
    done = gpumon("history", "repair", cwd=installed(lab))
    assert done.returncode == 2
    assert "--drop-after" in done.stderr
    done = gpumon("history", "repair", "--drop-after", "yesterday", cwd=installed(lab))
    assert done.returncode == 2
