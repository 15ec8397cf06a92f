"""Copies of the history: backup, restore, merge, and rntop's log in and out."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpumon_static.model import HostReading
from gpumon_static.store.events import Event
from gpumon_static.store.history.engine import DamagedFile, HistoryError
from gpumon_static.store.history.layout import read_listing
from gpumon_static.store.history.moving import copies, merging, rntop
from gpumon_static.store.history.questions import UserUse
from gpumon_static.store.history.reader import Period
from gpumon_static.survey.sightings import bare_state
from tests.builders import busy_gpu, gpu, process, reading
from tests.history_lab import DAY, HOUR, START, HistoryLab, moment

LATER = moment(START + 30 * DAY)
BUSY = reading("node1", [busy_gpu()])


@pytest.fixture
def lab(tmp_path: Path) -> HistoryLab:
    made = HistoryLab(tmp_path / "data")
    made.every_once(START, START + 2 * HOUR, BUSY, step=600)
    return made


def users(lab: HistoryLab, part: str | None = None) -> list[UserUse]:
    return lab.users(START - DAY, START + 30 * DAY, part)


def rows(lab: HistoryLab) -> list[tuple[Any, ...]]:
    return lab.rows("SELECT COLUMNS(*)::VARCHAR FROM rows ORDER BY ALL")


# Backup and restore


def test_a_backup_is_one_file_that_brings_everything_back(lab: HistoryLab, tmp_path: Path) -> None:
    before = rows(lab)
    target = tmp_path / "copy.tar"
    made = copies.backup(lab.config.history_path, target)
    assert made.words == f"{target}: {made.size / 1e6:.1f} MB, 1 day, the last run at 2025-11-14T11:00:00Z"
    assert target.stat().st_mode & 0o777 == 0o600
    lab.add(START + 3 * HOUR, BUSY)
    found, aside = copies.restore(lab.config.history_path, target, LATER)
    assert rows(lab) == before
    assert found.newest == START + 2 * HOUR
    assert aside is not None
    assert aside.name == f"history.before-{LATER:%Y%m%dT%H%M%S}"
    assert read_listing(aside).newest_run == START + 3 * HOUR
    lab.add(START + 4 * HOUR, BUSY)
    assert lab.lines == [], "runs go on where they were"


def test_where_there_is_none_a_backup_is_simply_put(lab: HistoryLab, tmp_path: Path) -> None:
    copies.backup(lab.config.history_path, tmp_path / "copy.tar")
    new = HistoryLab(tmp_path / "new")
    (tmp_path / "new").mkdir()
    _, before = copies.restore(new.config.history_path, tmp_path / "copy.tar", LATER)
    assert before is None
    assert rows(new) == rows(lab)
    assert new.config.history_path.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_was_copied_with_cp_is_a_backup_too(lab: HistoryLab, tmp_path: Path) -> None:
    shutil.copytree(lab.config.history_path, tmp_path / "copy")
    before = rows(lab)
    shutil.rmtree(lab.config.history_path)
    copies.restore(lab.config.history_path, tmp_path / "copy", LATER)
    assert rows(lab) == before
    assert (tmp_path / "copy").is_dir()


def test_so_many_backups_are_kept_the_newest_first(lab: HistoryLab, tmp_path: Path) -> None:
    target = tmp_path / "copy.tar"
    sizes = []
    for hour in range(3, 7):
        sizes.append(copies.backup(lab.config.history_path, target, keep=3).size)
        lab.add(START + hour * HOUR, BUSY)
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy.tar", "copy.tar.1", "copy.tar.2"]
    found = [(tmp_path / name).stat().st_size for name in ("copy.tar", "copy.tar.1", "copy.tar.2")]
    assert found == sizes[:0:-1]


def test_a_backup_replaces_nothing_that_is_not_one(lab: HistoryLab, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(HistoryError, match="is not a backup of a history: name another file"):
        copies.backup(lab.config.history_path, tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "mine"


@pytest.mark.parametrize("content", [b"", b"no tar", None])
def test_what_is_no_whole_backup_is_not_restored(
    lab: HistoryLab, tmp_path: Path, content: bytes | None
) -> None:
    target = tmp_path / "copy.tar"
    copies.backup(lab.config.history_path, target)
    whole = bytearray(target.read_bytes())
    # In the pages of the first file, behind the headers of the tar.
    whole[whole.index(b"PAR1") + 300] ^= 1
    target.write_bytes(bytes(whole) if content is None else content)
    before = rows(lab)
    with pytest.raises(HistoryError):
        copies.restore(lab.config.history_path, target, LATER)
    assert rows(lab) == before
    assert not list(tmp_path.glob("data/history.before*"))
    assert not list(tmp_path.glob("data/.history*"))


def test_the_history_is_not_its_own_backup(lab: HistoryLab) -> None:
    with pytest.raises(HistoryError, match="is the history itself"):
        copies.restore(lab.config.history_path, lab.config.history_path, LATER)


def test_a_damaged_history_replaces_no_good_backup(lab: HistoryLab, tmp_path: Path) -> None:
    target = tmp_path / "copy.tar"
    copies.backup(lab.config.history_path, target)
    good = target.read_bytes()
    path = next(file.path for file in read_listing(lab.config.history_path).closed_files())
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DamagedFile):
        copies.backup(lab.config.history_path, target)
    assert target.read_bytes() == good


# Two become one


def use(host: str, number: int, user: str) -> HostReading:
    return reading(host, [busy_gpu(0, uuid=f"GPU-{number}", processes=(process(user=user),))])


def two_labs(tmp_path: Path, hosts: Sequence[str] = ("node1", "node2")) -> tuple[HistoryLab, HistoryLab]:
    one, two = HistoryLab(tmp_path / "one", hosts[0]), HistoryLab(tmp_path / "two", hosts[1])
    return one, two


def test_collectors_of_different_hosts_become_one_and_a_second_time_changes_nothing(tmp_path: Path) -> None:
    one, two = two_labs(tmp_path)
    one.every(START, START + 2 * HOUR, use("node1", 1, "alice"))
    two.every(START + 20, START + 2 * HOUR + 20, use("node2", 2, "bob"))
    merged = merging.merge(one.config, two.config.history_path, LATER)
    assert (merged.hours, merged.hosts, merged.words) == (3, 1, "3 hours of 1 host added")
    # Nothing followed the last reading of theirs, and a month has passed: it stands for one interval.
    expected = {"alice": 2 * HOUR, "bob": 2 * HOUR + 300}
    assert {found.user: found.busy_s for found in users(one)} == expected
    after = rows(one)
    again = merging.merge(one.config, two.config.history_path, LATER + timedelta(days=1))
    assert again.words == "nothing to add: this history knows as much of every hour"
    assert rows(one) == after
    assert {found.user: found.busy_s for found in users(two)} == {"bob": 2 * HOUR}, "it is only read"
    one.add(START + 2 * HOUR + 300, use("node1", 1, "alice"))
    assert one.lines == []
    assert {found.user: found.busy_s for found in users(one)} == expected | {"alice": 2 * HOUR + 300}


def test_what_both_saw_counts_once_by_the_account_that_knows_more(tmp_path: Path) -> None:
    one, two = two_labs(tmp_path, ("node1", "node1"))
    one.every(START, START + HOUR - 300, use("node1", 1, "alice"))
    one.add(START + 2 * HOUR, use("node1", 1, "alice"))
    two.every(START + 120, START + 600, use("node1", 1, "bob"))
    two.every(START + HOUR, START + 2 * HOUR, use("node1", 1, "bob"))
    merging.merge(one.config, two.config.history_path, LATER)
    found = {found.user: found.busy_s for found in users(one)}
    # The first hour is ours, the second theirs.
    assert found == {"alice": HOUR, "bob": HOUR}


def test_what_is_no_history_is_not_merged(lab: HistoryLab, tmp_path: Path) -> None:
    before = rows(lab)
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(HistoryError, match="is not a backup of a history"):
        merging.merge(lab.config, tmp_path / "notes", LATER)
    assert rows(lab) == before


def test_an_event_that_both_collectors_saw_is_kept_once(tmp_path: Path) -> None:
    one, two = two_labs(tmp_path, ("node1", "node1"))

    def event(name: str, at: int) -> Event:
        return Event(name, "host-down", "node1", None, moment(at), moment(at), status="dns")

    one.add(START, BUSY, events=[event("a", START)])
    two.add(START, BUSY, events=[event("b", START + 120), event("c", START + 2 * HOUR)])
    for _ in range(2):
        merging.merge(one.config, two.config.history_path, LATER)
        one.add(START + 3 * HOUR + 300 * _, BUSY)
        assert [found.id for found in one.past(START + 4 * HOUR).events] == ["c", "a"]


# rntop

LOG = """timestamp,node,index,utilization,memory_used,memory_total
2025-11-10T09:00:00+00:00,node1,0,97,41000,81920
2025-11-10T09:00:10+00:00,node1,0,0,4,81920
2025-11-10T09:00:20+00:00,node1,0,0,4,81920
2025-11-10T09:00:20+00:00,node1,0,bad,4,81920
"""
LOGGED = START - 4 * DAY


def import_log(lab: HistoryLab, text: str = LOG) -> rntop.Imported:
    def state_of(utilization: float, used: float, total: float) -> str:
        return bare_state(lab.config.busy, utilization, used, total)

    return rntop.import_log(lab.config, text.splitlines(), int(LATER.timestamp()), state_of)


def test_a_log_of_rntop_is_taken_over_once(lab: HistoryLab) -> None:
    done = import_log(lab)
    assert (done.added, done.known, done.bad) == (3, 0, 1)
    assert done.bad_lines == ["line 5: 'bad' is not a valid utilization"]
    (found,) = lab.gpus(LOGGED, LOGGED + 20)
    assert (found.card, found.busy_s, found.free_s) == ("GPU-00000000-1111-2222-3333-444444444444", 10, 10)
    again = import_log(lab)
    assert (again.added, again.known) == (0, 3)


def test_hours_that_the_history_knows_are_not_taken_from_a_log(lab: HistoryLab) -> None:
    before = rows(lab)
    done = import_log(lab, LOG.replace("2025-11-10", "2025-11-14"))
    assert (done.added, done.known) == (0, 3)
    assert rows(lab) == before


def test_what_is_written_as_a_log_is_read_again(lab: HistoryLab, tmp_path: Path) -> None:
    file = io.StringIO()
    asked = Period(START, START + 2 * HOUR)
    written = lab.ask(lambda reader: rntop.export_log(reader, asked, file))
    assert written == 13, "the last run, too"
    other = HistoryLab(tmp_path / "other")
    other.add(START - DAY, reading("node1", [gpu()]))
    assert import_log(other, file.getvalue()).added == written
    found = other.gpus(START, START + 2 * HOUR)
    assert sum(one.busy_s for one in found) == 2 * HOUR
