"""A history that is moved: backups, restoring one, and two collectors that become one."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpumon_static.errors import GpumonError
from gpumon_static.model import HostReading
from gpumon_static.store.history import record
from gpumon_static.store.history.database import MIGRATIONS, HistoryError, migrate, writing
from gpumon_static.store.history.moving import copies, merging
from gpumon_static.survey.sightings import sightings
from tests.builders import busy_gpu, failed, gpu, process, reading
from tests.command import gpumon
from tests.test_history import START, Lab
from tests.test_history_recount import QUERIES

HOSTS = ("node1", "node2", "node3", "node4")
LATER = START + timedelta(days=30)


def lab_in(directory: Path, *hosts: str) -> Lab:
    directory.mkdir(exist_ok=True)
    return Lab(directory, *(hosts or HOSTS))


# Backup and restore


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    made = lab_in(tmp_path / "data")
    made.runs([0, 5, 10], busy_gpu())
    return made


@pytest.mark.parametrize("content", [b"alias ll='ls -l'\n", b"", b"SQLite format 3\0 and no more"])
def test_a_file_that_is_no_backup_is_never_replaced(lab: Lab, tmp_path: Path, content: bytes) -> None:
    target = tmp_path / ".bashrc"
    target.write_bytes(content)
    with pytest.raises(GpumonError, match=r"\.bashrc exists and is not a backup of a history"):
        copies.backup(lab.config.history_path, target)
    assert target.read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == [".bashrc", "data"]


def test_a_database_of_another_program_is_not_replaced_either(lab: Lab, tmp_path: Path) -> None:
    target = tmp_path / "other.db"
    with closing(sqlite3.connect(target)) as other:
        other.execute("CREATE TABLE runs (at INTEGER)")
    with pytest.raises(GpumonError, match="not a backup"):
        copies.backup(lab.config.history_path, target)


def test_a_backup_says_what_it_wrote_and_replaces_an_older_one(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['node1']\n")
    lab_in(tmp_path / "data", "node1").runs([0, 5, 10], busy_gpu())
    for _ in range(2):
        done = gpumon("history", "backup", "copy.db", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("wrote copy.db: 0.")
        assert done.stdout.endswith(" MB, 3 runs one by one, the last at 2025-11-14T09:10:00Z\n")


def test_errors_name_the_path_that_is_meant(lab: Lab, tmp_path: Path) -> None:
    path = lab.config.history_path
    with pytest.raises(HistoryError, match=f"cannot write {tmp_path}/nosuch/copy.db: No such file"):
        copies.backup(path, tmp_path / "nosuch/copy.db")
    path.write_bytes(b"garbage" * 1000)
    with pytest.raises(HistoryError, match=f"cannot read {path}: file is not a database"):
        copies.backup(path, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize("number", [0, 100])
def test_a_full_disk_at_the_target_names_the_target(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    connect = sqlite3.connect

    def small(path: Any, *rest: Any, **more: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(path, *rest, **more)
        if str(path).endswith(".tmp"):
            connection.execute(f"PRAGMA max_page_count = {number + 1}")
        return connection

    monkeypatch.setattr(sqlite3, "connect", small)
    if number:
        copies.backup(lab.config.history_path, tmp_path / "copy.db")
        return
    with pytest.raises(HistoryError, match=f"cannot write {tmp_path}/copy.db: the disk is full"):
        copies.backup(lab.config.history_path, tmp_path / "copy.db")


def test_keep_rotates_and_touches_nothing_else(lab: Lab, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    for number in range(5):
        lab.run(20 + 5 * number, reading("node1", [busy_gpu()]))
        copies.backup(lab.config.history_path, target, keep=3)
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy.db", "copy.db.1", "copy.db.2"]
    counts = [_count(path, "runs") for path in (target, tmp_path / "copy.db.1", tmp_path / "copy.db.2")]
    assert counts == [8, 7, 6]
    (tmp_path / "copy.db.2").write_text("mine")
    with pytest.raises(GpumonError, match=r"copy\.db\.2 exists and is not a backup"):
        copies.backup(lab.config.history_path, target, keep=3)
    assert _count(target, "runs") == 8


def _count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_restoring_brings_back_what_was_and_keeps_what_is(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['node1']\n")
    lab = lab_in(tmp_path / "data", "node1")
    lab.runs([0, 5, 10], busy_gpu())
    then = lab.everything()
    copies.backup(lab.config.history_path, tmp_path / "copy.db")
    lab.runs([15, 20], gpu())
    now = lab.everything()
    mode = lab.config.history_path.stat().st_mode
    done = gpumon("history", "restore", "copy.db", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("restored copy.db: ")
    assert lab.everything() == then
    assert lab.config.history_path.stat().st_mode == mode
    (kept,) = (tmp_path / "data").glob("history.db.before-*")
    assert f"what was there is in {kept}" in done.stdout
    again = gpumon("history", "restore", kept, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert lab.everything() == now
    # And it is a history that goes on.
    lab.runs([25], busy_gpu())
    assert lab.said == []


def test_what_is_restored_is_not_overwritten_by_what_was_there_in_the_same_second(lab: Lab) -> None:
    lab.runs([0, 5, 10], busy_gpu())
    then, path = lab.everything(), lab.config.history_path
    copies.backup(path, path.with_name("copy.db"))
    lab.runs([15, 20], gpu())
    now, at = lab.everything(), START
    _, first = copies.restore(path, path.with_name("copy.db"), at)
    assert first
    _, second = copies.restore(path, first, at)
    assert lab.everything() == now
    assert second
    copies.restore(path, second, at)
    assert lab.everything() == then


def test_what_is_damaged_is_not_restored_and_does_not_hinder(lab: Lab, tmp_path: Path) -> None:
    path, target = lab.config.history_path, tmp_path / "copy.db"
    copies.backup(path, target)
    before = lab.everything()
    cut = target.read_bytes()[:9000]
    for damage, told in ((b"x" * 5000, "is not a history"), (cut, "damaged|malformed|disk image")):
        (tmp_path / "bad.db").write_bytes(damage)
        with pytest.raises(HistoryError, match=told):
            copies.restore(path, tmp_path / "bad.db", LATER)
        assert lab.everything() == before
    with closing(sqlite3.connect(target)) as newer:
        newer.execute("PRAGMA user_version = 99")
    with pytest.raises(HistoryError, match="newer gpumon-static"):
        copies.restore(path, target, LATER)
    with closing(sqlite3.connect(target)) as newer:
        newer.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    path.write_bytes(b"broken")
    _, aside = copies.restore(path, target, LATER)
    assert lab.everything() == before
    assert aside is not None
    assert aside.read_bytes() == b"broken"


def test_where_there_is_none_a_backup_is_simply_put(lab: Lab, tmp_path: Path) -> None:
    copies.backup(lab.config.history_path, tmp_path / "copy.db")
    new = lab_in(tmp_path / "new")
    _, before = copies.restore(new.config.history_path, tmp_path / "copy.db", LATER)
    assert before is None
    assert new.everything() == lab.everything()
    assert new.config.history_path.stat().st_mode & 0o777 == 0o600


# Two become one


def some_runs(
    hosts: Sequence[str], minutes: Sequence[int], seed: int = 1
) -> list[tuple[int, list[HostReading]]]:
    """Two GPUs in each host, now free, now somebody's; a host fails now and then."""
    dice = random.Random(seed)
    runs = []
    for minute in minutes:
        readings = []
        for host in HOSTS:
            gpus = []
            for index in range(2):
                holders = tuple(process(7 + n, user=dice.choice("abc")) for n in range(dice.randrange(3)))
                taken = {"memory_used_mib": 40000.0, "processes": holders} if holders else {}
                used = dice.choice([None, 0.0, 60.0])
                gpus.append(gpu(index, uuid=f"GPU-{host}-{index}", utilization=used, **taken))
            ok = dice.random() > 0.1
            if host in hosts:
                readings.append(reading(host, gpus) if ok else failed(host))
        runs.append((minute, readings))
    return runs


