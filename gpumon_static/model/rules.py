"""The rules of health: one table with every name and word, what it means and what to do about it.

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

from gpumon_static.model.readings import Fault


class Severity(StrEnum):
    FAULT = "fault"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    word: str
    """Short, for the card and the line on top of the page."""
    meaning: str
    action: str
    """What to do about it."""
    seen_in: str
    """What it is recognised by, for the docs."""
    severity: Severity = Severity.FAULT
    unusable: bool = False
    """The GPU is not usable, so it is never called free."""

    @property
    def explanation(self) -> str:
        return f"{self.meaning} {self.action}"


ACKNOWLEDGED, ACKNOWLEDGED_UNUSABLE = "acknowledged", "acknowledged-unusable"
"""In the place of a fault that an admin knows of."""
RULES = {
    rule.name: rule
    for rule in (
        Rule(
            "lost",
            "lost",
            "The driver no longer reaches this GPU: it fell off the bus. Its jobs are dead.",
            "Reboot the host; mostly nothing else brings it back. If it happens again, look at its power,"
            " its slot and its heat.",
            "`GPU is lost`, or a line `Unable to determine the device handle ...`; the others keep"
            " their indices",
            unusable=True,
        ),
        Rule(
            "unknown-error",
            "unknown error",
            "nvidia-smi gets errors instead of readings from this GPU, often the first sign of one that"
            " falls off the bus.",
            "Look into the kernel log (dmesg, NVRM: Xid), and reboot the host when its jobs are done.",
            "two or more readings are `Unknown Error`",
            unusable=True,
        ),
        Rule(
            "needs-reset",
            "needs reset",
            "The driver asks for a reset of this GPU before it is used again.",
            "Stop its processes, then nvidia-smi --gpu-reset, or reboot the host.",
            "`GPU requires reset`, `gpu_recovery_action`, `gpu_reset_status`",
            unusable=True,
        ),
        Rule(
            "ecc-errors",
            "ECC errors",
            "Memory errors that could not be corrected, since the driver was loaded: results may be wrong"
            " and jobs die. Errors from before that are history and not counted here.",
            "Run again what ran on it, and reset the GPU or reboot the host when it is free. If errors come"
            " back, request a replacement.",
            "uncorrected errors since the driver was loaded (volatile); older ones (aggregate) do not count;"
            " AMD: `ue` in `ras/*_err_count`",
        ),
        Rule(
            "sram-errors",
            "SRAM errors",
            "The count of uncorrectable errors inside the chip is past NVIDIA's own limit.",
            "Request a replacement.",
            "`sram_threshold_exceeded`",
        ),
        Rule(
            "pages-pending",
            "pages pending",
            "Bad memory pages are to be retired, and may be used until then.",
            "Reset the GPU or reboot the host when it is free.",
            "`retired_pages` pending",
        ),
        Rule(
            "remap-pending",
            "remap pending",
            "Bad memory rows are to be replaced by spare ones.",
            "Reset the GPU or reboot the host when it is free.",
            "`remapped_row_pending`, or a channel or TPC repair pending",
        ),
        Rule(
            "remap-failure",
            "remap failed",
            "A bad memory row could not be replaced: there is no spare left.",
            "Request a replacement.",
            "`remapped_row_failure`, `unrepairable_memory`",
        ),
        Rule(
            "hot-throttle",
            "throttled: heat",
            "It runs slower because it is too hot.",
            "Look at fans, dust and the air in the room.",
            "thermal slowdown by hardware or software is active (the software power cap is normal); AMD: the"
            " hotspot is at its critical temperature",
        ),
        Rule(
            "power-brake",
            "power brake",
            "The power supply or the host signals the GPU to slow down. (The software power cap, at the"
            " card's own limit, is normal and not meant.)",
            "Look at the power supplies, their cables and the host's own log (BMC, IPMI).",
            "hardware power brake slowdown is active",
        ),
        Rule(
            "slowdown",
            "slowed down",
            "The hardware has cut the clocks to half or less: heat, power brake or too high a draw; this"
            " driver does not report which.",
            "Look at its temperature first, then at the power supplies.",
            "hardware slowdown is active and the driver does not report why",
        ),
        Rule(
            "over-temperature",
            "too hot",
            "The temperature is at the limit where this card starts to slow down, or above it.",
            "Look at fans, dust and the air in the room.",
            "at or over the card's own slowdown limit, absolute or as `tlimit`; AMD: edge or memory at its"
            " critical temperature",
        ),
        Rule(
            "fan",
            "fan",
            "The fan does not turn although the card is hot, or it cannot be read.",
            "Look at the fan and its plug; replace it if it does not turn.",
            "cannot be read, or 0 % at 80 °C and more",
        ),
        Rule(
            "pcie-width",
            "PCIe narrow",
            "The link to the host has fewer lanes than the card could use, while it works: copies are"
            " slower.",
            "Put the card in again, look at riser and contacts; where the slot is wired that way, ignore"
            " this rule in the config.",
            "fewer lanes than the card's maximum at 20 % utilization and more (a slower generation"
            " at rest is normal)",
        ),
        Rule(
            "fabric",
            "NVLink fabric",
            "The NVLink fabric of this GPU is not healthy: jobs on several GPUs fail.",
            "Look at nvidia-fabricmanager and its log, restart it, or reboot the host.",
            "`fabric/health` is unhealthy",
        ),
        Rule(
            "inforom",
            "infoROM corrupt",
            "The card's own memory with its serial number and error counts is damaged. It computes all the"
            " same; its health readings are not to be trusted.",
            "Reboot the host; if it stays, request a replacement.",
            "`WARNING: infoROM is corrupted at gpu ...`",
        ),
        Rule(
            "persistence-off",
            "persistence off",
            "The driver unloads when no process uses the GPU, so that each job starts a second or more"
            " later.",
            "Enable nvidia-persistenced, which keeps it loaded.",
            "persistence mode is disabled",
            Severity.NOTICE,
        ),
        Rule(
            "gpus-missing",
            "GPUs missing",
            "The host has fewer GPUs than `gpus` in the config.",
            "Look for the others with lspci and in the kernel log (dmesg), and reboot the host; if they"
            " were removed, correct `gpus`.",
            "the host has fewer than its `gpus = N`",
        ),
        Rule(
            "driver-differs",
            "other driver",
            "The host's driver differs from that of most hosts in its group.",
            "Install the same driver at the next maintenance.",
            "the driver is not the one that most hosts of the `group` have",
            Severity.NOTICE,
        ),
        Rule(
            ACKNOWLEDGED,
            "acknowledged",
            "A fault that the config acknowledges for this host: no event, no alert, and no mark.",
            "It counts again after its day.",
            "`ignore` in `[hosts.NAME]`",
            Severity.NOTICE,
        ),
        Rule(
            ACKNOWLEDGED_UNUSABLE,
            "acknowledged",
            "A fault that the config acknowledges for this host; the GPU cannot be used.",
            "It counts again after its day.",
            "`ignore` in `[hosts.NAME]`, of a rule that makes a GPU not usable",
            Severity.NOTICE,
            unusable=True,
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
    """What it means, and what to do about it."""
    return RULES[rule].explanation if rule in RULES else ""


def meaning(rule: str) -> str:
    return RULES[rule].meaning if rule in RULES else ""


def action(rule: str) -> str:
    """What to do about it, for whoever looks after the hosts."""
    return RULES[rule].action if rule in RULES else ""


def is_unusable(found: Iterable[Fault]) -> bool:
    return any(fault.rule in RULES and RULES[fault.rule].unusable for fault in found)


def acknowledged(fault: Fault, until: str) -> Fault:
    """The notice in its place. `until`: `until 2026-12-01`, or empty."""
    rule = ACKNOWLEDGED_UNUSABLE if is_unusable([fault]) else ACKNOWLEDGED
    known = f"{word(fault.rule)} {until}".strip()
    return Fault(rule, f"{known}: {fault.detail}" if fault.detail else known)


def is_acknowledged(fault: Fault) -> bool:
    return fault.rule in (ACKNOWLEDGED, ACKNOWLEDGED_UNUSABLE)
