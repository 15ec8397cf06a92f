"""AMD: the probe's `amd` sections come in, `Gpu` records with their faults go out.

All code that depends on the files of amdgpu and amdkfd is here. Where each fact about them comes from is
written beside it: the kernel's Documentation/gpu/amdgpu (thermal.rst, driver-misc.rst, ras.rst), and
drivers/gpu/drm/amd (pm/amdgpu_pm.c, amdgpu/amdgpu_ras.c, amdkfd/kfd_topology.c, amdkfd/kfd_process.c).
"""

from __future__ import annotations

from pathlib import Path

from gpumon_static.collect.amd import cards, tree
from gpumon_static.collect.values import whole
from gpumon_static.collect.vendor import HostScript, Sections, VendorReader, VendorReport
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from gpumon_static.system.command import Command

HUNG = {124, 137}
"""Exit statuses of a reader that was ended."""


def read(sections: Sections) -> VendorReport:
    if "amd" not in sections and "amd-status" not in sections:
        raise HostError(Status.NO_GPU_TOOL, "there is no AMD GPU with its compute driver (amdgpu, amdkfd)")
    if whole(sections.get("amd-status")) in HUNG:
        raise HostError(Status.TIMEOUT, "the files of amdgpu could not be read in time: the driver may hang")
    found = tree.parse(sections.get("amd", ""), sections.get("amd-names", ""))
    gpus = cards.gpus(found)
    if not gpus:
        raise HostError(Status.NO_GPUS, "an AMD GPU is there, and amdkfd lists none for computing")
    return VendorReport(gpus=gpus, driver_version=found.driver)


READER = VendorReader(
    read=read,
    absent=Status.NO_GPU_TOOL,
    section=Path(__file__).with_name("section.sh"),
    begins=b" amd\n",
    ends=b" amd-status\n",
    advice={
        Status.NO_GPU_TOOL: (
            HostScript(
                Command.constant(
                    "ls /sys/class/kfd/kfd/topology/nodes; cat /sys/class/drm/card*/device/vendor"
                )
            ),
            "no kfd there? the kernel needs CONFIG_HSA_AMD, and the driver:",
            HostScript(Command.of("modprobe", "amdgpu").by("root")),
        ),
        Status.NO_GPUS: (
            HostScript(
                Command.constant("cat /sys/class/kfd/kfd/topology/nodes/*/gpu_id"),
                "only zeros: no GPU that can compute",
            ),
            HostScript(Command.constant('dmesg | grep -iE "amdgpu|kfd" | tail -20').by("root")),
        ),
        Status.TIMEOUT: (
            HostScript(Command.constant("time cat /sys/class/drm/card*/device/gpu_busy_percent")),
        ),
    },
    look=(
        HostScript(
            Command.constant("lspci | grep -i amd/ati; cat /sys/class/kfd/kfd/topology/nodes/*/gpu_id")
        ),
    ),
    slow=(HostScript(Command.constant("time cat /sys/class/drm/card*/device/gpu_busy_percent")),),
)
