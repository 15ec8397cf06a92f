"""Short names of GPU models."""

from __future__ import annotations

import pytest

from gpumon_static.survey.names import short_model


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100 80G"),
        ("NVIDIA A100 80GB PCIe", "A100 80G"),
        ("NVIDIA A100-PCIE-40GB", "A100 40G"),
        ("NVIDIA H100 80GB HBM3", "H100 80G"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GB300 NVL", "GB300 NVL"),
        ("Tesla V100-SXM2-16GB", "V100 16G"),
        ("Tesla V100S-PCIE-32GB", "V100S 32G"),
        ("Tesla P100-PCIE-12GB_2", "P100 12G"),
        ("Tesla K80", "K80"),
        ("GRID K520", "K520"),
        ("GeForce GTX 1080 Ti", "GTX 1080 Ti"),
        ("GeForce GTX 1060 6GB", "GTX 1060 6G"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA GeForce RTX 3050 Laptop GPU", "RTX 3050 Laptop"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("NVIDIA RTX A5000", "RTX A5000"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell"),
        ("Quadro RTX 6000", "RTX 6000"),
        ("TITAN Xp", "TITAN Xp"),
        ("AMD Instinct MI300X OAM", "MI300X"),
        ("AMD Instinct MI250X / MI250", "MI250X / MI250"),
        ("AMD Radeon RX 7900 XTX", "RX 7900 XTX"),
        ("AMD Radeon Pro W7900", "Pro W7900"),
        ("AMD Radeon VII", "VII"),
        ("AMD 1002:74a1", "AMD 1002:74a1"),
        ("NVIDIA", "NVIDIA"),
        (None, "unknown model"),
        ("x" * 40, "x" * 31 + "…"),
    ],
)
def test_short_model(name: str | None, short: str) -> None:
    assert short_model(name) == short
