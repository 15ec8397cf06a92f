"""The interface of a vendor: from the probe's sections to `Gpu` records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpumon_static.model import Gpu, Status

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
class Reader:
    """What a folder of `collect/` has for one vendor, as its `READER`."""

    tool: str
    """What is run, or read, on the host; shown to users."""
    read: Callable[[Sections], VendorReport]
    """Raises `HostError`: with the status `absent` where there is nothing of this vendor, else with why its
    GPUs cannot be read."""
    absent: Status
    section: Path
    """Its part of the probe: a file of functions."""
    begins: bytes
    """The probe prints this when it starts to read, and `ends` when that has ended."""
    ends: bytes
    advice: Mapping[Status, tuple[str, ...]]
    """Its statuses, and what to do about each: command lines with `{ssh}` before them, or a sentence."""
    look: tuple[str, ...]
    """What to look at where GPUs are missing, in the same form."""
    slow: tuple[str, ...]
    """What to do where reading takes long."""
