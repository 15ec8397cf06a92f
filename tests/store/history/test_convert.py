"""A history.db of any version becomes files, and every question has the same answer as before."""

from __future__ import annotations

import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpumon_static.check.publishing import look_at_old_history
from gpumon_static.commands.cli import main
from gpumon_static.store.history import machines
from gpumon_static.store.history.engine import HistoryError
from gpumon_static.store.history.moving import copies, merging
from gpumon_static.store.history.moving.convert import convert, convert_if_needed, kept_path
from tests import old_history
from tests.builders import gpu, reading
from tests.history_lab import DAY, HistoryLab, moment
from tests.old_history import NAMING, lab_of
from tests.places import ROOT

CLOSE = 0.001


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return old_history.make_database(tmp_path_factory.mktemp("old") / "history.db")


@pytest.fixture(scope="module")
def converted(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the files of the database."""
    data = tmp_path_factory.mktemp("new")
    convert(database, data / "history", NAMING)
    return data


def last_run(database: Path) -> int:
    return int(old_history.ask(database, "SELECT max(at) FROM runs")[0][0])


def months(database: Path) -> list[tuple[int, int]]:
    """The first day and the day after of each month, in days since 1970."""
    first, last = old_history.ask(database, "SELECT min(day), max(day) FROM gpu_days")[0]
    starts = [day for day in range(first, last + 1) if day == first or moment(day * DAY).day == 1]
    return list(zip(starts, [*starts[1:], last + 1], strict=True))


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6])
def test_gpu_hours_by_user_and_month_are_equal(version: int, tmp_path: Path) -> None:
    path = old_history.make_database(tmp_path / "old" / "history.db", version)
    convert(path, tmp_path / "data" / "history", NAMING)
    lab = lab_of(tmp_path / "data")
    for first, end in months(path):
        before = old_history.user_days(path, first, end)
        after = {use.user: use for use in lab.users(first * DAY, end * DAY) if use.total_s}
        assert after.keys() == before.keys()
        for user, (busy, held, work, measured) in before.items():
            use = after[user]
            found = (use.busy_s, use.held_s, use.work_s, use.measured_s)
            assert found == pytest.approx((busy, held, work, measured), rel=CLOSE)


def test_states_and_means_of_each_gpu_are_equal(database: Path, converted: Path) -> None:
    for first, end in months(database):
        before = old_history.gpu_days(database, first, end)
        after = {(use.host, use.index): use for use in lab_of(converted).gpus(first * DAY, end * DAY)}
        assert after.keys() == before.keys()
        for key, (free, busy, held, mean, most) in before.items():
            use = after[key]
            assert (use.free_s, use.busy_s, use.held_s) == pytest.approx((free, busy, held), rel=CLOSE, abs=2)
            if ":" not in key[1]:
                assert use.utilization.mean == pytest.approx(mean, abs=1.0)
                assert use.utilization.most == most


@pytest.mark.parametrize("by_group", [False, True])
def test_supply_is_equal(database: Path, converted: Path, by_group: bool) -> None:
    for first, end in months(database):
        before = old_history.supply_days(database, first, end, by_group=by_group)
        found = lab_of(converted).supply(first * DAY, end * DAY, by_group=by_group)
        assert {(of.model, of.group): list(of.sums) for of in found.models} == {
            key: pytest.approx(sums, rel=CLOSE) for key, sums in before.items()
        }
        assert any(of.slurm for of in found.models)


def test_availability_is_equal(database: Path, converted: Path) -> None:
    now = last_run(database)
    before = old_history.host_days(database, now // DAY - machines.DAYS + 1, now // DAY + 1)
    found = lab_of(converted).ask(lambda reader: machines.availability(reader, now, now))
    assert {host: (of.up_s, of.down_s) for host, of in found.items()} == {
        host: pytest.approx(sums, rel=CLOSE) for host, sums in before.items()
    }


def test_allocated_hours_are_equal(database: Path, converted: Path) -> None:
    rows = old_history.ask(
        database,
        "SELECT name, sum(allocated_s), sum(idle_s) FROM allocated_days JOIN users ON users.id = user GROUP BY name",
    )
    uses = {use.user: use for use in lab_of(converted).users(0, last_run(database))}
    for user, allocated, idle in rows:
        assert uses[user].allocated_s == pytest.approx(allocated, rel=CLOSE)
        assert uses[user].allocated_idle_s == pytest.approx(idle, rel=CLOSE)


def test_how_things_stand_and_since_when_is_kept(database: Path, converted: Path) -> None:
    past = lab_of(converted).past(last_run(database))
    rows = old_history.ask(
        database,
        "SELECT hosts.name, position || coalesce(':' || slice, ''), known_at, since, taken_since FROM latest"
        " JOIN gpus ON gpus.id = gpu JOIN hosts ON hosts.id = host WHERE present = 1",
    )
    stand = {key: (gpu.known_at, gpu.since, gpu.taken_since) for key, gpu in past.gpus.items()}
    assert stand == {(host, index): tuple(times) for host, index, *times in rows}
    down = old_history.ask(database, "SELECT name, down_since FROM hosts WHERE down_since IS NOT NULL")
    assert past.down_since == dict(down)
    assert len(past.events) == old_history.ask(database, "SELECT count(*) FROM events")[0][0]


def test_samples_become_rows_of_their_runs(database: Path, converted: Path) -> None:
    (samples,) = old_history.ask(
        database, "SELECT max(at), count(*) FROM samples WHERE at >= (SELECT max(at) FROM runs) - 7200"
    )
    rows = lab_of(converted).rows(
        f"SELECT count(*) FROM rows WHERE level < 3 AND epoch(fetched_at) >= {last_run(database) - 7200}"
    )
    assert rows == [(samples[1],)]


def test_a_file_of_0_1_0(tmp_path: Path) -> None:
    convert(old_history.RELEASE, tmp_path / "history", NAMING)
    lab = HistoryLab(tmp_path, "vision-01", "vision-02")
    now = last_run(old_history.RELEASE)
    before = old_history.user_days(old_history.RELEASE, 0, 100_000)
    after = {use.user: (use.busy_s, use.held_s, use.work_s, use.measured_s) for use in lab.users(0, now)}
    assert after == {user: pytest.approx(sums, rel=CLOSE) for user, sums in before.items()}
    assert {of.model for of in lab.supply(0, now).models} == {"A100 80G", "RTX 3090"}
    assert lab.past(now).gpus["vision-02", "1"].since == 1794754567


def test_the_first_fetch_converts_and_the_second_does_not(database: Path, tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    shutil.copy(database, lab.config.old_history_path)
    now = last_run(database) + 600
    lab.add(now, reading("a1", [gpu(0)]))
    assert [line for line in lab.lines if "converted" in line] == [
        "history: history.db converted to files: 41 days; it is now history.db.before-parquet"
    ]
    assert not lab.config.old_history_path.exists()
    assert kept_path(lab.config.old_history_path).exists()
    lab.lines.clear()
    lab.add(now + 600, reading("a1", [gpu(0)]))
    assert lab.lines == []
    later = lab.rows(f"SELECT count(DISTINCT run_at) FROM rows WHERE epoch(run_at) >= {now}")
    assert later == [(2,)]


def test_what_is_only_in_the_log_is_converted_and_kept(database: Path, tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    path = lab.config.old_history_path
    shutil.copy(database, path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("UPDATE hosts SET name = 'renamed' WHERE name = 'a1'")
    connection.commit()
    # As a killed fetch leaves it: the log was never brought into the file.
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{path}.copy{suffix}")
    connection.close()
    for suffix in ("", "-wal"):
        Path(f"{path}.copy{suffix}").replace(f"{path}{suffix}")
    convert_if_needed(lab.config, moment(last_run(database)), lab.lines.append, NAMING)
    assert lab.rows("SELECT count(*) > 0 FROM rows WHERE host = 'renamed'") == [(True,)]
    kept = kept_path(path)
    assert old_history.ask(kept, "SELECT count(*) FROM hosts WHERE name = 'renamed'") == [(1,)]


@pytest.mark.parametrize("content", [b"", b"not a database, but long enough to be read as one" * 100])
def test_what_is_no_database_is_left_and_runs_are_recorded(content: bytes, tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    lab.config.old_history_path.write_bytes(content)
    lab.add(1763110800, reading("a1", [gpu(0)]))
    assert len(lab.lines) == 1
    assert "it is not converted to files, and left as it is" in lab.lines[0]
    assert lab.config.old_history_path.read_bytes() == content
    assert lab.rows("SELECT count(*) FROM rows") == [(1,)]


def test_a_damaged_database_is_left_and_runs_are_recorded(database: Path, tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    content = bytearray(database.read_bytes())
    for place in range(20 * 4096, len(content), 4096):
        content[place : place + 64] = bytes(64)
    lab.config.old_history_path.write_bytes(content)
    lab.add(last_run(database) + 600, reading("a1", [gpu(0)]))
    assert len(lab.lines) == 1
    assert "damaged" in lab.lines[0] or "malformed" in lab.lines[0]
    assert lab.config.old_history_path.read_bytes() == content
    assert lab.rows("SELECT count(*) FROM rows") == [(1,)]


def test_a_newer_database_is_left(database: Path, tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    shutil.copy(database, lab.config.old_history_path)
    with closing(sqlite3.connect(lab.config.old_history_path)) as connection:
        connection.execute("PRAGMA user_version = 7")
    convert_if_needed(lab.config, moment(last_run(database)), lab.lines.append, NAMING)
    assert len(lab.lines) == 1
    assert "newer gpumon-static" in lab.lines[0]
    assert lab.config.old_history_path.exists()


CONVERTING = """
import sys
from pathlib import Path
from tests.history_lab import moment
from tests.old_history import NAMING, lab_of
from gpumon_static.store.history.moving.convert import convert_if_needed
print("begins", flush=True)
convert_if_needed(lab_of(Path(sys.argv[1])).config, moment(int(sys.argv[2])), print, NAMING)
"""


def everything(data: Path) -> list[tuple[object, ...]]:
    counted = "count(*), sum(seconds), sum(level), sum(gpu_utilization)"
    return lab_of(data).rows(f"SELECT run_at::DATE, {counted} FROM rows GROUP BY 1 ORDER BY 1")


def test_killed_at_any_moment_it_starts_again_and_ends_the_same(
    database: Path, converted: Path, tmp_path: Path
) -> None:
    chance = random.Random(7)
    now = str(last_run(database))
    for number in range(2):
        data = tmp_path / str(number)
        data.mkdir()
        shutil.copy(database, data / "history.db")
        for _ in range(2):
            command = [sys.executable, "-c", CONVERTING, str(data), now]
            with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
                assert process.stdout
                process.stdout.readline()
                time.sleep(chance.uniform(0, 2.5))
                process.send_signal(signal.SIGKILL)
        lab = lab_of(data)
        convert_if_needed(lab.config, moment(int(now)), lab.lines.append, NAMING)
        assert everything(data) == everything(converted)
        assert kept_path(data / "history.db").exists()
        assert not (data / "history.db").exists()
        assert not (data / ".history.converting").exists()
        assert lab.supply(0, int(now)).models == lab_of(converted).supply(0, int(now)).models


def test_a_full_disk_leaves_the_database(database: Path, tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    shutil.copy(database, lab.config.old_history_path)
    before = lab.config.old_history_path.read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, limit[1]))
        convert_if_needed(lab.config, moment(last_run(database)), lab.lines.append, NAMING)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)
    assert len(lab.lines) == 1
    assert "left as it is" in lab.lines[0]
    assert lab.config.old_history_path.read_bytes() == before
    assert not (tmp_path / ".history.converting").exists()
    convert_if_needed(lab.config, moment(last_run(database)), lab.lines.append, NAMING)
    assert "converted to files" in lab.lines[1]


def test_runs_that_were_recorded_before_the_conversion_stay(
    database: Path, converted: Path, tmp_path: Path
) -> None:
    lab = lab_of(tmp_path)
    now = last_run(database) + 600
    lab.every(now, now + 1800, reading("a1", [gpu(0)]), step=600)
    own = lab.rows("SELECT count(*) FROM rows")[0][0]
    shutil.copy(database, lab.config.old_history_path)
    convert_if_needed(lab.config, moment(now + 1800), lab.lines.append, NAMING)
    both = lab.rows("SELECT count(*) FROM rows")[0][0]
    assert both == own + lab_of(converted).rows("SELECT count(*) FROM rows")[0][0]


def test_a_second_database_is_merged_and_no_time_counts_twice(database: Path, tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    now = moment(last_run(database))
    for _ in range(2):
        shutil.copy(database, lab.config.old_history_path)
        convert_if_needed(lab.config, now, lab.lines.append, NAMING)
    total = sum(use.total_s for use in lab.users(0, last_run(database)))
    before = old_history.user_days(database, 0, 100_000).values()
    assert total == pytest.approx(sum(busy + held for busy, held, *_ in before), rel=CLOSE)
    assert (tmp_path / "history.db.before-parquet-2").exists()


def test_a_backup_of_an_old_version_is_restored_and_merged(database: Path, tmp_path: Path) -> None:
    restored, merged = lab_of(tmp_path / "restored"), lab_of(tmp_path / "merged")
    now = last_run(database)
    for lab in (restored, merged):
        lab.config.paths.data.mkdir()
    copies.restore(restored.config.history_path, database, moment(now), NAMING)
    merged.add(now + 600, reading("a1", [gpu(0)]))
    merging.merge(merged.config, database, moment(now), NAMING)
    before = old_history.user_days(database, 0, 100_000)
    for lab in (restored, merged):
        after = {use.user: use.total_s for use in lab.users(0, now) if use.total_s}
        assert after == {user: pytest.approx(sums[0] + sums[1], rel=CLOSE) for user, sums in before.items()}
        assert lab.supply(0, now).models


def test_the_command_converts_and_check_reports_it(database: Path, tmp_path: Path) -> None:
    config_path = tmp_path / "config.ini"
    config_path.write_text(
        '[common]\nuser = "m"\nhosts = ["a1"]\n[paths]\ndata = "data"\nsite = "site"\n[history]\nkeep = 36000\n'
    )
    (tmp_path / "data").mkdir()
    lab = lab_of(tmp_path / "data")
    shutil.copy(database, tmp_path / "data/history.db")
    (finding,) = look_at_old_history(lab.config)
    assert "the next fetch converts it" in finding.message
    run = CliRunner().invoke(main, ["history", "convert", "-c", str(config_path)])
    assert run.output == "history.db converted to files: 41 days; it is now history.db.before-parquet\n"
    assert list(look_at_old_history(lab.config)) == []
    again = CliRunner().invoke(main, ["history", "convert", "-c", str(config_path)])
    assert "nothing to convert" in again.output
    elsewhere = CliRunner().invoke(main, ["history", "convert", "-c", str(config_path), str(database)])
    assert "knows as much of every hour" in elsewhere.output


def test_a_folder_without_rights_is_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(HistoryError):
        convert(tmp_path / "nothing.db", tmp_path / "history")