def add_runs(lab: Lab, runs: Sequence[tuple[int, list[HostReading]]]) -> None:
    """In one transaction: a thousand runs in a second."""
    with closing(sqlite3.connect(lab.config.history_path, isolation_level=None)) as connection:
        migrate(lab.config.history_path, connection)
        connection.execute("BEGIN")
        for minute, readings in runs:
            at = START + timedelta(minutes=minute)
            seen = sightings([replace(r, fetched_at=at) for r in readings], lab.config.busy)
            record.add(connection, lab.config, seen, int(at.timestamp()))
        connection.execute("COMMIT")


def sums(lab: Lab) -> dict[str, list[tuple[Any, ...]]]:
    """Every table with names in the place of numbers, which depend on the order of things; not supply."""
    found = {}
    for name, query in QUERIES.items():
        keys = 3 if name != "gpu" else 2
        for unit in ("hour", "day"):
            rows = lab.rows(query.format(unit=unit))
            own = keys + keys
            found[f"{name}_{unit}s"] = sorted((*row[:keys], *row[own:]) for row in rows)
    crews = {None: ""} | dict(lab.rows("SELECT id, members FROM crews"))
    users = {str(number): name for number, name in lab.rows("SELECT id, name FROM users")}
    named = {crew: tuple(sorted(users[m] for m in members.split())) for crew, members in crews.items()}
    keys_of = dict(lab.rows("SELECT id, key FROM gpus"))
    for table in ("samples", "spans"):
        rows = lab.rows(f"SELECT gpu, at, state, crew FROM {table}")
        found[table] = sorted((keys_of[g], at, state, named[crew]) for g, at, state, crew in rows)
    found["runs"] = lab.rows("SELECT at FROM runs ORDER BY at")
    latest = lab.rows("SELECT gpu, at, state, crew, counted_to, since, taken_since, present FROM latest")
    found["latest"] = sorted((keys_of[g], at, s, named[c], *rest) for g, at, s, c, *rest in latest)
    for unit in ("hour", "day"):
        machines = f"SELECT hosts.name, t.* FROM machine_{unit}s AS t JOIN hosts ON hosts.id = host"
        found[f"machine_{unit}s"] = sorted((name, time, *rest) for name, time, _, *rest in lab.rows(machines))
    machines = "SELECT name, at, up FROM machine_last JOIN hosts ON hosts.id = host"
    found["machine_last"] = sorted(lab.rows(machines))
    found["hosts"] = sorted(lab.rows("SELECT name, answered_at, down_since FROM hosts"))
    return found


