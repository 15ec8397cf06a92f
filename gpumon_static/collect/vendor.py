"""The interface of a vendor: from the probe's sections to `Gpu` records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpumon_static.model import Gpu

Sections = Mapping[str, str]


@dataclass(frozen=True)
class VendorReport:
    """Everything read from a vendor's section of the probe."""

    gpus: tuple[Gpu, ...]
    driver_version: str | None = None
    cuda_version: str | None = None
    warning: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Vendor:
    name: str
    tool: str
    """What is run, or read, on the host; shown to users."""
    read: Callable[[Sections], VendorReport]
    """Raises `HostError` where there is no GPU of this vendor, or it cannot be read."""
    begins: bytes
    """The probe prints this when it starts the tool, and `ends` when the tool has ended."""
    ends: bytes
