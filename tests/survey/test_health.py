"""The rules of health: each one fires on what it is about, and on nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon_static.collect.nvidia import diagnosis as checks
from gpumon_static.collect.nvidia import smi
from gpumon_static.config.settings import BusyConfig
from gpumon_static.model import Fault, Gpu, rules
from gpumon_static.model.rules import RULES, Severity
from gpumon_static.model.states import State
from gpumon_static.survey.state import gpu_state
from tests.places import SHARED

DOCUMENT = '<nvidia_smi_log><gpu id="00000000:0B:00.0">{}</gpu></nvidia_smi_log>'


def seen(xml: str) -> dict[str, str | None]:
    return {fault.rule: fault.detail for fault in smi.parse(DOCUMENT.format(xml)).gpus[0].faults}


def leaf(path: str, value: str) -> str:
    tags = path.split("/")
    return "".join(f"<{t}>" for t in tags) + value + "".join(f"</{t}>" for t in reversed(tags))


def link(now: str, utilization: str, most: str = "16x") -> str:
    widths = f"<current_link_width>{now}</current_link_width><max_link_width>{most}</max_link_width>"
    return leaf("pci/pci_gpu_link_info/link_widths", widths) + leaf("utilization/gpu_util", utilization)


def reason(word: str, name: str, value: str = "Active") -> str:
    return leaf(f"clocks_{word}_reasons/clocks_{word}_reason_{name}", value)


def temperature(**values: str) -> str:
    return "<temperature>" + "".join(leaf(tag, value) for tag, value in values.items()) + "</temperature>"


BROKEN = [
    ("lost", leaf("fb_memory_usage/used", "GPU is lost"), "nvidia-smi reports: GPU is lost"),
    ("lost", leaf("utilization", "[GPU is lost]"), "nvidia-smi reports: GPU is lost"),
    ("lost", "GPU is lost", "nvidia-smi reports: GPU is lost"),
    (
        "needs-reset",
        leaf("temperature/gpu_temp", "GPU requires reset"),
        "nvidia-smi reports: GPU requires reset",
    ),
    ("needs-reset", leaf("gpu_recovery_action", "Reset"), "the driver asks for: Reset"),
    ("needs-reset", leaf("gpu_recovery_action", "Drain and Reset"), "the driver asks for: Drain and Reset"),
    ("needs-reset", leaf("gpu_reset_status/reset_required", "Yes"), "reset required"),
    (
        "needs-reset",
        leaf("gpu_reset_status/drain_and_reset_recommended", "Yes"),
        "drain and reset recommended",
    ),
    (
        "unknown-error",
        leaf("fb_memory_usage/used", "Unknown Error") + leaf("utilization/gpu_util", "[Unknown Error]"),
        "for used, gpu_util",
    ),
    ("ecc-errors", leaf("ecc_errors/volatile/double_bit/total", "3"), "uncorrected: 3"),
    ("ecc-errors", leaf("ecc_errors/volatile/double_bit/device_memory", "2"), "uncorrected: 2"),
    ("ecc-errors", leaf("ecc_errors/volatile/dram_uncorrectable", "5"), "uncorrected: 5 in DRAM"),
    ("ecc-errors", leaf("ecc_errors/volatile/sram_uncorrectable", "1"), "uncorrected: 1 in SRAM"),
    (
        "ecc-errors",
        leaf("ecc_errors/volatile/sram_uncorrectable_parity", "1"),
        "uncorrected: 1 in SRAM (parity)",
    ),
    (
        "ecc-errors",
        leaf("ecc_errors/volatile/sram_uncorrectable_secded", "4"),
        "uncorrected: 4 in SRAM (SEC-DED)",
    ),
    ("sram-errors", leaf("ecc_errors/aggregate/sram_threshold_exceeded", "Yes"), "threshold exceeded"),
    ("pages-pending", leaf("retired_pages/pending_retirement", "Yes"), "retirement pending"),
    ("pages-pending", leaf("retired_pages/pending_blacklist", "Yes"), "retirement pending"),
    ("remap-pending", leaf("remapped_rows/remapped_row_pending", "Yes"), "rows pending"),
    ("remap-pending", leaf("ecc_errors/channel_repair_pending", "Yes"), "channel repair pending"),
    ("remap-pending", leaf("ecc_errors/tpc_repair_pending", "Yes"), "TPC repair pending"),
    ("remap-failure", leaf("remapped_rows/remapped_row_failure", "Yes"), "a row could not be remapped"),
    ("remap-failure", leaf("ecc_errors/unrepairable_memory", "Yes"), "unrepairable memory"),
    ("hot-throttle", reason("throttle", "hw_thermal_slowdown"), "by the hardware"),
    ("hot-throttle", reason("event", "hw_thermal_slowdown"), "by the hardware"),
    ("hot-throttle", reason("event", "sw_thermal_slowdown"), "by the driver"),
    ("power-brake", reason("throttle", "hw_power_brake_slowdown"), "signalled from outside"),
    ("power-brake", reason("event", "hw_power_brake_slowdown"), "signalled from outside"),
    ("slowdown", reason("throttle", "hw_slowdown"), "hardware slowdown active"),
    (
        "over-temperature",
        temperature(gpu_temp="93 C", gpu_temp_slow_threshold="93 C"),
        "93 °C, slows down at 93 °C",
    ),
    (
        "over-temperature",
        temperature(gpu_temp="98 C", gpu_temp_slow_threshold="N/A", gpu_temp_max_threshold="97 C"),
        "98 °C, slows down at 97 °C",
    ),
    (
        "over-temperature",
        temperature(gpu_temp="88 C", gpu_temp_tlimit="-2 C", gpu_temp_slow_tlimit_threshold="-2 C"),
        "-2 °C left, slows down at -2 °C",
    ),
    (
        "over-temperature",
        temperature(memory_temp="96 C", gpu_temp_max_mem_threshold="95 C"),
        "memory 96 °C, its limit is 95 °C",
    ),
    ("fan", leaf("fan_speed", "Unknown Error"), "nvidia-smi reports: unknown error"),
    ("fan", leaf("fan_speed", "ERR!"), "nvidia-smi reports: err!"),
    ("fan", leaf("fan_speed", "0 %") + temperature(gpu_temp="84 C"), "0 % at 84 °C"),
    ("pcie-width", link("8x", "97 %"), "x8 of x16"),
    ("pcie-width", link("1x", "20 %"), "x1 of x16"),
    ("fabric", leaf("fabric/health/summary", "Unhealthy"), "unhealthy"),
    ("fabric", "<fabric><state>Completed</state><status>Failure</status></fabric>", "status Failure"),
    ("persistence-off", leaf("persistence_mode", "Disabled"), "persistence mode disabled"),
]

HEALTHY = {
    "software power cap": reason("event", "sw_power_cap") + reason("throttle", "sw_power_cap"),
    "idle": reason("event", "gpu_idle"),
    "not active": reason("event", "hw_thermal_slowdown", "Not Active")
    + reason("event", "hw_slowdown", "N/A"),
    "history of errors": leaf("ecc_errors/aggregate/dram_uncorrectable", "8")
    + leaf("retired_pages/double_bit_retirement/retired_count", "4")
    + leaf("remapped_rows/remapped_row_unc", "1"),
    "corrected errors": leaf("ecc_errors/volatile/dram_correctable", "900"),
    "no ECC": leaf("ecc_errors/volatile/double_bit/total", "N/A") + leaf("ecc_mode/current_ecc", "Disabled"),
    "one gap of the driver": leaf("gpu_power_readings/power_draw", "Unknown Error"),
    "narrow at rest": link("8x", "0 %"),
    "narrow while the desktop draws": link("8x", "7 %"),
    "full width": link("16x", "100 %"),
    "width not told": link("N/A", "100 %"),
    "fan stands, card is cool": leaf("fan_speed", "0 %") + temperature(gpu_temp="45 C"),
    "passive card, warm": leaf("fan_speed", "N/A") + temperature(gpu_temp="84 C"),
    "just below": temperature(gpu_temp="92 C", gpu_temp_slow_threshold="93 C"),
    "degrees left": temperature(gpu_temp_tlimit="1 C", gpu_temp_slow_tlimit_threshold="-2 C"),
    "zero degrees left, limit below": temperature(
        gpu_temp_tlimit="0 C", gpu_temp_slow_tlimit_threshold="-2 C"
    ),
    "no action": leaf("gpu_recovery_action", "None")
    + leaf("gpu_reset_status/reset_required", "Requested functionality has been deprecated"),
    "persistence not told": leaf("persistence_mode", "N/A"),
    "fabric healthy": "<fabric><state>Completed</state><status>Success</status></fabric>",
    "fabric not there": "<fabric><state>N/A</state><status>N/A</status></fabric>",
    "all replaced": "<remapped_rows>N/A</remapped_rows><ecc_errors>N/A</ecc_errors><fabric>N/A</fabric>",
}


@pytest.mark.parametrize(("rule", "xml", "detail"), BROKEN, ids=[f"{b[0]}-{i}" for i, b in enumerate(BROKEN)])
def test_a_rule_tells_what_it_saw(rule: str, xml: str, detail: str) -> None:
    assert seen(xml) == {rule: detail}


@pytest.mark.parametrize("xml", HEALTHY.values(), ids=HEALTHY.keys())
def test_what_is_normal_is_no_fault(xml: str) -> None:
    assert seen(xml) == {}


def test_every_check_has_a_rule_and_a_test() -> None:
    tested = {rule for rule, _, _ in BROKEN}
    assert set(checks.CHECKS) == tested
    assert set(RULES) - set(checks.CHECKS) == {
        "inforom",
        "gpus-missing",
        "driver-differs",
        "acknowledged",
        "acknowledged-unusable",
    }
    for rule in RULES.values():
        assert re.fullmatch(r"[a-z-]+", rule.name)
        assert len(rule.word) <= 16
        assert rule.explanation.endswith((".", ".)"))
        assert rule.seen_in


def test_the_cause_of_a_slowdown_is_told_once() -> None:
    xml = (
        "<clocks_event_reasons><clocks_event_reason_hw_slowdown>Active</clocks_event_reason_hw_slowdown>"
        "<clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown>"
        "</clocks_event_reasons>"
    )
    assert seen(xml) == {"hot-throttle": "by the hardware"}


@pytest.mark.parametrize("bus", ["0000:0B:00.0", "00000000:0b:00.0"])
def test_a_corrupt_inforom_is_a_fault_of_its_gpu(bus: str) -> None:
    text = DOCUMENT.format("") + f"\nWARNING: infoROM is corrupted at gpu {bus}\n"
    assert [f.rule for f in smi.parse(text, exit_status=14).gpus[0].faults] == ["inforom"]
    other = DOCUMENT.format("") + "\nWARNING: infoROM is corrupted at gpu 0000:0C:00.0\n"
    assert smi.parse(other, exit_status=14).gpus[0].faults == ()


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_gpu_that_nobody_can_use_is_not_called_free(rule: str) -> None:
    idle = Gpu(0, utilization=0.0, memory_used_mib=0.0, memory_total_mib=100.0, faults=(Fault(rule),))
    unusable = rule in ("lost", "unknown-error", "needs-reset", "acknowledged-unusable")
    assert gpu_state(idle, BusyConfig()) is (State.UNKNOWN if unusable else State.FREE)


def test_notices_are_not_marked_and_unknown_rules_are() -> None:
    found = [Fault("persistence-off"), Fault("ecc-errors"), Fault("from-a-later-version")]
    assert [fault.rule for fault in rules.marked(found)] == ["ecc-errors", "from-a-later-version"]
    assert {rule.name for rule in RULES.values() if rule.severity is Severity.NOTICE} == {
        "persistence-off",
        "driver-differs",
        "acknowledged",
        "acknowledged-unusable",
    }


# What fires on real machines, without persistence mode. All others are healthy, and must stay dark.
SICK = {
    "gb200-x2-580.65.06-v13-nvidia-mock-ecc": {"ecc-errors", "remap-failure"},
    "gb200-x2-580.65.06-v13-nvidia-mock-fabricdegraded": {"fabric"},
    "gb200-x2-580.65.06-v13-nvidia-mock-lost": {"ecc-errors", "remap-failure", "lost"},
    "gtx-1060-6gb-x4-375.66-v8-ostroumov": {"pcie-width"},
    "gtx-1080-460.27.04-v11-a0s": {"pcie-width"},
    "gtx-1080-x2-460.27.04-v11-a0s": {"pcie-width"},
}


@pytest.mark.parametrize("path", sorted(SHARED.glob("*.xml")), ids=lambda p: p.stem)
def test_real_machines_light_up_only_where_something_is_wrong(path: Path) -> None:
    gpus = smi.parse(path.read_text(errors="replace")).gpus
    assert {f.rule for gpu in gpus for f in rules.marked(gpu.faults)} == SICK.get(path.stem, set())


words = st.sampled_from(
    ["Yes", "No", "N/A", "Active", "-1", "0 %", "99 C", "16x", "Unknown Error", "GPU is lost", ""]
)
paths = st.sampled_from(
    sorted({m for _, xml, _ in BROKEN for m in re.findall(r"<(\w+)>", xml)} | {"temperature", "utilization"})
)


@given(st.lists(st.tuples(paths, paths, words), max_size=8))
def test_no_combination_of_readings_is_too_much_for_the_rules(given: list[tuple[str, str, str]]) -> None:
    xml = "".join(leaf(f"{outer}/{inner}", value) for outer, inner, value in given)
    for rule, detail in seen(xml).items():
        assert rule in RULES
        assert detail


@pytest.mark.parametrize(
    ("temperature", "limit"),
    [
        ({"gpu_temp": "41 C", "gpu_temp_slow_threshold": "95 C", "gpu_temp_max_threshold": "98 C"}, 95),
        ({"gpu_temp": "41 C", "gpu_temp_max_threshold": "98 C"}, 98),
        ({"gpu_temp": "30 C", "gpu_temp_tlimit": "57 C", "gpu_temp_slow_tlimit_threshold": "-2 C"}, 89),
        ({"gpu_temp": "30 C", "gpu_temp_tlimit": "57 C", "gpu_temp_slow_threshold": "N/A"}, 87),
        ({"gpu_temp": "N/A", "gpu_temp_tlimit": "57 C"}, None),
        ({"gpu_temp": "41 C", "gpu_temp_slow_threshold": "0 C"}, None),
        ({}, None),
    ],
)
def test_where_a_gpu_slows_down_is_known_from_its_threshold_or_from_the_degrees_left(
    temperature: dict[str, str], limit: float | None
) -> None:
    xml = "".join(f"<{tag}>{text}</{tag}>" for tag, text in temperature.items())
    (found,) = smi.parse(DOCUMENT.format(f"<temperature>{xml}</temperature>")).gpus
    assert found.temperature_limit_c == limit
