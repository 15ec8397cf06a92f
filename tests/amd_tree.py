"""A /sys with AMD cards, as the kernel's documentation and code describe its files. No real machine was at hand.

Where each fact comes from:

    drm/cardN/device       the PCI device: vendor, device, revision, uevent, current_link_width and _speed, max_link_*,
                           power/runtime_status are of the PCI core (Documentation/ABI/testing/sysfs-bus-pci)
    gpu_busy_percent       Documentation/gpu/amdgpu/thermal.rst: percent, one number
    mem_info_vram_*, _gtt_*, unique_id    driver-misc.rst: bytes; 16 hex digits
    product_name, serial_number, vbios_version    driver-misc.rst: text of the FRU and of the card's own ROM
    hwmon/hwmonN           thermal.rst: temp1 edge, temp2 junction, temp3 memory in m°C, with _crit; power1_average
                           or power1_input and power1_cap in µW; fan1_input in rpm; pwm1 of pwm1_max, 255;
                           freq1_input is the clock of the shaders in Hz; in1_label is `vddnb`, of APUs only (pm/amdgpu_pm.c)
    ras/umc_err_count      ras.rst, amdgpu_ras.c: `ue: N`, `ce: N`, and in newer kernels `de: N`
    kfd/kfd/topology       amdkfd/kfd_topology.c: gpu_id is 0 for a CPU; location_id is bus << 8 | device << 3 |
                           function; the nodes of partitions have their number in bits 28 to 31, or, in kernels
                           before that, in place of the function
    kfd/kfd/proc/PID       amdkfd/kfd_process.c: vram_GPUID in bytes, sdma_GPUID in µs, for each process and GPU;
                           stats_GPUID/cu_occupancy only where the chip counts it
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

GIB = 2**30
IDS = "# List of AMDGPU IDs\n744C,\tC8,\tAMD Radeon RX 7900 XTX\n744C,\tCC,\tAMD Radeon RX 7900 XT\n1506,\tC1,\tAMD Radeon 610M\n"


@dataclass(frozen=True)
class Card:
    number: int
    slot: str
    device: str = "0x74a1"
    revision: str = "0x00"
    files: dict[str, str | None] = field(default_factory=dict)
    """What differs from an MI300X at rest; None: there is no such file."""
    gpu_ids: tuple[int, ...] = ()
    """One for each partition; empty: amdkfd does not know the card."""
    gfx: int = 90402
    in_function: bool = False
    """The partition's number stands in place of the function."""
    cpu_cores: int = 0

    def all_files(self) -> dict[str, str]:
        mi300x: dict[str, str | None] = {
            "vendor": "0x1002",
            "device": self.device,
            "revision": self.revision,
            "uevent": f"DRIVER=amdgpu\nPCI_CLASS=120000\nPCI_ID=1002:74A1\nPCI_SLOT_NAME={self.slot}",
            "product_name": "AMD Instinct MI300X OAM",
            "unique_id": f"{0xA1B2C3D400000000 + self.number:016x}",
            "gpu_busy_percent": "0",
            "mem_info_vram_used": str(286 * 2**20),
            "mem_info_vram_total": str(192 * GIB),
            "mem_info_gtt_used": str(30 * 2**20),
            "mem_info_gtt_total": str(1007 * GIB),
            "current_link_width": "16",
            "max_link_width": "16",
            "current_link_speed": "32.0 GT/s PCIe",
            "max_link_speed": "32.0 GT/s PCIe",
            "vbios_version": "113-M3000100-102",
            "serial_number": f"69230500{self.number:04}",
            "power/runtime_status": "active",
            "hwmon/hwmon7/name": "amdgpu",
            # MI300X has no edge: temp1 is not there.
            "hwmon/hwmon7/temp2_input": "41000",
            "hwmon/hwmon7/temp2_crit": "100000",
            "hwmon/hwmon7/temp3_input": "36000",
            "hwmon/hwmon7/temp3_crit": "105000",
            "hwmon/hwmon7/freq1_input": "132000000",
            "hwmon/hwmon7/power1_input": "133000000",
            "hwmon/hwmon7/power1_cap": "750000000",
            "ras/umc_err_count": "ue: 0\nce: 0\nde: 0",
            "ras/gfx_err_count": "ue: 0\nce: 0",
        }
        return {name: text for name, text in (mi300x | self.files).items() if text is not None}

    def location(self, partition: int) -> int:
        _, bus, rest = self.slot.split(":")
        place = int(bus, 16) << 8 | int(rest.split(".")[0], 16) << 3
        if len(self.gpu_ids) == 1:
            return place
        return place | partition if self.in_function else place | partition << 28


