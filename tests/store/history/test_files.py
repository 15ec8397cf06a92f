"""The folder of files: nothing that happens to one of them costs a run, a page or the other files."""

from __future__ import annotations

import errno
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpumon_static.bounds.reading import bounded
from gpumon_static.check.findings import Mark
from gpumon_static.check.publishing import look_at_history
from gpumon_static.model import HostReading
from gpumon_static.store.history.engine import DamagedFile, HistoryError, open_engine
from gpumon_static.store.history.layout import SUMS, day_path, hour_path, read_listing, run_path
from gpumon_static.store.history.moving.copies import backup
from gpumon_static.store.history.notes import FolderNotes
from gpumon_static.store.history.reader import ask
from gpumon_static.store.history.upkeep import bounding, checksums, closing
from tests.builders import busy_gpu, gpu, process, reading
from tests.history_lab import DAY, HOUR, START, HistoryLab
from tests.torture.liars import numbers

BUSY = reading("node1", [busy_gpu()])
MIDNIGHT = START // DAY * DAY


@pytest.fixture
def lab(tmp_path: Path) -> HistoryLab:
    return HistoryLab(tmp_path)


def names(lab: HistoryLab) -> list[str]:
    folder = lab.config.history_path
    return [str(file.path.relative_to(folder)) for file in read_listing(folder).files()]


def tidy(lab: HistoryLab, now: int) -> None:
    """What a run at that time would do for the folder."""
    folder = lab.config.history_path
    with open_engine(folder) as engine:
        notes = FolderNotes.read(folder)
        closing.tidy(engine, lab.config, notes, now, 300, lab.lines.append).write(folder)


def busy_hours(lab: HistoryLab, since: int = START - DAY) -> float:
    return sum(use.busy_s for use in lab.users(since, since + 90 * DAY)) / HOUR


def three_days(lab: HistoryLab, *readings: HostReading) -> None:
    """A closed day, an hour of the day after it, and open runs: three hours of use each, in runs of an hour."""
    lab.config = replace(lab.config, site=replace(lab.config.site, interval=HOUR))
    seen = readings or (BUSY,)

    def make() -> None:
        for day in range(3):
            lab.every(START + day * DAY, START + day * DAY + 3 * HOUR, *seen, step=HOUR)

    lab.made_once(f"three days {seen}", make)


# Names


def test_a_file_replaces_those_whose_name_it_begins(tmp_path: Path) -> None:
    day = START // DAY * DAY
    paths = [
        day_path(tmp_path, day),
        hour_path(tmp_path, START),
        *(run_path(tmp_path, START + n) for n in (0, HOUR)),
    ]
    for path in reversed(paths):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    day_path(tmp_path, day, "other").touch()
    found = [file.path for file in read_listing(tmp_path).files()]
    assert found == [day_path(tmp_path, day, "other"), paths[0]]
    paths[0].unlink()
    assert {file.path for file in read_listing(tmp_path).files()} == {*paths[1:], day_path(tmp_path, day, "other")} - {paths[2]}  # fmt: skip
    paths[1].unlink()
    assert [file.path for file in read_listing(tmp_path).files()][1:] == paths[2:]


def test_names_that_are_not_ours_are_ignored(tmp_path: Path) -> None:
    for name in ("2026-02-30.parquet", "notes.txt", "2026-11-16.parquet.bak", ".2026-11-16.parquet.1.tmp"):
        (tmp_path / name).touch()
    (tmp_path / "2026-11-17").mkdir()
    for name in ("24.parquet", "12-60-00.parquet", "12.parquet.old"):
        (tmp_path / "2026-11-17" / name).touch()
    (tmp_path / "2026-11-18.parquet").mkdir()
    os.mkfifo(tmp_path / "2026-11-19.parquet")
    assert list(read_listing(tmp_path).files()) == []


def test_hours_and_days_are_closed_and_what_they_replace_goes_an_hour_later(lab: HistoryLab) -> None:
    three_days(lab)
    assert names(lab)[:1] == ["2025-11-14.parquet"]
    before = busy_hours(lab)
    folder = lab.config.history_path
    assert list((folder / "2025-11-14").iterdir()), "a reader may still need them"
    for path in folder.rglob("*.parquet"):
        os.utime(path, (1, 1))
    tidy(lab, START + 2 * DAY + 3 * HOUR)
    assert not (folder / "2025-11-14").exists()
    assert busy_hours(lab) == before == 11


def test_what_a_killed_run_left_is_removed(lab: HistoryLab) -> None:
    lab.add(START, BUSY)
    left = lab.config.history_path / "2025-11-14" / ".09-00-00.parquet.77-ab.tmp"
    left.touch()
    os.utime(left, (1, 1))
    lab.add(START + 300, BUSY)
    assert not left.exists()


# Damage


