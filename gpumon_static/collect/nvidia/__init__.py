"""NVIDIA: the probe's `smi` sections come in, `Gpu` records with their faults go out.

All code that depends on what nvidia-smi prints is here. Texts for users, and what a fault means, are not.
"""

from __future__ import annotations

from gpumon_static.collect.nvidia import smi
from gpumon_static.collect.values import whole
from gpumon_static.collect.vendor import Sections, Vendor, VendorReport


def read(sections: Sections) -> VendorReport:
    return smi.parse(
        sections.get("smi", ""),
        sections.get("smi-stderr", ""),
        whole(sections.get("smi-status")) or 0,
        sections.get("smi-list", ""),
    )


VENDOR = Vendor("nvidia", "nvidia-smi", read, begins=b" smi-stderr\n", ends=b" smi-status\n")
