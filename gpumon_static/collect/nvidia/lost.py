"""GPUs that nvidia-smi can no longer describe, and the true indices of the others.

    Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error      newer drivers
    Unable to determine the device handle for GPU0000:5F:00.0: Unknown Error
    Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system ...

The others keep their indices, so that the position in the XML is then not the index: `nvidia-smi -L` has
it by UUID; without that, it follows from the order of the bus ids.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from gpumon_static.collect.nvidia.mig import ListedGpu
from gpumon_static.model import Fault, Gpu
from gpumon_static.text import one_line

_LINE = re.compile(
    r"Unable to determine the device handle for GPU\s?(?:(\d{1,3}):\s+)?(?:GPU)?"
    r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*:?\s*([^\n]*)",
    re.IGNORECASE,
)
MOST = 1024
"""Lines of this kind that are read: a host has room for 16 GPUs."""


@dataclass(frozen=True)
class Lost:
    bus_id: str
    reason: str | None
    index: int | None


def find(around: str) -> list[Lost]:
    """One per bus id, from what is printed around the XML."""
    found: dict[tuple[int, ...], Lost] = {}
    for match in islice(_LINE.finditer(around), MOST):
        number, bus_id, reason = match.groups()
        place = bus_key(bus_id)
        found.setdefault(place, Lost(bus_id, one_line(reason), int(number) if number else None))
    return list(found.values())


def bus_key(bus_id: str | None) -> tuple[int, ...]:
    """`0000:5F:00.0` and `00000000:5f:00.0` are the same place, and sort by their numbers."""
    try:
        return tuple(int(part, 16) for part in re.split(r"[:.]", bus_id or ""))
    except ValueError:
        return ()


def indices(gpus: Sequence[Gpu], lost: Sequence[Lost], listed: Sequence[ListedGpu]) -> list[int]:
    """The index of each GPU of the XML."""
    # A UUID that is there twice (masked, or a bug of the driver) identifies nothing.
    uuids = Counter(gpu.uuid for gpu in gpus)
    by_uuid = {one.uuid: one.index for one in listed}
    known = [by_uuid.get(gpu.uuid) if gpu.uuid and uuids[gpu.uuid] == 1 else None for gpu in gpus]
    taken = {index for index in known if index is not None} | set(lost_indices(gpus, lost, listed))
    free = (index for index in range(len(gpus) + len(taken)) if index not in taken)
    return [next(free) if index is None else index for index in known]


def lost_indices(gpus: Sequence[Gpu], lost: Sequence[Lost], listed: Sequence[ListedGpu]) -> list[int]:
    """The index: as the driver reports it, else what `-L` leaves out, else by the order of the bus ids."""
    if not lost:
        return []
    places = sorted({bus_key(gpu.bus_id) for gpu in gpus} | {bus_key(one.bus_id) for one in lost})
    order = {place: index for index, place in enumerate(places)}
    uuids = {gpu.uuid for gpu in gpus}
    present = {one.index for one in listed if one.uuid in uuids}
    found: list[int] = []
    taken = set(present)
    left_out = (index for index in range(len(gpus) + len(lost)) if index not in taken)
    for one in sorted(lost, key=lambda one: bus_key(one.bus_id)):
        index = one.index
        if index is None and present:
            index = next(left_out, None)
        found.append(order[bus_key(one.bus_id)] if index is None else index)
        taken.add(found[-1])
    return found


def as_gpus(gpus: Sequence[Gpu], lost: Sequence[Lost], listed: Sequence[ListedGpu]) -> list[Gpu]:
    """A record for each GPU that is not in the XML: its index, what is known of it, and the fault."""
    names = {one.index: one for one in listed}
    in_order = sorted(lost, key=lambda one: bus_key(one.bus_id))
    found = {
        index: _gpu(index, names.get(index), one)
        for index, one in zip(lost_indices(gpus, lost, listed), in_order, strict=True)
    }
    uuids = {gpu.uuid for gpu in gpus}
    for one in listed:
        if one.uuid not in uuids and one.index not in found:
            found[one.index] = _gpu(one.index, one, None)
    return list(found.values())


def _gpu(index: int, listed: ListedGpu | None, lost: Lost | None) -> Gpu:
    reason = (lost.reason if lost else None) or "nvidia-smi lists it and cannot describe it"
    return Gpu(
        index=index,
        uuid=listed.uuid if listed else None,
        name=listed.name if listed else None,
        bus_id=lost.bus_id if lost else None,
        processes_known=False,
        faults=(Fault("lost", reason),),
    )


def merge(gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """GPUs by index, each once: the CSV and the page identify a GPU by it."""
    found: dict[int, Gpu] = {}
    for gpu in gpus:
        found.setdefault(gpu.index, gpu)
    return tuple(found[index] for index in sorted(found))