@pytest.mark.parametrize(
    ("which", "damage"),
    [(0, "empty"), (0, "foreign"), (0, "middle"), (1, "text"), (1, "middle"), (-1, "cut"), (-1, "empty")],
)
def test_a_damaged_file_is_left_out_with_one_line_and_the_rest_is_shown(
    lab: HistoryLab, which: int, damage: str
) -> None:
    three_days(lab)
    before = busy_hours(lab)
    path = lab.config.history_path / names(lab)[which]
    _damage(path, damage)
    for sums in (lab.config.history_path / SUMS).rglob("*.parquet"):
        sums.unlink()
    assert 0 < busy_hours(lab) < before
    assert lab.lines == [f"{path.relative_to(lab.config.history_path)} is damaged: left out"]
    lab.lines.clear()
    lab.add(START + 2 * DAY + 4 * HOUR, BUSY)
    assert not [line for line in lab.lines if "not in it" in line]
    assert path.exists(), "it stays where it is"


@pytest.mark.parametrize("damage", ["empty", "foreign", "text", "cut", "bit"])
def test_check_names_a_damaged_file(lab: HistoryLab, damage: str) -> None:
    three_days(lab)
    assert list(look_at_history(lab.config)) == []
    path = lab.config.history_path / names(lab)[0]
    _damage(path, damage)
    (found,) = look_at_history(lab.config)
    assert (found.mark, found.message) == (Mark.WARNING, "damaged, and left out: 2025-11-14.parquet")


