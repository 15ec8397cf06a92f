"""The rules of health on the page: which faults it shows, with which words, and those of whole hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpumon_static.health import RULES, faults
from gpumon_static.model import Fault, HostReading
from gpumon_static.publish.page import Attention, FaultRow
from gpumon_static.publish.words import clip, count, natural_key

if TYPE_CHECKING:
    from gpumon_static.config import HostConfig
    from gpumon_static.model import Gpu

DETAIL_LETTERS = 96
ON_ITS_GPU = {"lost", "inforom"}
"""Rules whose line of nvidia-smi need not be told again for the host."""


def without(readings: Iterable[HostReading], ignored: Collection[str]) -> list[HostReading]:
    """The readings without the faults that the config says to pass over."""
    return [
        replace(
            reading,
            gpus=tuple(
                replace(gpu, faults=tuple(f for f in gpu.faults if f.rule not in ignored))
                for gpu in reading.gpus
            ),
        )
        for reading in readings
    ]


def word(fault: Fault) -> str:
    return RULES[fault.rule].word if fault.rule in RULES else clip(fault.rule, DETAIL_LETTERS)


def card_word(gpu: Gpu) -> str:
    """What the card says: the first fault, which is the worst one, and how many more there are."""
    found = faults(gpu.faults)
    more = f" +{len(found) - 1}" if len(found) > 1 else ""
    return word(found[0]) + more if found else ""


def fault_rows(gpu: Gpu) -> tuple[FaultRow, ...]:
    marked = faults(gpu.faults)
    return tuple(
        FaultRow(
            word=word(fault),
            detail=clip(fault.detail, DETAIL_LETTERS) if fault.detail else "",
            explanation=RULES[fault.rule].explanation if fault.rule in RULES else "",
            is_fault=fault in marked,
        )
        for fault in gpu.faults
    )


def gpu_attention(anchor: str, host: str, gpus: Iterable[Gpu]) -> tuple[Attention, ...]:
    """A line for each GPU with a fault: node03 GPU 5: ECC errors."""
    found = [(gpu, faults(gpu.faults)) for gpu in gpus]
    return tuple(
        Attention(anchor, host, f"GPU {gpu.index}: {', '.join(word(fault) for fault in marked)}")
        for gpu, marked in found
        if marked
    )


def host_faults(host: HostConfig, reading: HostReading, ignored: Collection[str]) -> list[str]:
    told = []
    if host.gpus is not None and len(reading.gpus) < host.gpus and "gpus-missing" not in ignored:
        told.append(f"{host.gpus - len(reading.gpus)} of {count(host.gpus, 'GPU')} missing")
    on_a_gpu = any(fault.rule in ON_ITS_GPU for gpu in reading.gpus for fault in gpu.faults)
    if reading.warning and not on_a_gpu:
        told.append(reading.warning)
    return told


def usual_drivers(
    hosts: Sequence[HostConfig], readings: Mapping[str, HostReading], ignored: Collection[str]
) -> dict[str, str]:
    """For each host whose driver is another than that of most of its group: that of most."""
    if "driver-differs" in ignored:
        return {}
    versions: dict[str, list[tuple[str, str]]] = {}
    for host in hosts:
        reading = readings.get(host.name)
        if host.group and reading and reading.driver_version:
            versions.setdefault(host.group, []).append((host.name, reading.driver_version))
    return {
        name: usual
        for group in versions.values()
        for usual in [_most_common([version for _, version in group])]
        for name, version in group
        if version != usual
    }


def _most_common(versions: Sequence[str]) -> str:
    """Of two that are as common, the newer one: the other hosts are still to be updated."""
    counted = Counter(versions)
    return max(counted, key=lambda version: (counted[version], natural_key(version)))
