"""NVIDIA: the probe's `smi` sections come in, `Gpu` records with their faults go out.

All code that depends on what nvidia-smi prints is here. Texts for users, and what a fault means, are not.
"""

from __future__ import annotations

from pathlib import Path

from gpumon_static.collect.nvidia import integrated, smi
from gpumon_static.collect.values import whole
from gpumon_static.collect.vendor import Reader, Sections, VendorReport
from gpumon_static.errors import HostError
from gpumon_static.model import Status


def read(sections: Sections) -> VendorReport:
    if not sections.keys() & {"smi", "smi-status"}:
        raise HostError(Status.NO_NVIDIA_SMI, "the probe was not asked for NVIDIA's GPUs")
    report = smi.parse(
        sections.get("smi", ""),
        sections.get("smi-stderr", ""),
        whole(sections.get("smi-status")) or 0,
        sections.get("smi-list", ""),
    )
    return integrated.with_shared_memory(report, sections)


READER = Reader(
    tool="nvidia-smi",
    read=read,
    absent=Status.NO_NVIDIA_SMI,
    section=Path(__file__).with_name("section.sh"),
    begins=b" smi-stderr\n",
    ends=b" smi-status\n",
    advice={
        Status.NO_NVIDIA_SMI: (
            "{ssh} 'command -v nvidia-smi; ls -l /usr/bin/nvidia-smi'",
            "no GPU in it? remove it from common.hosts; no driver? install it",
        ),
        Status.DRIVER: (
            "{ssh} 'nvidia-smi; cat /proc/driver/nvidia/version'",
            "after an update of the driver: reboot the host; else: sudo modprobe nvidia",
        ),
        Status.NO_GPUS: ("{ssh} 'lspci | grep -i nvidia'", "{ssh} 'sudo dmesg | grep -i nvrm | tail'"),
        Status.TIMEOUT: ("{ssh} 'time nvidia-smi'",),
    },
    look=("{ssh} 'lspci | grep -i nvidia; nvidia-smi -L'",),
    slow=(
        "{ssh} 'time nvidia-smi'",
        "most often the driver is loaded again each time: sudo systemctl enable --now nvidia-persistenced",
    ),
)
