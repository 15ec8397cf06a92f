"""Where can I run? The same answer as that of the page's picker, from gpus.json.

Hosts with room for the rest of a job come first, then the best fit: n GPUs of one model, the smallest that
will do. A program can use no more than one MIG slice, so slices are an answer to one GPU only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from gpumon_static.text import natural_key, plain

RAM_PER_GPU_MIB = 8 * 1024
LEAST_DISK_PERCENT = 5
_HOST = re.compile(r"[\w.:%][\w.:%-]*")
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9/_-]*")


@dataclass(frozen=True)
class Wanted:
    count: int = 1
    memory_mib: float = 0.0
    model: str | None = None

    def takes(self, place: Offered) -> bool:
        return place.free_mib >= self.memory_mib and (self.model is None or is_model(self.model, place.names))

    def __str__(self) -> str:
        model = f" {plain(self.model)}" if self.model else ""
        gpus = f"1 free{model} GPU" if self.count == 1 else f"{self.count} free{model} GPUs"
        memory = f" with {self.memory_mib / 1000 * 1.048576:.0f} GB" if self.memory_mib else ""
        return gpus + memory


@dataclass(frozen=True)
class Offered:
    """A GPU or slice that one can run on now."""

    device: str
    """What CUDA_VISIBLE_DEVICES takes."""
    index: str
    model: str
    names: tuple[str, ...]
    free_mib: float
    total_mib: float
    is_slice: bool
    faults: tuple[str, ...]


@dataclass(frozen=True)
class Offer:
    host: str
    port: int | None
    places: tuple[Offered, ...]
    fitting: int
    """GPUs on the host that would do."""
    total: int
    is_mixed: bool
    tight: tuple[str, ...]
    """Reasons against this host."""
    load_per_cpu: float | None

    @property
    def ssh(self) -> str:
        return f"ssh -p {self.port} {self.host}" if self.port else f"ssh {self.host}"

    @property
    def devices(self) -> str:
        return ",".join(place.device for place in self.places)

    @property
    def environment(self) -> str:
        return f"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={self.devices}"


def is_model(wanted: str, names: Iterable[str]) -> bool:
    """a100 is in "NVIDIA A100-SXM4-80GB"; A10 is not, nor is L4 in L40S."""
    words = re.findall(r"[0-9]+|[a-z]+", wanted.casefold())
    if not words:
        return False
    before = "(?<![0-9])" if words[0].isdecimal() else "(?<![0-9a-z])"
    after = "(?![0-9])" if words[-1].isdecimal() else ""
    pattern = re.compile(before + "[^0-9a-z]*".join(words) + after)
    return any(pattern.search(name.casefold()) for name in names)


def offers(document: Mapping[str, Any], wanted: Wanted, now: datetime | None) -> list[Offer]:
    """Best first. Hosts that failed, or whose reading is stale, are left out; `now` None: at any age."""
    oldest = now - timedelta(seconds=document["stale_after_s"]) if now else None
    found = []
    for host in document["hosts"]:
        if host["status"] != "ok" or not _HOST.fullmatch(host["name"]):
            continue
        if oldest and datetime.fromisoformat(host["fetched_at"]) < oldest:
            continue
        offer = _offer(host, wanted)
        if offer:
            found.append(offer)
    return sorted(found, key=lambda offer: _rank(offer, wanted))


def _rank(offer: Offer, wanted: Wanted) -> tuple[Any, ...]:
    load = 1.0 if offer.load_per_cpu is None else offer.load_per_cpu
    size = offer.places[0].total_mib if wanted.memory_mib else 0
    return len(offer.tight), offer.is_mixed, size, -offer.fitting, load, natural_key(offer.host)


def _offer(host: Mapping[str, Any], wanted: Wanted) -> Offer | None:
    places = [p for p in _places(host["gpus"]) if wanted.takes(p) and (wanted.count == 1 or not p.is_slice)]
    if len(places) < wanted.count:
        return None
    picked, is_mixed = _pick(places, wanted.count)
    machine = host["machine"] or {}
    load, cpus = machine.get("load_1m"), machine.get("cpu_count")
    port = host["ssh_port"]
    return Offer(
        host=host["name"],
        port=port if isinstance(port, int) and 0 < port < 65536 else None,
        places=picked,
        fitting=len(places),
        total=sum(len(gpu["slices"]) or 1 for gpu in host["gpus"]),
        is_mixed=is_mixed,
        tight=tuple(_tight(host, machine, picked, wanted)),
        load_per_cpu=load / cpus if load is not None and cpus else None,
    )


def _pick(places: Sequence[Offered], count: int) -> tuple[tuple[Offered, ...], bool]:
    """Healthy ones, of one model if there are enough of one: the smallest that will do."""
    ordered = sorted(places, key=lambda place: (bool(place.faults), place.total_mib, place.model))
    for _, same in groupby(ordered, key=lambda place: (bool(place.faults), place.model)):
        group = list(same)
        if len(group) >= count:
            return tuple(group[:count]), False
    picked = tuple(ordered[:count])
    return picked, len({place.model for place in picked}) > 1


def _tight(
    host: Mapping[str, Any], machine: Mapping[str, Any], picked: Sequence[Offered], wanted: Wanted
) -> Iterable[str]:
    total, used = machine.get("ram_total_mib"), machine.get("ram_used_mib")
    if total is not None and used is not None:
        needed = wanted.count * max(wanted.memory_mib, RAM_PER_GPU_MIB)
        if total - used < needed:
            yield f"only {(total - used) / 1024:.0f} GB of RAM free"
    for disk in machine.get("disks", ()):
        if disk["used_mib"] is not None and disk["total_mib"]:
            full = 100 * disk["used_mib"] / disk["total_mib"]
            if 100 - full < LEAST_DISK_PERCENT:
                yield f"{plain(disk['mount'])} is {full:.0f} % full"
    yield from (plain(fault) for fault in host["faults"])
    yield from dict.fromkeys(f"GPU {place.index}: {fault}" for place in picked for fault in place.faults)


def _places(gpus: Iterable[Mapping[str, Any]]) -> Iterable[Offered]:
    for gpu in gpus:
        faults = tuple(plain(fault["word"]) for fault in gpu["faults"] if fault["severity"] == "fault")
        model = plain(gpu["model"])
        names = (gpu["model"], gpu["name"] or "")
        if gpu["is_usable"]:
            number = str(int(gpu["index"]))
            yield Offered(number, number, model, names, *_memory(gpu), False, faults)
        for cut in gpu["slices"]:
            if cut["is_usable"] and cut["uuid"] and _DEVICE.fullmatch(cut["uuid"]):
                index = f"{int(gpu['index'])}:{int(cut['index'])}"
                profile = plain(cut["profile"] or "MIG")
                named = (*names, cut["profile"] or "")
                yield Offered(cut["uuid"], index, f"{profile} {model}", named, *_memory(cut), True, faults)


def _memory(gpu: Mapping[str, Any]) -> tuple[float, float]:
    """Free and total; what is not known counts as none."""
    used, total = gpu["memory_used_mib"], gpu["memory_total_mib"]
    return (total - used, total) if used is not None and total is not None else (0.0, total or 0.0)
