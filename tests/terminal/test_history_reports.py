"""`gpumon-static history`: what a person or a script gets, and the way from and to rntop."""

from __future__ import annotations

import csv
import io
import json
import re
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpumon_static.config.file import load
from gpumon_static.errors import ConfigError
from gpumon_static.store.history import questions
from gpumon_static.store.history.questions import GpuUse, Level, UserUse
from gpumon_static.store.history.reader import Period, ask
from gpumon_static.terminal.history.reports import _as_lines, _as_table, gpus_report, users_report
from gpumon_static.times import parse_duration
from tests.builders import busy_gpu, gpu, process, reading
from tests.command import gpumon
from tests.history_lab import HistoryLab
from tests.past_lab import PastLab

CONFIG = """
[common]
hosts = ["node1", "node2"]
[hosts.node1]
group = "vision"
[hosts.node2]
group = "language"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "config.ini").write_text(CONFIG)
    return tmp_path


def fill(place: Path, minutes: int = 60) -> datetime:
    """An hour until now, in runs of five minutes: alice at work on node1, bob with idle memory on node2."""
    config = load(place / "config.ini")
    now = datetime.now(UTC).replace(microsecond=0)
    idle = gpu(0, uuid="GPU-2", memory_used_mib=40000.0, processes=(process(user="bob", memory_mib=39000.0),))
    lab = PastLab(place)
    lab.config = config
    for ago in range(minutes, -1, -5):
        at = now - timedelta(minutes=ago)
        busy = reading("node1", [busy_gpu(0, utilization=80.0)], fetched_at=at)
        lab.run_dated([busy, reading("node2", [idle], fetched_at=at)])
    lab.write()
    return now


def test_users_in_a_pipe_are_plain_columns(place: Path) -> None:
    fill(place)
    done = gpumon("history", "users", "--since", "24h", cwd=place)
    assert done.stderr == ""
    title, *lines = done.stdout.splitlines()
    assert re.fullmatch(r"GPU hours by user, \S+ \S+ to \S+ \S+ \S+, 13 of 13 runs", title)
    assert lines == [
        "User   GPU hours  Share %  Busy h  Held idle h  Kernel active %",
        "alice        1.0     50.0     1.0          0.0             80.0",
        "bob          1.0     50.0     0.0          1.0              0.0",
    ]


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_on_a_terminal_numbers_are_shown_in_full_or_not_at_all(columns: int) -> None:
    full = Level(41234.5, 98765)
    uses = [
        GpuUse(
            f"a-very-long-name-of-host-{n}",
            str(n),
            f"GPU-{n}",
            "NVIDIA A100-SXM4-80GB",
            full,
            full,
            full,
            full,
            10**6,
            10**6,
            10**6,
            10**6,
        )
        for n in (1, 2)
    ]
    people = [UserUse(f"user{n}", None, 1e6, 2e6, 0.5, 3e6, 4e6) for n in (1, 2)]
    for report in (gpus_report(uses, by_host=False), users_report(people, None)):
        wide = {word for line in _as_lines(report) for word in line.split() if word[0].isdigit()}
        for line in _as_table(report, Period(0, 1), columns)[2:]:
            numbers = [word for word in line.plain.split() if word[0].isdigit()]
            assert len(line.plain) <= columns
            assert len(numbers) >= 2
            assert set(numbers) <= wide
        assert [line.plain.split()[0][-1] for line in _as_table(report, Period(0, 1), columns)[2:]] == [
            "1",
            "2",
        ]


def test_users_as_csv_and_json_say_the_same(place: Path) -> None:
    fill(place)
    as_csv = gpumon("history", "users", "--csv", "--by", "group", cwd=place).stdout
    as_json = json.loads(gpumon("history", "users", "--json", "--by", "group", cwd=place).stdout)
    rows = list(csv.DictReader(io.StringIO(as_csv)))
    assert rows == [
        {"user": "alice", "group": "vision", "gpu_hours": "1.0", "share_percent": "50.0", "busy_hours": "1.0",
         "held_idle_hours": "0.0", "efficiency_percent": "80.0", "allocated_hours": "", "allocated_idle_hours": ""},
        {"user": "bob", "group": "language", "gpu_hours": "1.0", "share_percent": "50.0", "busy_hours": "0.0",
         "held_idle_hours": "1.0", "efficiency_percent": "0.0", "allocated_hours": "", "allocated_idle_hours": ""},
    ]  # fmt: skip
    as_text = [{k: "" if v is None else str(v) for k, v in row.items()} for row in as_json["rows"]]
    assert as_text == rows
    assert as_json["since"].endswith("Z")


def test_hosts_and_gpus_tell_hours_by_state(place: Path) -> None:
    fill(place)
    for kind in ("hosts", "gpus"):
        rows = json.loads(gpumon("history", kind, "--since", "1d", "--json", cwd=place).stdout)["rows"]
        told = [(r["host"], r["utilization_percent"], r["busy_hours"], r["held_idle_hours"]) for r in rows]
        assert told == [("node1", 80.0, 1.0, 0.0), ("node2", 0.0, 0.0, 1.0)]


def test_before_the_first_run_there_is_a_sentence(place: Path) -> None:
    done = gpumon("history", "users", cwd=place)
    assert done.returncode == 1
    assert done.stderr == (
        f"gpumon-static: no history yet: {place}/data/history does not exist; `gpumon-static fetch` adds to it\n"
    )


@pytest.mark.parametrize("text", ["soon", "-3d", "0h", "3 moons", "999999y"])
def test_a_time_that_is_none_is_a_usage_error(place: Path, text: str) -> None:
    done = gpumon("history", "users", f"--since={text}", cwd=place)
    assert done.returncode == 2
    assert "Invalid value for '--since'" in done.stderr


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("5m", 300), ("1h", 3600), ("1.5 h", 5400), ("30d", 2592000), ("2W", 1209600)],
)
def test_lengths_of_time(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


def test_a_backup_can_be_asked_for(place: Path) -> None:
    fill(place, 10)
    done = gpumon("history", "backup", "copy.tar", cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    with tarfile.open(place / "copy.tar") as copy:
        names = {member.name for member in copy}
    assert {"history/last.parquet", "history/notes.json"} < names
    assert len([name for name in names if name.startswith("history/20")]) == 3, "each of the runs"


# rntop

LOG = """\
timestamp,node,index,utilization,memory_used,memory_total
{0}.118,gpu01,0,97,41000,81920
{0}.118,gpu01,1,0,4,81920
{1}.099,gpu01,0,95,41000,81920
{1}.099,gpu01,1,0,40000,81920
not a line
{2}.000,gpu01,0,banana,41000,81920
{2}.250,gpu01,0,0,4,81920
2025/13/45 09:00:00.000,gpu01,0,1,2,3
{2}.250,gpu01,1,0,40000,81920,7
{2}.250,gpu01,1,0,40000,81920
"""


def log_of(place: Path, ago: timedelta = timedelta(days=2)) -> Path:
    start = datetime.now(UTC).astimezone().replace(minute=0, second=0, microsecond=0) - ago
    times = [(start + timedelta(seconds=30 * n)).strftime("%Y/%m/%d %H:%M:%S") for n in range(3)]
    (place / "rntop.log").write_text(LOG.format(*times))
    return place / "rntop.log"


def test_a_log_of_rntop_is_added_and_its_bad_lines_are_named(place: Path) -> None:
    done = gpumon("history", "import", log_of(place), cwd=place)
    assert done.stdout == (
        "6 samples added, 0 left out because their time is already in the history, 4 bad lines skipped\n"
    )
    assert done.stderr.splitlines() == [
        f"{place}/rntop.log: line 6: 1 columns, not 6",
        f"{place}/rntop.log: line 7: 'banana' is not a valid utilization",
        f"{place}/rntop.log: line 9: '2025/13/45 09:00:00.000' is not a time",
        f"{place}/rntop.log: line 10: 7 columns, not 6",
    ]
    uses = ask(place / "data/history", lambda reader: questions.gpus(reader, Period(0, 4_000_000_000)))
    # GPU 0 was busy for a minute; GPU 1 free for half of one, then held.
    assert [(use.busy_s, use.held_s, use.free_s) for use in uses] == [(60, 0, 0), (0, 30, 30)]


def test_a_log_that_is_added_twice_counts_once(place: Path) -> None:
    log = log_of(place)
    gpumon("history", "import", log, cwd=place)
    done = gpumon("history", "import", log, cwd=place)
    assert done.stdout.startswith("0 samples added, 6 left out")


def test_what_is_exported_can_be_imported_again(place: Path, tmp_path: Path) -> None:
    gpumon("history", "import", log_of(place), cwd=place)
    out = gpumon("history", "export", "--rntop", cwd=place)
    assert out.stderr == ""
    good = [line for n, line in enumerate(LOG.splitlines(), start=1) if n not in (6, 7, 9, 10)]
    # The same rows, with whole seconds.
    assert [row.split(",")[1:] for row in out.stdout.splitlines()] == [row.split(",")[1:] for row in good]
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.ini").write_text(CONFIG)
    (other / "again.log").write_text(out.stdout)
    assert gpumon("history", "import", "again.log", cwd=other).stdout.startswith(
        "6 samples added, 0 left out"
    )
    assert gpumon("history", "export", "--rntop", cwd=other).stdout == out.stdout


def test_hours_are_exported_as_a_table_for_notebooks(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['n1']\n")
    config = load(tmp_path / "config.ini")
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    formula = process(user="=cmd()")
    lab = PastLab(tmp_path)
    lab.config, lab.start = config, int(start.timestamp())
    held = reading("n1", [busy_gpu(0, utilization=50.0), busy_gpu(1, processes=(formula,)), gpu(2)])
    lab.runs(range(0, 65, 5), held)
    lab.write()
    out = gpumon("history", "export", "--csv", cwd=tmp_path)
    rows = list(csv.DictReader(io.StringIO(out.stdout)))
    assert out.returncode == 0, out.stderr
    first = {"hour": f"{start:%Y-%m-%dT%H}:00:00Z", "host": "n1", "gpu": "0", "slice": "", "user": "alice"}
    assert first.items() <= rows[0].items()
    assert (float(rows[0]["busy_s"]), float(rows[0]["utilization"])) == (3600, 50)
    assert [row["user"] for row in rows] == ["alice", "'=cmd()"] * 2, "a spreadsheet runs no login"
    assert float(rows[2]["busy_s"]) == 300, (
        "after the last reading a run was missed: it stands for its interval"
    )
    done = gpumon("history", "export", "--csv", "--since", "1h", "-o", "hours.csv", cwd=tmp_path)
    assert done.stdout == "0 rows written to hours.csv\n"
    assert gpumon("history", "export", "--csv", "--rntop", cwd=tmp_path).returncode == 2


def imported(place: Path, start: datetime) -> str:
    """A log of 25 minutes of node1's first GPU; what its import prints."""
    times = [(start + timedelta(minutes=n)).astimezone().strftime("%Y/%m/%d %H:%M:%S.000") for n in range(25)]
    rows = [f"{time},node1,0,50,20000,81920" for time in times]
    header = "timestamp,node,index,utilization,memory_used,memory_total"
    (place / "rntop.log").write_text("\n".join([header, *rows]))
    return gpumon("history", "import", "rntop.log", cwd=place).stdout


