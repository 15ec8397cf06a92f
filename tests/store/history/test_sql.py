"""`gpumon-static history sql`: what a person or a script gets, and what a question cannot do."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpumon_static.errors import UsageError
from gpumon_static.model import Process
from gpumon_static.store.events import Event
from gpumon_static.store.history.reader import Period
from gpumon_static.store.history.views.asking import ALL_TIME, VIEWS, Question, about, answer
from tests.builders import busy_gpu, failed, gpu, process, reading, slices
from tests.command import PROGRAM, gpumon
from tests.history_lab import DAY, HOUR, INTERVAL, START, HistoryLab, moment
from tests.terminal_lab import in_terminal


def running(pid: int, start: int, at: int, **changes: Any) -> Process:
    """A process that started then, as a reading at another time has it."""
    return process(pid, elapsed_s=at - start, **changes)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> HistoryLab:
    """Two hours of alice on a GPU of node1, then an hour with bob's Slurm job on two hosts; mia has a slice."""
    place = tmp_path_factory.mktemp("sql")
    (place / "config.ini").write_text("[common]\nhosts = ['node1', 'node2']\n")
    lab = HistoryLab(place / "data", "node1", "node2", groups={"node1": "vision"})
    for at in range(START, START + 2 * HOUR, INTERVAL):
        alice = running(10, START - 60, at)
        cut = gpu(2, slices=slices(2, 1))
        lab.add(at, reading("node1", [busy_gpu(0, processes=(alice,)), gpu(1), cut]), failed("node2"))
    for at in range(START + 2 * HOUR, START + 3 * HOUR + 1, INTERVAL):
        mine = running(77, START + 2 * HOUR, at, user="bob", job="slurm:7", memory_mib=1000.0)
        shared = busy_gpu(0, processes=(running(10, START - 60, at), mine))
        other = busy_gpu(0, processes=(replace(mine, pid=78, memory_mib=3000.0),), uuid="GPU-other")
        down = Event("e1", "host-up", "node2", None, moment(START + 2 * HOUR), moment(START + 2 * HOUR))
        lab.add(at, reading("node1", [shared, gpu(1)]), reading("node2", [other]), events=[down])
    return lab


@pytest.fixture
def place(lab: HistoryLab) -> Path:
    return lab.config.paths.data.parent


def ask(place: Path, sql: str, *options: str) -> list[dict[str, str]]:
    done = gpumon("history", "sql", sql, "--csv", *options, cwd=place)
    assert done.stderr == ""
    return list(csv.DictReader(io.StringIO(done.stdout)))


# The views


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_says_what_it_is_and_has_rows(place: Path, view: str) -> None:
    assert about(view).endswith(".")
    (row,) = ask(place, f"SELECT count(*) AS number FROM {view}")
    assert int(row["number"]) > 0


def test_gpu_runs_add_up_to_the_hours_of_history_users(place: Path, lab: HistoryLab) -> None:
    rows = ask(
        place,
        "SELECT u, sum(part) AS s FROM (SELECT unnest(held_by) AS u, seconds * share / len(held_by) AS part FROM gpu_runs) GROUP BY u",
    )
    users = {use.user: use.total_s for use in lab.users(START, START + DAY)}
    assert {row["u"]: float(row["s"]) for row in rows} == pytest.approx(users)


def test_holdings_are_whole_over_hours_and_other_users(place: Path) -> None:
    rows = ask(
        place,
        'SELECT "user", host, seconds, gpu_seconds, shared_seconds, held_from FROM holdings ORDER BY ALL',
    )
    found = [(row["user"], row["host"], int(row["seconds"]), int(row["shared_seconds"])) for row in rows]
    assert found == [
        ("alice", "node1", 3 * HOUR, HOUR),
        ("bob", "node1", HOUR, HOUR),
        ("bob", "node2", HOUR, 0),
        ("mia", "node1", 2 * HOUR, 0),
    ]
    assert float(rows[0]["gpu_seconds"]) == 2.5 * HOUR
    assert rows[0]["held_from"] == "2025-11-14T09:00:00Z"


def test_a_gpu_that_was_free_in_between_was_held_twice(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path)
    for number, one in enumerate([busy_gpu(), gpu(), busy_gpu(), busy_gpu()]):
        lab.add(START + number * INTERVAL, reading("node1", [one]))
    question = Question("SELECT seconds FROM holdings ORDER BY held_from")
    assert answer(lab.config.history_path, question, lambda found: found.cursor.fetchall()) == [
        (300,),
        (300,),
    ]


