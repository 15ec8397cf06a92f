"""A reading to the files that AMD's driver has in /sys and libdrm in /usr/share, by name.

tests/amd_tree.py has where each fact about them comes from.
"""

from __future__ import annotations

from gpumon_static.demo.lab import DemoGpu, DemoHost
from gpumon_static.model import Gpu, HostReading

FIRST_ID = 40_000
"""Of the GPUs' ids in amdkfd, which are otherwise made of the hardware."""
MIB = 2**20


def files(host: DemoHost, reading: HostReading) -> dict[str, str]:
    found = {
        "sys/module/amdgpu/version": host.driver,
        "sys/class/kfd/kfd/topology/nodes/0/gpu_id": "0",
        # The directory is there also without a process in it.
        "sys/class/kfd/kfd/proc/.none": "",
    }
    names = []
    for demo, gpu in zip(host.gpus, reading.gpus, strict=True):
        found |= _card(demo, gpu) | _node(gpu) | _processes(gpu)
        names.append(",\t".join([*demo.model.pci_id.upper().split(), demo.model.name]))
    found["share/libdrm/amdgpu.ids"] = "\n".join(dict.fromkeys(names))
    return {name: f"{text}\n" for name, text in found.items()}


LINK_SPEEDS = {1: "2.5 GT/s PCIe", 4: "16.0 GT/s PCIe"}
"""By the generation of PCIe."""


def _card(demo: DemoGpu, gpu: Gpu) -> dict[str, str]:
    device, revision = demo.model.pci_id.split()
    edge = {} if demo.model.has_ecc else _sensor("temp1", gpu)
    fan = {"pwm1": _pwm(gpu.fan_percent), "pwm1_max": "255"} if demo.model.has_fan else {}
    hwmon = (
        edge
        | fan
        | _sensor("temp2", gpu)
        | {
            "freq1_input": str(round((gpu.clock_sm_mhz or 0) * 1e6)),
            "power1_average": str(round((gpu.power_w or 0) * 1e6)),
            "power1_cap": str(round((gpu.power_limit_w or 0) * 1e6)),
        }
    )
    own = {
        "vendor": "0x1002",
        "device": f"0x{device}",
        "revision": f"0x{revision}",
        "uevent": f"DRIVER=amdgpu\nPCI_SLOT_NAME={gpu.bus_id}",
        "unique_id": (gpu.uuid or "").removeprefix("GPU-"),
        "gpu_busy_percent": f"{gpu.utilization or 0:.0f}",
        "mem_info_vram_used": _bytes(gpu.memory_used_mib),
        "mem_info_vram_total": _bytes(gpu.memory_total_mib),
        "current_link_width": str(gpu.pcie_width),
        "max_link_width": str(gpu.pcie_width_max),
        "current_link_speed": LINK_SPEEDS[gpu.pcie_generation or 1],
        "max_link_speed": LINK_SPEEDS[gpu.pcie_generation_max or 1],
        "vbios_version": gpu.vbios or "",
        "serial_number": gpu.serial or "",
        "ras/umc_err_count": "ue: 0\nce: 0",
        **{f"hwmon/hwmon1/{name}": text for name, text in hwmon.items()},
    }
    return {f"sys/class/drm/card{gpu.index}/device/{name}": text for name, text in own.items()}


def _node(gpu: Gpu) -> dict[str, str]:
    bus = int((gpu.bus_id or "").split(":")[1], 16)
    node = f"sys/class/kfd/kfd/topology/nodes/{gpu.index + 1}"
    return {
        f"{node}/gpu_id": str(FIRST_ID + gpu.index),
        f"{node}/properties": f"cpu_cores_count 0\nlocation_id {bus << 8}\ndomain 0",
    }


def _processes(gpu: Gpu) -> dict[str, str]:
    return {
        f"sys/class/kfd/kfd/proc/{process.pid}/vram_{FIRST_ID + gpu.index}": _bytes(process.memory_mib)
        for process in gpu.processes
    }


def _bytes(mib: float | None) -> str:
    return str(round((mib or 0) * MIB))


def _sensor(name: str, gpu: Gpu) -> dict[str, str]:
    limit = _thousandths(gpu.temperature_limit_c)
    return {f"{name}_input": _thousandths(gpu.temperature_c), f"{name}_crit": limit}


def _thousandths(value: float | None) -> str:
    return str(round((value or 0) * 1000))


def _pwm(percent: float | None) -> str:
    return str(round((percent or 0) * 2.55))
