"""Where can I run? The one rule, applied to gpus.json; docs/terminal.md states it for people.

assets/offers.js is the same rule for the page's picker; tests/survey/test_offers.py holds both to one answer.
Numbers are rounded as the page has them, so that the two decide on the same ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from gpumon_static.bounds.vendors import vendor_of
from gpumon_static.system.command import Command
from gpumon_static.text import (
    DEVICE,
    GB_IN_MIB,
    NUMBERS,
    PROFILE_LETTERS,
    clip,
    has_free_gb,
    plain,
    split_name,
)
from gpumon_static.times import age_of, parse_utc

RAM_PER_GPU_MIB = 8 * 1024
LEAST_DISK_PERCENT = 5
REASON_LETTERS = 80
_NODE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_HOST = re.compile(r"[\w.:%][\w.:%-]*")

IsWanted = Callable[["Offered"], bool]


@dataclass(frozen=True)
class Wanted:
    count: int = 1
    memory_mib: float = 0.0
    model: str | None = None
    vendor: str | None = None
    """A name of bounds/vendors.py; None: of any."""
    hosts: str | None = None
    """Names with commas, `*` for any letters; with or without the domain."""
    group: str | None = None

    def is_on(self, host: Mapping[str, Any]) -> bool:
        """Whether the host is one of those that are asked for."""
        if self.group is not None and host.get("group") != self.group:
            return False
        names = [name.strip() for name in self.hosts.split(",")] if self.hosts else ["*"]
        return any(
            fnmatchcase(own, name) for own in (host["name"], split_name(host["name"])[0]) for name in names
        )

    def __str__(self) -> str:
        model = f" {vendor_of(self.vendor).word}" if self.vendor else ""
        model += f" {plain(self.model)}" if self.model else ""
        gpus = f"1 free{model} GPU" if self.count == 1 else f"{self.count} free{model} GPUs"
        memory = f" with {self.memory_gb:.0f} GB" if self.memory_mib else ""
        return gpus + memory

    @property
    def memory_gb(self) -> float:
        return self.memory_mib / GB_IN_MIB


@dataclass(frozen=True)
class Offered:
    """A GPU or slice of the lab, free or not."""

    device: str
    """What CUDA_VISIBLE_DEVICES or its kin takes."""
    index: str
    model: str
    names: tuple[str, ...]
    free_mib: int | None
    total_mib: int | None
    is_slice: bool
    is_offered: bool
    """As `survey.Place` has it."""
    vendor: str
    """A program can use GPUs of one vendor only."""

    @property
    def environment(self) -> str:
        """What stands before the devices."""
        return vendor_of(self.vendor).environment


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
    """What speaks against it."""
    note: str | None
    """Of the config: "ask first by day"."""
    load_per_cpu: float | None
    slurm: Command | None = None
    """Options of srun and sbatch, where programs are started so."""

    @property
    def ssh(self) -> Command:
        return Command.of("ssh", *(("-p", self.port) if self.port else ()), self.host)

    @property
    def devices(self) -> str:
        return ",".join(place.device for place in self.places)

    @property
    def environment(self) -> str:
        """Assignments before a command: constants and numbers, or UUIDs of a vendor's form."""
        return f"{self.places[0].environment}{self.devices}"

    @property
    def shell(self) -> Command:
        """For whoever is on the host: a shell whose programs see these GPUs. In sh, csh and fish alike."""
        return Command.of("env", *self.environment.split()).to_shell()

    @property
    def command(self) -> Command:
        """The same from elsewhere, as one line."""
        port = ("-p", self.port) if self.port else ()
        return Command.of("ssh", "-t", *port, self.host, f"{self.shell} -l")


def offers(document: Mapping[str, Any], wanted: Wanted, now: datetime | None) -> list[Offer]:
    """Best first. Hosts that failed, or whose reading is stale, offer nothing; `now` None: at any age."""
    listed = [
        (host, list(offered_places(host["gpus"])))
        for host in document["hosts"]
        if host["status"] == "ok" and _HOST.fullmatch(host["name"]) and wanted.is_on(host)
    ]
    is_wanted = matcher(wanted, (place.model for _, places in listed for place in places))
    found = [
        _offer(host, places, wanted, is_wanted)
        for host, places in listed
        if now is None or is_fresh(host, document, now)
    ]
    # The hosts come by name, and a sort keeps that order among equals.
    return sorted((offer for offer in found if offer), key=lambda offer: _rank(offer, wanted))