RADEON: dict[str, str | None] = {
    "product_name": None,
    "unique_id": None,
    "gpu_busy_percent": "97",
    "mem_info_vram_used": str(20 * GIB),
    "mem_info_vram_total": str(24 * GIB),
    "hwmon/hwmon7/temp1_input": "68000",
    "hwmon/hwmon7/temp1_crit": "100000",
    "hwmon/hwmon7/temp2_input": "84000",
    "hwmon/hwmon7/temp2_crit": "110000",
    "hwmon/hwmon7/power1_input": None,
    "hwmon/hwmon7/power1_average": "291000000",
    "hwmon/hwmon7/power1_cap": "303000000",
    "hwmon/hwmon7/fan1_input": "1630",
    "hwmon/hwmon7/pwm1": "102",
    "hwmon/hwmon7/pwm1_max": "255",
    "ras/umc_err_count": None,
    "ras/gfx_err_count": None,
}
APU: dict[str, str | None] = RADEON | {
    "mem_info_vram_used": str(400 * 2**20),
    "mem_info_vram_total": str(512 * 2**20),
    "mem_info_gtt_used": str(3 * GIB),
    "mem_info_gtt_total": str(62 * GIB),
    "hwmon/hwmon7/in1_label": "vddnb",
    "hwmon/hwmon7/pwm1": None,
}


def radeon(number: int = 1, slot: str = "0000:03:00.0", **files: str | None) -> Card:
    return Card(
        number,
        slot,
        "0x744c",
        "0xc8",
        RADEON | {k.replace("__", "/"): v for k, v in files.items()},
        (51140,),
        110000,
    )


def build(sys: Path, cards: list[Card], processes: dict[int, dict[str, str]] | None = None) -> Path:
    """`processes`: PID to its files in amdkfd. Returns `sys`."""
    write(sys / "module/amdgpu/initstate", "live")
    for card in cards:
        for name, text in card.all_files().items():
            write(sys / f"class/drm/card{card.number}/device" / name, text)
        # Its connectors are beside it.
        write(sys / f"class/drm/card{card.number}-DP-1/status", "disconnected")
    nodes = sys / "class/kfd/kfd/topology/nodes"
    write(nodes / "0/gpu_id", "0")
    write(nodes / "0/properties", "cpu_cores_count 64\nsimd_count 0\nlocation_id 0\ndomain 0")
    number = 0
    for card in cards:
        for partition, gpu_id in enumerate(card.gpu_ids):
            number += 1
            write(nodes / f"{number}/gpu_id", str(gpu_id))
            domain = int(card.slot.split(":")[0], 16)
            write(
                nodes / f"{number}/properties",
                f"cpu_cores_count {card.cpu_cores}\nsimd_count 1216\nmem_banks_count 1\ngfx_target_version {card.gfx}\n"
                f"vendor_id 4098\nlocation_id {card.location(partition)}\ndomain {domain}\nunique_id 1",
            )
    (sys / "class/kfd/kfd/proc").mkdir(parents=True, exist_ok=True)
    for pid, files in (processes or {}).items():
        for name, text in files.items():
            write(sys / f"class/kfd/kfd/proc/{pid}" / name, text)
    return sys


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
