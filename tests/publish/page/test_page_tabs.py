"""The tabs' rows: what a user held in a day, outages, days of a host, and what is held idle by person."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from gpumon_static.publish.page.records import IdleRow
from gpumon_static.publish.page.tabs.held_day import _outline
from gpumon_static.publish.page.tabs.idle import MOST_GPUS, idle_people
from gpumon_static.publish.page.tabs.outages import beat_paths, event_rows
from gpumon_static.store.events import Event
from gpumon_static.survey.privacy import Tier
from tests.builders import NOW, busy_gpu, reading
from tests.past_lab import PastLab, held_gpu


def event(kind: str, host: str, hours: float, status: str | None = None) -> Event:
    at = NOW + timedelta(hours=hours)
    return Event(f"{kind} {host} {hours}", kind, host, None, at, at, status=status)


def test_an_outage_is_one_row_with_its_length() -> None:
    events = [
        event("host-up", "b", 30),
        event("host-down", "a", 20, "driver"),
        event("host-up", "a", 11),
        event("host-down", "b", 5, "timeout"),
        event("host-down", "a", 2, "timeout"),
    ]
    rows = event_rows(events, Tier.NAMES)
    assert [(row.host, row.lasted, row.title) for row in rows] == [
        ("a", "", "gives no data: driver"),
        ("b", "1 d 1 h", "gives no data: timeout"),
        ("a", "9 h", "gives no data: timeout"),
    ]
    first = NOW + timedelta(hours=2)
    assert rows[2].text.startswith(f"{first:%a} {first.day} {first:%b %Y, %H:%M} to ")


def test_a_return_without_its_outage_stays_a_row() -> None:
    rows = event_rows([event("host-up", "a", 3), event("host-up", "a", 1)], Tier.NAMES)
    assert [row.kind for row in rows] == ["host-up", "host-up"]


def test_days_of_a_host_are_two_areas() -> None:
    up, down = beat_paths(" 0099 1")
    assert up == "M1 0h2v9h-2zM6 0h1v7h-1z"
    assert down == "M3 0h2v9h-2zM6 7h1v2h-1z", "however short, it is seen"
    assert beat_paths("") == ("", "")


def test_what_was_held_is_an_area_for_each_stretch() -> None:
    assert _outline([0, 2, 2, 1, 0, 3], 3) == "M1 3v-2h2v1h1V3zM5 3v-3h1V3z"


def idle_row(user: str, index: int, hours: int) -> IdleRow:
    return IdleRow(
        host="node1",
        anchor=f"host-node1:{index}",
        index=str(index),
        model="A100 80G",
        holder=user,
        memory="39 GB",
        idle=f"{hours} h",
        idle_s=hours * 3600,
        message=f"Hi {user}",
        looks=f"idle at each of {12 * hours} looks since Sun 25 Oct 01:10 CET",
        users=((user, True),),
    )


def test_what_is_held_idle_is_summed_by_person() -> None:
    asked: list[tuple[str, str, str]] = []

    def write(name: str, subject: str, text: str) -> str:
        asked.append((name, subject, text))
        return f"to {name}"

    rows = [idle_row("mira", 0, 9), idle_row("jonas", 1, 6), idle_row("jonas", 2, 5)]
    jonas, mira = idle_people(rows, write)
    assert (jonas.number, jonas.idle, jonas.longest, jonas.write) == (2, "11 h", "6 h", "to jonas")
    assert (mira.message, mira.write) == ("Hi mira", "to mira")
    assert "node1 GPU 1 (A100 80G): 39 GB of memory, idle at each of 72 looks since Sun" in jonas.message
    assert "node1 GPU 2" in jonas.message
    assert ("jonas", "Held idle: node1 GPU 1 and 1 more", jonas.message) in asked


def test_a_message_about_many_gpus_stays_short() -> None:
    (one,) = idle_people([idle_row("mira", number, 1) for number in range(1000)])
    assert (len(one.gpus), one.more, one.number) == (MOST_GPUS, 1000 - MOST_GPUS, 1000)
    assert len(one.message) < 2000


@pytest.fixture
def lab(tmp_path: Path) -> PastLab:
    return PastLab(tmp_path)


def test_a_day_of_a_user_and_of_a_host_follows_the_runs(lab: PastLab) -> None:
    both = reading("node1", [held_gpu(0, "user3"), busy_gpu(1)])
    lab.runs(range(0, 9 * 60 + 1, 5), both)
    page = lab.page(9 * 60, both)
    assert page.people
    assert page.health
    row = next(row for row in page.people.rows if row.name == "user3")
    assert row.day
    assert (row.day.top, row.day.busy) == (1, "")
    assert row.day.held.count("M") == 1
    (beat,) = page.health.availability
    assert (beat.share, beat.down) == ("100.0", "")
    assert beat.up == "M29 0h1v9h-1z", "one day is known, today"
    assert page.health.summary == "1 GPU is held idle by 1 user."
