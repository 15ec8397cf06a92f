"""`gpumon-static show --at`: the table as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpumon_static.model import Disk, Fault, HostReading, Machine, Status
from gpumon_static.store.history.views.moment import lab_then
from gpumon_static.survey.survey import stale_after_s
from tests.builders import busy_gpu, failed, gpu, process, reading, slices
from tests.command import gpumon
from tests.history_lab import DAY, HOUR, INTERVAL, START, HistoryLab, moment

FULL = reading(
    "node1",
    [
        busy_gpu(0, processes=(process(10, job="slurm:7", elapsed_s=60), process(11, user=None, uid=1001))),
        gpu(1, faults=(Fault("ecc-errors", "uncorrected: 5; in DRAM"),)),
        gpu(2, slices=slices(2, 1), mig_mode=True, processes=(process(12, name="=odd"),)),
    ],
    fetch_seconds=1.5,
    note="a note",
    machine=Machine(
        cpu_count=64,
        ram_used_mib=1000.0,
        ram_total_mib=64000.0,
        uptime_s=86400,
        disks=(Disk("/", 50.0, 100.0, False),),
    ),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hours of node1 with alice, then bob; node2 is down, and away from the config today."""
    place = tmp_path_factory.mktemp("at")
    (place / "config.ini").write_text(
        "[common]\nhosts = ['node1', 'node9']\n[hosts.node1]\nstate = 'retired'\n"
    )
    lab = HistoryLab(place / "data", "node1", "node2")
    lab.every(START, START + HOUR, reading("node1", [busy_gpu(), gpu(1)]), failed("node2"))
    bob = busy_gpu(processes=(process(99, user="bob", name="train"),))
    lab.every(START + HOUR + INTERVAL, START + 2 * HOUR, reading("node1", [bob, gpu(1)]), failed("node2"))
    return place


def test_a_reading_comes_back_as_it_was_recorded(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path)
    lab.add(START, FULL)
    lab.add(START + INTERVAL, reading("node1", [gpu()]))
    (found,) = lab_then(lab.config.history_path, START + 10, stale_after_s).readings
    assert found == replace(FULL, fetched_at=moment(START))


def test_closed_hours_and_days_answer_as_runs_do(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path)
    lab.every(START, START + HOUR, FULL)
    lab.add(START + 3 * DAY, reading("node1", [gpu()]))
    lab.add(START + 3 * DAY + INTERVAL, reading("node1", [gpu()]))
    assert list(lab.config.history_path.glob("*.parquet"))
    (found,) = lab_then(lab.config.history_path, START + 2 * INTERVAL + 1, stale_after_s).readings
    assert found == replace(FULL, fetched_at=moment(START + 2 * INTERVAL))


def test_it_shows_who_was_there_and_not_who_is_there_now(place: Path) -> None:
    done = gpumon("show", "--at", "2025-11-14T09:32Z", "-p", cwd=place)
    assert done.returncode == 0
    assert "alice" in done.stdout
    assert "bob" not in done.stdout
    assert "node2  timeout: no answer in time" in done.stdout
    assert "1 of 2 GPUs free" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("As it was at 2025-11-14 ")
    assert done.stderr == "gpumon-static: no reading then of node9\n"


def test_scripts_get_json_of_that_time(place: Path) -> None:
    done = gpumon("show", "--at", "2025-11-14T10:31Z", "--json", "-n", "node1", cwd=place)
    (host,) = json.loads(done.stdout)["hosts"]
    assert host["gpus"][0]["processes"][0]["user"] == "bob"
    assert host["fetched_at"] == "2025-11-14T10:30:00Z"


@pytest.mark.parametrize(
    ("at", "nearest"),
    [
        ("2025-11-14T11:30Z", "2025-11-14T11:00:00Z"),
        ("2025-11-13T00:00Z", "2025-11-14T09:00:00Z"),
        ("1m", "2025-11-14T11:00:00Z"),
    ],
)
def test_a_time_without_data_names_the_nearest_run(place: Path, at: str, nearest: str) -> None:
    done = gpumon("show", "--at", at, cwd=place)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.endswith(f"the nearest one is of {nearest}: --at {nearest}\n")
    assert done.stderr.count("\n") == 1


def test_a_host_that_was_not_read_any_more_is_left_out(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path, "node1", "node2")
    lab.add(START, reading("node1", [gpu()]), reading("node2", [gpu(uuid="GPU-other")]))
    lab.every(START + INTERVAL, START + HOUR, reading("node1", [gpu()]))
    found = lab_then(lab.config.history_path, START + HOUR, stale_after_s).readings
    assert [one.host for one in found] == ["node1"]


def test_a_host_that_is_down_has_no_gpus(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path)
    lab.add(START, reading("node1", [gpu()]))
    lab.add(START + INTERVAL, failed("node1"))
    found = lab_then(lab.config.history_path, START + INTERVAL, stale_after_s).readings
    assert found == [HostReading("node1", moment(START + INTERVAL), Status.TIMEOUT)]


def test_now_and_then_exclude_each_other(place: Path) -> None:
    done = gpumon("show", "--at", "1h", "--live", cwd=place)
    assert (done.returncode, "--live and --at exclude each other" in done.stderr) == (2, True)
    assert "is not a length of time" in gpumon("show", "--at", "soon", cwd=place).stderr
