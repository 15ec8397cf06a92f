"""A disk that fills up while a history is restored or merged: what was there is there afterwards."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpumon_static.model import HostReading
from gpumon_static.store.history.engine import Engine, HistoryError
from gpumon_static.store.history.moving import copies, merging
from tests.builders import busy_gpu, process, reading
from tests.history_lab import DAY, HOUR, START, HistoryLab, moment
from tests.ssh_lab import root_only
from tests.torture.surroundings import small_disk

LATER = moment(START + 30 * DAY)
ROOMS_KB = (0, 16, 64, 4096)


def rows(lab: HistoryLab) -> list[tuple[Any, ...]]:
    return lab.rows("SELECT COLUMNS(*)::VARCHAR FROM rows ORDER BY ALL")


def use(host: str, user: str) -> HostReading:
    return reading(host, [busy_gpu(0, uuid=f"GPU-{host}", processes=(process(user=user),))])


@pytest.fixture
def ours(tmp_path: Path) -> HistoryLab:
    """Two hosts, of which the other collector knows one better: files of ours are written again."""
    made = HistoryLab(tmp_path / "ours", "node1", "node2")
    made.every(START, START + 2 * HOUR, use("node1", "alice"), use("node2", "alice"), step=1200)
    return made


@pytest.fixture
def theirs(tmp_path: Path) -> HistoryLab:
    made = HistoryLab(tmp_path / "theirs", "node1")
    made.every(START + 60, START + 2 * HOUR, use("node1", "bob"), step=600)
    return made


@root_only
def test_a_restore_on_a_full_disk_leaves_the_history(
    ours: HistoryLab, theirs: HistoryLab, tmp_path: Path
) -> None:
    before, place, failures = rows(ours), tmp_path / "place", 0
    files = [file for file in (tmp_path / "ours").rglob("*") if file.is_file()]
    used_kb = sum(-(-file.stat().st_size // 4096) * 4 for file in files) + 32
    for room_kb in ROOMS_KB:
        with small_disk(place, used_kb + room_kb):
            shutil.copytree(tmp_path / "ours", place, dirs_exist_ok=True)
            lab = HistoryLab(place, "node1", "node2")
            try:
                copies.restore(lab.config.history_path, theirs.config.history_path, LATER)
            except HistoryError:
                failures += 1
                subprocess.run(["mount", "-o", "remount,size=64m", place], check=True)
                assert rows(lab) == before, f"{room_kb} kB"
                assert not (place / ".history.new").exists()
            else:
                assert rows(lab) == rows(theirs)
    assert 0 < failures < len(ROOMS_KB)


def test_a_merge_on_a_full_disk_loses_nothing_and_ends_the_same_when_tried_again(
    ours: HistoryLab, theirs: HistoryLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each file that it writes."""
    before, pack = rows(ours), Engine.pack
    written = room = 0

    def full(*given: Any) -> None:
        nonlocal written
        written += 1
        if written > room:
            raise HistoryError("the disk is full")
        pack(*given)

    shutil.copytree(tmp_path / "ours", tmp_path / "whole")
    whole = HistoryLab(tmp_path / "whole", "node1", "node2")
    merged = merging.merge(whole.config, theirs.config.history_path, LATER)
    assert (merged.hours, merged.hosts) == (2, 1)
    assert {use.user: use.busy_s > 0 for use in whole.users(0, START + DAY)} == {"alice": True, "bob": True}
    while True:
        place = tmp_path / f"room-{room}"
        shutil.copytree(tmp_path / "ours", place)
        lab, written = HistoryLab(place, "node1", "node2"), 0
        with monkeypatch.context() as patched:
            patched.setattr(Engine, "pack", full)
            try:
                merging.merge(lab.config, theirs.config.history_path, LATER)
                break
            except HistoryError:
                assert not list(place.rglob("*.tmp"))
        # A day is taken over whole or not at all; only the time at its seams is counted after it.
        assert len(rows(lab)) in (len(before), len(rows(whole)))
        merging.merge(lab.config, theirs.config.history_path, LATER)
        assert rows(lab) == rows(whole), f"after {room} files"
        room += 1
    assert room > 1
    assert rows(lab) == rows(whole)
