"""Short names of GPU models: the one place with the rules.

NVIDIA A100-SXM4-80GB                 A100 80G
Tesla V100S-PCIE-32GB                 V100S 32G
NVIDIA GeForce RTX 3050 Laptop GPU    RTX 3050 Laptop
AMD Instinct MI300X OAM               MI300X
AMD Radeon RX 7900 XTX                RX 7900 XTX
"""

from __future__ import annotations

import re
from functools import lru_cache

from gpumon_static.model import Gpu, MigDevice
from gpumon_static.text import PROFILE_LETTERS, clip

MOST_LETTERS = 32

# Maker, product line and form factor do not matter for where to run.
_NOISE = re.compile(
    r"\b(?:NVIDIA|Tesla|GeForce|Quadro|GRID(?= K)|Generation|GPU|PCIe|SXM\d?|HBM\d\w?"
    r"|AMD(?! 1002:)|Instinct|Radeon(?= (?:RX|Pro|AI|VII|Graphics|\d))|\(TM\)|OAM"
    r"|(?:Server|Workstation|Max-Q Workstation) Edition)\b",
    re.IGNORECASE,
)
_MEMORY = re.compile(r"\b(\d+) ?GB(?:_\d+)?\b", re.IGNORECASE)
_LOOSE_HYPHENS = re.compile(r"(?:^|\s|-)-+(?=\s|-|$|\d+G\b)|-+(?=\s|$)")


@lru_cache(maxsize=1024)
def short_model(name: str | None) -> str:
    if name is None:
        return "unknown model"
    short = _MEMORY.sub(r"\1G", _NOISE.sub("", name))
    short = " ".join(_LOOSE_HYPHENS.sub(" ", short).split())
    return clip(short or name, MOST_LETTERS)


def slice_model(mig: MigDevice, gpu: Gpu) -> str:
    """The short name of a slice: its profile first, because that differs, and is left where room is short."""
    return f"{clip(mig.profile or 'MIG', PROFILE_LETTERS)} {short_model(gpu.name)}"