def test_jobs_are_there_after_their_end_with_all_their_hosts(place: Path) -> None:
    first, second = (row for row in ask(place, "FROM jobs ORDER BY first_seen") if row["users"] != "mia")
    assert (first["job"], first["users"], first["gpus"]) == ("node1 10 2025-11-14T08:59Z", "alice", "node1:0")
    assert float(first["gpu_seconds"]) == 2.5 * HOUR
    assert (second["job"], second["users"], second["hosts"]) == ("slurm:7", "bob", "node1, node2")
    assert (second["gpus_at_once"], second["peak_memory_mib"]) == ("2", "4000")
    assert second["started_at"] == "2025-11-14T11:00:00Z"
    assert first["is_running"] == second["is_running"] == "true"


def test_a_number_that_the_kernel_gives_again_is_another_job(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path)
    for number, start in enumerate([START - 50, START - 49, START + 550]):
        at = START + number * INTERVAL
        lab.add(at, reading("node1", [busy_gpu(processes=(running(10, start, at),))]))
    question = Question("SELECT is_running FROM jobs ORDER BY first_seen")
    assert answer(lab.config.history_path, question, lambda found: found.cursor.fetchall()) == [
        (False,),
        (True,),
    ]


def test_an_id_that_comes_again_after_a_day_is_another_job(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path)
    for at in (START, START + INTERVAL, START + 2 * DAY, START + 2 * DAY + INTERVAL):
        lab.add(at, reading("node1", [busy_gpu(processes=(running(10, START, at, job="slurm:7"),))]))
    question = Question("SELECT job, job_id FROM jobs ORDER BY first_seen")
    found = answer(lab.config.history_path, question, lambda found: found.cursor.fetchall())
    assert found == [("slurm:7", "slurm:7"), ("slurm:7 (2)", "slurm:7")]


def test_hosts_that_did_not_answer_are_in_host_runs(place: Path) -> None:
    rows = ask(place, "SELECT host, sum(seconds) AS s FROM host_runs WHERE NOT is_up GROUP BY host")
    assert rows == [{"host": "node2", "s": str(2 * HOUR)}]


def test_a_period_opens_only_its_files_and_counts_what_is_inside(lab: HistoryLab, place: Path) -> None:
    half = Period(START + 150, START + HOUR)
    question = Question("SELECT sum(seconds) FROM gpu_runs WHERE gpu_index = 1", half)
    taken = answer(lab.config.history_path, question, lambda found: found.cursor.fetchall())
    assert taken == [(HOUR - 150,)]
    (row,) = ask(
        place,
        "SELECT count(*) AS number FROM readings",
        "--since",
        "2025-11-14T11:30Z",
        "--until",
        "2025-11-14T11:40Z",
    )
    assert row["number"] == "10"
    assert ask(place, "SELECT host FROM readings", "--since", "2026-01-01") == []


def test_readings_have_the_columns_of_the_files(lab: HistoryLab) -> None:
    from gpumon_static.store.history.columns import COLUMN_TYPES

    question = Question("FROM readings", ALL_TIME)
    columns = answer(lab.config.history_path, question, lambda found: [c.name for c in found.columns])
    assert columns == list(COLUMN_TYPES)


# How it is printed


def test_a_pipe_gets_plain_columns_and_a_terminal_a_table(place: Path) -> None:
    sql = "SELECT host, gpu_index, max(utilization_percent) AS most, avg(power_w) AS w FROM gpu_runs GROUP BY ALL ORDER BY ALL LIMIT 2"
    lines = gpumon("history", "sql", sql, cwd=place).stdout.splitlines()
    assert lines == ["host   gpu_index  most   w", "node1          0    97  52", "node1          1     0  52"]
    seen = in_terminal("history", "sql", sql, cwd=place)
    assert "node1          0    97  52" in seen.text


def test_json_has_real_types(place: Path) -> None:
    sql = "SELECT fetched_at, held_by, is_offered, NULL AS nothing, 1.5 AS part FROM gpu_runs ORDER BY ALL LIMIT 1"
    document = json.loads(gpumon("history", "sql", sql, "--json", cwd=place).stdout)
    assert document == {
        "rows": [
            {
                "fetched_at": "2025-11-14T09:00:00Z",
                "held_by": [],
                "is_offered": True,
                "nothing": None,
                "part": 1.5,
            }
        ]
    }
    assert json.loads(gpumon("history", "sql", "SELECT 1 WHERE false", "--json", cwd=place).stdout) == {
        "rows": []
    }


def test_csv_hides_formulas_from_spreadsheets(place: Path) -> None:
    assert ask(place, "SELECT '=cmd' AS a, -1 AS b") == [{"a": "'=cmd", "b": "-1"}]


