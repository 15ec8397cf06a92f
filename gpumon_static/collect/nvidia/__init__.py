"""NVIDIA: the probe's `smi` sections come in, `Gpu` records with their faults go out.

All code that depends on what nvidia-smi prints is here. Texts for users, and what a fault means, are not.
"""

from __future__ import annotations

from pathlib import Path

from gpumon_static.collect.nvidia import integrated, smi
from gpumon_static.collect.values import whole
from gpumon_static.collect.vendor import HostScript, Sections, VendorReader, VendorReport
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from gpumon_static.system.command import Command


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


READER = VendorReader(
    read=read,
    absent=Status.NO_NVIDIA_SMI,
    section=Path(__file__).with_name("section.sh"),
    begins=b" smi-stderr\n",
    ends=b" smi-status\n",
    advice={
        Status.NO_NVIDIA_SMI: (
            HostScript(Command.of("find", "/", "-xdev", "-name", "nvidia-smi", "-type", "f")),
            'elsewhere than searched?  [hosts.NAME] nvidia_smi = "PATH"',
            "no GPU in it? remove it from common.hosts; no driver? install it",
        ),
        Status.DRIVER: (
            HostScript(Command.constant("nvidia-smi; cat /proc/driver/nvidia/version")),
            "after an update of the driver: reboot the host",
            HostScript(Command.of("modprobe", "nvidia").by("root")),
        ),
        Status.NO_GPUS: (
            HostScript(Command.constant("lspci | grep -i nvidia")),
            HostScript(Command.constant("dmesg | grep -i nvrm | tail").by("root")),
        ),
        Status.TIMEOUT: (HostScript(Command.constant("time nvidia-smi")),),
    },
    look=(HostScript(Command.constant("lspci | grep -i nvidia; nvidia-smi -L")),),
    slow=(
        HostScript(Command.constant("time nvidia-smi")),
        "most often the driver is loaded again each time:",
        HostScript(Command.of("systemctl", "enable", "--now", "nvidia-persistenced").by("root")),
    ),
)