def is_fresh(host: Mapping[str, Any], document: Mapping[str, Any], now: datetime) -> bool:
    return not age_of(parse_utc(host["fetched_at"]), now, document["stale_after_s"]).is_stale


def matcher(wanted: Wanted, models: Iterable[str]) -> IsWanted:
    """Whether a GPU is of the model and the vendor that are asked for. `models`: those of the lab."""
    is_wanted = _model_matcher(wanted.model, models)
    return lambda place: wanted.vendor in (None, place.vendor) and is_wanted(place)


def _model_matcher(wanted: str | None, models: Iterable[str]) -> IsWanted:
    """The whole name of a model of the lab means just that model; other text is looked for in the names."""
    if not wanted:
        return lambda _: True
    exact = wanted.lower()
    if any(model.lower() == exact for model in models):
        return lambda place: place.model.lower() == exact
    return lambda place: is_model(wanted, place.names)


def is_model(wanted: str, names: Iterable[str]) -> bool:
    """a100 is in "NVIDIA A100-SXM4-80GB"; A10 is not, nor is L4 in L40S."""
    words = re.findall(r"[0-9]+|[a-z]+", wanted.lower())
    if not words:
        return False
    before = "(?<![0-9])" if words[0].isdecimal() else "(?<![0-9a-z])"
    after = "(?![0-9])" if words[-1].isdecimal() else ""
    pattern = re.compile(before + "[^0-9a-z]*".join(words) + after)
    return any(pattern.search(name.lower()) for name in names)


def against_host(
    disks: Iterable[tuple[str, float | None, float | None]], faults: Iterable[str]
) -> tuple[str, ...]:
    """What speaks against a host, whatever is asked: full disks (mount, used, total), its faults."""
    full = ((mount, 100 * used / total) for mount, used, total in disks if used is not None and total)
    reasons = [
        f"{mount} is {percent:.0f} % full" for mount, percent in full if 100 - percent < LEAST_DISK_PERCENT
    ]
    return tuple(clip(plain(reason), REASON_LETTERS) for reason in (*reasons, *faults))


def load_per_cpu(load: float | None, cpus: int | None) -> float | None:
    return round(load / cpus, 2) if load is not None and cpus else None


def ram_free_mib(total: float | None, used: float | None) -> int | None:
    return round(total - used) if total is not None and used is not None else None


def _rank(offer: Offer, wanted: Wanted) -> tuple[Any, ...]:
    load = 1.0 if offer.load_per_cpu is None else offer.load_per_cpu
    first = _size(offer.places[0], wanted)
    size = first if wanted.memory_mib else first[:1]
    return len(offer.tight), offer.note is not None, offer.is_mixed, size, -offer.fitting, load


def _size(place: Offered, wanted: Wanted) -> tuple[bool, float]:
    """Small before large. Whoever does not say how much is needed is given whole GPUs before slices."""
    total = math.inf if place.total_mib is None else place.total_mib
    return place.is_slice and not wanted.memory_mib, total


def _offer(
    host: Mapping[str, Any], places: Iterable[Offered], wanted: Wanted, is_wanted: IsWanted
) -> Offer | None:
    fitting = _of_one_vendor([p for p in places if _fits(p, wanted) and is_wanted(p)], wanted)
    if fitting is None:
        return None
    picked = _pick(fitting, wanted)
    machine = host["machine"] or {}
    port = host["ssh_port"]
    return Offer(
        host=host["name"],
        port=port if isinstance(port, int) and 0 < port < 65536 else None,
        places=picked,
        fitting=len(fitting),
        total=sum(len(gpu["slices"]) or 1 for gpu in host["gpus"]),
        is_mixed=len({place.model for place in picked}) > 1,
        tight=(*_tight_ram(machine, wanted), *_against(host, machine)),
        note=plain(host["note"]) if host.get("note") else None,
        load_per_cpu=load_per_cpu(machine.get("load_1m"), machine.get("cpu_count")),
        slurm=slurm_options(host, wanted.count) if host.get("run") == "slurm" else None,
    )


