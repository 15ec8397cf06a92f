"""What a run adds to the history, and how its time is counted. All expectations are worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpumon_static.bounds.tables import NUMBERS
from gpumon_static.model import Disk, Gpu, HostReading, Machine
from gpumon_static.store.events import Event, EventGpu
from gpumon_static.store.history import event_log, record
from gpumon_static.store.history.engine import open_engine
from gpumon_static.survey.sightings import sightings
from tests.builders import busy_gpu, failed, gpu, process, reading, slices
from tests.history_lab import DAY, HOUR, INTERVAL, START, HistoryLab, moment

END = START + DAY
BUSY = reading("node1", [busy_gpu()])
FREE = reading("node1", [gpu()])


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[HistoryLab]:
    made = HistoryLab(tmp_path)
    yield made
    assert made.lines == [], "no line was expected"


def held_gpu(index: int = 0, *users: str) -> Gpu:
    """Memory in use, no work."""
    holders = tuple(process(100 + n, user=user, memory_mib=1000.0) for n, user in enumerate(users))
    return gpu(index, memory_used_mib=40000.0, utilization=0.0, processes=holders)


def use_of(lab: HistoryLab) -> tuple[int, int, int, int]:
    """Seconds busy, held, free and unknown of the one GPU."""
    (use,) = lab.gpus(START, max(lab.ask(lambda reader: reader.newest_run()) or 0, START))
    return use.busy_s, use.held_s, use.free_s, use.unknown_s


def users_of(lab: HistoryLab) -> dict[str, tuple[float, float, float | None]]:
    """Seconds busy and held, and efficiency."""
    return {use.user: (use.busy_s, use.held_s, use.efficiency) for use in lab.users(START, END)}


def last_of(lab: HistoryLab) -> tuple[Any, ...]:
    """Since when the one GPU is in its state, and taken."""
    gpu_past = lab.past(START + HOUR).gpus["node1", "0"]
    return gpu_past.since, gpu_past.taken_since


# Counting time


def test_a_reading_stands_for_the_time_until_its_host_is_read_again(lab: HistoryLab) -> None:
    lab.every(START, START + 300, BUSY)
    lab.every(START + 600, START + 900, FREE)
    # 9:00 and 9:05 were busy, each for five minutes; 9:10 was free for five; 9:15 is still open.
    assert use_of(lab) == (600, 0, 300, 0)


def test_a_missed_run_is_unknown_neither_idle_nor_used(lab: HistoryLab) -> None:
    for minute in (0, 5, 15, 20):
        lab.add(START + 60 * minute, BUSY)
    # 9:05 stands for five minutes; nobody knows of 9:10 to 9:15.
    assert use_of(lab) == (900, 0, 0, 300)
    assert users_of(lab)["alice"] == (900, 0, 97)


@pytest.mark.parametrize(("gap", "counted"), [(450, 450), (451, 300)])
def test_a_run_that_comes_a_little_late_is_not_missed(lab: HistoryLab, gap: int, counted: int) -> None:
    lab.add(START, BUSY)
    lab.add(START + gap, BUSY)
    assert users_of(lab)["alice"][0] == counted


def test_a_slower_cron_than_the_config_says_is_learned(lab: HistoryLab) -> None:
    lab.every(START, START + 12 * 1200, BUSY, step=1200)
    # Until ten gaps of 20 minutes have been seen, a reading stands for the 5 minutes of the config; from the
    # eleventh run's successor on for all of the 20. A reading knows the interval of its own run.
    assert users_of(lab)["alice"][0] == 11 * 300 + 1200


def test_the_last_reading_before_a_pause_stands_for_one_interval_when_its_hour_is_closed_too(
    lab: HistoryLab,
) -> None:
    lab.every(START, START + 600, BUSY)
    lab.every(START + 5 * HOUR, START + 5 * HOUR + 300, BUSY)
    # 9:00 to 9:15, and 14:00 to 14:05.
    assert use_of(lab)[0] == 900 + 300
    assert [path.name for path in lab.config.history_path.glob("2025-11-14/09*")] != []


def test_mean_and_largest_of_each_level_are_known(lab: HistoryLab) -> None:
    for minute, utilization, watts in ((0, 10.0, 100.0), (5, 90.0, 300.0), (10, None, None)):
        busy = busy_gpu(utilization=utilization, power_w=watts)
        lab.add(START + 60 * minute, reading("node1", [busy]))
    (use,) = lab.gpus(START, START + 600)
    assert (use.utilization.mean, use.utilization.most) == (50, 90)
    assert (use.power.mean, use.power.most) == (200, 300)


def test_time_at_the_ends_of_a_period_is_cut(lab: HistoryLab) -> None:
    lab.every(START, START + 900, BUSY)
    for since, until, seconds in ((0, 100, 100), (250, 350, 100), (400, 400, 0), (300, 900, 600)):
        found = sum(use.busy_s for use in lab.users(START + since, START + until))
        assert found == seconds, (since, until)


# Users


def test_a_shared_gpu_is_split_evenly_among_its_users(lab: HistoryLab) -> None:
    shared = busy_gpu(processes=(process(1, user="alice"), process(2, user="alice"), process(3, user="bob")))
    lab.every(START, START + 300, reading("node1", [shared]))
    assert users_of(lab) == {"alice": (150, 0, 97), "bob": (150, 0, 97)}


def test_time_held_without_work_is_a_number_of_its_own(lab: HistoryLab) -> None:
    lab.every(START, START + 300, reading("node1", [held_gpu(0, "bob")]))
    working = busy_gpu(processes=(process(user="bob"),), utilization=60.0)
    lab.every(START + 600, START + 900, reading("node1", [working]))
    # Held from 9:00 to 9:10 at 0 %, busy from 9:10 to 9:15 at 60 %: on average 20 %.
    busy, held, efficiency = users_of(lab)["bob"]
    assert (busy, held) == (300, 600)
    assert efficiency == pytest.approx(20)


def test_memory_of_an_unknown_user_is_counted_under_no_name(lab: HistoryLab) -> None:
    lab.every(START, START + 300, reading("node1", [gpu(memory_used_mib=40000.0)]))
    assert users_of(lab) == {"": (0, 300, 0)}


def test_a_desktop_does_not_count_as_use(lab: HistoryLab) -> None:
    desktop = process(type="G", name="Xorg", user="root", memory_mib=300.0)
    lab.every(START, START + 300, reading("node1", [gpu(memory_used_mib=304.0, processes=(desktop,))]))
    assert users_of(lab) == {}


def test_a_slice_counts_by_its_share_of_the_card_which_is_counted_once(lab: HistoryLab) -> None:
    cut = gpu(mig_mode=True, utilization=None, slices=slices(2, 0))
    lab.every(START, START + 300, reading("node1", [cut]))
    # 9728 of 81920 MiB; nvidia-smi reports no utilization of slices, so there is no efficiency.
    (busy, held, efficiency) = users_of(lab).pop("mia")
    assert busy == pytest.approx(300 * 9728 / 81920, abs=0.01)
    assert (held, efficiency) == (0, None)
    found = [(use.index, use.busy_s, use.free_s) for use in lab.gpus(START, START + 300)]
    assert found == [("0", 300, 0), ("0:0", 300, 0), ("0:1", 0, 300)]


def test_hours_can_be_listed_by_host_group_and_model_of_their_time(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path, "node1", "node2", groups={"node1": "vision"})
    two = reading("node2", [busy_gpu(1, name="Tesla T4")])
    lab.every(START, START + 300, BUSY, two)
    lab.config = HistoryLab(tmp_path, "node1", "node2", groups={"node1": "speech"}).config
    lab.every(START + 600, START + 900, BUSY, two)
    parts = {
        part: {use.part: use.total_s for use in lab.users(START, END, part)}
        for part in ("host", "group", "model")
    }
    assert parts == {
        "host": {"node1": 900, "node2": 900},
        "group": {"vision": 600, "speech": 300, "": 900},
        "model": {"NVIDIA A100-SXM4-80GB": 900, "Tesla T4": 900},
    }


# Hosts


def test_a_host_that_is_down_is_unknown_says_since_when_and_comes_back(lab: HistoryLab) -> None:
    lab.every(START, START + 300, BUSY)
    lab.every(START + 600, START + 900, failed("node1"))
    assert lab.past(START + 901).down_since == {"node1": START + 600}
    lab.every(START + 1200, START + 1500, FREE)
    assert use_of(lab) == (600, 0, 300, 600)
    assert lab.past(START + 1501).down_since == {}


def test_each_run_keeps_cpu_ram_fullest_disk_and_load(lab: HistoryLab) -> None:
    disks = (Disk("/", 10.0, 100.0), Disk("/data", 95.0, 100.0), Disk("/odd"))
    machine = Machine(
        8, load_1m=2.56, cpu_utilization=41.6, ram_total_mib=1000.0, ram_used_mib=250.0, disks=disks
    )
    lab.add(START, replace(BUSY, machine=machine))
    lab.add(START + 300, BUSY)
    past = lab.past(START + 301)
    points = [42, 25, 95, pytest.approx(2.6)]
    assert list(past.machines["24h"].hosts["node1"])[:4] == points
    assert list(past.machines["30d"].hosts["node1"]) == points, "what is not known counts for nothing"


def test_availability_is_the_share_of_the_known_time_with_an_answer(lab: HistoryLab) -> None:
    for at in range(START, START + 2400 + 1, INTERVAL):
        lab.add(at, failed("node1") if START + 600 <= at < START + 1200 else BUSY)
    found = lab.past(START + 2400).availability["node1"]
    assert (found.up_s, found.down_s, found.share, found.coverage) == (1800, 600, 0.75, 1.0)
    lab.add(START + 5 * HOUR, BUSY)
    after = lab.past(START + 5 * HOUR).availability["node1"]
    assert after.up_s == 1800 + 300, "a pause is not known"
    assert after.coverage == pytest.approx(2700 / (5 * HOUR))


def test_a_host_that_never_answered_has_an_availability(lab: HistoryLab) -> None:
    lab.every(START, START + 300, failed("node1"))
    assert lab.past(START + 300).availability["node1"].share == 0


# Since when


def test_a_gpu_knows_since_when_it_is_free_or_taken(lab: HistoryLab) -> None:
    lab.add(START, FREE)
    lab.every(START + 300, START + 600, BUSY)
    lab.every(START + 900, START + 1200, reading("node1", [held_gpu(0, "alice")]))
    # Idle since 9:15, alice's since 9:05.
    assert last_of(lab) == (START + 900, START + 300)


def test_a_new_owner_starts_a_new_hold(lab: HistoryLab) -> None:
    lab.every(START, START + 300, reading("node1", [held_gpu(0, "alice")]))
    lab.add(START + 600, reading("node1", [held_gpu(0, "bob")]))
    assert last_of(lab) == (START, START + 600)


@pytest.mark.parametrize(("minute", "since"), [(35, START), (66, START + 66 * 60)])
def test_a_short_silence_does_not_restart_the_since_a_long_one_does(
    lab: HistoryLab, minute: int, since: int
) -> None:
    lab.every(START, START + 300, BUSY)
    lab.add(START + 600, failed("node1"))
    lab.add(START + 60 * minute, BUSY)
    assert last_of(lab) == (since, since)


def test_the_last_state_is_made_again_from_the_runs_where_its_file_is_lost(lab: HistoryLab) -> None:
    lab.every(START, START + 300, FREE)
    lab.every(START + 600, START + 900, BUSY)
    for damage in (None, b"", b"PAR1 no file of ours PAR1"):
        path = lab.config.history_path / "last.parquet"
        path.unlink() if damage is None else path.write_bytes(damage)
        lab.add((lab.ask(lambda reader: reader.listing.newest_run) or 0) + 300, BUSY)
        assert last_of(lab) == (START + 600, START + 600)


# Again, and back in time


def test_the_same_or_an_older_snapshot_changes_nothing(lab: HistoryLab) -> None:
    lab.every(START, START + 300, BUSY)
    lab.add(START + 600, failed("node1"))
    before = lab.rows("SELECT COLUMNS(*)::VARCHAR FROM rows ORDER BY ALL")
    lab.add(START + 300, BUSY, now=START + 600)
    lab.add(START + 600, failed("node1"))
    lab.add(START + 180, FREE, now=START + 700)
    assert lab.rows("SELECT COLUMNS(*)::VARCHAR FROM rows ORDER BY ALL") == before


def test_with_only_some_hosts_asked_the_others_stay(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path, "node1", "node2")
    two = reading("node2", [busy_gpu(1)])
    lab.every(START, START + 300, BUSY, two)
    # `--only node1` keeps node2's row with its old time.
    dated = [replace(BUSY, fetched_at=moment(START + 600)), replace(two, fetched_at=moment(START + 300))]
    lab.add_dated(dated, START + 600)
    found = [(use.host, use.busy_s) for use in lab.gpus(START, START + 600)]
    assert found == [("node1", 600), ("node2", 300)]
    assert lab.supply(START, START + 600).models[0].sums.counted_s == 300, "not a run of all GPUs"


def test_a_disabled_history_is_not_written(lab: HistoryLab) -> None:
    lab.config = replace(lab.config, history=replace(lab.config.history, enabled=False))
    lab.add(START, BUSY)
    assert not lab.config.history_path.exists()


def test_a_mistake_of_ours_costs_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = HistoryLab(tmp_path)
    monkeypatch.setattr(record, "load_runs", lambda *_: 1 / 0)
    lab.add(START, BUSY)
    assert lab.lines == ["history: unexpected ZeroDivisionError: division by zero; this run is not in it"]


def test_a_directory_that_cannot_be_written_costs_the_run_nothing(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path)
    lab.add(START, BUSY)
    blocker = tmp_path / "blocker"
    blocker.write_text("a file where the directory should be")
    config = replace(lab.config, paths=replace(lab.config.paths, data=blocker))
    record.record(config, sightings([BUSY], config.busy), moment(START), lab.lines.append)
    (line,) = lab.lines
    assert line.startswith("history: cannot ")
    assert line.endswith("; this run is not in it")


# What is kept of each row


def test_every_process_is_kept_with_its_start_and_job(lab: HistoryLab) -> None:
    lab.add(START, reading("node1", [busy_gpu(processes=(process(7, job="slurm 12", elapsed_s=60),))]))
    query = 'SELECT "user", process_name, job, epoch(started_at)::BIGINT, error, command_line FROM rows'
    assert lab.rows(query) == [("alice", "python", "slurm 12", START - 60, None, None)]


@pytest.mark.parametrize(("texts", "kept"), [(True, "python train.py"), (False, None)])
def test_command_lines_are_kept_only_where_the_config_says_so(
    tmp_path: Path, texts: bool, kept: str | None
) -> None:
    lab = HistoryLab(tmp_path, texts=texts)
    one = process(7, command_line="python train.py")
    lab.add(START, reading("node1", [busy_gpu(processes=(one,))]))
    assert lab.rows("SELECT command_line FROM rows") == [(kept,)]


# Events


def event(name: str, minute: int = 0, kind: str = "host-down") -> Event:
    at = moment(START) + timedelta(minutes=minute)
    return Event(name, kind, "node1", None, at, at, status="timeout", error="no answer within 10 s")


def test_events_are_kept_once_and_as_long_as_the_config_says(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path, keep_events=40)
    old, new = event("old"), event("new", 60 * 24 * 41)
    lab.add(START, BUSY, events=[old])
    lab.add(START + 300, BUSY, events=[old])
    assert lab.past(START + 300).events == [old]
    lab.add(START + 41 * DAY, BUSY, events=[old, new])
    assert lab.past(START + 41 * DAY).events[0] == new
    lab.add(START + 90 * DAY, BUSY)
    assert lab.past(START + 90 * DAY).events == [], "a month is dropped whole"


def test_a_host_that_flaps_has_the_newest_of_its_events_of_a_day(lab: HistoryLab) -> None:
    many = [event(str(n), n, "host-up") for n in range(event_log.MOST_PER_DAY + 5)]
    lab.add(START, BUSY, events=many)
    found = [one.id for one in lab.past(START + DAY).events]
    assert found == [str(n) for n in reversed(range(5, event_log.MOST_PER_DAY + 5))]


def test_a_host_that_flaps_for_weeks_hides_no_event_of_the_others(lab: HistoryLab) -> None:
    many = [event(f"{day} {n}", day * 1440 + n) for day in range(25) for n in range(event_log.MOST_PER_DAY)]
    calm = replace(event("calm"), host="node2")
    lab.add(START + 25 * DAY, BUSY, events=[calm, *many])
    found = [one.id for one in lab.past(START + 25 * DAY).events]
    assert "calm" in found
    assert found[0] == f"24 {event_log.MOST_PER_DAY - 1}"


def test_a_long_event_is_kept_short(lab: HistoryLab) -> None:
    long = replace(event("long"), error="\u4e00" * 2000, gpus=(EventGpu(0, "x" * 90),) * 100)
    lab.add(START, BUSY, events=[long])
    (found,) = lab.past(START + 1).events
    assert (found.gpus, found.error) == ((), "\u4e00" * event_log.MOST_LETTERS)


@pytest.mark.parametrize("document", ["", "{", "[]", '{"since": 5}', "null"])
def test_an_event_that_cannot_be_read_is_left_out(lab: HistoryLab, document: str) -> None:
    lab.add(START, BUSY, events=[event("good")])
    path = next((lab.config.history_path / "events").glob("*.parquet"))
    with open_engine(lab.config.history_path) as engine:
        rows = f"SELECT * FROM '{path}' UNION ALL BY NAME SELECT 'bad' AS id, {START} AS t, 'host-up' AS type, 'node1' AS host, '{document}' AS document"
        engine.do(f"CREATE TABLE both_events AS {rows}")
        engine.write("SELECT * FROM both_events", path)
    assert [one.id for one in lab.past(START + 1).events] == ["good"]


def test_numbers_at_the_ends_of_their_ranges_cost_no_run(lab: HistoryLab) -> None:
    """A host may send the most that the gate lets through: nobody loses a run by it."""
    for number, end in enumerate(("least", "most")):
        given = {
            kind: {name: getattr(range_, end) for name, range_ in NUMBERS[kind].items()}
            for kind in (HostReading, Machine, Gpu)
        }
        host = reading("node1", [busy_gpu(**given[Gpu])], machine=Machine(**given[Machine]))
        lab.add(START + number * INTERVAL, replace(host, **given[HostReading]), reading("node2", [gpu()]))
    assert lab.rows("SELECT host, count(DISTINCT run_at) FROM rows GROUP BY host ORDER BY host") == [
        ("node1", 2),
        ("node2", 2),
    ]
