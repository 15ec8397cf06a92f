"""The GPU models of the demo lab, with numbers as the real ones show them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuModel:
    name: str
    architecture: str
    memory_mib: int
    reserved_mib: int
    idle_w: float
    limit_w: float
    idle_c: int
    full_c: int
    clock_mhz: int
    has_fan: bool = False
    """Cards for servers have none of their own: `N/A`."""
    has_ecc: bool = True
    can_mig: bool = False
    vendor: str = "nvidia"
    pci_id: str = ""
    """Device and revision, where the card is known by them."""

    @property
    def slow_c(self) -> int:
        """Where it slows down."""
        return self.full_c + 21


@dataclass(frozen=True)
class MigProfile:
    name: str
    memory_mib: int
    multiprocessors: int


A100_SXM = GpuModel("NVIDIA A100-SXM4-80GB", "Ampere", 81920, 634, 62, 400, 30, 66, 1410, can_mig=True)
A100_PCIE = GpuModel("NVIDIA A100 80GB PCIe", "Ampere", 81920, 634, 44, 300, 33, 71, 1410, can_mig=True)
H100 = GpuModel("NVIDIA H100 80GB HBM3", "Hopper", 81559, 480, 71, 700, 29, 68, 1980, can_mig=True)
L40S = GpuModel("NVIDIA L40S", "Ada Lovelace", 46068, 550, 33, 350, 31, 67, 2520)
V100_SXM = GpuModel("Tesla V100-SXM2-32GB", "Volta", 32510, 0, 42, 300, 32, 64, 1530)
V100_PCIE = GpuModel("Tesla V100-PCIE-16GB", "Volta", 16384, 224, 26, 250, 34, 72, 1380)
T4 = GpuModel("Tesla T4", "Turing", 15360, 448, 10, 70, 37, 78, 1590)
RTX_3090 = GpuModel(
    "NVIDIA GeForce RTX 3090", "Ampere", 24576, 310, 22, 350, 34, 74, 2100, has_fan=True, has_ecc=False
)
RTX_4090 = GpuModel(
    "NVIDIA GeForce RTX 4090", "Ada Lovelace", 24564, 348, 16, 450, 33, 69, 3105, has_fan=True, has_ecc=False
)
RTX_A6000 = GpuModel("NVIDIA RTX A6000", "Ampere", 49140, 456, 23, 300, 35, 79, 2100, has_fan=True)
MI300X = GpuModel(
    "AMD Instinct MI300X OAM", "CDNA 3", 196592, 0, 138, 750, 36, 78, 2100, vendor="amd", pci_id="74a1 00"
)
RX_7900 = GpuModel(
    "AMD Radeon RX 7900 XTX", "RDNA 3", 24560, 0, 14, 303, 38, 76, 2500,
    has_fan=True, has_ecc=False, vendor="amd", pci_id="744c c8",
)  # fmt: skip

SLICE_3G = MigProfile("3g.40gb", 40192, 42)
SLICE_2G = MigProfile("2g.20gb", 19968, 28)
SLICE_1G = MigProfile("1g.10gb", 9728, 14)