def same(found: dict[str, list[Any]], expected: dict[str, list[Any]]) -> None:
    assert found.keys() == expected.keys()
    for table, rows in expected.items():
        assert len(found[table]) == len(rows), table
        for row, wanted in zip(found[table], rows, strict=True):
            assert all(map(_alike, row, wanted)), (table, row, wanted)


def _alike(value: Any, wanted: Any) -> bool:
    """Sums of parts of seconds depend on the order in which they were added."""
    return bool(value == wanted or (isinstance(value, float) and abs(value - wanted) < 1e-6))


THREE_DAYS = range(0, 3 * 24 * 60, 5)


def test_collectors_of_different_hosts_become_what_one_would_have_recorded(tmp_path: Path) -> None:
    one, two, both = (lab_in(tmp_path / name) for name in ("one", "two", "both"))
    add_runs(one, some_runs(HOSTS[:2], THREE_DAYS))
    add_runs(two, some_runs(HOSTS[2:], THREE_DAYS))
    add_runs(both, some_runs(HOSTS, THREE_DAYS))
    merged = merging.merge(one.config, two.config.history_path, LATER)
    same(sums(one), sums(both))
    assert merged.gpus == 4
    after = one.everything()
    again = merging.merge(one.config, two.config.history_path, LATER + timedelta(days=1))
    assert again.words == "nothing to add: this history knows as much of every hour"
    assert one.everything() == after
    # The copy of before has what it had, and no other is left of the second time.
    assert list((tmp_path / "one").glob("history.db.*")) == [merged.copy]
    assert not list((tmp_path / "one").glob(".history*"))


def test_what_both_saw_counts_once(tmp_path: Path) -> None:
    """Of each hour of a GPU the account that knows more of it, with its users; and the days are their sums."""
    one, two = lab_in(tmp_path / "one"), lab_in(tmp_path / "two")
    add_runs(one, some_runs(HOSTS, range(0, 600, 5)))
    # Beside the first, two minutes later each time, with failures of its own; and then alone for two hours.
    add_runs(two, [(minute + 2, readings) for minute, readings in some_runs(HOSTS, range(0, 720, 5), seed=2)])
    accounts = [by_hour(one), by_hour(two)]
    merging.merge(one.config, two.config.history_path, LATER)
    found = by_hour(one)
    assert found.keys() == accounts[0].keys() | accounts[1].keys()
    for key, (states, users) in found.items():
        offered = [account[key] for account in accounts if key in account]
        assert (states, users) == max(offered, key=lambda account: (sum(account[0][:3]), sum(account[0])))
        assert sum(states) <= 3600
    assert {key for key, account in found.items() if account == accounts[0].get(key)}
    assert {key for key, account in found.items() if account == accounts[1].get(key)}
    for table in ("gpu", "user"):
        totals = [
            one.rows(f"SELECT sum(busy_s), sum(held_s) FROM {table}_{unit}s")[0] for unit in ("hour", "day")
        ]
        assert totals[0] == pytest.approx(totals[1])
    after = one.everything()
    merging.merge(one.config, two.config.history_path, LATER + timedelta(days=1))
    assert one.everything() == after


