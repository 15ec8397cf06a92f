"""NVIDIA's GPUs with the CPU's memory: GB10 (DGX Spark), Thor, Orin."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gpumon_static.collect import reading
from gpumon_static.model import Gpu, HostReading
from gpumon_static.model.states import State
from gpumon_static.publish.exports.files import free_txt
from gpumon_static.publish.exports.gpus_json import gpus_json
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.view import build_page
from gpumon_static.survey.state import ghost_mib, gpu_state
from gpumon_static.survey.survey import build_survey
from tests.builders import config

NOW = datetime(2025, 11, 14, 9, 12, tzinfo=UTC)
MEMORY = "MemTotal:  125829120 kB\nMemAvailable:  83886080 kB\n"
NAMES = ["NVIDIA GB10", "NVIDIA Thor", "Orin (nvgpu)", "NVIDIA Jetson AGX Orin"]
JOB = "<process_info><pid>77</pid><type>C</type><used_memory>{}</used_memory></process_info>"


def xml(name: str, *, memory: str = "N/A", util: str = "0 %", processes: str = "") -> str:
    return (
        f"<gpu id='1'><product_name>{name}</product_name><uuid>GPU-{name[-4:].strip()}</uuid>"
        f"<fb_memory_usage><total>{memory}</total><used>{memory}</used></fb_memory_usage>"
        f"<utilization><gpu_util>{util}</gpu_util></utilization><processes>{processes}</processes></gpu>"
    )


def read(*gpus: str, memory: str = MEMORY) -> HostReading:
    smi = f"<nvidia_smi_log><driver_version>595.1</driver_version>{''.join(gpus)}</nvidia_smi_log>"
    text = f"@@gpumon begin 1 ab\n\n@@gpumon ab smi\n{smi}\n@@gpumon ab memory\n{memory}\n@@gpumon ab end\n"
    return reading.parse("spark", text, NOW)


def one(*gpus: str, memory: str = MEMORY) -> Gpu:
    (gpu,) = read(*gpus, memory=memory).gpus
    return gpu


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("unknown", ["N/A", "[N/A]", "Not Supported", "[Not Supported]"])
def test_its_memory_is_the_hosts(name: str, unknown: str) -> None:
    gpu = one(xml(name, memory=unknown))
    assert (gpu.memory_total_mib, gpu.memory_used_mib, gpu.memory_shared) == (122_880, 40_960, True)


def test_a_free_one_is_offered_with_the_ram_that_is_free() -> None:
    """A third of the RAM is in use, which busy.memory would call taken."""
    found = read(xml("NVIDIA GB10"))
    setup = config("spark")
    survey = build_survey([found], setup, NOW)
    assert gpu_state(found.gpus[0], setup.busy) is State.FREE
    assert free_txt(survey) == "spark 0 81920 GB10\n"
    (host,) = json.loads("".join(gpus_json(survey)))["hosts"]
    assert (host["gpus"][0]["memory_shared"], host["gpus"][0]["vendor"]) == (True, "nvidia")
    view = build_page([found], setup, NOW)
    page = render_page(view)
    assert '<abbr title="shared with the CPU">shared</abbr>' in page
    assert page.count("shared with the CPU") >= 2, "on the card and in the tooltip"
    numbers = view.hosts[0].cards[0].numbers
    assert (numbers.used_mib, numbers.total_mib, numbers.is_offered) == (40_960, 122_880, True)


def test_a_process_takes_it_and_its_memory_counts_as_reported() -> None:
    gpu = one(xml("NVIDIA GB10", processes=JOB.format("9000 MiB")))
    assert gpu.processes[0].memory_mib == 9000
    assert gpu_state(gpu, config("n").busy) is State.HELD
    assert ghost_mib(gpu, None, config("n").busy) is None, "the rest of the RAM is the host's"
    assert gpu_state(one(xml("NVIDIA GB10", util="60 %")), config("n").busy) is State.BUSY


def test_an_orin_that_reports_nothing_is_unknown() -> None:
    for gpu in (one(xml("Orin (nvgpu)", util="N/A")), one(xml("Orin (nvgpu)", util="N/A", processes="N/A"))):
        assert gpu_state(gpu, config("n").busy) is State.UNKNOWN


def test_without_the_ram_its_memory_stays_unknown() -> None:
    gpu = one(xml("NVIDIA GB10"), memory="")
    assert (gpu.memory_total_mib, gpu.memory_used_mib) == (None, None)
    assert gpu_state(gpu, config("n").busy) is State.FREE


def test_other_gpus_have_their_own_memory() -> None:
    assert not one(xml("NVIDIA GB10", memory="1000 MiB")).memory_shared, "it reports its own"
    assert not one(xml("NVIDIA GB100")).memory_shared
    assert not one(xml("Quadro M2000M")).memory_shared
    two = read(xml("NVIDIA GB10"), xml("NVIDIA L4", memory="23034 MiB")).gpus
    assert not any(gpu.memory_shared for gpu in two), "whose RAM it is cannot be told"
    assert two[0] == replace(two[0], memory_total_mib=None, memory_used_mib=None)
