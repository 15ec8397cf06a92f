"""State changes: what counts as one, and the command that is run for it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpumon_static.model import Allocated, Allocation, Fault, HostReading
from gpumon_static.model.rules import RULES
from gpumon_static.store import events_file
from gpumon_static.store.events import Event, EventMemory
from gpumon_static.survey.changes import MOST_EVENTS, note_changes
from gpumon_static.survey.news import tell
from tests.builders import READ_AT, busy_gpu, failed, gpu, host_config, reading
from tests.command import gpumon
from tests.notify_lab import STEP, UP, lab, run

DOWN = failed("n1")


ECC = Fault("ecc-errors", "3 since the driver was loaded")


def dated(host: HostReading, minute: int) -> HostReading:
    return replace(host, fetched_at=READ_AT + timedelta(minutes=minute))


def types(events: Sequence[Event]) -> list[str]:
    return [event.type for event in events]


def test_a_host_that_fails_twice_is_down_and_that_is_told_once() -> None:
    (event,) = run([UP, DOWN, DOWN, DOWN, DOWN])
    assert (event.type, event.host, event.status) == ("host-down", "n1", "timeout")
    assert event.since == READ_AT + STEP
    assert event.at == READ_AT + 2 * STEP
    assert tell(event).title == "n1 gives no data: timeout"
    assert "no answer within 10 s" in tell(event).text
    assert "no answer" not in tell(event, with_error=False).text


def test_one_lost_packet_is_no_news() -> None:
    assert run([UP, DOWN, UP, DOWN, UP, DOWN, UP]) == []


def test_a_host_that_is_back_says_how_long_it_was_away() -> None:
    down, up = run([UP, DOWN, DOWN, DOWN, UP, UP])
    assert types([down, up]) == ["host-down", "host-up"]
    assert up.lasted_s == 15 * 60
    assert tell(up).text == "It gave no data for 15 min."


def test_what_the_first_fetch_sees_is_no_change() -> None:
    assert run([DOWN, DOWN, DOWN]) == []
    assert run([reading("n1", [gpu(0, faults=(ECC,))])] * 3) == []


def test_with_one_sample_it_is_told_at_once() -> None:
    assert types(run([UP, DOWN], lab(samples=1))) == ["host-down"]


def test_a_host_with_eight_faulty_gpus_is_one_message() -> None:
    bad = reading("n1", [gpu(index, faults=(ECC,)) for index in range(8)])
    (event,) = run([reading("n1", [gpu(index) for index in range(8)]), bad, bad, bad])
    assert event.type == "gpu-fault"
    assert [g.index for g in event.gpus] == list(range(8))
    assert tell(event).title == "n1: GPUs 0, 1, 2, 3, 4, 5, 6 and 7: ECC errors"
    assert "could not be corrected" in tell(event).text


def test_a_notice_and_a_fault_that_the_config_ignores_are_no_news() -> None:
    off = reading("n1", [gpu(0, faults=(Fault("persistence-off"),))])
    assert run([UP, off, off]) == []
    bad = reading("n1", [gpu(0, faults=(ECC,))])
    setup = lab()
    ignoring = replace(setup, site=replace(setup.site, ignore_faults=("ecc-errors",)))
    assert run([UP, bad, bad], ignoring) == []


def test_a_fault_that_comes_and_goes_with_the_load_is_told_once() -> None:
    hot = reading("n1", [gpu(0, faults=(Fault("hot-throttle"),)), gpu(1)])
    assert types(run([UP, hot, hot, UP, UP, UP, hot, hot, UP, UP, hot, hot])) == ["gpu-fault"]


def test_a_fault_that_stays_away_for_an_hour_is_mended() -> None:
    hot = reading("n1", [gpu(0, faults=(Fault("hot-throttle"),)), gpu(1)])
    events = run([UP, hot, hot, *[UP] * 12])
    assert types(events) == ["gpu-fault", "gpu-recovered"]
    assert tell(events[1]).title == "n1: GPU 0 is healthy again"


BAD = reading("n1", [gpu(0), gpu(1, uuid="GPU-b", faults=(ECC,))])


def test_a_faulty_gpu_that_disappears_is_not_healthy_again_but_lost() -> None:
    gone = reading("n1", [gpu(0)])
    fault, lost = run([UP, BAD, BAD, *[gone] * 40])
    assert types([fault, lost]) == ["gpu-fault", "gpu-fault"]
    assert lost.at == READ_AT + 4 * STEP
    assert tell(lost).title == "n1: GPU 1: lost"
    assert tell(lost).text.startswith("GPU 1: lost (no longer listed; it had: ECC errors).")
    assert [(g.index, g.uuid, g.rules) for g in lost.gpus] == [(1, "GPU-b", ("lost",))]


def test_a_lost_gpu_that_is_back_and_well_is_healthy_again() -> None:
    gone, well = reading("n1", [gpu(0)]), reading("n1", [gpu(0), gpu(1, uuid="GPU-b")])
    events = run([UP, BAD, BAD, *[gone] * 20, *[well] * 12])
    assert types(events) == ["gpu-fault", "gpu-fault", "gpu-recovered"]
    assert tell(events[2]).title == "n1: GPU 1 is healthy again"


def test_a_lost_gpu_that_is_back_with_its_fault_is_no_news() -> None:
    gone = reading("n1", [gpu(0)])
    assert types(run([UP, BAD, BAD, *[gone] * 20, *[BAD] * 20])) == ["gpu-fault", "gpu-fault"]


def test_another_gpu_in_the_place_of_a_faulty_one_does_not_make_it_healthy() -> None:
    # Of three GPUs the second fell off the bus: after a reboot the third has its number.
    two = [gpu(0), gpu(1, uuid="GPU-b", faults=(ECC,)), gpu(2, uuid="GPU-c")]
    before, after = reading("n1", two), reading("n1", [gpu(0), gpu(1, uuid="GPU-c")])
    fine = reading("n1", [gpu(0), gpu(1, uuid="GPU-b"), gpu(2, uuid="GPU-c")])
    events = run([fine, before, before, *[after] * 40])
    assert [tell(event).title for event in events] == ["n1: GPU 1: ECC errors", "n1: GPU 1: lost"]
    again = reading("n1", [gpu(0), gpu(1, uuid="GPU-c", faults=(ECC,))])
    events = run([fine, before, before, *[after] * 40, again, again])
    assert tell(events[-1]).title == "n1: GPU 1: ECC errors", "a fault of the new one is news"


def test_a_faulty_gpu_that_gets_another_number_is_no_news() -> None:
    # The first GPU was taken out: the second, which is faulty, is the first now.
    moved = reading("n1", [gpu(0, uuid="GPU-b", faults=(ECC,))])
    assert types(run([UP, BAD, BAD, *[moved] * 40])) == ["gpu-fault"]
    well = reading("n1", [gpu(0, uuid="GPU-b")])
    assert tell(run([UP, BAD, BAD, moved, moved, *[well] * 40])[-1]).title == "n1: GPU 0 is healthy again"


def test_a_faulty_gpu_is_lost_though_another_faulty_one_has_its_number() -> None:
    fine = reading("n1", [gpu(0, uuid="GPU-a"), gpu(1, uuid="GPU-b")])
    both = reading("n1", [gpu(0, uuid="GPU-a", faults=(ECC,)), gpu(1, uuid="GPU-b", faults=(ECC,))])
    one = reading("n1", [gpu(0, uuid="GPU-b", faults=(ECC,))])
    events = run([fine, both, both, *[one] * 40])
    assert types(events) == ["gpu-fault", "gpu-fault"]
    assert [(g.uuid, g.rules) for g in events[1].gpus] == [("GPU-a", ("lost",))]


def test_a_gpu_that_vanishes_for_one_run_is_no_news() -> None:
    assert types(run([UP, BAD, BAD, reading("n1", [gpu(0)]), BAD, BAD])) == ["gpu-fault"]


def test_who_ignores_lost_gpus_is_not_told_of_them() -> None:
    setup = lab()
    ignoring = replace(setup, site=replace(setup.site, ignore_faults=("lost",)))
    assert types(run([UP, BAD, BAD, *[reading("n1", [gpu(0)])] * 40], ignoring)) == ["gpu-fault"]


def test_missing_gpus_are_a_fault_of_the_host() -> None:
    setup = lab(host_config("n1", gpus=4))
    four = reading("n1", [gpu(index) for index in range(4)])
    (event,) = run([four, UP, UP], setup)
    assert tell(event).title == "n1: GPUs missing"
    assert [(g.index, g.detail) for g in event.gpus] == [(None, "2 of 4")]


def test_gpus_freed_after_long_use_are_one_message_for_the_host() -> None:
    busy = reading("n1", [busy_gpu(0), busy_gpu(1), gpu(2)])
    free = reading("n1", [gpu(0), gpu(1), gpu(2)])
    hours = 5 * 12
    (event,) = run([free, *[busy] * hours, free, free])
    assert event.type == "gpu-freed"
    assert event.lasted_s == 5 * 3600
    assert tell(event).title == "n1: GPUs 0 and 1 are free"
    assert tell(event).text == "A100 80G on n1, free again after 5 h in use."


def test_gpus_freed_after_a_short_job_or_a_gap_between_two_are_no_news() -> None:
    busy, free = reading("n1", [busy_gpu(0)]), reading("n1", [gpu(0)])
    assert run([free, *[busy] * 10, free, free]) == []
    assert run([free, *[busy] * 60, free, *[busy] * 10]) == []


def test_a_gpu_is_not_freed_by_its_host_going_down() -> None:
    busy, free = reading("n1", [busy_gpu(0)]), reading("n1", [gpu(0)])
    assert types(run([free, *[busy] * 60, DOWN, DOWN, DOWN])) == ["host-down"]


def test_time_in_which_nobody_looked_is_no_use_of_a_gpu() -> None:
    busy, free = reading("n1", [busy_gpu(0)]), reading("n1", [gpu(0)])
    hours = 12
    events = run([free, *[busy] * 4 * hours, *[DOWN] * 9 * hours, *[busy] * hours, free, free])
    freed = next(event for event in events if event.type == "gpu-freed")
    # A host that is back is believed after two runs.
    assert 5 * 3600 - 600 <= (freed.lasted_s or 0) <= 5 * 3600 + 600
    short = [free, *[busy] * 2 * hours, *[DOWN] * 9 * hours, *[busy] * hours, free, free]
    assert "gpu-freed" not in types(run(short)), "3 h of use are not long"


def test_an_outage_of_an_hour_is_part_of_the_use_though_the_host_is_up_later() -> None:
    """It answers after an hour, and is up after the second answer."""
    free, busy = reading("n1", [gpu(0)]), reading("n1", [busy_gpu(0)])
    events = run([free, *[busy] * 30, *[DOWN] * 11, *[busy] * 30, free, free])
    assert types(events) == ["host-down", "host-up", "gpu-freed"]
    assert events[-1].lasted_s == 71 * 300


def test_a_gpu_in_use_keeps_its_time_when_numbers_shift() -> None:
    two = reading("n1", [gpu(0, uuid="GPU-a"), busy_gpu(1, uuid="GPU-b")])
    one = reading("n1", [busy_gpu(0, uuid="GPU-b")])
    freed = reading("n1", [gpu(0, uuid="GPU-b")])
    (event,) = run([two, *[two] * 36, *[one] * 24, freed, freed])
    assert (event.type, event.lasted_s) == ("gpu-freed", 61 * 300)
    other = reading("n1", [gpu(0, uuid="GPU-a"), gpu(1, uuid="GPU-c")])
    assert run([two, *[two] * 60, other, other]) == [], (
        "the GPU in use was taken out: none is free after long use"
    )


def test_a_gpu_in_use_keeps_its_time_while_its_host_reports_no_uuid() -> None:
    """By its bus id: another GPU is gone meanwhile, so that the numbers shift."""
    others = [gpu(0, uuid="GPU-a", bus_id="00:10.0")]
    named = reading("n1", [*others, busy_gpu(1, uuid="GPU-b", bus_id="00:11.0")])
    nameless = reading("n1", [busy_gpu(0, uuid=None, bus_id="00:11.0")])
    free = reading("n1", [*others, gpu(1, uuid="GPU-b", bus_id="00:11.0")])
    (event,) = run([named, *[named] * 12, *[nameless] * 36, *[named] * 12, free, free])
    assert (event.type, event.lasted_s, event.gpus[0].uuid) == ("gpu-freed", 61 * 300, "GPU-b")
    freed = reading("n1", [gpu(0, uuid=None, bus_id="00:11.0")])
    (event,) = run([named, *[named] * 60, freed, freed])
    told = (event.type, event.lasted_s, event.gpus[0].uuid)
    assert told == ("gpu-freed", 61 * 300, "GPU-b"), "it is freed while its host reports no UUID"
    (event,) = run([free, *[nameless] * 36, *[named] * 24, free, free])
    assert (event.type, event.lasted_s) == ("gpu-freed", 60 * 300), "the use began while it had no UUID"


def test_a_gpu_without_uuid_takes_no_time_of_one_that_is_elsewhere_in_its_host() -> None:
    first = reading("n1", [busy_gpu(0, uuid="GPU-a", bus_id="00:10.0"), gpu(1, uuid=None, bus_id="00:11.0")])
    swapped = reading(
        "n1", [gpu(0, uuid=None, bus_id="00:10.0"), busy_gpu(1, uuid="GPU-a", bus_id="00:11.0")]
    )
    free = reading("n1", [gpu(0, uuid=None, bus_id="00:10.0"), gpu(1, uuid="GPU-a", bus_id="00:11.0")])
    (event,) = run([first, *[first] * 30, *[swapped] * 30, free, free])
    assert (event.lasted_s, event.gpus[0].uuid) == (61 * 300, "GPU-a")


def test_a_use_kept_by_index_goes_on_by_its_bus_id() -> None:
    """As events.json of an older version has it, of a host without UUIDs."""
    memory = EventMemory()
    busy = reading("n1", [busy_gpu(0, uuid=None)])
    for minute in range(0, 300, 5):
        note_changes(memory, [dated(busy, minute)], lab())
    now = reading("n1", [gpu(0, uuid=None, bus_id="00:10.0")])
    new = [event for minute in (300, 305) for event in note_changes(memory, [dated(now, minute)], lab())]
    assert [(event.type, event.lasted_s) for event in new] == [("gpu-freed", 300 * 60)]


def test_a_job_that_leaves_its_gpu_idle_is_reported_once_when_numbers_shift() -> None:
    given = Allocation(Allocated.YES, job="7", user="bob")
    idle = gpu(1, uuid="GPU-b", allocation=given)
    two, one = reading("n1", [gpu(0, uuid="GPU-a"), idle]), reading("n1", [replace(idle, index=0)])
    (event,) = run([two, *[two] * 14, *[one] * 40])
    assert (event.type, event.job, event.gpus[0].uuid) == ("job-idle", "7", "GPU-b")
    (event,) = run([two, *[two] * 8, *[one] * 8])
    assert event.lasted_s == 12 * 300, "of the card, under both numbers"


def test_a_gpu_recovered_since_its_fault_was_last_seen() -> None:
    well = reading("n1", [gpu(0), gpu(1, uuid="GPU-b")])
    events = run([well, BAD, BAD, *[well] * 20])
    assert types(events) == ["gpu-fault", "gpu-recovered"]
    assert events[-1].since == READ_AT + 3 * STEP, "the first run without it"
    assert events[-1].at > events[-1].since


def test_a_host_that_is_down_neither_mends_its_gpus_nor_loses_them() -> None:
    bad = reading("n1", [gpu(0, faults=(ECC,)), gpu(1)])
    setup = lab(host_config("n1", gpus=2))
    assert types(run([UP, bad, bad, *[DOWN] * 20], setup)) == ["gpu-fault", "host-down"]


def test_the_same_readings_twice_are_one_sample() -> None:
    memory = EventMemory()
    note_changes(memory, [UP], lab())
    down = replace(DOWN, fetched_at=READ_AT + STEP)
    assert note_changes(memory, [down], lab()) + note_changes(memory, [down], lab()) == []


def test_a_host_that_changes_in_every_run_pushes_out_no_event_of_the_others() -> None:
    memory, hosts = EventMemory(), lab("calm", "restless", samples=1)
    for minute in range(1000):
        states = failed("calm") if minute == 5 else reading("calm", [gpu()])
        other = failed("restless") if minute % 2 else reading("restless", [gpu()])
        note_changes(memory, [dated(states, minute), dated(other, minute)], hosts)
    assert [event.type for event in memory.events if event.host == "calm"] == ["host-down", "host-up"]
    assert len(memory.events) == MOST_EVENTS
    restless = [event.at for event in memory.events if event.host == "restless"]
    assert restless == sorted(restless)
    assert restless[-1] == READ_AT + timedelta(minutes=999), "the newest are kept"


def test_many_hosts_that_go_down_at_once_are_the_newest_events() -> None:
    names = [f"n{number}" for number in range(MOST_EVENTS + 50)]
    memory, hosts = EventMemory(), lab(*names, samples=1)
    note_changes(memory, [dated(reading(name), 0) for name in names], hosts)
    assert len(note_changes(memory, [dated(failed(name), 1) for name in names], hosts)) == len(names)
    assert [event.host for event in memory.events] == names[50:]


def test_a_host_cannot_make_the_file_large(tmp_path: Path) -> None:
    """As many GPUs, faults and letters as the gate lets through, all of them new in every run."""
    memory, hosts = EventMemory(), lab("node1", samples=1)
    for minute in range(400):
        faults = tuple(Fault(rule, f"{minute:0120}") for rule in RULES) if minute % 20 < 2 else ()
        gpus = [gpu(n, uuid=f"GPU-{minute}-{n:040}", name=f"{minute:096}", faults=faults) for n in range(128)]
        note_changes(memory, [dated(reading("node1", gpus), minute)], hosts)
    events_file.save(tmp_path / "events.json", memory)
    assert len(memory.events) > 10
    assert (tmp_path / "events.json").stat().st_size < 20_000 * len(memory.events) + 100_000
    assert events_file.load(tmp_path / "events.json") == memory


def test_hosts_that_were_not_asked_keep_their_state() -> None:
    setup = lab("n1", "n2")
    n2_down = failed("n2")
    events = run([[UP, reading("n2", [gpu()])], [DOWN], [n2_down], [DOWN], [n2_down]], setup)
    assert [(event.type, event.host) for event in events] == [("host-down", "n1"), ("host-down", "n2")]


GOOD = {
    "version": 1,
    "feed_id": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "hosts": {
        "n1": {
            "read_at": "2025-11-14T09:00:00Z",
            "host": {"state": "up", "since": "2025-11-14T09:00:00Z", "seen": 0},
            "uses": {},
            "faults": {"1 ecc-errors": {"state": "present", "since": "2025-11-14T08:00:00Z", "seen": 0}},
        }
    },
    "events": [
        {
            "id": "6ba7b810-9dad-11d1-80b4-00c04fd430c9",
            "type": "host-up",
            "host": "n1",
            "at": "2025-11-14T09:00:00Z",
            "since": "2025-11-14T09:00:00Z",
            "lasted_s": 300.0,
            "gpus": [],
        }
    ],
}
"""A file as 0.1.0 wrote it."""


def damaged(*path: str | int, to: Any) -> bytes:
    document = json.loads(json.dumps(GOOD))
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return json.dumps(document).encode()


DAMAGED = {
    "empty": b"",
    "cut off": json.dumps(GOOD).encode()[:300],
    "another document": b"[]",
    "a number of 5,000 digits": b"9" * 5000,
    "deep": b"[" * 200_000,
    "binary": bytes(range(256)),
    "no hosts": b'{"version": 1}',
    "a newer version": damaged("version", to=99),
    "a feed id that is none": damaged("feed_id", to="x</id>"),
    "a feed id of another type": damaged("feed_id", to=[1]),
    "a time without a zone": damaged("hosts", "n1", "read_at", to="2025-11-14T09:00:00"),
    "a time that is none": damaged("hosts", "n1", "host", "since", to=5),
    "a count that is a text": damaged("hosts", "n1", "host", "seen", to="2"),
    "a duration that is none": damaged("events", 0, "lasted_s", to="long"),
    "an endless duration": damaged("events", 0, "lasted_s", to=float("inf")),
    "half a character": damaged("events", 0, "error", to="\ud800"),
    "a host that is none": damaged("events", 0, "host", to={}),
}


def fetched_and_rendered(directory: Path) -> tuple[str, str]:
    (directory / "config.ini").write_text(
        "[common]\nhosts = ['127.0.0.1:1']\n[fetch]\nhost_keys = 'accept-new'\n"
    )
    fetched = gpumon("fetch", "--changes", cwd=directory)
    rendered = gpumon("render", cwd=directory)
    assert (fetched.returncode, rendered.returncode, rendered.stderr) == (0, 0, "")
    told = [line for line in fetched.stderr.splitlines() if " events: " in line]
    return "\n".join(told), (directory / "site/feed.xml").read_text()


def test_a_file_of_the_first_release_is_read(tmp_path: Path) -> None:
    (tmp_path / "events.json").write_text(json.dumps(GOOD))
    memory = events_file.read(tmp_path / "events.json")
    assert memory.hosts["n1"].faults["1 ecc-errors"].state == "present"
    assert memory.events[0].lasted_s == 300


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_told_put_aside_and_begun_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "events.json"
    path.write_bytes(content)
    said: list[str] = []
    assert events_file.load(path) == EventMemory(), "render does without"
    assert events_file.load_or_put_aside(path, READ_AT, said.append) == EventMemory()
    (aside,) = tmp_path.iterdir()
    assert aside.read_bytes() == content
    assert len(said) == 1
    assert said[0].endswith(f"; the file is now {aside.name}, and a new one begins")
    assert aside.name.startswith("events.json.damaged-2025")


@pytest.mark.parametrize("kind", ["feed id", "directory", "pipe"])
def test_a_fetch_and_a_render_go_on_with_a_damaged_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "data/events.json"
    path.parent.mkdir()
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(DAMAGED["a feed id that is none"])
    told, feed = fetched_and_rendered(tmp_path)
    (aside,) = path.parent.glob("events.json.damaged-*")
    words = "is damaged" if kind == "feed id" else "is not a file"
    assert (
        told == f"gpumon-static: events: {path} {words}; the file is now {aside.name}, and a new one begins"
    )
    assert "<id>urn:uuid:" in feed
    assert events_file.read(path).feed_id in feed
    assert fetched_and_rendered(tmp_path)[0] == ""
