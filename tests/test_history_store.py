"""The database itself: nothing that happens to it costs a run or a page."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpumon_static.config.settings import HistoryConfig
from gpumon_static.errors import GpumonError
from gpumon_static.store.history import database, ledger
from gpumon_static.store.history.database import HistoryError, writing
from gpumon_static.store.history.database import reading as open_history
from gpumon_static.store.history.moving.copies import backup
from gpumon_static.store.history.rollups import DAY, HOUR, prune
from gpumon_static.survey.sightings import sightings
from tests.builders import busy_gpu, gpu, process, reading
from tests.test_history import START, Lab

AT = int(START.timestamp())


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def whole(path: Path) -> bool:
    with sqlite3.connect(path) as connection:
        return bool(connection.execute("PRAGMA integrity_check").fetchone() == ("ok",))


def test_a_fetch_that_is_killed_leaves_the_database_whole(lab: Lab) -> None:
    lab.runs([0, 5], busy_gpu())
    before = lab.everything()
    # Stops in the middle of a transaction that has written a lot, and is killed there.
    script = f"""
import sys, time
from pathlib import Path
from gpumon_static.store.history.database import writing
with writing(Path({str(lab.config.history_path)!r})) as connection:
    connection.execute("PRAGMA cache_size = 10")
    connection.execute("DELETE FROM gpus")
    for at in range(20000):
        connection.execute("INSERT INTO samples VALUES (?, 1, 0, NULL, 1, 2, 3, 4)", (at,))
    print("now", flush=True)
    time.sleep(60)
"""
    killed = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert killed.stdout
    assert killed.stdout.readline() == b"now\n"
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    assert lab.everything() == before
    assert whole(lab.config.history_path)
    lab.runs([10], busy_gpu())
    assert lab.said == []
    assert lab.users()["alice"][0] == 600


def test_a_failure_in_the_middle_of_a_run_leaves_nothing_of_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.runs([0, 5], busy_gpu())
    before = lab.everything()

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(ledger, "save", fail)
        lab.runs([10], busy_gpu())
    assert lab.said == [
        f"history: cannot write {lab.config.history_path}: disk I/O error; this run is not in it"
    ]
    assert lab.everything() == before


def test_a_full_disk_is_said_in_one_line(lab: Lab) -> None:
    lab.runs([0, 5], busy_gpu())
    with sqlite3.connect(lab.config.history_path) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
    original = database._open_for_writing

    def on_a_full_disk(path: Path) -> sqlite3.Connection:
        opened = original(path)
        opened.execute(f"PRAGMA max_page_count = {pages}")
        return opened

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(database, "_open_for_writing", on_a_full_disk)
        many = tuple(busy_gpu(n, uuid=f"GPU-{n}", processes=(process(n, user=f"u{n}"),)) for n in range(400))
        lab.runs([10], *many)
    assert lab.said == [
        f"history: cannot write {lab.config.history_path}: the disk is full; this run is not in it"
    ]
    lab.runs([15], busy_gpu())
    assert len(lab.said) == 1


@pytest.mark.parametrize("damage", [b"this is no database" * 100, b""])
def test_a_damaged_file_is_put_aside_and_a_new_one_begins(lab: Lab, damage: bytes) -> None:
    lab.runs([0, 5], busy_gpu())
    path = lab.config.history_path
    path.write_bytes(damage or path.read_bytes()[:4096] + b"\xff" * 60000)
    lab.runs([10, 15], busy_gpu())
    (aside,) = path.parent.glob("history.db.damaged-*")
    assert aside.name == "history.db.damaged-20251114T091000"
    assert len(lab.said) == 1
    assert "; the file is now history.db.damaged-20251114T091000, and a new one begins" in lab.said[0]
    assert lab.users()["alice"][0] == 300


def test_a_directory_that_cannot_be_written_costs_the_run_nothing(lab: Lab, tmp_path: Path) -> None:
    blocker = tmp_path / "data"
    blocker.write_text("a file where the directory should be")
    config = replace(lab.config, paths=replace(lab.config.paths, data=blocker))
    from gpumon_static.store.history import record

    record.record(config, sightings([reading("node1", [gpu()])], config.busy), START, lab.said.append)
    assert len(lab.said) == 1
    assert lab.said[0].startswith(f"history: cannot write {blocker}/history.db: ")
    assert lab.said[0].endswith("; this run is not in it")


def test_who_may_only_read_the_directory_can_ask() -> None:
    # Not below pytest's own directory, which other users may not enter.
    with TemporaryDirectory(prefix="gpumon-history-") as directory:
        lab = Lab(Path(directory))
        lab.runs([0, 5], busy_gpu())
        Path(directory).chmod(0o555)
        lab.config.history_path.chmod(0o644)
        script = f"""