def test_a_question_may_be_in_a_file_or_come_from_stdin(place: Path, tmp_path: Path) -> None:
    (tmp_path / "question.sql").write_text(
        "-- How many?\nSELECT count(*) AS n FROM host_runs -- é;\n; -- all\n"
    )
    from_file = gpumon("history", "sql", "-f", tmp_path / "question.sql", cwd=place)
    piped = subprocess.run(
        [*PROGRAM, "history", "sql", "-"],
        input="SELECT count(*) AS n FROM host_runs",
        cwd=place,
        capture_output=True,
        text=True,
        check=True,
    )
    assert from_file.stdout.split() == piped.stdout.split() == ["n", "74"]
    assert gpumon("history", "sql", cwd=place).returncode == 2


def test_parquet_is_written_beside_and_any_tool_reads_it(place: Path, tmp_path: Path) -> None:
    import duckdb

    done = gpumon("history", "sql", "FROM gpu_runs", "--parquet", tmp_path / "runs.parquet", cwd=place)
    assert done.stdout.endswith(f" rows written to {tmp_path}/runs.parquet\n")
    sql = f"SELECT count(*), max(temperature_c) FROM '{tmp_path}/runs.parquet'"
    found = duckdb.connect().execute(sql).fetchall()
    assert found[0][0] == int(done.stdout.split()[0])
    assert [path.name for path in tmp_path.iterdir()] == ["runs.parquet"]
    wrong = gpumon("history", "sql", "SELECT nope", "--parquet", tmp_path / "wrong.parquet", cwd=place)
    assert wrong.returncode == 2
    assert not (tmp_path / "wrong.parquet").exists()


# What it cannot do


READS = "a question only reads: "


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        ("SELEC 1", 'Parser Error: syntax error at or near "SELEC"'),
        ("SELECT nope FROM jobs", 'Binder Error: Referenced column "nope" not found'),
        ("FROM nope", "Catalog Error: Table with name nope does not exist!"),
        ("SELECT 'a'::INTEGER", "Conversion Error: Could not convert string 'a' to INT32"),
        ("SELECT regexp_matches(host, '(') FROM jobs, readings", "Invalid Input Error: missing )"),
        ("SELECT 1; SELECT 2", "one question at a time"),
        ("", "no question in it"),
        ("SELECT $1", "a question has no parameters"),
        ("COPY (SELECT 1) TO '{}/data/history/mine.parquet'", READS),
        ("WITH w AS (COPY (SELECT 1) TO '{}/data/history/mine.parquet') FROM w", READS),
        ("EXPLAIN ANALYZE COPY (SELECT 1) TO '{}/data/history/mine.parquet'", READS),
        ("ATTACH '{}/data/history/mine.parquet'", READS),
        ("SET enable_external_access = true", READS),
        ("CREATE TABLE mine AS SELECT 1", READS),
        ("FROM read_text('/etc/passwd')", "cannot open /etc/passwd: a question reads the history only"),
        ("FROM read_csv('{}/data/load_data.csv')", "cannot open "),
        ("FROM glob('/etc/*')", "cannot open "),
    ],
)
def test_what_a_question_must_not_do_is_one_line(place: Path, sql: str, line: str) -> None:
    question = Question(sql.replace("{}", str(place)))
    with pytest.raises(UsageError) as refused:
        answer(place / "data" / "history", question, lambda found: found.cursor.fetchall())
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)
    assert not list(place.rglob("mine.parquet"))


def test_a_wrong_question_is_a_usage_error_without_a_traceback(place: Path) -> None:
    done = gpumon("history", "sql", "SELEC 1", cwd=place)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == 'gpumon-static: Parser Error: syntax error at or near "SELEC"\n'


def test_a_damaged_file_is_left_out_with_a_line(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path / "data")
    lab.every(START, START + INTERVAL, reading("node1", [gpu()]))
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['node1']\n")
    run = sorted((tmp_path / "data" / "history").glob("*/09-*.parquet"))[0]
    run.write_bytes(run.read_bytes()[:-10])
    done = gpumon("history", "sql", "SELECT count(*) AS n FROM host_runs", cwd=tmp_path)
    assert done.stdout.split() == ["n", "1"]
    assert done.stderr == f"history: {run.parent.name}/{run.name} is damaged: left out\n"


def test_a_folder_behind_a_link_can_be_asked(place: Path, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(place / "data")
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['node1']\n")
    assert len(ask(tmp_path, "FROM jobs")) > 1
