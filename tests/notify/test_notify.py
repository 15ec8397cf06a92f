"""State changes: what counts as one, and the command that is run for it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from gpumon_static.config import file as config_file
from gpumon_static.config.settings import Config, HostConfig, NotifyConfig
from gpumon_static.model import Fault, HostReading
from gpumon_static.model.rules import RULES
from gpumon_static.notify.run import notify
from gpumon_static.store import events_file
from gpumon_static.store.events import Event, EventMemory
from gpumon_static.survey.changes import MOST_EVENTS, note_changes
from gpumon_static.survey.news import tell
from tests.builders import READ_AT, busy_gpu, config, failed, gpu, host_config, reading
from tests.command import PROGRAM, gpumon
from tests.notify_lab import EXAMPLES
from tests.places import CAPTURES, ROOT
from tests.sshd import GpuHosts

STEP = timedelta(minutes=5)

DOWN = failed("n1")
UP = reading("n1", [gpu(0), gpu(1)])
ECC = Fault("ecc-errors", "3 since the driver was loaded")


def lab(*hosts: HostConfig | str, **changes: Any) -> Config:
    return replace(config(*(hosts or ("n1",))), notify=NotifyConfig(**changes))


def run(fetches: Sequence[HostReading | Sequence[HostReading]], setup: Config | None = None) -> list[Event]:
    """Five minutes apart; each is the reading of one host, or of several."""
    memory = EventMemory()
    found: list[Event] = []
    for number, readings in enumerate(fetches):
        listed = [readings] if isinstance(readings, HostReading) else readings
        at = READ_AT + number * STEP
        found += note_changes(memory, [replace(r, fetched_at=at) for r in listed], setup or lab())
        memory = through_the_file(memory)
    return found


def dated(host: HostReading, minute: int) -> HostReading:
    return replace(host, fetched_at=READ_AT + timedelta(minutes=minute))


def through_the_file(memory: EventMemory) -> EventMemory:
    """Each fetch is a process of its own: what it knows, it knows from events.json."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "events.json"
        events_file.save(path, memory)
        assert events_file.load(path) == memory
        return events_file.load(path)


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


# The command


def event(number: int = 1, kind: str = "host-down") -> Event:
    return Event(f"id-{number}", kind, f"n{number}", "vision", READ_AT, READ_AT, status="timeout")


def told(setup: Config, *events: Event) -> list[str]:
    lines: list[str] = []
    notify(events, setup, lines.append)
    return lines


def with_command(tmp_path: Path, *command: str, **changes: Any) -> Config:
    return replace(lab(command=command, **changes), path=tmp_path / "config.ini")


def test_the_command_gets_the_event_as_json(tmp_path: Path) -> None:
    setup = with_command(tmp_path, "sh", "-c", "cat > event.json; echo noise; echo more >&2")
    assert told(setup, event()) == []
    document = json.loads((tmp_path / "event.json").read_text())
    assert document == {
        "version": 1,
        "site": "GPU Monitor",
        "title": "n1 gives no data: timeout",
        "text": document["text"],
        "id": "id-1",
        "type": "host-down",
        "host": "n1",
        "group": "vision",
        "at": "2025-11-14T09:10:00Z",
        "since": "2025-11-14T09:10:00Z",
        "status": "timeout",
        "gpus": [],
    }
    assert document["text"].startswith("n1 has been failing since 14 Nov ")


def test_a_one_line_command_has_it_in_its_environment(tmp_path: Path) -> None:
    setup = with_command(tmp_path, "sh", "-c", 'echo "$GPUMON_TYPE|$GPUMON_HOST|$GPUMON_TITLE" > said')
    assert told(setup, event()) == []
    assert (tmp_path / "said").read_text() == "host-down|n1|n1 gives no data: timeout\n"


def test_hostile_text_is_no_shell_command(tmp_path: Path) -> None:
    hostile = replace(event(), error="$(touch owned); `touch owned`\n' \" | touch owned")
    setup = with_command(tmp_path, "sh", "-c", 'printf %s "$GPUMON_TEXT" > said')
    assert told(setup, hostile) == []
    assert "$(touch owned)" in (tmp_path / "said").read_text()
    assert not (tmp_path / "owned").exists()