import os
from pathlib import Path
from gpumon_static.store.history.database import reading
if os.geteuid() == 0:
    os.setuid(65534)
with reading(Path({str(lab.config.history_path)!r})) as connection:
    print(connection.execute("SELECT sum(busy_s) FROM gpu_days").fetchone()[0])
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("300\n", "")


def test_a_reader_and_a_writer_do_not_disturb_each_other(lab: Lab) -> None:
    lab.runs([0, 5], busy_gpu())
    with open_history(lab.config.history_path) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM samples").fetchone() == (2,)
        lab.runs([10], busy_gpu())
        # What it has begun to read stays as it was.
        assert reader.execute("SELECT count(*) FROM samples").fetchone() == (2,)
    assert lab.said == []
    assert lab.rows("SELECT count(*) FROM samples") == [(3,)]


def test_two_writers_wait_for_each_other(lab: Lab) -> None:
    lab.runs([0], busy_gpu())
    script = f"""
import time
from pathlib import Path
from gpumon_static.store.history.database import writing
with writing(Path({str(lab.config.history_path)!r})) as connection:
    print("now", flush=True)
    time.sleep(0.5)
"""
    other = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert other.stdout
    assert other.stdout.readline() == b"now\n"
    lab.runs([5], busy_gpu())
    assert other.wait() == 0
    other.stdout.close()
    assert lab.said == []
    assert lab.users()["alice"][0] == 300


