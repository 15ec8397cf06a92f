"""The rules of health that are read from nvidia-smi's XML: each is a function of the texts of a `<gpu>`.

A rule returns None where nothing is wrong or nothing is reported: `N/A` is not a fault. Names,
words and explanations of the rules are in gpumon_static/model/rules.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice

from gpumon_static.collect.nvidia.document import Texts, first, first_text
from gpumon_static.collect.nvidia.lost import MOST, bus_key
from gpumon_static.collect.values import number
from gpumon_static.model import Fault, Gpu
from gpumon_static.text import one_line

Test = Callable[[Texts], str | None]

BUSY_PERCENT = 20
"""A link narrows, and a fan stops, on an idle card: these rules apply only to a card at work."""
HOT_C = 80

_CORE = tuple(
    (path, *path.rpartition("/")[::2])
    for path in (
        "fb_memory_usage/used",
        "memory_usage/used",
        "utilization/gpu_util",
        "temperature/gpu_temp",
        "gpu_power_readings/instant_power_draw",
        "gpu_power_readings/power_draw",
        "power_readings/power_draw",
        "performance_state",
    )
)
"""Path, block and tag."""
SLOWS_DOWN = ("temperature/gpu_temp_slow_threshold", "temperature/gpu_temp_max_threshold")
_VOLATILE = {
    "double_bit/total": "",
    "dram_uncorrectable": " in DRAM",
    "sram_uncorrectable": " in SRAM",
    "sram_uncorrectable_parity": " in SRAM (parity)",
    "sram_uncorrectable_secded": " in SRAM (SEC-DED)",
}
_COUNTS = {place: (f"ecc_errors/volatile/{tag}",) for tag, place in _VOLATILE.items()}
_REASONS = {
    name: [f"clocks_{word}_reasons/clocks_{word}_reason_{name}" for word in ("event", "throttle")]
    for name in ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
}
"""`clocks_throttle_reasons` to driver 525, `clocks_event_reasons` from 535."""
_WIDTHS = tuple((f"pci/pci_gpu_link_info/link_widths/{tag}_link_width",) for tag in ("current", "max"))
_INFOROM = re.compile(r"infoROM is corrupted at gpu\s+([0-9A-Fa-f:.]{1,24})", re.IGNORECASE)


def diagnose(gpu: Texts) -> tuple[Fault, ...]:
    seen = ((rule, test(gpu)) for rule, test in CHECKS.items())
    return tuple(Fault(rule, detail) for rule, detail in seen if detail is not None)


def with_inforom(gpus: Sequence[Gpu], around: str) -> list[Gpu]:
    """The warning stands after the document and names the GPU by its bus id."""
    corrupt = {bus_key(match[1]) for match in islice(_INFOROM.finditer(around), MOST)} - {()}
    fault = Fault("inforom", "nvidia-smi warns of it")
    return [
        replace(gpu, faults=(*gpu.faults, fault)) if corrupt and bus_key(gpu.bus_id) in corrupt else gpu
        for gpu in gpus
    ]


def _says(gpu: Texts, *words: str) -> list[str]:
    """The core readings that are these words instead of a value."""
    return [tag for tag, word in _core_words(gpu) if word in words]


@lru_cache(maxsize=1)
def _core_words(gpu: Texts) -> list[tuple[str, str]]:
    """Tag and word of each core reading that is no number; also where a block is replaced by words.

    Three rules ask for the same GPU, one after the other.
    """
    found = []
    for path, block, tag in _CORE:
        texts = chain(gpu.get(path), gpu.get(block) if block else ())
        found += [
            (tag, _word(text)) for text in texts if text and not text[0].isdigit() and not text.isspace()
        ]
    return found


def _word(text: str) -> str:
    return (one_line(text) or "").strip("[]").lower()


def _lost(gpu: Texts) -> str | None:
    words = ("gpu is lost", "gpu has fallen off the bus")
    shown = _says(gpu, *words) or (one_line(gpu.own) or "").lower() in words
    return "nvidia-smi reports: GPU is lost" if shown else None


def _unknown_error(gpu: Texts) -> str | None:
    """One value alone, such as the power draw of some laptops, may be a gap of the driver."""
    failed = dict.fromkeys(_says(gpu, "unknown error", "err!"))
    return f"for {', '.join(failed)}" if len(failed) >= 2 else None


def _needs_reset(gpu: Texts) -> str | None:
    if _says(gpu, "gpu requires reset"):
        return "nvidia-smi reports: GPU requires reset"
    action = first_text(gpu, "gpu_recovery_action")
    if action and action.lower() != "none":
        return f"the driver asks for: {action}"
    if _is_yes(gpu, "gpu_reset_status/reset_required"):
        return "reset required"
    return (
        "drain and reset recommended"
        if _is_yes(gpu, "gpu_reset_status/drain_and_reset_recommended")
        else None
    )


def _ecc_errors(gpu: Texts) -> str | None:
    counts = {place: first(gpu, tags, number) for place, tags in _COUNTS.items()}
    if counts[""] is None:
        counts[""] = sum(number(text) or 0 for text in gpu.below("ecc_errors/volatile/double_bit"))
    found = [f"{count:.0f}{place}" for place, count in counts.items() if count and count > 0]
    return f"uncorrected: {', '.join(found)}" if found else None


def _sram_errors(gpu: Texts) -> str | None:
    return _yes(gpu, "ecc_errors/aggregate/sram_threshold_exceeded", "threshold exceeded")


def _pages_pending(gpu: Texts) -> str | None:
    tags = ("retired_pages/pending_retirement", "retired_pages/pending_blacklist")
    return "retirement pending" if any(_is_yes(gpu, tag) for tag in tags) else None


def _remap_pending(gpu: Texts) -> str | None:
    for tag, words in {
        "remapped_rows/remapped_row_pending": "rows pending",
        "ecc_errors/channel_repair_pending": "channel repair pending",
        "ecc_errors/tpc_repair_pending": "TPC repair pending",
    }.items():
        if _is_yes(gpu, tag):
            return words
    return None


def _remap_failure(gpu: Texts) -> str | None:
    return _yes(gpu, "remapped_rows/remapped_row_failure", "a row could not be remapped") or _yes(
        gpu, "ecc_errors/unrepairable_memory", "unrepairable memory"
    )


def _hot_throttle(gpu: Texts) -> str | None:
    if _reason(gpu, "hw_thermal_slowdown"):
        return "by the hardware"
    return "by the driver" if _reason(gpu, "sw_thermal_slowdown") else None


def _power_brake(gpu: Texts) -> str | None:
    return "signalled from outside" if _reason(gpu, "hw_power_brake_slowdown") else None


def _slowdown(gpu: Texts) -> str | None:
    """Slowdown by hardware, where the driver does not report the cause."""
    named = ("hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
    active = _reason(gpu, "hw_slowdown") and not any(_reason(gpu, name) for name in named)
    return "hardware slowdown active" if active else None


def temperature_limit(gpu: Texts) -> float | None:
    """Where it slows down. Newer cards report how many degrees are left, and where below zero they do."""
    limit = first(gpu, SLOWS_DOWN, number)
    now = first(gpu, ["temperature/gpu_temp"], number)
    left = first(gpu, ["temperature/gpu_temp_tlimit"], number)
    slow = first(gpu, ["temperature/gpu_temp_slow_tlimit_threshold"], number)
    if limit or now is None or left is None:
        return limit or None
    return now + left - (slow or 0)


def _over_temperature(gpu: Texts) -> str | None:
    now = first(gpu, ["temperature/gpu_temp"], number)
    limit = first(gpu, SLOWS_DOWN, number)
    if now is not None and limit and now >= limit:
        return f"{now:.0f} °C, slows down at {limit:.0f} °C"
    # Newer cards report how many degrees are left, and where below zero they slow down.
    left = first(gpu, ["temperature/gpu_temp_tlimit"], number)
    slow = first(gpu, ["temperature/gpu_temp_slow_tlimit_threshold"], number)
    if left is not None and slow is not None and left <= slow:
        return f"{left:.0f} °C left, slows down at {slow:.0f} °C"
    memory = first(gpu, ["temperature/memory_temp"], number)
    most = first(gpu, ["temperature/gpu_temp_max_mem_threshold"], number)
    if memory is not None and most and memory >= most:
        return f"memory {memory:.0f} °C, its limit is {most:.0f} °C"
    return None


def _fan(gpu: Texts) -> str | None:
    shown = (first(gpu, ["fan_speed"], one_line) or "").strip("[]").lower()
    if shown in ("unknown error", "err!"):
        return f"nvidia-smi reports: {shown}"
    temperature = first(gpu, ["temperature/gpu_temp"], number)
    stands = first(gpu, ["fan_speed"], number) == 0
    return (
        f"0 % at {temperature:.0f} °C"
        if stands and temperature is not None and temperature >= HOT_C
        else None
    )


def _pcie_width(gpu: Texts) -> str | None:
    busy = (first(gpu, ["utilization/gpu_util"], number) or 0) >= BUSY_PERCENT
    now, most = (first(gpu, tags, number) for tags in _WIDTHS) if busy else (None, None)
    return f"x{now:.0f} of x{most:.0f}" if now and most and now < most else None


def _fabric(gpu: Texts) -> str | None:
    summary = first_text(gpu, "fabric/health/summary")
    if summary and summary.lower() == "unhealthy":
        return "unhealthy"
    state, status = first_text(gpu, "fabric/state"), first_text(gpu, "fabric/status")
    return f"status {status}" if state == "Completed" and status and status != "Success" else None


def _persistence_off(gpu: Texts) -> str | None:
    return "persistence mode disabled" if first_text(gpu, "persistence_mode") == "Disabled" else None


def _is_yes(gpu: Texts, tag: str) -> bool:
    return (first_text(gpu, tag) or "").lower() in ("yes", "true")


def _yes(gpu: Texts, tag: str, words: str) -> str | None:
    return words if _is_yes(gpu, tag) else None


def _reason(gpu: Texts, name: str) -> bool:
    return first_text(gpu, *_REASONS[name]) == "Active"


CHECKS: dict[str, Test] = {
    "lost": _lost,
    "unknown-error": _unknown_error,
    "needs-reset": _needs_reset,
    "ecc-errors": _ecc_errors,
    "sram-errors": _sram_errors,
    "pages-pending": _pages_pending,
    "remap-pending": _remap_pending,
    "remap-failure": _remap_failure,
    "hot-throttle": _hot_throttle,
    "power-brake": _power_brake,
    "slowdown": _slowdown,
    "over-temperature": _over_temperature,
    "fan": _fan,
    "pcie-width": _pcie_width,
    "fabric": _fabric,
    "persistence-off": _persistence_off,
}
