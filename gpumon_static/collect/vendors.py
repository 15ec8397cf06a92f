"""The vendors whose GPUs we read. One entry each; nothing else asks which vendor a GPU is of.

To add one: a folder beside `nvidia/` with its parser and its faults, its section in probe/probe.sh, and a
line in `VENDORS`.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpumon_static.collect import nvidia
from gpumon_static.collect.vendor import Vendor, VendorReport

VENDORS: tuple[Vendor, ...] = (nvidia.VENDOR,)


def read_gpus(sections: Mapping[str, str]) -> VendorReport:
    """The GPUs of a host, of all vendors. Raises `HostError` where none of them has any."""
    reports = [vendor.read(sections) for vendor in VENDORS]
    return reports[0]
