"""MIG: slices with profile and UUID from `nvidia-smi -L`, free or busy, their memory counted once."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon_static.collect.nvidia import mig, smi
from gpumon_static.config.settings import BusyConfig
from gpumon_static.model import Gpu, MigDevice
from gpumon_static.model.states import State
from gpumon_static.survey.state import (
    ghost_mib,
    gone_mib,
    gpu_state,
    slice_state,
    slices_of,
)
from tests.builders import gpu, process, slices
from tests.places import CAPTURES, SHARED

BUSY = BusyConfig()

NEW = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-dddddddd-0000-0000-0000-000000000001)
  MIG 3g.40gb     Device  0: (UUID: MIG-1b2f4c3e-0000-0000-0000-000000000001)
  MIG 1g.20gb+me  Device  1: (UUID: MIG-1b2f4c3e-0000-0000-0000-000000000002)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-dddddddd-0000-0000-0000-000000000002)
"""
OLD = """GPU 0: A100-SXM4-40GB (UUID: GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0)
  MIG 1c.3g.20gb Device 0: (UUID: MIG-GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0/1/0)
"""


def test_the_list_of_new_and_old_drivers() -> None:
    first, second = mig.parse_list(NEW)
    assert (first.index, first.name, second.index) == (0, "NVIDIA H100 80GB HBM3", 1)
    assert {n: (s.profile, s.uuid) for n, s in first.slices.items()} == {
        0: ("3g.40gb", "MIG-1b2f4c3e-0000-0000-0000-000000000001"),
        1: ("1g.20gb+me", "MIG-1b2f4c3e-0000-0000-0000-000000000002"),
    }
    (old,) = mig.parse_list(OLD)
    assert old.slices[0] == mig.ListedSlice("1c.3g.20gb", "MIG-GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0/1/0")


def test_slices_get_their_profile_and_uuid() -> None:
    text = (CAPTURES / "driver-580-h100-mig.xml").read_text()
    found, missing = smi.parse(text, listing=NEW).gpus
    assert [(s.index, s.profile, (s.uuid or "")[-2:]) for s in found.slices] == [
        (0, "3g.40gb", "01"),
        (1, "1g.20gb+me", "02"),
    ]
    assert [fault.rule for fault in missing.faults] == ["lost"], "GPU 1 is in the list and not in the XML"
    assert [s.profile for s in smi.parse(text).gpus[0].slices] == [None, None]


@given(st.text())
def test_any_list_gives_gpus_and_slices_with_short_names(text: str) -> None:
    assert all(one.index >= 0 and 0 < len(one.uuid) <= 100 for one in mig.parse_list(text))
    first, *_ = mig.parse_list(f"GPU 0: X (UUID: GPU-1)\n  MIG {text}")
    assert (first.index, first.name, first.uuid) == (0, "X", "GPU-1")
    for number, cut in first.slices.items():
        assert number >= 0
        assert all(0 < len(word) <= 100 and not re.search(r"\s", word) for word in (cut.profile, cut.uuid))


def shared(*used: float) -> Gpu:
    """Slices 0 and 1 share one GPU instance and report its memory both; slice 2 is on its own."""
    cut = slices(3)
    return gpu(
        utilization=None,
        mig_mode=True,
        slices=tuple(
            replace(s, gpu_instance=1 if s.index < 2 else 2, compute_instance=s.index, memory_used_mib=mib)
            for s, mib in zip(cut, used, strict=True)
        ),
    )


def test_a_slice_is_free_though_its_neighbour_uses_the_memory_they_share() -> None:
    card = shared(5000.0, 5000.0, 10.0)
    first, second, third = card.slices
    first = replace(first, processes=(process(memory_mib=4990.0),))
    card = replace(card, slices=(first, second, third))
    assert [slice_state(s, card, BUSY) for s in slices_of(card)] == [State.BUSY, State.FREE, State.FREE]
    assert gpu_state(card, BUSY) is State.BUSY
    assert [ghost_mib(card, s, BUSY) for s in slices_of(card)] == [None, None, None]


SHARED_SLICES = SHARED / "derived/h200-mig-shared-gi.xml"


@pytest.mark.parametrize("path", [SHARED_SLICES] if SHARED_SLICES.exists() else [])
def test_the_shared_capture_says_the_same(path: Path) -> None:
    expected = json.loads((path.parent / "expected.json").read_text())[path.name]["gpus"][0]
    (card,) = smi.parse(path.read_text()).gpus
    by_instance = {s["gpu_instance_id"]: s["memory"]["used_mib"] for s in expected["mig_devices"]}
    assert len(by_instance) < len(card.slices), "the capture has compute instances that share"
    assert {s.gpu_instance: s.memory_used_mib for s in card.slices} == by_instance


# Ghost memory.


@pytest.mark.parametrize(
    ("used", "processes", "ghost"),
    [
        (40000.0, (), 40000.0),
        (41000.0, (process(memory_mib=40960.0),), None),
        (60000.0, (process(memory_mib=40960.0),), 19040.0),
        (60000.0, (process(memory_mib=None),), None),
        (60000.0, (process(type="G", memory_mib=300.0),), 59700.0),
        (1000.0, (), None),
        (1639.0, (), 1639.0),
        (None, (), None),
    ],
)
def test_memory_that_no_process_accounts_for(
    used: float | None, processes: tuple[object, ...], ghost: float | None
) -> None:
    assert ghost_mib(gpu(memory_used_mib=used, processes=processes), None, BUSY) == ghost


def test_on_a_small_card_the_drivers_own_memory_is_no_ghost() -> None:
    assert ghost_mib(gpu(memory_used_mib=250.0, memory_total_mib=4096.0), None, BUSY) is None
    assert ghost_mib(gpu(memory_used_mib=257.0, memory_total_mib=4096.0), None, BUSY) == 257.0


def test_where_processes_are_not_listed_nothing_is_a_ghost() -> None:
    assert ghost_mib(gpu(memory_used_mib=40000.0, processes_known=False), None, BUSY) is None


def test_a_slice_with_memory_and_no_process() -> None:
    card = gpu(mig_mode=True, slices=(MigDevice(0, 7, 0, memory_used_mib=5000.0, memory_total_mib=9728.0),))
    assert ghost_mib(card, slices_of(card)[0], BUSY) == 5000.0
    assert ghost_mib(card, None, BUSY) is None, "the slices tell it"


def test_what_is_still_counted_for_processes_that_ended() -> None:
    held = (
        process(1, memory_mib=100.0, state="gone"),
        process(2, memory_mib=50.0),
        process(3, state="gone", memory_mib=None),
    )
    assert gone_mib(held) == 100.0
    assert gone_mib(held[1:2]) is None
