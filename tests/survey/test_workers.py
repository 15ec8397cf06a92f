"""A Dask worker that is gone is news, once, and is remembered until it is back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpumon_static.config.file import load
from gpumon_static.config.settings import Config
from gpumon_static.store import events_file
from gpumon_static.store.events import Event, EventMemory
from gpumon_static.survey.news import tell
from gpumon_static.survey.workers import lost_workers, note_workers

AT = datetime(2026, 11, 18, 2, 0, tzinfo=UTC)
S = "Dask scheduler"
GONE = "is gone"


class Runs:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.memory = EventMemory(feed_id="5f0c3c1e-53a0-4c3e-9a8e-0d4b8a3b1a11")
        self.now = AT

    def run(self, scheduler: str = "", **workers: str) -> list[Event]:
        self.now += timedelta(minutes=5)
        found = {S: scheduler, **{f"Dask worker {name}": why for name, why in workers.items()}}
        return note_workers(self.memory, found, self.config, self.now)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    path = tmp_path / "config.ini"
    path.write_text(
        "[common]\nhosts = ['h']\n[fetch]\nengine = 'dask'\nscheduler = 'tcp://s:8786'\n"
        "insecure_scheduler = true\n"
    )
    return Runs(load(path))


def test_a_worker_counts_as_gone_after_samples_runs_whatever_the_reason_of_each(runs: Runs) -> None:
    assert runs.run(a="", b="") == []
    assert runs.run(a="", b="does not answer") == []
    (event,) = runs.run(a="")
    assert (event.type, event.host, event.error, event.group) == ("worker-down", "Dask worker b", GONE, None)
    assert event.since == AT + timedelta(minutes=10)
    assert tell(event).title == "Dask worker b is gone"
    assert lost_workers(runs.memory) == (("Dask worker b", GONE),)
    assert runs.run(a="") == []
    assert runs.run(a="", b="") == []
    (back,) = runs.run(a="", b="")
    assert (back.type, back.lasted_s) == ("worker-up", 900.0)
    assert tell(back).text == "It could not be used for 15 min."
    assert lost_workers(runs.memory) == ()


def test_one_run_without_a_worker_is_no_news(runs: Runs) -> None:
    assert [*runs.run(b=""), *runs.run(), *runs.run(b=""), *runs.run(), *runs.run(b="")] == []


def test_without_the_scheduler_it_is_the_scheduler_that_is_reported_not_each_worker(runs: Runs) -> None:
    runs.run(a="", b="")
    runs.run("does not answer")
    (event,) = runs.run("does not answer")
    assert tell(event).title == f"{S} does not answer"
    assert lost_workers(runs.memory) == ((S, "does not answer"),)
    (back,) = [*runs.run(a="", b=""), *runs.run(a="", b="")]
    assert back.type == "worker-up"


def test_a_worker_that_stays_away_is_forgotten_after_a_week(runs: Runs) -> None:
    runs.run(a="", b="")
    runs.run(a="")
    runs.run(a="")
    runs.now += timedelta(days=7)
    runs.run(a="")
    assert lost_workers(runs.memory) == ()


def test_another_engine_knows_no_workers(runs: Runs) -> None:
    runs.run(a="", b="")
    runs.run(a="")
    runs.run(a="")
    fetch = replace(runs.config.fetch, engine="processes")
    assert note_workers(runs.memory, {}, replace(runs.config, fetch=fetch), runs.now) == []
    assert lost_workers(runs.memory) == ()


def test_the_workers_are_kept_in_the_file_of_the_events(runs: Runs, tmp_path: Path) -> None:
    runs.run(a="", b="")
    runs.run(a="")
    runs.run(a="")
    events_file.save(tmp_path / "events.json", runs.memory)
    kept = events_file.read(tmp_path / "events.json")
    assert kept.workers == runs.memory.workers
    assert kept.events == runs.memory.events
