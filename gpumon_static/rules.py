"""The rules of health: one table with every name, word and explanation.

    rule                 seen in                                    evaluated in
    ecc-errors           ecc_errors/volatile/dram_uncorrectable     collect/nvidia/diagnosis.py
    ecc-errors           ras/umc_err_count                          collect/amd/diagnosis.py
    gpus-missing         `gpus = 8` in the config                   survey/faults.py

A rule is a `FAULT`, which the page marks in amber and lists on top, or a `NOTICE`, which only the tooltip
shows: what is common and harmless on many hosts must not hide what is broken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from gpumon_static.model import Fault


class Severity(StrEnum):
    FAULT = "fault"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    word: str
    """Short, for the card and the line on top of the page."""
    explanation: str
    seen_in: str
    """What it is recognised by, for the docs."""
    severity: Severity = Severity.FAULT
    unusable: bool = False
    """The GPU is not usable, so it is never called free."""


RULES = {
    rule.name: rule
    for rule in (
        Rule(
            "lost",
            "lost",
            "The driver no longer reaches this GPU: it fell off the bus. Its jobs are dead; mostly only a"
            " reboot brings it back, and if it happens again look at its power, its slot and its heat.",
            "`GPU is lost`, or a line `Unable to determine the device handle ...`; the others keep"
            " their indices",
            unusable=True,
        ),
        Rule(
            "unknown-error",
            "unknown error",
            "nvidia-smi gets errors instead of readings from this GPU. It is often the first sign of one that"
            " falls off the bus; the kernel log (dmesg, NVRM: Xid) has more.",
            "two or more readings are `Unknown Error`",
            unusable=True,
        ),
        Rule(
            "needs-reset",
            "needs reset",
            "The driver asks for a reset of this GPU before it is used again: nvidia-smi --gpu-reset,"
            " or a reboot.",
            "`GPU requires reset`, `gpu_recovery_action`, `gpu_reset_status`",
            unusable=True,
        ),
        Rule(
            "ecc-errors",
            "ECC errors",
            "Memory errors that could not be corrected, since the driver was loaded: results may be wrong and"
            " jobs die. Errors from before that are history and not counted here.",
            "uncorrected errors since the driver was loaded (volatile); older ones (aggregate) do not count;"
            " AMD: `ue` in `ras/*_err_count`",
        ),
        Rule(
            "sram-errors",
            "SRAM errors",
            "The count of uncorrectable errors inside the chip is past NVIDIA's own limit: request a"
            " replacement.",
            "`sram_threshold_exceeded`",
        ),
        Rule(
            "pages-pending",
            "pages pending",
            "Bad memory pages are to be retired. It happens at the next reset or reboot; until then they may"
            " be used.",
            "`retired_pages` pending",
        ),
        Rule(
            "remap-pending",
            "remap pending",
            "Bad memory rows are to be replaced by spare ones. It happens at the next reset or reboot.",
            "`remapped_row_pending`, or a channel or TPC repair pending",
        ),
        Rule(
            "remap-failure",
            "remap failed",
            "A bad memory row could not be replaced: there is no spare left. Request a replacement.",
            "`remapped_row_failure`, `unrepairable_memory`",
        ),
        Rule(
            "hot-throttle",
            "throttled: heat",
            "It runs slower because it is too hot. Look at fans, dust and the air in the room.",
            "thermal slowdown by hardware or software is active (the software power cap is normal); AMD: the"
            " hotspot is at its critical temperature",
        ),
        Rule(
            "power-brake",
            "power brake",
            "The power supply or the host signals the GPU to slow down. (The software power cap, at the"
            " card's own limit, is normal and not meant.)",
            "hardware power brake slowdown is active",
        ),
        Rule(
            "slowdown",
            "slowed down",
            "The hardware has cut the clocks to half or less: heat, power brake or too high a draw; this"
            " driver does not report which.",
            "hardware slowdown is active and the driver does not report why",
        ),
        Rule(
            "over-temperature",
            "too hot",
            "The temperature is at the limit where this card starts to slow down, or above it.",
            "at or over the card's own slowdown limit, absolute or as `tlimit`; AMD: edge or memory at its"
            " critical temperature",
        ),
        Rule(
            "fan",
            "fan",
            "The fan does not turn although the card is hot, or it cannot be read.",
            "cannot be read, or 0 % at 80 °C and more",
        ),
        Rule(
            "pcie-width",
            "PCIe narrow",
            "The link to the host has fewer lanes than the card could use, while it works: copies are"
            " slower. A riser, a dirty contact, or a slot wired that way.",
            "fewer lanes than the card's maximum at 20 % utilization and more (a slower generation"
            " at rest is normal)",
        ),
        Rule(
            "fabric",
            "NVLink fabric",
            "The NVLink fabric of this GPU is not healthy: jobs on several GPUs fail.",
            "`fabric/health` is unhealthy",
        ),
        Rule(
            "inforom",
            "infoROM corrupt",
            "The card's own memory with its serial number and error counts is damaged. It computes all the"
            " same; its health readings are not to be trusted.",
            "`WARNING: infoROM is corrupted at gpu ...`",
        ),
        Rule(
            "persistence-off",
            "persistence off",
            "The driver unloads when no process uses the GPU, so that each job starts a second or more later."
            " nvidia-persistenced keeps it loaded.",
            "persistence mode is disabled",
            Severity.NOTICE,
        ),
        Rule(
            "gpus-missing",
            "GPUs missing",
            "The host has fewer GPUs than `gpus` in the config.",
            "the host has fewer than its `gpus = N`",
        ),
        Rule(
            "driver-differs",
            "other driver",
            "The host's driver differs from that of most hosts in its group.",
            "the driver is not the one that most hosts of the `group` have",
            Severity.NOTICE,
        ),
    )
}


def marked(found: Iterable[Fault]) -> list[Fault]:
    """The faults to be marked. A rule of another version, unknown to this one, is marked too."""
    return [
        fault for fault in found if fault.rule not in RULES or RULES[fault.rule].severity is Severity.FAULT
    ]


def word(rule: str) -> str:
    """The short word of a rule; one of another version is its own word."""
    return RULES[rule].word if rule in RULES else rule


def explanation(rule: str) -> str:
    return RULES[rule].explanation if rule in RULES else ""


def is_unusable(found: Iterable[Fault]) -> bool:
    return any(fault.rule in RULES and RULES[fault.rule].unusable for fault in found)
