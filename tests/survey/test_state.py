"""Free or busy, as DESIGN's rules and a user's eye have it."""

from __future__ import annotations

import pytest

from gpumon_static.config.settings import BusyConfig
from gpumon_static.model import GONE, Gpu, MigDevice
from gpumon_static.model.states import State
from gpumon_static.survey.state import gpu_state, slice_state, slices_of
from tests.builders import gpu, process, slices

BUSY = BusyConfig(utilization=5.0, memory=2.0)
XORG = process(1, type="G", name="Xorg", memory_mib=6000.0)


@pytest.mark.parametrize(
    ("given", "state"),
    [
        (gpu(), State.FREE),
        (gpu(utilization=5.0), State.BUSY),
        (gpu(utilization=4.9), State.FREE),
        (gpu(memory_total_mib=10000.0, memory_used_mib=200.0), State.FREE),
        (gpu(memory_total_mib=10000.0, memory_used_mib=201.0), State.HELD),
        (gpu(processes=(process(),)), State.HELD),
        (gpu(processes=(process(type=None),)), State.HELD),
        (gpu(processes=(process(type="C+G"),)), State.HELD),
        (gpu(processes=(process(type="M+C"),)), State.HELD),
        (gpu(processes=(process(state=GONE),)), State.HELD),
        (gpu(processes=(process(),), utilization=60.0), State.BUSY),
        (gpu(processes=(XORG,), memory_used_mib=6100.0), State.FREE),
        (gpu(processes=(XORG,), memory_used_mib=9000.0), State.HELD),
        (gpu(utilization=None), State.FREE),
        (gpu(utilization=None, processes=(process(),)), State.BUSY),
        (gpu(memory_used_mib=None, processes_known=False), State.UNKNOWN),
        (gpu(memory_used_mib=None, processes_known=False, utilization=50.0), State.BUSY),
        (gpu(memory_used_mib=None, memory_total_mib=None), State.FREE),
        (Gpu(0, processes_known=False), State.UNKNOWN),
        (gpu(mig_mode=True), State.UNKNOWN),
        (gpu(memory_total_mib=0.0, memory_used_mib=0.0, processes_known=False), State.UNKNOWN),
    ],
)
def test_state_of_a_gpu(given: Gpu, state: State) -> None:
    assert gpu_state(given, BUSY) is state


def test_the_limits_are_those_of_the_config() -> None:
    lax = BusyConfig(utilization=50.0, memory=60.0)
    used = gpu(utilization=40.0, memory_used_mib=40960.0)
    assert gpu_state(used, BUSY) is State.BUSY
    assert gpu_state(used, lax) is State.FREE


def test_a_mig_card_is_free_only_if_all_its_slices_are() -> None:
    assert gpu_state(gpu(slices=slices(3)), BUSY) is State.FREE
    assert gpu_state(gpu(slices=slices(3, 1)), BUSY) is State.BUSY


def test_slices_are_judged_one_by_one() -> None:
    card = gpu(slices=slices(3, 1))
    assert [slice_state(s, card, BUSY) for s in slices_of(card)] == [State.FREE, State.BUSY, State.FREE]


def test_memory_of_a_sibling_in_the_same_gpu_instance_does_not_make_a_slice_busy() -> None:
    shared = {"gpu_instance": 2, "memory_used_mib": 17000.0, "memory_total_mib": 71424.0}
    idle = MigDevice(0, compute_instance=0, **shared)  # type: ignore[arg-type]
    working = MigDevice(1, compute_instance=1, processes=(process(memory_mib=16900.0),), **shared)  # type: ignore[arg-type]
    card = gpu(slices=(idle, working))
    assert [slice_state(s, card, BUSY) for s in slices_of(card)] == [State.FREE, State.BUSY]
