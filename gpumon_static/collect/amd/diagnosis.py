"""The rules of health that are read from amdgpu's files: each is a function of a card's files and readings.

A rule returns None where nothing is wrong or nothing is reported. Names, words and explanations of the rules
are in gpumon_static/model/rules.py.
"""

from __future__ import annotations

from collections.abc import Callable

from gpumon_static.collect.amd.tree import Files
from gpumon_static.collect.values import number
from gpumon_static.model import Fault, Gpu

Test = Callable[[Files, Gpu], str | None]

BUSY_PERCENT = 20
"""A link narrows on an idle card."""
HOT_C = 80
MOST_BLOCKS = 4
"""Parts of a chip whose errors are named."""


def diagnose(card: Files, gpu: Gpu) -> tuple[Fault, ...]:
    seen = ((rule, test(card, gpu)) for rule, test in CHECKS.items())
    return tuple(Fault(rule, detail) for rule, detail in seen if detail is not None)


def _ecc_errors(card: Files, _: Gpu) -> str | None:
    """ras.rst: `ras/umc_err_count` is `ue: 0` and `ce: 0`, since the driver was loaded; UMC is the memory."""
    counts = {
        name.removeprefix("ras/").removesuffix("_err_count/ue"): number(value)
        for name, value in card.items()
        if name.startswith("ras/") and name.endswith("_err_count/ue")
    }
    found = [f"{count:.0f} in {block}" for block, count in sorted(counts.items()) if count and count > 0]
    return f"uncorrected: {', '.join(found[:MOST_BLOCKS])}" if found else None


def _hot_throttle(card: Files, _: Gpu) -> str | None:
    """thermal.rst: temp2 is the junction. At its critical value the firmware slows the card down."""
    return _at_limit(card, "temp2", "hotspot")


def _over_temperature(card: Files, _: Gpu) -> str | None:
    return _at_limit(card, "temp1", "edge") or _at_limit(card, "temp3", "memory")


def _at_limit(card: Files, sensor: str, word: str) -> str | None:
    now, limit = number(card.get(f"{sensor}_input")), number(card.get(f"{sensor}_crit"))
    if now is None or not limit or limit <= 0 or now < limit:
        return None
    return f"{word} {now / 1000:.0f} °C, its limit is {limit / 1000:.0f} °C"


def _fan(_: Files, gpu: Gpu) -> str | None:
    """At rest the fan of many cards stands still."""
    is_hot = gpu.temperature_c is not None and gpu.temperature_c >= HOT_C
    return f"0 % at {gpu.temperature_c:.0f} °C" if is_hot and gpu.fan_percent == 0 else None


def _pcie_width(card: Files, gpu: Gpu) -> str | None:
    now, most = (number(card.get(f"{which}_link_width")) for which in ("current", "max"))
    busy = (gpu.utilization or 0) >= BUSY_PERCENT
    return f"x{now:.0f} of x{most:.0f}" if busy and now and most and now < most else None


CHECKS: dict[str, Test] = {
    "ecc-errors": _ecc_errors,
    "hot-throttle": _hot_throttle,
    "over-temperature": _over_temperature,
    "fan": _fan,
    "pcie-width": _pcie_width,
}