def test_a_log_from_before_our_first_run_joins_the_gpu_that_stands_there(place: Path) -> None:
    now = fill(place, 30)
    assert imported(place, now - timedelta(hours=4)).startswith("25 samples added, 0 left out")
    assert imported(place, now - timedelta(minutes=25)).startswith("0 samples added, 25 left out")
    rows = json.loads(gpumon("history", "gpus", "--since", "1d", "--json", cwd=place).stdout)["rows"]
    assert [(r["host"], r["busy_hours"]) for r in rows] == [("node1", 0.9), ("node2", 0.0)]


def test_a_gpu_known_from_a_log_and_from_runs_has_one_index(place: Path) -> None:
    """Before the first run its UUID is not known: they are two cards of one host."""
    imported(place, datetime.now(UTC) - timedelta(days=1))
    lab = HistoryLab(place / "data", "node1")
    at = int(datetime.now(UTC).timestamp())
    lab.add(at - 300, reading("node1", [busy_gpu(0)]))
    lab.add(at, reading("node1", [busy_gpu(0)]))
    found = [(use.host, use.index, use.card[:4]) for use in lab.gpus(0, at)]
    assert found == [("node1", "0", "#0"), ("node1", "0", "GPU-")], (
        "hours belong to what was known of it then"
    )