def by_hour(lab: Lab) -> dict[tuple[int, str], tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Hour and GPU to its seconds by state, and to its users with theirs."""
    keys = dict(lab.rows("SELECT id, key FROM gpus"))
    users: dict[tuple[int, str], list[Any]] = {}
    query = (
        "SELECT hour, gpu, name, busy_s, held_s FROM user_hours JOIN users ON users.id = user ORDER BY name"
    )
    for hour, gpu_, *use in lab.rows(query):
        users.setdefault((hour, keys[gpu_]), []).append(tuple(use))
    rows = lab.rows("SELECT hour, gpu, free_s, busy_s, held_s, unknown_s, down_s FROM gpu_hours")
    return {(h, keys[g]): (tuple(states), tuple(users.get((h, keys[g]), ()))) for h, g, *states in rows}


def test_a_collector_that_took_over_keeps_what_the_other_knew(tmp_path: Path) -> None:
    old, new = lab_in(tmp_path / "old"), lab_in(tmp_path / "new")
    runs = some_runs(HOSTS, range(0, 2 * 24 * 60, 5))
    add_runs(old, [run for run in runs if run[0] <= 24 * 60 + 20])
    add_runs(new, [run for run in runs if run[0] > 24 * 60 + 20])
    whole = lab_in(tmp_path / "whole")
    add_runs(whole, runs)
    merging.merge(new.config, old.config.history_path, LATER)
    query = "SELECT sum(free_s + busy_s + held_s + unknown_s + down_s) FROM gpu_hours"
    ((found,),), ((expected,),) = new.rows(query), whole.rows(query)
    # Of the hour of the change only the fuller part counts: 35 of its minutes, for each of eight GPUs.
    assert expected - 8 * 30 * 60 <= found < expected
    # Its runs go on where they were.
    new.run(2 * 24 * 60 + 5, *some_runs(HOSTS, [0])[0][1])
    assert new.said == []
    assert new.rows("SELECT count(*) FROM latest") == [(8,)]


def test_days_whose_hours_are_gone_are_taken_whole_and_once(tmp_path: Path) -> None:
    one, two = lab_in(tmp_path / "one"), lab_in(tmp_path / "two")
    for lab, hosts in ((one, HOSTS[:3]), (two, HOSTS[1:])):
        lab.config = replace(lab.config, history=replace(lab.config.history, keep_raw=1, keep_hours=2))
        add_runs(lab, some_runs(hosts, range(0, 20 * 24 * 60, 60)))
    before = dict(one.rows("SELECT g.key || d.day, free_s FROM gpu_days AS d JOIN gpus AS g ON g.id = d.gpu"))
    theirs = dict(two.rows("SELECT g.key || d.day, free_s FROM gpu_days AS d JOIN gpus AS g ON g.id = d.gpu"))
    merging.merge(one.config, two.config.history_path, LATER)
    after = dict(one.rows("SELECT g.key || d.day, free_s FROM gpu_days AS d JOIN gpus AS g ON g.id = d.gpu"))
    assert after == theirs | before


def test_a_history_of_the_first_release_is_merged_too(tmp_path: Path) -> None:
    first = Path(__file__).parent / "releases/0.1.0/data/history.db"
    shutil.copy(first, tmp_path / "first.db")
    content = (tmp_path / "first.db").read_bytes()
    one = lab_in(tmp_path / "one")
    assert merging.merge(one.config, tmp_path / "first.db", LATER).hours > 0
    with closing(sqlite3.connect(tmp_path / "first.db")) as connection:
        hours = connection.execute("SELECT count(*), sum(busy_s) FROM gpu_hours").fetchall()
    assert one.rows("SELECT count(*), sum(busy_s) FROM gpu_hours") == hours
    assert (tmp_path / "first.db").read_bytes() == content


def test_every_table_has_its_place_in_a_merge(lab: Lab) -> None:
    """A new table needs a line in merging.py."""
    rolled = [r.name for kind in merging.KINDS for r in (kind.rollup, *kind.along)]
    known = [f"{name}_{unit}s" for name in rolled for unit in ("hour", "day")]
    known += [table for kind in merging.KINDS for table in kind.samples]
    known += [*merging.ADDED, *merging.NEWEST, *merging.OTHERS]
    tables = [name for (name,) in lab.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    assert sorted(known) == sorted(tables)


def test_what_is_no_history_is_not_merged(lab: Lab, tmp_path: Path) -> None:
    before = lab.everything()
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(HistoryError, match="is not a history"):
        merging.merge(lab.config, tmp_path / "notes", LATER)
    assert lab.everything() == before
    assert not list((tmp_path / "data").glob("*before*"))


# Which GPU is which

MASKED = "GPU-00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    "uuid", [MASKED, "GPU-XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX", "GPU-1ab2c3d4-0000-4444-9999-1234567890ab"]
)
def test_hosts_that_report_the_same_uuid_share_no_row(tmp_path: Path, uuid: str) -> None:
    lab = lab_in(tmp_path / "data", "node1", "node2")
    busy, free = busy_gpu(0, uuid=uuid), gpu(0, uuid=uuid)
    for minute in (0, 5, 10):
        lab.run(minute, reading("node1", [busy]), reading("node2", [free]))
    # One of them is down, and then the other: each row stays with its host.
    lab.run(15, failed("node1"), reading("node2", [free]))
    lab.run(20, reading("node1", [busy]), failed("node2"))
    lab.run(25, reading("node2", [free]), reading("node1", [busy]))
    lab.run(30, reading("node2", [free]), reading("node1", [busy]))
    by_host = {use.host: (use.busy_s, use.free_s) for use in lab.gpus()}
    assert by_host == {"node1": (900 + 600, 0), "node2": (0, 1200 + 300)}
    assert len(lab.rows("SELECT * FROM gpus")) == 2


def test_a_row_that_hosts_have_shared_stays_with_one_of_them(tmp_path: Path) -> None:
    """As 0.1.0 recorded it: the first host under the UUID, the second by its place."""
    lab = lab_in(tmp_path / "data", "node1", "node2")
    lab.run(0, reading("node1", [busy_gpu(0, uuid=MASKED)]))
    with closing(sqlite3.connect(lab.config.history_path)) as connection, connection:
        connection.execute("UPDATE gpus SET key = ?", (MASKED,))
    lab.run(5, reading("node2", [gpu(0, uuid=MASKED)]), reading("node1", [busy_gpu(0, uuid=MASKED)]))
    lab.run(10, reading("node2", [gpu(0, uuid=MASKED)]), reading("node1", [busy_gpu(0, uuid=MASKED)]))
    by_host = {use.host: (use.busy_s, use.free_s) for use in lab.gpus()}
    assert by_host == {"node1": (600, 0), "node2": (0, 300)}


def test_a_gpu_that_moves_to_another_host_keeps_its_row(tmp_path: Path) -> None:
    lab = lab_in(tmp_path / "data", "node1", "node2")
    lab.run(0, reading("node1", [gpu(0, uuid="GPU-1"), gpu(1, uuid="GPU-2")]), reading("node2", []))
    lab.run(5, reading("node1", [gpu(1, uuid="GPU-2")]), reading("node2", [gpu(0, uuid="GPU-1")]))
    assert sorted(lab.rows("SELECT key FROM gpus")) == [("GPU-1",), ("GPU-2",)]


def test_masked_uuids_of_two_collectors_stay_apart(tmp_path: Path) -> None:
    one, two = lab_in(tmp_path / "one", "node1"), lab_in(tmp_path / "two", "node2")
    one.runs([0, 5], busy_gpu(0, uuid=MASKED))
    two.runs([0, 5], gpu(0, uuid=MASKED), host="node2")
    for lab in (one, two):
        with closing(sqlite3.connect(lab.config.history_path)) as connection, connection:
            connection.execute("UPDATE gpus SET key = ?", (MASKED,))
    merging.merge(one.config, two.config.history_path, LATER)
    assert {use.host: (use.busy_s, use.free_s) for use in one.gpus()} == {
        "node1": (300, 0),
        "node2": (0, 300),
    }


def test_an_event_that_both_collectors_saw_is_kept_once(tmp_path: Path) -> None:
    one, two = lab_in(tmp_path / "one", "node1"), lab_in(tmp_path / "two", "node1")
    at = int(START.timestamp())
    for lab_, events in ((one, [("a", at)]), (two, [("b", at + 120), ("c", at + 7200)])):
        lab_.runs([0, 5], busy_gpu())
        with writing(lab_.config.history_path) as connection:
            rows = [(name, time, "host-down", "{}") for name, time in events]
            connection.executemany("INSERT INTO events VALUES (?, ?, ?, 1, ?)", rows)
    for _ in range(2):
        merging.merge(one.config, two.config.history_path, LATER)
        assert one.rows("SELECT id, at FROM events ORDER BY at") == [("a", at), ("c", at + 7200)]
