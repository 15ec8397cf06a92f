"""Faults that an admin knows of: shown as acknowledged, and quiet until their day. And hosts that were renamed."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from gpumon_static.config.file import load
from gpumon_static.config.known import Known
from gpumon_static.errors import ConfigError
from gpumon_static.model import Fault, HostReading
from gpumon_static.publish.exports.gpus_json import document
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.records import Page
from gpumon_static.publish.page.thing_records import HealthView
from gpumon_static.publish.page.view import build_page
from gpumon_static.store.events import Event, EventMemory
from gpumon_static.survey.changes import note_changes
from gpumon_static.survey.offers import Wanted, offers
from gpumon_static.survey.survey import build_survey
from tests.builders import NOW, READ_AT, config, failed, gpu, host_config, reading

ECC = Fault("ecc-errors", "3 since the driver was loaded")
LOST = Fault("lost")
TOMORROW, TODAY = NOW.date() + timedelta(days=1), NOW.date()


def sick(fault: Fault = ECC) -> HostReading:
    return reading("n1", [gpu(0, faults=(fault,)), gpu(1)])


def written(tmp_path: Path, value: str) -> Path:
    (tmp_path / "config.ini").write_text(f"[common]\nhosts = 'n1'\n[hosts.n1]\nignore = {value}\n")
    return tmp_path / "config.ini"


def test_what_can_be_written(tmp_path: Path) -> None:
    value = "['ecc-errors until 2026-12-01', 'lost of GPU 3', 'gpus-missing']"
    assert load(written(tmp_path, value)).hosts[0].ignore == (
        Known("ecc-errors", None, date(2026, 12, 1)),
        Known("lost", 3),
        Known("gpus-missing"),
    )


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("['ecc']", "unknown rule of health; the nearest known one is"),
        ("['ecc-errors until friday']", "must be a day such as 2026-12-01"),
        ("['ecc-errors on GPU 3']", "must be such as 'ecc-errors of GPU 3 until 2026-12-01'"),
    ],
)
def test_what_cannot_be_written_is_an_error_of_the_config(tmp_path: Path, value: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load(written(tmp_path, value))


def test_a_known_fault_is_shown_as_acknowledged_on_health_and_card_and_is_no_fault() -> None:
    setup = config(host_config("n1", ignore=(Known("ecc-errors", 0, TOMORROW),)))
    survey = build_survey([sick()], setup, NOW)
    page = build_page([sick()], setup, NOW)
    words = f"ECC errors until {TOMORROW}: 3 since the driver was loaded"
    assert [(row.host, row.what) for row in health_of(page).acknowledged] == [("n1", f"GPU 0: {words}")]
    assert health_of(page).faults == ()
    html = render_page(page)
    assert "Acknowledged faults" in html
    assert words in html
    (host,) = document(survey)["hosts"]
    assert [(f["rule"], f["severity"]) for f in host["gpus"][0]["faults"]] == [("acknowledged", "notice")]


@pytest.mark.parametrize(
    "known", [Known("ecc-errors", 1, TOMORROW), Known("ecc-errors", None, TODAY), Known("lost")]
)
def test_another_gpu_another_fault_and_the_day_itself_are_not_acknowledged(known: Known) -> None:
    page = build_page([sick()], config(host_config("n1", ignore=(known,))), NOW)
    assert (health_of(page).acknowledged, len(health_of(page).faults)) == ((), 1)


def test_a_lost_gpu_stays_unusable_and_missing_ones_are_known_too() -> None:
    setup = config(host_config("n1", gpus=4, ignore=(Known("lost"), Known("gpus-missing", None, TOMORROW))))
    page = build_page([sick(LOST)], setup, NOW)
    assert [row.what for row in health_of(page).acknowledged] == [
        "GPU 0: lost",
        f"GPUs missing until {TOMORROW}",
    ]
    (offer,) = offers(document(build_survey([sick(LOST)], setup, NOW)), Wanted(), NOW)
    assert offer.devices == "1"


def health_of(page: Page) -> HealthView:
    assert page.health
    return page.health


def run(memory: EventMemory, first: int, last: int, given: HostReading, *known: Known) -> list[str]:
    setup = config(host_config("n1", ignore=known))
    found: list[Event] = []
    for number in range(first, last):
        found += note_changes(
            memory, [replace(given, fetched_at=READ_AT + number * timedelta(minutes=5))], setup
        )
    return [event.type for event in found]


def test_a_known_fault_is_no_event_and_has_not_recovered_either() -> None:
    memory = EventMemory()
    assert run(memory, 0, 3, reading("n1", [gpu(0), gpu(1)])) == []
    assert run(memory, 3, 6, sick()) == ["gpu-fault"]
    known = Known("ecc-errors", None, date(2100, 1, 1))
    assert run(memory, 6, 40, sick(), known) == []
    # Its day has come.
    assert run(memory, 40, 44, sick(), replace(known, until=date(2020, 1, 1))) == ["gpu-fault"]


def test_a_renamed_host_keeps_its_state_and_its_entries_of_the_feed() -> None:
    memory = EventMemory()
    steps = [reading("old", [gpu(0)]), *[failed("old")] * 3]
    for number, one in enumerate(steps):
        note_changes(
            memory, [replace(one, fetched_at=READ_AT + number * timedelta(minutes=5))], config("old")
        )
    (down,) = memory.events
    renamed = config(host_config("new", was="old"))
    later = [
        replace(reading("new", [gpu(0)]), fetched_at=READ_AT + n * timedelta(minutes=5)) for n in (5, 6, 7)
    ]
    found = [event for one in later for event in note_changes(memory, [one], renamed)]
    assert [(event.type, event.host) for event in found] == [("host-up", "new")]
    assert next((event.id, event.host) for event in memory.events) == (down.id, "new")


def test_a_name_that_is_still_in_use_was_nobody_elses(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text("[common]\nhosts = 'a,b'\n[hosts.a]\nwas = 'b'\n")
    with pytest.raises(ConfigError, match="hosts.a.was: b is still in common.hosts"):
        load(tmp_path / "config.ini")
