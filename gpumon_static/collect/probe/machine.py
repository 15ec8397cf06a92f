"""The probe's sections about the host itself: load, CPU, RAM, disks.

load     12.10 11.87 11.50 13/2210 4242
uptime   350735.47
cpus     64
cpu      two readings of the first line of /proc/stat: user nice system idle iowait irq softirq steal
memory   MemTotal:  528280608 kB
disks    0 /dev/nvme0n1p2    479079112 61234148 393432936      14% /
         whether it spins, then a line of df
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpumon_static.collect.values import lines, number, whole
from gpumon_static.model import Disk, Machine
from gpumon_static.text import one_line

MOST_DISKS = 10_000
"""Lines of df that are read."""
LONGEST_LINE = 8192
"""Characters; of two paths, as long as Linux allows."""

_MEMORY = re.compile(
    r"^(MemTotal|MemFree|MemAvailable|Buffers|Cached|SwapTotal|SwapFree):[ \t]+(\d{1,18}) kB", re.MULTILINE
)
# Four columns of numbers, and the first word of a mount point.
_NUMBERS = tuple(re.compile(form) for form in (r"\d{1,18}", r"\d{1,18}", r"-?\d{1,18}", r"\d{1,18}%", r"/.*"))
_IDLE = slice(3, 5)
"""idle and iowait."""


def parse(sections: Mapping[str, str]) -> Machine:
    loads = [number(word) for word in sections.get("load", "").split(maxsplit=3)[:3]]
    load_1m, load_5m, load_15m = loads if len(loads) == 3 else (None, None, None)
    kib = {match[1]: float(match[2]) for match in _MEMORY.finditer(sections.get("memory", ""))}
    uptime = number(sections.get("uptime"))
    swap_total = kib.get("SwapTotal")
    return Machine(
        cpu_count=whole(sections.get("cpus")) or None,
        load_1m=load_1m,
        load_5m=load_5m,
        load_15m=load_15m,
        ram_total_mib=_mib(kib.get("MemTotal")),
        ram_used_mib=_mib(_difference(kib.get("MemTotal"), _available(kib))),
        cpu_utilization=cpu_utilization(sections.get("cpu", "")),
        swap_total_mib=_mib(swap_total),
        swap_used_mib=_mib(_difference(swap_total, kib.get("SwapFree"))),
        uptime_s=int(uptime) if uptime is not None else None,
        disks=parse_disks(sections.get("disks", "")),
    )


def cpu_utilization(text: str) -> float | None:
    """Percent of the time between two readings that was not idle."""
    found = (_numbers(line) for line in lines(text, most=100))
    readings = [numbers for numbers in found if len(numbers) >= 4]
    if len(readings) != 2:
        return None
    before, after = readings
    passed = [b - a for a, b in zip(before, after, strict=False)]
    total, idle = sum(passed), sum(passed[_IDLE])
    # Counters of a guest, or of iowait, have been seen to go back.
    return round(100 * min(1.0, max(0.0, 1 - idle / total)), 1) if total > 0 else None


def parse_disks(text: str) -> tuple[Disk, ...]:
    """Each mount point once: a directory that is none is the disk it lies on."""
    found: dict[str, Disk] = {}
    for line in lines(text, MOST_DISKS):
        if disk := _disk(line[:LONGEST_LINE]):
            found.setdefault(disk.mount, disk)
    return tuple(found.values())


def _disk(line: str) -> Disk | None:
    """The name of a CIFS share may have blanks, and a mount point too: the numbers stand between them."""
    if line[:2] not in ("0 ", "1 ", "- "):
        return None
    words = line[2:].split()
    for start in range(len(words) - len(_NUMBERS) + 1):
        here = words[start : start + len(_NUMBERS)]
        if all(form.fullmatch(word) for form, word in zip(_NUMBERS, here, strict=True)):
            mount = one_line(" ".join(words[start + len(_NUMBERS) - 1 :])) or "/"
            spins = {"0": False, "1": True}.get(line[0])
            return Disk(mount, _mib(float(here[1])), _mib(float(here[0])), spins)
    return None


def _numbers(line: str) -> list[int]:
    """Of a line that has nothing else, and no more than the kernel's ten."""
    words = line.split(maxsplit=16)
    return [int(word) for word in words] if all(w.isdecimal() and len(w) < 20 for w in words) else []


def _available(kib: Mapping[str, float]) -> float | None:
    """Kernels before 3.14 have no MemAvailable."""
    parts = [kib.get(name) for name in ("MemFree", "Buffers", "Cached")]
    old_style = sum(part for part in parts if part is not None) if None not in parts else None
    return kib.get("MemAvailable", old_style)


def _difference(total: float | None, part: float | None) -> float | None:
    return None if total is None or part is None else total - part


def _mib(kib: float | None) -> float | None:
    return None if kib is None else float(round(kib / 1024))
