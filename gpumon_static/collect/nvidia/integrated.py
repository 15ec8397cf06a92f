"""GPUs that have the CPU's memory and none of their own: nvidia-smi reports `N/A` for both values.

GB10 (DGX Spark) reports utilization, power and its processes with their memory; Orin and Thor report next to
nothing. GH200 and GB200 have memory of their own, report it, and are not meant.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gpumon_static.collect.probe import machine
from gpumon_static.collect.vendor import Sections, VendorReport
from gpumon_static.model import Gpu

_NAME = re.compile(r"\b(?:GB10|Thor|Orin|Xavier|Tegra|Jetson)\b", re.IGNORECASE)


def with_shared_memory(report: VendorReport, sections: Sections) -> VendorReport:
    """The report; the memory of a single integrated GPU is the host's RAM."""
    if len(report.gpus) != 1 or not _is_integrated(report.gpus[0]):
        return report
    host = machine.parse(sections)
    gpu = replace(
        report.gpus[0],
        memory_used_mib=host.ram_used_mib,
        memory_total_mib=host.ram_total_mib,
        memory_shared=True,
    )
    return replace(report, gpus=(gpu,))


def _is_integrated(gpu: Gpu) -> bool:
    unknown = gpu.memory_used_mib is None and gpu.memory_total_mib is None
    return unknown and bool(gpu.name and _NAME.search(gpu.name))