def test_a_writer_does_not_wait_for_ever(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.runs([0], busy_gpu())
    monkeypatch.setattr(database, "WAIT_S", 0.2)
    started = time.monotonic()
    with writing(lab.config.history_path):
        lab.runs([5], busy_gpu())
    assert time.monotonic() - started < 10
    assert lab.said == [
        f"history: cannot write {lab.config.history_path}: database is locked; this run is not in it"
    ]


# Versions


def make_version_1(lab: Lab) -> None:
    """What 0.1.0 would have written: its tables are still filled, and everything since then is added."""
    with closing(sqlite3.connect(lab.config.history_path)) as connection:
        names = [
            (kind, name)
            for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_schema")
            if sql is not None and sql not in database.FIRST
        ]
        for kind, name in names:
            connection.execute(f"DROP {kind} IF EXISTS {name}")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()


def test_a_database_of_an_older_version_is_brought_up_to_date(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = len(database.MIGRATIONS)
    lab.runs([0, 5], busy_gpu())
    assert lab.rows("PRAGMA user_version") == [(known,)]
    more = ["ALTER TABLE hosts ADD COLUMN rack TEXT", "UPDATE hosts SET rack = 'A1'"]
    monkeypatch.setattr(database, "MIGRATIONS", [*database.MIGRATIONS, more])
    lab.runs([10], busy_gpu())
    assert lab.said == []
    assert lab.rows("PRAGMA user_version") == [(known + 1,)]
    assert lab.rows("SELECT name, rack FROM hosts") == [("node1", "A1")]
    assert lab.users()["alice"][0] == 600


def test_the_database_of_0_1_0_gets_todays_tables_and_indexes(lab: Lab) -> None:
    lab.runs([0, 5], busy_gpu())
    schema = "SELECT name FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"
    today = lab.rows(schema)
    make_version_1(lab)
    assert {("supply_hours",), ("spans_by_time",)}.isdisjoint(lab.rows(schema))
    lab.runs([10], busy_gpu())
    assert lab.said == []
    assert lab.rows("PRAGMA user_version") == [(len(database.MIGRATIONS),)]
    assert lab.rows(schema) == today
    assert lab.users()["alice"][0] == 600


def test_a_new_database_goes_through_all_versions(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    more = ["ALTER TABLE hosts ADD COLUMN rack TEXT"]
    monkeypatch.setattr(database, "MIGRATIONS", [*database.MIGRATIONS, more])
    lab.runs([0, 5], busy_gpu())
    assert lab.rows("PRAGMA user_version") == [(len(database.MIGRATIONS),)]
    assert lab.rows("SELECT rack FROM hosts") == [(None,)]


def test_a_migration_that_fails_changes_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    known = len(database.MIGRATIONS)
    lab.runs([0, 5], busy_gpu())
    before = lab.everything()
    with monkeypatch.context() as patched:
        broken = ["UPDATE hosts SET name = 'gone'", "THIS IS NO SQL"]
        patched.setattr(database, "MIGRATIONS", [*database.MIGRATIONS, broken])
        lab.runs([10], busy_gpu())
    assert len(lab.said) == 1
    assert lab.rows("PRAGMA user_version") == [(known,)]
    assert lab.everything() == before


def test_a_database_of_a_newer_version_is_left_alone(lab: Lab) -> None:
    lab.runs([0], busy_gpu())
    with sqlite3.connect(lab.config.history_path) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = lab.config.history_path.read_bytes()
    lab.runs([5], busy_gpu())
    known = len(database.MIGRATIONS)
    assert f"was written by a newer gpumon-static (version 99 of it, this one knows {known})" in lab.said[0]
    assert lab.config.history_path.read_bytes() == before
    with pytest.raises(HistoryError, match="newer gpumon-static"), open_history(lab.config.history_path):
        pass


# Retention


def test_each_table_is_kept_as_long_as_the_config_says(lab: Lab) -> None:
    with writing(lab.config.history_path) as connection:
        for days in range(400):
            at = AT - days * DAY
            connection.execute("INSERT INTO samples VALUES (?, 1, 0, NULL, 1, 2, 3, 4)", (at,))
            connection.execute("INSERT INTO user_hours VALUES (?, 1, 1, 1, 1, 1, 1)", (at // HOUR,))
            connection.execute("INSERT INTO user_days VALUES (?, 1, 1, 1, 1, 1, 1)", (at // DAY,))
        prune(connection, AT, raw_days=7, hours_days=90, days_days=365)
    counted = [lab.rows(f"SELECT count(*) FROM {t}")[0][0] for t in ("samples", "user_hours", "user_days")]
    # Today and seven days before it, and so on.
    assert counted == [8, 91, 366]


OLD_ROWS = {
    "samples": (1, "INSERT INTO samples VALUES (?, ?, 0, NULL, 1, 2, 3, 4)"),
    "pool_runs": (1, "INSERT INTO pool_runs VALUES (?, ?, 1, 1, 1, 0, 1, 1, 1, 1)"),
    "spans": (1, "INSERT INTO spans (at, gpu, state) VALUES (?, ?, 0)"),
    "gpu_hours": (HOUR, f"INSERT INTO gpu_hours VALUES (?, ?, {', '.join('1' * 17)})"),
    "user_hours": (HOUR, "INSERT INTO user_hours VALUES (?, 1, ?, 1, 1, 1, 1)"),
    "pool_hours": (HOUR, "INSERT INTO pool_hours VALUES (?, ?, 1, 1, 1, 1, 1, 1, 1, 1)"),
    "gpu_days": (DAY, f"INSERT INTO gpu_days VALUES (?, ?, {', '.join('1' * 17)})"),
    "user_days": (DAY, "INSERT INTO user_days VALUES (?, 1, ?, 1, 1, 1, 1)"),
    "pool_days": (DAY, "INSERT INTO pool_days VALUES (?, ?, 1, 1, 1, 1, 1, 1, 1, 1)"),
}


@pytest.mark.parametrize("table", OLD_ROWS)
def test_a_first_prune_of_much_goes_in_bites_the_oldest_first(lab: Lab, table: str) -> None:
    """Seven GPUs for twenty days and today; all but the last day is to go."""
    size, insert = OLD_ROWS[table]
    with writing(lab.config.history_path) as connection:
        rows = [((AT - days * DAY) // size, number) for days in range(21) for number in range(1, 8)]
        connection.executemany(insert, rows)
    time = {1: "at", HOUR: "hour", DAY: "day"}[size]
    left: list[int] = []
    while len(left) < 6:
        with writing(lab.config.history_path) as connection:
            prune(connection, AT, raw_days=1, hours_days=1, days_days=1, most=30)
        (count,) = lab.rows(f"SELECT count(*) FROM {table}")[0]
        oldest = lab.rows(f"SELECT {time} FROM {table} ORDER BY {time} LIMIT 1")[0][0]
        assert oldest == (AT - (count - 1) // 7 * DAY) // size, "what is left is the newest"
        left.append(count)
    assert left == [117, 87, 57, 27, 14, 14]


def test_a_large_site_deletes_as_much_as_its_runs_add(lab: Lab) -> None:
    many = [gpu(number, uuid=f"GPU-{number}") for number in range(40)]
    lab.runs([0], *many)
    with writing(lab.config.history_path) as connection:
        old = ((AT - 30 * DAY, number) for number in range(500))
        connection.executemany("INSERT INTO samples VALUES (?, ?, 0, NULL, 1, 2, 3, 4)", old)
        prune(connection, AT, raw_days=7, hours_days=90, days_days=365, most=10)
    # Four for each of the 40, not ten; the 40 of the run stay.
    assert lab.rows("SELECT count(*) FROM samples") == [(500 - 160 + 40,)]


def test_old_samples_go_by_themselves(lab: Lab) -> None:
    lab.config = replace(lab.config, history=HistoryConfig(keep_raw=1))
    # Every 20 minutes for two and a half days: the config's five minutes only matter for the counting.
    lab.runs(range(0, 60 * 60, 20), busy_gpu())
    (oldest,) = lab.rows("SELECT min(at) FROM samples")[0]
    newest = AT + 59 * 60 * 60 + 40 * 60
    # A day before the run that was a hundred runs (33 hours) ago, and up to an hour more.
    assert isinstance(oldest, int)
    sure = newest - 100 * 20 * 60 - DAY
    assert sure - HOUR <= oldest <= sure + HOUR
    assert lab.rows("SELECT count(*) FROM gpu_hours") == [(60,)]


def test_the_state_at_the_border_of_what_is_kept_stays_known(lab: Lab) -> None:
    lab.runs([0], busy_gpu())
    lab.runs([5], gpu())
    lab.runs([10], busy_gpu())
    with writing(lab.config.history_path) as connection:
        prune(connection, AT + 7 * DAY + 7 * 60, raw_days=7, hours_days=90, days_days=365)
    # The border is at 9:07: free since 9:05, which says how it was there; busy at 9:00 does not.
    assert lab.rows("SELECT at - 1763110800, state FROM spans ORDER BY at") == [(300, 0), (600, 1)]


def test_switched_off_there_is_no_history(lab: Lab) -> None:
    lab.config = replace(lab.config, history=HistoryConfig(enabled=False))
    lab.runs([0, 5], busy_gpu())
    assert not lab.config.history_path.exists()


# Backup


def test_a_backup_is_a_whole_copy_made_while_somebody_writes(lab: Lab, tmp_path: Path) -> None:
    lab.runs([0, 5], busy_gpu())
    target = tmp_path / "copy.db"
    with writing(lab.config.history_path) as connection:
        connection.execute("DELETE FROM samples")
        backup(lab.config.history_path, target)
    assert whole(target)
    with sqlite3.connect(target) as copy:
        # What was not finished at that time is not in it.
        assert copy.execute("SELECT count(*) FROM samples").fetchone() == (2,)
    assert sorted(p.name for p in tmp_path.iterdir() if "copy" in p.name) == ["copy.db"]


def test_a_backup_onto_itself_is_refused(lab: Lab) -> None:
    lab.runs([0], busy_gpu())
    with pytest.raises(GpumonError, match="is the history itself"):
        backup(lab.config.history_path, lab.config.history_path)
    assert whole(lab.config.history_path)


def test_no_history_yet_says_so(tmp_path: Path) -> None:
    with pytest.raises(GpumonError, match="no history yet"), open_history(tmp_path / "history.db"):
        pass


def test_times_are_those_of_utc(lab: Lab) -> None:
    lab.runs([0, 5], busy_gpu())
    assert datetime(2025, 11, 14, tzinfo=UTC) + timedelta(hours=9) == START
    assert lab.rows("SELECT hour, day FROM gpu_hours, gpu_days") == [(AT // HOUR, AT // DAY)]


def test_no_statement_numbers_its_values() -> None:
    """Python 3.12 warns of `?1` with a sequence: such values need names, or no numbers."""
    for path in (Path(__file__).parent.parent / "gpumon_static/store").rglob("*.py"):
        assert not re.search(r"\?\d", path.read_text()), path
