"""What a vendor is: the seam between the probe's sections and `Gpu` records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpumon_static.model import Gpu

Sections = Mapping[str, str]


@dataclass(frozen=True)
class VendorReport:
    """All that a vendor's section of the probe says."""

    gpus: tuple[Gpu, ...]
    driver_version: str | None = None
    cuda_version: str | None = None
    warning: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Vendor:
    name: str
    tool: str
    """What is run, or read, on the host; for people."""
    read: Callable[[Sections], VendorReport]
    """Raises `HostError` where there is no GPU of this vendor, or it cannot be read."""
    begins: bytes
    """The probe prints this when it starts the tool, and `ends` when the tool has ended."""
    ends: bytes