def test_only_the_events_that_were_asked_for(tmp_path: Path) -> None:
    setup = with_command(tmp_path, "sh", "-c", "echo $GPUMON_TYPE >> said")
    told(setup, event(1), event(2, "gpu-freed"), event(3, "gpu-fault"))
    assert sorted((tmp_path / "said").read_text().split()) == ["gpu-fault", "host-down"]
    told(replace(setup, notify=replace(setup.notify, events=("gpu-freed",))), event(4, "gpu-freed"))
    assert (tmp_path / "said").read_text().split()[2:] == ["gpu-freed"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("false",), "the command exited with 1 for host-down of n1"),
        (("sh", "-c", "echo no such list >&2; exit 9"), "exited with 9 for host-down of n1: no such list"),
        (("/nowhere/mail",), "cannot be run for host-down of n1: No such file or directory"),
    ],
)
def test_a_broken_command_is_one_line(tmp_path: Path, command: tuple[str, ...], words: str) -> None:
    (line,) = told(with_command(tmp_path, *command), event())
    assert line.startswith("notify: ")
    assert words in line
    assert "\n" not in line


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    setup = with_command(tmp_path, "sh", "-c", "sleep 1000 & echo $! > child; wait", timeout=0.5)
    started = time.monotonic()
    (line,) = told(setup, event())
    assert time.monotonic() - started < 60
    assert "did not end within" in line
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 5
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(child)


def is_running(pid: int) -> bool:
    try:
        return " Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except FileNotFoundError:
        return False


def test_a_command_may_leave_a_child_behind_as_mail_does(tmp_path: Path) -> None:
    setup = with_command(tmp_path, "sh", "-c", "(sleep 6; echo delivered > said) & exit 0")
    assert told(setup, event()) == []
    assert not (tmp_path / "said").exists(), "nobody waited for the child"
    end = time.monotonic() + 20
    while not (tmp_path / "said").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert (tmp_path / "said").exists()


def test_a_rack_that_goes_down_is_told_at_once(tmp_path: Path) -> None:
    setup = with_command(tmp_path, "sh", "-c", "sleep 3; echo $GPUMON_HOST >> said")
    started = time.monotonic()
    assert told(setup, *(event(number) for number in range(16))) == []
    assert time.monotonic() - started < 16 * 3, "not one after the other"
    assert len((tmp_path / "said").read_text().split()) == 16


# From end to end


def test_fetch_runs_the_command_once_and_ends_well(tmp_path: Path, home: Path, gpu_hosts: GpuHosts) -> None:
    address = gpu_hosts.add("exit 0")
    script = gpu_hosts.answers / address
    good = CAPTURES / "driver-470-rtx-3090-desktop.xml"
    script.write_text(f"cat {good}")
    more = "[notify]\ncommand = \"sh -c 'cat >> events; echo oops >&2; exit 3'\"\n"
    setup = gpu_hosts.config(tmp_path, address, more=more)
    assert gpumon("fetch", "-c", setup).returncode == 0
    script.write_text("echo NVIDIA-SMI has failed; exit 9")
    runs = []
    for _ in range(3):
        time.sleep(1.1)
        runs.append(gpumon("fetch", "-c", setup))
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert [run.stderr.count("notify:") for run in runs] == [0, 1, 0]
    assert "exited with 3 for host-down" in runs[1].stderr
    (line,) = (tmp_path / "events").read_text().splitlines()
    assert json.loads(line)["type"] == "host-down"
    assert json.loads(line)["host"] == address
    assert gpumon("render", "-c", setup).returncode == 0
    assert f"{address} gives no data" in (tmp_path / "site/feed.xml").read_text()


def test_the_config_names_the_events_there_are(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text(
        "[common]\nhosts = 'a'\n[notify]\nevents = ['host-gone']\ncommand = \"'\"\n"
    )
    done = gpumon("fetch", cwd=tmp_path)
    assert done.returncode == 2
    assert "notify.events: 'host-gone' is not an event; choose from: host-down, host-up" in done.stderr
    assert "notify.command: is not a command line" in done.stderr


def failure(directory: Path, more: str, told: str = "") -> subprocess.CompletedProcess[str]:
    (directory / "config.ini").write_text(f"[common]\nhosts = 'a'\n{more}")
    return run_failed(directory, told)


def run_failed(directory: Path, told: str = "") -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, "notify-failure", "gpumon-static.service"]
    return subprocess.run(command, input=told, cwd=directory, capture_output=True, text=True)


def test_a_run_that_failed_is_told_by_the_same_command(tmp_path: Path) -> None:
    more = "[notify]\nevents = ['gpu-freed']\ncommand = \"sh -c 'cat > said'\"\n"
    done = failure(tmp_path, more, "config.ini: 2 problems\n\x1b[31m  - a\n\n")
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads((tmp_path / "said").read_text())
    assert (said["type"], said["version"], said["gpus"]) == ("run-failed", 1, [])
    assert said["title"] == f"{said['host']}: gpumon-static.service failed"
    assert said["text"] == "config.ini: 2 problems\n[31m - a", "no characters that a terminal acts upon"


def test_a_run_that_failed_by_a_wrong_config_is_told_too(tmp_path: Path) -> None:
    more = "[notify]\ncommand = \"sh -c 'echo $GPUMON_TEXT > said'\"\n[busy]\nmemory = 'much'\nwrong = 1\n"
    assert failure(tmp_path, more).returncode == 0
    assert (tmp_path / "said").read_text() == "See: journalctl -u gpumon-static.service\n"


