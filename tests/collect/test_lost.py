"""A GPU that fell off the bus: the others keep their indices, and it is shown with its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon_static.collect.nvidia import lost, mig, smi
from gpumon_static.config.settings import BusyConfig
from gpumon_static.model import Gpu
from gpumon_static.model.states import State
from gpumon_static.survey.state import gpu_state


def document(*gpus: tuple[str, str]) -> str:
    elements = "".join(f'<gpu id="{bus}"><uuid>{uuid}</uuid></gpu>' for bus, uuid in gpus)
    return f"<nvidia_smi_log>{elements}</nvidia_smi_log>"


THREE = document(("00000000:17:00.0", "GPU-a"), ("00000000:81:00.0", "GPU-c"), ("00000000:C1:00.0", "GPU-d"))
LINES = {
    "with its number": "Unable to determine the device handle for GPU1: 0000:5F:00.0: Unknown Error",
    "with its number and a blank": "Unable to determine the device handle for GPU 1: 0000:5F:00.0: Unknown Error",
    "by bus id alone": "Unable to determine the device handle for GPU0000:5F:00.0: Unknown Error",
    "by bus id and a blank": "Unable to determine the device handle for GPU 0000:5F:00.0: Unknown Error",
    "in small letters": "Unable to determine the device handle for gpu 0000:5f:00.0: Unknown Error",
    "with the long domain": "Unable to determine the device handle for GPU 00000000:5F:00.0: Unknown Error",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
@pytest.mark.parametrize("on_stderr", [False, True])
def test_every_form_of_the_line_gives_the_same_indices(line: str, on_stderr: bool) -> None:
    stdout, stderr = (THREE, line) if on_stderr else (f"{line}\n{THREE}", "")
    found = smi.parse(stdout, stderr).gpus
    assert [(gpu.index, gpu.uuid) for gpu in found] == [(0, "GPU-a"), (1, None), (2, "GPU-c"), (3, "GPU-d")]
    gone = found[1]
    assert (gone.bus_id or "").upper().endswith("0000:5F:00.0")
    assert [(fault.rule, fault.detail) for fault in gone.faults] == [("lost", "Unknown Error")]
    assert gpu_state(gone, BusyConfig()) is State.UNKNOWN


def test_the_list_knows_better_than_the_order() -> None:
    listing = "GPU 0: X (UUID: GPU-d)\nGPU 2: X (UUID: GPU-a)\nGPU 3: X (UUID: GPU-c)\n"
    found = smi.parse(f"{LINES['by bus id alone']}\n{THREE}", listing=listing).gpus
    assert [(gpu.index, gpu.uuid) for gpu in found] == [(0, "GPU-d"), (1, None), (2, "GPU-a"), (3, "GPU-c")]


def test_a_gpu_that_only_the_list_has_is_lost() -> None:
    listing = "".join(f"GPU {i}: NVIDIA X (UUID: GPU-{letter})\n" for i, letter in enumerate("abcd"))
    found = smi.parse(THREE, listing=listing).gpus
    assert [(gpu.index, gpu.uuid) for gpu in found] == [
        (0, "GPU-a"),
        (1, "GPU-b"),
        (2, "GPU-c"),
        (3, "GPU-d"),
    ]
    assert [fault.rule for fault in found[1].faults] == ["lost"]
    assert found[1].name == "NVIDIA X"


def test_two_lost_gpus_and_one_that_is_left() -> None:
    lines = "\n".join(
        f"Unable to determine the device handle for GPU0000:{bus}:00.0: Unknown Error" for bus in ("C1", "01")
    )
    found = smi.parse(f"{lines}\n{document(('00000000:81:00.0', 'GPU-b'))}").gpus
    assert [(gpu.index, gpu.bus_id) for gpu in found] == [
        (0, "0000:01:00.0"),
        (1, "00000000:81:00.0"),
        (2, "0000:C1:00.0"),
    ]


def test_masked_uuids_do_not_make_two_gpus_one() -> None:
    text = document(("00000000:01:00.0", "GPU-0"), ("00000000:02:00.0", "GPU-0"))
    found = smi.parse(text, listing="GPU 0: X (UUID: GPU-0)\nGPU 1: X (UUID: GPU-0)\n").gpus
    assert [gpu.index for gpu in found] == [0, 1]


def test_gpus_without_uuid_are_not_lost_though_the_list_has_more_to_say() -> None:
    text = "<nvidia_smi_log><gpu id='0000:01:00.0'/></nvidia_smi_log>"
    (found,) = smi.parse(text, listing="GPU 0: X (UUID: GPU-0)\n").gpus
    assert found.faults == ()


@given(st.text(), st.lists(st.sampled_from(sorted(LINES.values())), max_size=3))
def test_any_text_around_is_read_without_a_fault(text: str, lines: list[str]) -> None:
    found = smi.parse(THREE, "\n".join([text, *lines])).gpus
    assert [gpu.uuid for gpu in found if gpu.uuid] == ["GPU-a", "GPU-c", "GPU-d"]
    assert len({gpu.index for gpu in found}) == len(found)


@given(
    st.lists(st.text(min_size=1), max_size=6),
    st.sets(st.integers(0, 5), max_size=3),
    st.lists(st.integers(0, 9), max_size=4, unique=True),
)
def test_no_gpu_of_the_xml_is_ever_dropped(uuids: list[str], numbers: set[int], listed: list[int]) -> None:
    gpus = [Gpu(0, uuid=uuid, bus_id=f"0000:{i:02X}:00.0") for i, uuid in enumerate(uuids)]
    missing = [lost.Lost(f"0000:{64 + n:02X}:00.0", None, n) for n in sorted(numbers)]
    lines = [mig.ListedGpu(index, None, uuid) for index, uuid in zip(listed, uuids, strict=False)]
    found = lost.indices(gpus, missing, lines)
    assert len(found) == len(gpus)
    assert all(index >= 0 for index in found)
