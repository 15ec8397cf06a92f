"""The interface of a vendor: from the probe's sections to `Gpu` records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gpumon_static.model import Gpu, Status
from gpumon_static.system.command import Command

Sections = Mapping[str, str]


class HostScript(NamedTuple):
    """A line for a shell on the host, to see more there. Not by ssh: our key may be for the probe only."""

    command: Command
    meaning: str = ""
    """Of what it shows."""


Advice = tuple[HostScript | str, ...]
"""What to do next: looks at the host, and sentences."""


@dataclass(frozen=True)
class VendorReport:
    """Everything read from a vendor's section of the probe."""

    gpus: tuple[Gpu, ...]
    driver_version: str | None = None
    cuda_version: str | None = None
    warning: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class VendorReader:
    """What a folder of `collect/` has for one vendor, as its `READER`."""

    read: Callable[[Sections], VendorReport]
    """Raises `HostError`: with the status `absent` where there is nothing of this vendor, else with why its
    GPUs cannot be read."""
    absent: Status
    section: Path
    """Its part of the probe: a file of functions."""
    begins: bytes
    """The probe prints this when it starts to read, and `ends` when that has ended."""
    ends: bytes
    advice: Mapping[Status, Advice]
    """Its statuses, and what to do about each."""
    look: Advice
    """What to look at where GPUs are missing."""
    slow: Advice
    """What to do where reading takes long."""
