"""The rules of health: one table with every name, word and explanation.

    rule                 seen in                                    evaluated in
    ecc-errors           ecc_errors/volatile/dram_uncorrectable     collect/nvidia/diagnosis.py
    gpus-missing         `gpus = 8` in the config                   survey/faults.py

A rule is a `FAULT`, which the page marks in amber and lists on top, or a `NOTICE`, which only the tooltip
tells: what is common and harmless on many machines must not hide what is broken.
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
    severity: Severity = Severity.FAULT
    unusable: bool = False
    """The GPU cannot be worked with, so it is never called free."""


RULES = {
    rule.name: rule
    for rule in (
        Rule(
            "lost",
            "lost",
            "The driver no longer reaches this GPU: it fell off the bus. Its jobs are dead; mostly only a"
            " reboot brings it back, and if it happens again look at its power, its slot and its heat.",
            unusable=True,
        ),
        Rule(
            "unknown-error",
            "unknown error",
            "nvidia-smi gets errors instead of readings from this GPU. It is often the first sign of one that"
            " falls off the bus; the kernel log (dmesg, NVRM: Xid) says more.",
            unusable=True,
        ),
        Rule(
            "needs-reset",
            "needs reset",
            "The driver asks for a reset of this GPU before it is used again: nvidia-smi --gpu-reset,"
            " or a reboot.",
            unusable=True,
        ),
        Rule(
            "ecc-errors",
            "ECC errors",
            "Memory errors that could not be corrected, since the driver was loaded: results may be wrong and"
            " jobs die. Errors from before that are history and not counted here.",
        ),
        Rule(
            "sram-errors",
            "SRAM errors",
            "The count of uncorrectable errors inside the chip is past NVIDIA's own limit: request a"
            " replacement.",
        ),
        Rule(
            "pages-pending",
            "pages pending",
            "Bad memory pages are to be retired. It happens at the next reset or reboot; until then they may"
            " be used.",
        ),
        Rule(
            "remap-pending",
            "remap pending",
            "Bad memory rows are to be replaced by spare ones. It happens at the next reset or reboot.",
        ),
        Rule(
            "remap-failure",
            "remap failed",
            "A bad memory row could not be replaced: there is no spare left. Request a replacement.",
        ),
        Rule(
            "hot-throttle",
            "throttled: heat",
            "It runs slower because it is too hot. Look at fans, dust and the air in the room.",
        ),
        Rule(
            "power-brake",
            "power brake",
            "The power supply or the server has told the GPU to slow down. (The software power cap, at the"
            " card's own limit, is normal and not meant.)",
        ),
        Rule(
            "slowdown",
            "slowed down",
            "The hardware has cut the clocks to half or less: heat, power brake or too high a draw; this"
            " driver does not say which.",
        ),
        Rule(
            "over-temperature",
            "too hot",
            "The temperature is at the limit where this card starts to slow down, or above it.",
        ),
        Rule("fan", "fan", "The fan does not turn although the card is hot, or it cannot be read."),
        Rule(
            "pcie-width",
            "PCIe narrow",
            "The link to the machine has fewer lanes than the card could use, while it works: copies are"
            " slower. A riser, a dirty contact, or a slot wired that way.",
        ),
        Rule(
            "fabric",
            "NVLink fabric",
            "The NVLink fabric of this GPU is not healthy: jobs on several GPUs fail.",
        ),
        Rule(
            "inforom",
            "infoROM corrupt",
            "The card's own memory with its serial number and error counts is damaged. It computes all the"
            " same; its health readings are not to be trusted.",
        ),
        Rule(
            "persistence-off",
            "persistence off",
            "The driver unloads when nobody uses the GPU, so that each job starts a second or more later."
            " nvidia-persistenced keeps it loaded.",
            Severity.NOTICE,
        ),
        Rule(
            "gpus-missing",
            "GPUs missing",
            "The host has fewer GPUs than `gpus` in the config says.",
        ),
        Rule(
            "driver-differs",
            "other driver",
            "The host's driver is another than that of most hosts in its group.",
            Severity.NOTICE,
        ),
    )
}


def marked(found: Iterable[Fault]) -> list[Fault]:
    """Those to be marked. A name this version does not know comes from another one, and is marked too."""
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
