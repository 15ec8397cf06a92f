"""The machine around the GPUs: cores and their use, memory, swap, disks."""

from __future__ import annotations

import math
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon_static.collect.probe import machine
from gpumon_static.model import Disk, Machine

SECTIONS = {
    "load": "12.10 11.87 11.50 13/2210 4242\n",
    "uptime": "350735.47\n",
    "cpus": "64\n",
    "memory": (
        "MemTotal:       528280608 kB\nMemFree:         1000000 kB\nMemAvailable:   402280608 kB\n"
        "SwapTotal:        8388608 kB\nSwapFree:         6291456 kB\n"
    ),
    "cpu": "100 0 50 800 50 0 0 0\n180 10 60 1000 50 0 0 0\n",
    "disks": (
        "- Filesystem     1024-blocks     Used Available Capacity Mounted on\n"
        "0 /dev/nvme0n1p2   479079112 61234148 393432936      14% /\n"
        "1 /dev/mapper/vg-big data 10240000 5120000 5120000    50% /big data\n"
        "- //nas/lab share        2048     1024      1024      50% /mnt/nas\n"
    ),
}


def test_all_that_a_machine_tells() -> None:
    assert machine.parse(SECTIONS) == Machine(
        cpu_count=64,
        load_1m=12.1,
        load_5m=11.87,
        load_15m=11.5,
        ram_total_mib=515899.0,
        ram_used_mib=123047.0,
        cpu_utilization=33.3,
        swap_total_mib=8192.0,
        swap_used_mib=2048.0,
        uptime_s=350735,
        disks=(
            Disk("/", 59799.0, 467851.0, False),
            Disk("/big data", 5000.0, 10000.0, True),
            Disk("/mnt/nas", 1.0, 2.0, None),
        ),
    )


def test_what_is_not_told_is_not_known() -> None:
    assert machine.parse({}) == Machine()


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        ("0 0 0 100\n100 0 0 100\n", 100),
        ("0 0 0 100 0 0 0 0\n0 0 0 150 50 0 0 0\n", 0),
        ("5 0 5 100 0 0 0 0\n5 0 5 100 0 0 0 0\n", None),
        ("5 0 5 100 0 0 0 0\n4 0 5 100 0 0 0 0\n", None),
        ("5 0 5 100\n", None),
        ("cpu x\ny\n", None),
        ("", None),
    ],
)
def test_cpu_use_between_two_readings(text: str, percent: float | None) -> None:
    assert machine.cpu_utilization(text) == percent


def test_a_directory_that_is_no_mount_point_is_the_disk_it_lies_on() -> None:
    line = "0 /dev/sda1 1024 512 512 50% /\n"
    assert machine.parse_disks(line + line) == (Disk("/", 0.0, 1.0, False),)


@given(st.dictionaries(st.sampled_from(sorted(SECTIONS)), st.text()))
def test_any_text_gives_numbers_or_nothing(sections: dict[str, str]) -> None:
    found = machine.parse(sections)
    for value in asdict(found).values():
        assert value is None or isinstance(value, tuple) or math.isfinite(value)
    assert len({disk.mount for disk in found.disks}) == len(found.disks)


@given(
    st.lists(
        st.sampled_from(["0 ", "- ", "dev ", "2048 ", "9" * 400 + " ", "-5 ", "50% ", "/mnt", "/", "\n", " "])
    )
)
def test_any_words_of_df_give_disks_with_a_mount_point_and_sizes(words: list[str]) -> None:
    for disk in machine.parse_disks("".join(words)):
        assert disk.mount.startswith("/")
        assert disk.total_mib in (0.0, 2.0)
        assert disk.used_mib in (0.0, 2.0)


@given(st.dictionaries(st.sampled_from(["MemTotal", "SwapTotal", "uptime", "load"]), st.integers(1, 400)))
def test_numbers_without_end_are_not_known(digits: dict[str, int]) -> None:
    memory = "".join(f"{name}: {'9' * digits.get(name, 1)} kB\n" for name in ("MemTotal", "SwapTotal"))
    found = machine.parse({"memory": memory, "uptime": "9" * digits.get("uptime", 1)})
    assert (found.ram_total_mib is None) == (digits.get("MemTotal", 1) > 18)
    assert (found.swap_total_mib is None) == (digits.get("SwapTotal", 1) > 18)
    assert (found.uptime_s is None) == (digits.get("uptime", 1) > 30)
