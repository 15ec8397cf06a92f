"""The vendors of GPUs: one entry each. What is read of their cards is in `collect/`, a folder by that name.

Everything that differs by vendor outside `collect/` is a field here. No other module compares with a name.
"""

from __future__ import annotations

from typing import NamedTuple


class Vendor(NamedTuple):
    name: str
    """In the config, in files for scripts, and of the folder in `collect/`."""
    word: str
    """As the vendor writes itself."""
    environment: str
    """What chooses devices for a program: a shell's assignment, to which their numbers are appended."""


VENDORS = {
    vendor.name: vendor
    for vendor in (
        Vendor("nvidia", "NVIDIA", "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES="),
        # ROCR_VISIBLE_DEVICES takes the same numbers. Never both: HIP counts what ROCR has left of them.
        Vendor("amd", "AMD", "HIP_VISIBLE_DEVICES="),
    )
}
"""In the order in which a host with several of them lists its GPUs."""

FIRST = next(iter(VENDORS.values()))
"""The one of all GPUs in files of release 0.1.0."""
ANY = "any"


def vendor_of(name: str | None) -> Vendor:
    """A vendor by its name; files of another release may have a name that is not known here, or none."""
    return VENDORS.get(name or "", FIRST)