# As a program


def test_a_fetch_whose_history_fails_is_still_a_fetch(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text('[common]\nhosts = ["localhost"]\n')
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "history").write_text("in the way")
    done = gpumon("fetch", cwd=tmp_path)
    # Exit 0: the CSV is new, and cron's `fetch && render` goes on.
    assert done.returncode == 0
    assert [line for line in done.stderr.splitlines() if " history: " in line] == [
        f"gpumon-static: history: {tmp_path}/data/history is not a directory; this run is not in it"
    ]
    assert (tmp_path / "data" / "load_data.csv").exists()


def test_the_demo_has_a_past(tmp_path: Path) -> None:
    done = gpumon("demo", "--dir", "lab", "--hosts", "2", "--history", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "history  " in done.stdout
    rows = json.loads(gpumon("history", "users", "-c", "lab/config.ini", "--json", cwd=tmp_path).stdout)[
        "rows"
    ]
    hours = sum(row["gpu_hours"] for row in rows)
    # Twelve GPUs for three days, of which some are always free.
    assert 200 < hours < 12 * 3 * 24
    page = (tmp_path / "lab" / "site" / "index.html").read_text()
    assert 'id="history"' in page
    assert page.count(' data-r="') == 12


@pytest.mark.parametrize(("written", "seconds"), [('"90m"', 5400), ("600", 600), ('"2 h"', 7200)])
def test_how_long_idle_is_too_long_is_written_as_people_say_it(
    tmp_path: Path, written: str, seconds: int
) -> None:
    (tmp_path / "config.ini").write_text(f"[common]\nhosts = 'a'\n[history]\nidle_after = {written}\n")
    assert load(tmp_path / "config.ini").history.idle_after == seconds


def test_every_wrong_value_of_the_history_is_told(tmp_path: Path) -> None:
    wrong = "idle_after = 'soon'\nkeep_raw = 0\nenabled = 'maybe'\nkeep_day = 3"
    (tmp_path / "config.ini").write_text(f"[common]\nhosts = 'a'\n[history]\n{wrong}\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "config.ini")
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "history.keep_day",
        "history.enabled",
        "history.keep_raw",
        "history.idle_after",
    ]