def can_paste(name: str | None) -> bool:
    """Whether the name of a node or of a kind of GPU may be pasted into a shell."""
    return bool(_NODE.fullmatch(name or ""))


def slurm_options(host: Mapping[str, Any], count: int) -> Command | None:
    """`--gres=gpu:a100:2 --nodelist=gpu-1`; None where Slurm does not know the host."""
    about = host.get("slurm") or {}
    node, kind = about.get("node") or "", about.get("kind") or ""
    if not can_paste(node):
        return None
    of_kind = f":{kind}" if can_paste(kind) else ""
    return Command.of(f"--gres=gpu{of_kind}:{count}", f"--nodelist={node}")


def _fits(place: Offered, wanted: Wanted) -> bool:
    """A program can use no more than one slice; memory that is not known is not promised."""
    if not place.is_offered or (place.is_slice and wanted.count > 1):
        return False
    return has_free_gb(place.free_mib, place.total_mib, wanted.memory_gb)


def by_vendor(places: Iterable[Offered]) -> Iterable[list[Offered]]:
    vendors: dict[str, list[Offered]] = {}
    for place in places:
        vendors.setdefault(place.vendor, []).append(place)
    return vendors.values()


def _of_one_vendor(fitting: Iterable[Offered], wanted: Wanted) -> list[Offered] | None:
    """Those of the vendor that has enough of them; of several, the one whose smallest is the smallest."""
    enough = [places for places in by_vendor(fitting) if len(places) >= wanted.count]
    return min(enough, key=lambda places: _size(_pick(places, wanted)[0], wanted), default=None)


def _pick(fitting: Sequence[Offered], wanted: Wanted) -> tuple[Offered, ...]:
    """The smallest that will do, of one model if there are enough of one."""
    ordered = sorted(fitting, key=lambda place: _size(place, wanted))
    models: dict[str, list[Offered]] = {}
    for place in ordered:
        models.setdefault(place.model, []).append(place)
    enough = (places for places in models.values() if len(places) >= wanted.count)
    return tuple(next(enough, ordered)[: wanted.count])


def _tight_ram(machine: Mapping[str, Any], wanted: Wanted) -> tuple[str, ...]:
    free = ram_free_mib(machine.get("ram_total_mib"), machine.get("ram_used_mib"))
    if free is None or free >= wanted.count * max(wanted.memory_mib, RAM_PER_GPU_MIB):
        return ()
    tenths = max(0, free) * 10 // 1024
    return (f"only {tenths / 10 if tenths < 100 else tenths // 10} GB of RAM free",)


def _against(host: Mapping[str, Any], machine: Mapping[str, Any]) -> tuple[str, ...]:
    disks = ((disk["mount"], disk["used_mib"], disk["total_mib"]) for disk in machine.get("disks", ()))
    return against_host(disks, host["faults"])


def offered_places(gpus: Iterable[Mapping[str, Any]]) -> Iterable[Offered]:
    for gpu in gpus:
        is_well = not any(fault["severity"] == "fault" for fault in gpu["faults"])
        model, name = plain(gpu["model"]), gpu["name"] or ""
        number = str(int(gpu["index"]))
        # Files of release 0.1.0 have neither vendor nor device, nor what is offered.
        vendor = vendor_of(gpu.get("vendor")).name
        if not gpu["slices"]:
            own = str(gpu.get("device") or "")
            device = own if NUMBERS.fullmatch(own) else number
            can_run = bool(gpu.get("is_offered", gpu["is_usable"] and is_well))
            yield Offered(device, number, model, (model, name), *_memory(gpu), False, can_run, vendor)
        for cut in gpu["slices"]:
            uuid = cut["uuid"] or ""
            index = f"{number}:{int(cut['index'])}"
            whole = f"{clip(plain(cut['profile'] or 'MIG'), PROFILE_LETTERS)} {model}"
            can_run = cut.get("is_offered", cut["is_usable"] and is_well) and bool(DEVICE.fullmatch(uuid))
            yield Offered(uuid, index, whole, (whole, name), *_memory(cut), True, can_run, vendor)


def _memory(gpu: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Free and total."""
    used, total = (
        None if mib is None else round(mib) for mib in (gpu["memory_used_mib"], gpu["memory_total_mib"])
    )
    return (total - used if used is not None and total is not None else None), total
