"""What the history keeps of the hosts around the GPUs, and of events."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from gpumon_static.commands.keep import keep
from gpumon_static.config.settings import Config, HistoryConfig, PathsConfig
from gpumon_static.model import Disk, HostReading, Machine
from gpumon_static.store import events_file
from gpumon_static.store.events import Event, EventMemory
from gpumon_static.store.history import database, event_log, record
from gpumon_static.store.history.database import reading, writing
from gpumon_static.store.history.past import timelines
from tests.builders import READ_AT, busy_gpu, config, failed
from tests.builders import reading as host_reading

MACHINE = Machine(
    cpu_count=8,
    load_1m=2.56,
    cpu_utilization=41.6,
    ram_total_mib=1000.0,
    ram_used_mib=250.0,
    disks=(Disk("/", 10.0, 100.0), Disk("/data", 95.0, 100.0), Disk("/odd")),
)


class Past:
    """A lab of two hosts, whose runs are kept as `fetch` keeps them."""

    def __init__(self, directory: Path) -> None:
        self.config: Config = replace(config("a", "b"), paths=PathsConfig(directory, directory))
        self.said: list[str] = []

    def run(self, minute: float, *down: str, machine: Machine = MACHINE) -> list[Event]:
        at = READ_AT + timedelta(minutes=minute)
        seen = [self._read(host, at, host in down, machine) for host in ("a", "b")]
        return keep(self.config, seen, seen, at, self.said.append)

    def _read(self, host: str, at: datetime, is_down: bool, machine: Machine) -> HostReading:
        made = failed(host) if is_down else host_reading(host, [busy_gpu()], machine=machine)
        return replace(made, fetched_at=at)

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.config.history_path)) as connection:
            return connection.execute(query).fetchall()

    def past(self, minute: float) -> timelines.Past:
        with reading(self.config.history_path) as connection:
            return timelines.read(connection, READ_AT + timedelta(minutes=minute))


@pytest.fixture
def lab(tmp_path: Path) -> Past:
    return Past(tmp_path)


def test_each_run_keeps_cpu_ram_fullest_disk_and_load(lab: Past) -> None:
    lab.run(0)
    lab.run(5, machine=Machine())
    assert lab.said == []
    assert lab.rows("SELECT cpu, ram, disk, load FROM machine_runs") == [(42, 25, 95, 26)] * 2
    past = lab.past(6)
    points = [42, 25, 95, pytest.approx(2.6)]
    assert list(past.machines["24h"].hosts["a"])[:4] == points
    assert list(past.machines["30d"].hosts["a"]) == points


def test_availability_is_the_share_of_the_known_time_with_an_answer(lab: Past) -> None:
    for minute in range(0, 45, 5):
        lab.run(minute, *(["b"] if 10 <= minute < 20 else []))
    found = lab.past(45).availability
    assert (found["a"].up_s, found["a"].down_s, found["a"].share) == (2400, 0, 1.0)
    assert (found["b"].up_s, found["b"].down_s, found["b"].share) == (1800, 600, 0.75)
    # The first hour began at 09:00, ten minutes before the first run.
    assert found["b"].coverage == pytest.approx(2400 / (55 * 60))
    lab.run(300)
    assert lab.past(300).availability["a"].up_s == 2400 + 300, "a pause is not known"


def test_a_host_that_never_answered_has_an_availability(lab: Past) -> None:
    lab.run(0, "b")
    lab.run(5, "b")
    assert lab.past(5).availability["b"].share == 0


def make_version_3(lab: Past) -> None:
    with closing(sqlite3.connect(lab.config.history_path)) as connection:
        known = [*database.FIRST, *database.SECOND, *database.THIRD]
        tables = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall()
        for column in ("told", "allocated", "idle"):
            connection.execute(f"ALTER TABLE supply_last DROP COLUMN {column}")
        for table in (name for name, sql in tables if sql not in known and name != "supply_last"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version = 3")
        connection.commit()


def test_a_database_without_these_tables_is_read_and_then_brought_up_to_date(lab: Past) -> None:
    for minute in range(0, 30, 5):
        lab.run(minute, *(["b"] if minute in (10, 15) else []))
    before = lab.past(30).availability
    make_version_3(lab)
    old = lab.past(30)
    assert (old.machines["24h"].hosts, old.availability, old.events) == ({}, {}, [])
    lab.run(30)
    assert lab.said == []
    after = lab.past(30).availability
    assert after["a"].up_s == before["a"].up_s + 300
    assert (after["b"].up_s, after["b"].down_s) == (before["b"].up_s + 300, 600)


def kinds(events: Sequence[Event]) -> list[tuple[str, str]]:
    return [(event.type, event.host) for event in events]


def test_events_are_kept_after_events_json_has_forgotten_them(lab: Past) -> None:
    for minute in range(0, 30, 5):
        lab.run(minute, *(["b"] if minute >= 10 else []))
    (event,) = lab.past(30).events
    assert kinds([event]) == [("host-down", "b")]
    assert (event.status, event.error) == ("timeout", "no answer within 10 s")
    events_file.save(events_file.path_in(lab.config.paths.data), EventMemory())
    lab.run(35)
    assert kinds(lab.past(35).events) == [("host-down", "b")]


def test_events_of_before_the_update_are_taken_from_events_json(lab: Past) -> None:
    for minute in range(0, 30, 5):
        lab.run(minute, *(["b"] if minute >= 10 else []))
    make_version_3(lab)
    lab.run(30, "b")
    assert kinds(lab.past(30).events) == [("host-down", "b")]


def test_events_are_kept_as_long_as_the_config_says(lab: Past) -> None:
    lab.config = replace(lab.config, history=HistoryConfig(keep_events=2))
    day = 24 * 60
    old, new = (
        Event(name, "host-down", "a", None, READ_AT + timedelta(minutes=m), READ_AT, status="dns")
        for name, m in (("old", 0), ("new", 2 * day))
    )
    with writing(lab.config.history_path) as connection:
        record.add(connection, lab.config, [], 0)
        connection.execute("INSERT INTO hosts (id, name) VALUES (1, 'a')")
        event_log.add_events(connection, lambda _: 1, [old, new], 0)
        now = int((READ_AT + timedelta(minutes=3 * day)).timestamp())
        record.prune_as_configured(connection, lab.config, now)
        assert [event.id for event in event_log.read_events(connection, 0, 10)] == ["new"]
        event_log.add_events(connection, lambda _: 1, [old], now - 2 * day * 60)
        assert [event.id for event in event_log.read_events(connection, 0, 10)] == ["new"]


def test_a_host_that_flaps_has_the_newest_of_its_events(lab: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "MOST_PER_HOST", 3)
    many = [Event(str(n), "host-up", "a", None, READ_AT + timedelta(minutes=n), READ_AT) for n in range(9)]
    with writing(lab.config.history_path) as connection:
        connection.execute("INSERT INTO hosts (id, name) VALUES (1, 'a')")
        event_log.add_events(connection, lambda _: 1, many, 0)
        assert [event.id for event in event_log.read_events(connection, 0, 10)] == ["8", "7", "6", "5"]


UNREADABLE = ["", "{", "[]", '{"since": 5}', '{"since": "2025-11-14T09:00:00Z"}', "null"]
NO_TIME = [10**12, 2**60, 2**63 - 1]


@pytest.mark.parametrize(
    ("column", "value"), [*(("told", told) for told in UNREADABLE), *(("at", at) for at in NO_TIME)]
)
def test_an_event_that_cannot_be_read_is_left_out(lab: Past, column: str, value: str | int) -> None:
    """One of a time that no calendar has, too."""
    for minute in range(0, 30, 5):
        lab.run(minute, *(["b"] if minute >= 10 else []))
    with closing(sqlite3.connect(lab.config.history_path)) as connection:
        connection.execute(f"UPDATE events SET {column} = ?", (value,))
        connection.commit()
    assert lab.past(30).events == []


@pytest.mark.parametrize("at", NO_TIME)
def test_a_run_of_a_time_that_no_calendar_has_is_ahead_of_the_clock_and_dropped_as_such(
    lab: Past, at: int
) -> None:
    lab.run(0)
    with closing(sqlite3.connect(lab.config.history_path)) as connection:
        connection.execute("INSERT INTO runs VALUES (?)", (at,))
        connection.commit()
    for minute in range(5, 20, 5):
        lab.run(minute)
    *doubted, dropped = lab.said
    assert len(doubted) == 2
    assert all("behind the last recorded run: this run is not recorded" in line for line in doubted)
    assert "dropped" in dropped
    lab.run(20)
    assert [run for (run,) in lab.rows("SELECT at FROM runs")] == [
        int((READ_AT + timedelta(minutes=minute)).timestamp()) for minute in (0, 15, 20)
    ]


def test_what_a_clock_ahead_recorded_is_dropped_here_too(lab: Past) -> None:
    for minute in range(0, 130, 5):
        lab.run(minute, *(["b"] if minute >= 100 else []))
    assert kinds(lab.past(130).events) == [("host-down", "b")]
    at = READ_AT + timedelta(minutes=60)
    record.drop_after(lab.config, at, READ_AT + timedelta(minutes=131))
    (cut,) = lab.rows("SELECT max(at) FROM runs")[0]
    assert isinstance(cut, int)
    assert lab.rows(f"SELECT count(*) FROM machine_runs WHERE at > {cut}") == [(0,)]
    assert lab.past(60).events == []
    hours = lab.rows("SELECT sum(up_s), sum(down_s) FROM machine_hours")
    assert hours == lab.rows("SELECT sum(up_s), sum(down_s) FROM machine_days")
    assert hours[0][1] == 0
