"""A short form of everything that `make torture` does at length."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ssh_lab import root_only
from tests.sshd import GpuHosts
from tests.torture import blows, history, merging, surroundings
from tests.torture.hostile import KINDS, hostile_hosts
from tests.torture.lab import Lab, Result
from tests.torture.web import pages_under_load

pytestmark = pytest.mark.usefixtures("home")

Kind = Callable[[Path, int], Result]


@pytest.mark.parametrize(
    ("kind", "times", "least"),
    [(blows.kills, 8, 8), (blows.signals, 6, 6), (blows.crowds, 1, 1), (merging.merges, 6, 6)],
)
def test_runs_that_are_killed_or_come_twenty_at_once(
    tmp_path: Path, kind: Kind, times: int, least: int
) -> None:
    result = kind(tmp_path / "lab", times)
    assert result.failures == []
    assert result.tried >= least


@root_only
@pytest.mark.parametrize(
    ("kind", "times", "least"),
    [
        (history.full_merges, 2, 2),
        (surroundings.full_disks, 5, 8),
        (surroundings.read_only_disks, 1, 2),
        (surroundings.clocks, 1, 6),
    ],
)
def test_disks_that_are_full_and_clocks_that_jump(tmp_path: Path, kind: Kind, times: int, least: int) -> None:
    result = kind(tmp_path, times)
    assert result.failures == []
    assert result.tried >= least


def test_every_answer_of_nginx_is_a_whole_page(tmp_path: Path) -> None:
    result = pages_under_load(tmp_path, 5)
    assert result.failures == []
    assert result.tried > 20


def test_hostile_hosts_cost_the_good_ones_nothing(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    result = hostile_hosts(gpu_hosts, tmp_path / "lab")
    assert result.failures == []
    assert result.tried == len(KINDS) + 1


def test_damage_is_seen(tmp_path: Path) -> None:
    """The torture's own eyes: each kind of damage that it looks for is found where it is."""
    lab = Lab(tmp_path / "lab")
    assert lab.goes_on() is None
    pages = (lab.site / "index.html", lab.site / "index.html.gz")
    (run,) = lab.history.glob("*/*-*.parquet")
    for file in (lab.csv, run, *pages):
        content = file.read_bytes()
        half = content.rpartition(b"\n2")[0] + b"\n" if file == lab.csv else content[: len(content) // 2]
        file.write_bytes(half)
        assert lab.damage() is not None, file.name
        file.write_bytes(content)
    assert lab.damage() is None
