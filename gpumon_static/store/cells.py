"""Single values as text in a cell of `load_data.csv`, and back. Nothing is lost on the way.

gpu_faults   ecc-errors: uncorrected: 5 in DRAM; remap-failure
disks        / 59799/467850 ssd; /data 7340032/- hdd
user         '=cmd|...

A text that a spreadsheet would run as a formula has an apostrophe before it, which is taken off again when
the cell is read; so has one behind a semicolon, where half of Europe's spreadsheets begin a new cell. Numbers
are not texts: -5 stays as it is.
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
_FORMULA = re.compile(r"""(^|;[\s"]*)(?='*[=+\-@\t\r])""")
_HIDDEN_FORMULA = re.compile(r"""(^|;[\s"]*)'(?='*[=+\-@\t\r])""")
_LONGEST_WHOLE, _TOO_LARGE = 18, 2**60
_KINDS = {None: "-", False: "ssd", True: "hdd"}
_SPINS = {word: spins for spins, word in _KINDS.items()}


def to_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return no_formula(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return utc_text(value, exact=True)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, tuple):
        return no_formula(
            _join(_fault_text(one) if isinstance(one, Fault) else _disk_text(one) for one in value)
        )
    return str(value)


def no_formula(text: str) -> str:
    return _FORMULA.sub(r"\1'", text)


def text(cell: str) -> str:
    return _HIDDEN_FORMULA.sub(r"\1", cell)


def whole(cell: str) -> int:
    """A whole number. One with too many digits becomes one that is too large, which the bounds remove."""
    if len(cell) > _LONGEST_WHOLE and cell.isdecimal():
        return _TOO_LARGE
    return int(cell)


def finite(cell: str) -> float:
    value = float(cell)
    if not math.isfinite(value):
        raise ValueError(cell)
    return value


def flag(cell: str) -> bool:
    if cell not in ("yes", "no"):
        raise ValueError(cell)
    return cell == "yes"


def moment(cell: str) -> datetime:
    found = datetime.fromisoformat(cell)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def faults(cell: str) -> tuple[Fault, ...]:
    parts = (item.partition(": ") for item in _split(text(cell)))
    return tuple(Fault(rule, detail or None) for rule, _, detail in parts)


def disks(cell: str) -> tuple[Disk, ...]:
    return tuple(_disk(item) for item in _split(text(cell)))


def _fault_text(fault: Fault) -> str:
    return f"{fault.rule}: {fault.detail}" if fault.detail is not None else fault.rule


def _disk_text(disk: Disk) -> str:
    used, total = (to_text(mib) or "-" for mib in (disk.used_mib, disk.total_mib))
    return f"{disk.mount} {used}/{total} {_KINDS[disk.spins]}"


def _disk(item: str) -> Disk:
    try:
        mount, amounts, kind = item.rsplit(" ", 2)
        used, total = (None if amount == "-" else finite(amount) for amount in amounts.split("/"))
        return Disk(mount, used, total, _SPINS[kind])
    except KeyError as error:
        raise ValueError(item) from error


def _join(items: Iterable[str]) -> str:
    return "; ".join(item.replace("\\", "\\\\").replace(";", "\\;") for item in items)


def _split(cell: str) -> list[str]:
    items = _ITEM.findall(cell)
    whole = items[:1] + [item.removeprefix(" ") for item in items[1:]]
    return [re.sub(r"\\(.)", r"\1", item, flags=re.DOTALL) for item in whole]