@pytest.mark.parametrize(
    "more",
    [
        "[site]\ntitle = 'Lab\n[notify] # of the lab\ntimeout = 20\ncommand = \"sh -c 'cat > said'\"\n[busy]\nmemory = 3\n",
        "[notify]\ncommand = \"sh -c 'cat > said'\"\n[hosts.a]\nnote = [1\n[users]\nx == 2\n",
        "[notify]\ncommand = sh -c 'cat > said'\n[site]\ntitle = \"Lab\n",
        "[notify]\ncommand = \"sh -c 'cat > said'\"\nevents = [\n  'host-down'\n",
        "[notify]\ntimeout = 2\ntimeout = 20\ncommand = sh -c 'cat > said'\n",
    ],
    ids=["before it", "after it", "bare values", "in it", "twice in it"],
)
def test_a_run_that_failed_by_a_config_that_is_not_toml_is_told_too(tmp_path: Path, more: str) -> None:
    done = failure(tmp_path, more, "config.ini: line 4, column 13\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "said").read_text())["text"] == "config.ini: line 4, column 13"


def test_a_notify_section_that_is_not_toml_is_an_error_with_its_line(tmp_path: Path) -> None:
    done = failure(tmp_path, "[notify]\ncommand = 'sh\n")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "config.ini: line " in done.stderr
    assert done.stderr == gpumon("render", cwd=tmp_path).stderr, "where it is wrong in the whole file"
    assert "no [notify] command" in failure(tmp_path, "[site]\ntitle = 'Lab\n").stderr


def test_a_run_that_failed_by_a_config_that_is_not_utf_8_is_told_too(tmp_path: Path) -> None:
    text = (
        "[common]\nhosts = 'a'\n[site]\ntitle = 'Universität'\n[notify]\ncommand = \"sh -c 'cat > said'\"\n"
    )
    (tmp_path / "config.ini").write_bytes(text.encode("latin-1"))
    done = run_failed(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "said").read_text())["site"] == "Universit\ufffdt"


@pytest.mark.parametrize("text", ["hosts = gpu01\nuser == x\n", "= 1\n", "", "\n\n["])
def test_a_config_without_a_section_is_an_error_in_a_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.ini").write_text(text)
    done = run_failed(tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        "gpumon-static: notify: the config has no [notify] command\n",
    )


def test_a_failure_that_cannot_be_told_is_an_error(tmp_path: Path) -> None:
    done = failure(tmp_path, "[notify]\ncommand = 'false'\n")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "notify: the command exited with 1 for run-failed of " in done.stderr
    assert "has no [notify] command" in failure(tmp_path, "").stderr


def test_times_are_utc(tmp_path: Path) -> None:
    memory = EventMemory()
    note_changes(memory, [UP], lab())
    events_file.save(tmp_path / "events.json", memory)
    stored = json.loads((tmp_path / "events.json").read_text())
    assert stored["hosts"]["n1"]["read_at"] == "2025-11-14T09:10:00Z"
    assert datetime.fromisoformat(stored["hosts"]["n1"]["read_at"]) == READ_AT


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    stand_in = tmp_path / "bin" / {"smtp": "curl"}.get(name, name)
    stand_in.parent.mkdir()
    stand_in.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {tmp_path}/said\ncat >> {tmp_path}/said\n')
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:/usr/bin:/bin")
    written = json.dumps(EXAMPLES[name])
    (tmp_path / "config.ini").write_text(f"[common]\nhosts = 'n1'\n[notify]\ncommand = {written}\n")
    assert told(config_file.load(tmp_path / "config.ini"), event(kind="host-up")) == []
    page = (ROOT / "docs/notifications.md").read_text()
    assert f"command = {written}\n" in page, "as it is on the page"
    said = (tmp_path / "said").read_text()
    assert "n1 is back" in said
    assert "It gave no data for" in said


def test_a_test_message_goes_through_the_command_of_the_config(tmp_path: Path) -> None:
    config_path = tmp_path / "config.ini"
    config_path.write_text("[common]\nhosts = 'a'\n[notify]\ncommand = \"sh -c 'cat > said'\"\nevents = []\n")
    done = gpumon("notify", "--test", "-c", config_path)
    assert (done.returncode, done.stdout) == (0, "sent by sh, which exited with 0\n")
    assert json.loads((tmp_path / "said").read_text())["type"] == "test"
    config_path.write_text(
        "[common]\nhosts = 'a'\n[notify]\ncommand = \"sh -c 'echo no mail >&2; exit 4'\"\n"
    )
    done = gpumon("notify", "--test", "-c", config_path)
    assert done.returncode == 1
    assert "exited with 4" in done.stderr
    assert "no mail" in done.stderr
