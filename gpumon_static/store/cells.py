"""Single values as text in a cell of `load_data.csv`, and back. Nothing is lost on the way.

gpu_faults   ecc-errors: uncorrected: 5 in DRAM; remap-failure
disks        / 59799/467850 ssd; /data 7340032/- hdd
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from gpumon_static.model import Disk, Fault
from gpumon_static.times import utc_text

_ITEM = re.compile(r"(?:[^\\;]|\\.)+", re.DOTALL)
_KINDS = {None: "-", False: "ssd", True: "hdd"}
_SPINS = {word: spins for spins, word in _KINDS.items()}


def to_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return utc_text(value, exact=True)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, tuple):
        return _join(_fault_text(one) if isinstance(one, Fault) else _disk_text(one) for one in value)
    return str(value)


def finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def flag(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(text)
    return text == "yes"


def moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def faults(text: str) -> tuple[Fault, ...]:
    parts = (item.partition(": ") for item in _split(text))
    return tuple(Fault(rule, detail or None) for rule, _, detail in parts)


def disks(text: str) -> tuple[Disk, ...]:
    return tuple(_disk(item) for item in _split(text))


def _fault_text(fault: Fault) -> str:
    return f"{fault.rule}: {fault.detail}" if fault.detail is not None else fault.rule


def _disk_text(disk: Disk) -> str:
    used, total = (to_text(mib) or "-" for mib in (disk.used_mib, disk.total_mib))
    return f"{disk.mount} {used}/{total} {_KINDS[disk.spins]}"


def _disk(item: str) -> Disk:
    try:
        mount, amounts, kind = item.rsplit(" ", 2)
        used, total = (None if text == "-" else finite(text) for text in amounts.split("/"))
        return Disk(mount, used, total, _SPINS[kind])
    except KeyError as error:
        raise ValueError(item) from error


def _join(items: Iterable[str]) -> str:
    return "; ".join(item.replace("\\", "\\\\").replace(";", "\\;") for item in items)


def _split(text: str) -> list[str]:
    items = _ITEM.findall(text)
    whole = items[:1] + [item.removeprefix(" ") for item in items[1:]]
    return [re.sub(r"\\(.)", r"\1", item, flags=re.DOTALL) for item in whole]
