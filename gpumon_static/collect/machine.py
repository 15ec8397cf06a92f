"""The probe's sections about the machine itself.

load     12.10 11.87 11.50 13/2210 4242
cpus     64
memory   MemTotal:  528280608 kB
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpumon_static.collect.text import number
from gpumon_static.model import Machine


def parse(sections: Mapping[str, str]) -> Machine:
    loads = [number(word) for word in sections.get("load", "").split()[:3]]
    load_1m, load_5m, load_15m = loads if len(loads) == 3 else (None, None, None)
    cpus = number(sections.get("cpus", ""))
    kib = {
        k: float(v) for k, v in re.findall(r"^(\w+):\s+(\d+) kB", sections.get("memory", ""), re.MULTILINE)
    }
    total, available = kib.get("MemTotal"), _available(kib)
    return Machine(
        cpu_count=int(cpus) if cpus else None,
        load_1m=load_1m,
        load_5m=load_5m,
        load_15m=load_15m,
        ram_total_mib=_mib(total),
        ram_used_mib=_mib(total - available) if total is not None and available is not None else None,
    )


def _available(kib: Mapping[str, float]) -> float | None:
    """Kernels before 3.14 have no MemAvailable."""
    parts = [kib.get(name) for name in ("MemFree", "Buffers", "Cached")]
    old_style = sum(part for part in parts if part is not None) if None not in parts else None
    return kib.get("MemAvailable", old_style)


def _mib(kib: float | None) -> float | None:
    return None if kib is None else float(round(kib / 1024))