def _damage(path: Path, damage: str) -> None:
    content = path.read_bytes()
    middle = bytearray(content)
    middle[200 : len(content) // 2] = bytes(len(content) // 2 - 200)
    bit = bytearray(content)
    bit[len(content) // 2] ^= 1
    foreign = path.with_suffix(".foreign")
    with open_engine(path.parent) as engine:
        engine.write("SELECT 1 AS a", foreign)
    made: dict[str, bytes] = {
        "empty": b"",
        "text": b"no Parquet" * 9,
        "cut": content[:-9],
        "foreign": foreign.read_bytes(),
        "bit": bytes(bit),
    }
    foreign.unlink()
    path.write_bytes(made.get(damage, bytes(middle)))


def test_every_flipped_byte_is_noticed_and_goes_into_no_backup(lab: HistoryLab, tmp_path: Path) -> None:
    three_days(lab)
    folder = lab.config.history_path
    path = folder / names(lab)[0]
    content = path.read_bytes()
    dice = random.Random(7)
    for _ in range(1000):
        place, bit = dice.randrange(len(content)), 1 << dice.randrange(8)
        changed = bytearray(content)
        changed[place] ^= bit
        path.write_bytes(changed)
        assert checksums.damaged(folder, read_listing(folder)) == ["2025-11-14.parquet"]
    with pytest.raises(DamagedFile, match="2025-11-14.parquet"):
        backup(folder, tmp_path / "copy.tar")
    assert not (tmp_path / "copy.tar").exists()


def test_a_run_compares_the_checksums_once_a_day_and_leaves_out_what_is_wrong(lab: HistoryLab) -> None:
    three_days(lab)
    before = busy_hours(lab)
    path = lab.config.history_path / names(lab)[0]
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    tidy(lab, START + 4 * DAY)
    assert lab.lines == ["history: 2025-11-14.parquet is damaged and left out; restore it from a backup"]
    assert busy_hours(lab) < before


def test_an_io_error_is_not_damage(lab: HistoryLab, monkeypatch: pytest.MonkeyPatch) -> None:
    three_days(lab)
    before, files = busy_hours(lab), names(lab)

    def fail(path: Path) -> str:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(checksums, "digest", fail)
        tidy(lab, START + 4 * DAY)
    (line,) = lab.lines
    assert line.endswith(".parquet: Input/output error")
    assert line.startswith("history: cannot read ")
    assert set(files) & set(names(lab)) >= {"2025-11-14.parquet"}
    assert busy_hours(lab) == before


def test_a_file_that_cannot_be_read_for_now_is_an_error_and_not_left_out(
    lab: HistoryLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_days(lab)
    real = os.open

    def fail(path: Any, *rest: Any, **named: Any) -> int:
        if str(path).endswith("2025-11-14.parquet"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return real(path, *rest, **named)

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(HistoryError, match="Input/output error"):
        ask(lab.config.history_path, lambda reader: reader.newest_run(), lab.lines.append)
    assert lab.lines == []


def test_no_history_yet_is_said(lab: HistoryLab) -> None:
    with pytest.raises(HistoryError, match="no history yet"):
        lab.users(START, START + 1)


# Sums


def test_sums_that_are_deleted_are_made_again_and_change_no_answer(lab: HistoryLab) -> None:
    three_days(lab)
    folder = lab.config.history_path
    tidy(lab, START + 2 * DAY + 4 * HOUR)
    for path in (folder / SUMS).rglob("*.parquet"):
        # Of hours that have become a day.
        path.unlink() if "2025-11-14T" in path.name else None
    sums = sorted(path.relative_to(folder) for path in (folder / SUMS).rglob("*.parquet"))
    before = lab.users(START, START + 3 * DAY, "host"), lab.gpus(START, START + 3 * DAY)
    for path in sums:
        (folder / path).unlink()
    assert (lab.users(START, START + 3 * DAY, "host"), lab.gpus(START, START + 3 * DAY)) == before
    tidy(lab, START + 2 * DAY + 4 * HOUR)
    assert sorted(path.relative_to(folder) for path in (folder / SUMS).rglob("*.parquet")) == sums


# Retention


def test_days_are_kept_as_long_as_the_config_says(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path, keep=5)
    for day in range(10):
        lab.every(START + day * DAY, START + day * DAY + 600, BUSY)
    # Until 24 November nothing of before the 19th: the ninth day's run is five days after the end of the 18th.
    assert names(lab)[0] == "2025-11-18.parquet"
    assert len([name for name in names(lab) if len(name) > 18 or name.count("-") == 2]) >= 5


def test_logins_become_pseudonyms_that_stay_the_same(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path, names_for=3)
    shared = busy_gpu(processes=(process(1, user="alice", uid=1000), process(2, user="bob")))
    for day in range(6):
        lab.every(START + day * DAY, START + day * DAY + 600, reading("node1", [shared]))
    rows = lab.rows(
        'SELECT DISTINCT "user", held_by, uid FROM rows WHERE epoch(run_at) < ' + str(START + DAY)
    )
    assert len(rows) == 2
    assert not {"alice", "bob"} & {name for user, held, _ in rows for name in (user, *held)}
    assert {uid for *_, uid in rows} == {None}
    old = {use.user: use.busy_s for use in lab.users(START, START + 2 * DAY)}
    assert len(old) == 2
    assert set(old.values()) == {900}
    new = {use.user for use in lab.users(START + 5 * DAY, START + 6 * DAY)}
    assert new == {"alice", "bob"}


# Bounds


def test_a_host_that_makes_names_up_costs_at_most_a_megabyte_a_day(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path, "good", "evil")
    good = reading("good", [busy_gpu()])
    dice = random.Random(3)
    for number in range(13):
        evil = [
            busy_gpu(n, processes=tuple(process(p, name=dice.randbytes(60).hex(), user=dice.randbytes(12).hex()) for p in range(30)))
            for n in range(8)
        ]  # fmt: skip
        lab.add(START + 300 * number, good, reading("evil", evil))
    tidy(lab, START + 2 * HOUR)
    hour = hour_path(lab.config.history_path, START)
    assert hour.stat().st_size < 1_000_000 / 24
    assert any("evil sent" in line for line in lab.lines)
    uses = {use.user: use for use in lab.users(START, START + HOUR, "host") if use.part == "good"}
    assert set(uses) == {"alice"}, "others keep what they have"
    assert busy_gpus(lab, "evil") == 8 * 3600, "its GPUs are there, without their processes"
    notes = lab.rows("SELECT DISTINCT note FROM rows WHERE host = 'evil' AND note IS NOT NULL")
    assert notes == [(bounding.LEFT_OUT_NOTE,)]


def test_numbers_that_do_not_pack_cost_no_more(tmp_path: Path) -> None:
    """No text at all: GPUs, slices and processes whose numbers are others in every run."""
    lab = HistoryLab(tmp_path, "good", "evil")
    dice = random.Random(3)
    for number in range(5):
        lab.add(START + 900 * number, reading("good", [busy_gpu()]), bounded(numbers("evil", dice, number)))
    tidy(lab, START + 2 * HOUR)
    assert hour_path(lab.config.history_path, START).stat().st_size < bounding.MOST_BYTES_PER_HOUR
    states = lab.rows(
        "SELECT host, count(*), count(gpu_utilization), count(pid) FROM rows WHERE level >= 2 AND seconds > 0 GROUP BY ALL"
    )
    assert set(states) == {("good", 4, 4, 4), ("evil", 4 * 128, 0, 0)}, "the states of its GPUs stay"


def test_a_large_honest_host_keeps_its_processes(tmp_path: Path) -> None:
    """16 GPUs with 24 MPS clients each, whose use and memory change in every run."""
    lab = HistoryLab(tmp_path)
    dice = random.Random(3)
    for number in range(13):
        gpus = [
            busy_gpu(n, utilization=float(dice.randrange(101)), memory_used_mib=float(dice.randrange(80_000)),
                temperature_c=float(dice.randrange(30, 80)), power_w=float(dice.randrange(50, 700)),
                processes=tuple(process(1000 * n + p, user=f"user{p % 5}", name=f"/opt/env{p}/bin/python", memory_mib=float(500 + p),
                    elapsed_s=100 * p + 300 * number) for p in range(24)))
            for n in range(16)
        ]  # fmt: skip
        lab.add(START + 300 * number, reading("node1", gpus))
    tidy(lab, START + 2 * HOUR)
    assert lab.lines == []
    assert lab.rows("SELECT count(pid), count(process_name) FROM rows WHERE seconds > 0") == [
        (12 * 384, 12 * 384)
    ]


@pytest.mark.parametrize("what", ["users", "models", "cards"])
def test_names_that_are_few_in_an_hour_and_many_in_a_day_are_left_out(tmp_path: Path, what: str) -> None:
    lab = HistoryLab(tmp_path, "good", "evil")
    lab.config = replace(lab.config, site=replace(lab.config.site, interval=HOUR))
    good = reading("good", [busy_gpu()])
    for hour in range(4):
        made = {
            "users": [busy_gpu(processes=tuple(process(n, user=f"u{hour}-{n}") for n in range(1, 150)))],
            "models": [busy_gpu(n, name=f"M{hour}-{n}") for n in range(6)],
            "cards": [busy_gpu(n, uuid=f"GPU-{hour}-{n}", processes=()) for n in range(100)],
        }[what]
        lab.add(MIDNIGHT + hour * HOUR, good, reading("evil", made))
    before = lab.gpus(MIDNIGHT, MIDNIGHT + 3 * HOUR)
    lab.add(MIDNIGHT + 3 * DAY, good, reading("evil", [busy_gpu()]))
    assert [name for name in names(lab) if name.startswith("2025-11-14")] == ["2025-11-14.parquet"]
    counts = 'count(DISTINCT "user"), count(DISTINCT gpu_name)'
    day = f"epoch(run_at) < {MIDNIGHT + DAY}"
    found = lab.rows(f"SELECT host, {counts} FROM rows WHERE {day} GROUP BY host ORDER BY host")
    assert found == [("evil", 0, 1 if what == "users" else 0), ("good", 1, 1)]
    after = lab.gpus(MIDNIGHT, MIDNIGHT + 3 * HOUR)
    assert [use for use in after if use.host == "good"] == [use for use in before if use.host == "good"]
    hours = [sum(use.busy_s for use in uses if use.host == "evil") for uses in (before, after)]
    assert hours[0] == hours[1] > 0, "the hours of its GPUs are counted"


def busy_gpus(lab: HistoryLab, host: str) -> int:
    return sum(use.busy_s for use in lab.gpus(START, START + HOUR) if use.host == host)


# Two collectors, and clocks


def test_two_collectors_that_share_a_folder_count_no_time_twice(tmp_path: Path) -> None:
    one, two = HistoryLab(tmp_path), HistoryLab(tmp_path)
    for number in range(20):
        one.add(START + 300 * number, BUSY)
        two.add(START + 300 * number + 100, BUSY)
    assert (one.lines, two.lines) == ([], [])
    assert sum(use.busy_s for use in one.users(START, START + 19 * 300 + 100)) == 19 * 300 + 100


def test_a_run_that_another_collector_adds_to_a_closed_hour_is_in_it_once(lab: HistoryLab) -> None:
    lab.every(START, START + 2 * HOUR, BUSY)
    folder = lab.config.history_path
    late = run_path(folder, START + 450)
    with open_engine(folder) as engine:
        shift = "SELECT * REPLACE (run_at + INTERVAL 150 SECOND AS run_at, fetched_at + INTERVAL 150 SECOND AS fetched_at)"
        engine.write(f"{shift} FROM '{run_path(folder, START + 300)}'", late)
    tidy(lab, START + 2 * HOUR)
    times = lab.rows("SELECT epoch(run_at)::BIGINT, count(*) FROM rows GROUP BY ALL ORDER BY ALL")
    expected = sorted([*range(START, START + 2 * HOUR + 1, 300), START + 450])
    assert times == [(at, 1) for at in expected]
    assert sum(use.busy_s for use in lab.users(START, START + 2 * HOUR)) == 2 * HOUR


def test_nothing_is_pruned_by_a_clock_that_has_just_jumped(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path, keep=5)
    lab.every(START, START + 600, BUSY)
    lab.every(START + 300 * DAY, START + 300 * DAY + 600, BUSY)
    assert any(name.startswith("2025-11-14") for name in names(lab))
    for day in range(301, 309):
        lab.add(START + day * DAY, BUSY)
    assert not any(name.startswith("2025-11-14") for name in names(lab))


def test_files_are_private(lab: HistoryLab) -> None:
    three_days(lab, reading("node1", [gpu()]))
    modes = {path.stat().st_mode & 0o777 for path in lab.config.history_path.rglob("*") if path.is_file()}
    assert modes == {0o600}
