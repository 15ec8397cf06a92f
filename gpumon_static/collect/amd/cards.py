"""Cards of amdgpu that amdkfd computes on, to `Gpu` records.

A card is a PCI device. amdkfd has a node for it, or several where it is in partitions (CPX), all at its place
on the bus; a card without one, such as an iGPU for the console, is not for computing and left out.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, TypeVar

from gpumon_static.bounds.tables import MOST_GPUS
from gpumon_static.collect.amd import diagnosis
from gpumon_static.collect.amd.tree import Files, Tree
from gpumon_static.collect.values import known, mib, number, whole
from gpumon_static.model import Gpu, Process

AMD = "0x1002"
RDNA4 = 120_000
"""gfx_target_version of gfx1200: major * 10000 + minor * 100 + stepping (kfd_topology.c)."""

N = TypeVar("N", int, float)

_SLOT = re.compile(r"([0-9a-fA-F]{1,8}):([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})\.[0-7]")
_ID = re.compile(r"(?:0x)?([0-9a-fA-F]{1,4})")
_UNIQUE = re.compile(r"(?!0+$)[0-9a-fA-F]{1,32}")
PCIE_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""By the speed of a lane in GT/s."""

Slot = tuple[int, int, int]
"""Domain, bus and device. Not the function: in partitions the kernel has put the partition's number there."""


@dataclass(frozen=True)
class Node:
    gpu_id: int
    device: int
    """Its number in HIP, which counts the nodes with a GPU in their order."""
    slot: Slot
    gfx: int
    has_cpu: bool


class _Holder(NamedTuple):
    process: Process
    is_using: bool
    """It has memory of the GPU, or has had it compute or copy."""


_Holders = dict[int, list[_Holder]]
"""By the id of a GPU in amdkfd."""


def gpus(tree: Tree) -> tuple[Gpu, ...]:
    """In the order of their device numbers, which is that of the nodes."""
    by_slot: dict[Slot, list[Node]] = {}
    for node in _nodes(tree):
        by_slot.setdefault(node.slot, []).append(node)
    found: dict[Slot, Files] = {}
    for _, card in sorted(tree.cards.items()):
        slot = _slot(card)
        if slot in by_slot and card.get("vendor") == AMD:
            found.setdefault(slot, card)
    apus = {slot for slot, card in found.items() if _is_apu(card, by_slot[slot])}
    # Beside a card, an APU is there for the console, although amdkfd knows it.
    shown = found.keys() - apus or apus
    ordered = sorted(shown, key=lambda slot: by_slot[slot][0].device)
    holders = _processes(tree)
    made = [
        _gpu(index, found[slot], by_slot[slot], holders, tree)
        for index, slot in enumerate(islice(ordered, MOST_GPUS))
    ]
    # An id that is there twice identifies nothing.
    counted = Counter(gpu.uuid for gpu in made)
    return tuple(gpu if counted[gpu.uuid] == 1 else replace(gpu, uuid=None) for gpu in made)


def _nodes(tree: Tree) -> list[Node]:
    """Those with a GPU: the id of a CPU is 0."""
    found: list[Node] = []
    seen: set[int] = set()
    for _, files in sorted(tree.nodes.items()):
        gpu_id, place = whole(files.get("gpu_id")), whole(files.get("properties/location_id"))
        if not gpu_id or gpu_id in seen or place is None or place < 0:
            continue
        seen.add(gpu_id)
        domain = whole(files.get("properties/domain")) or 0
        # kfd_topology.c: bus << 8 | device << 3 | function, and the partition's number in bits 28 to 31.
        slot = (domain, place >> 8 & 0xFF, place >> 3 & 0x1F)
        gfx = whole(files.get("properties/gfx_target_version")) or 0
        has_cpu = (whole(files.get("properties/cpu_cores_count")) or 0) > 0
        found.append(Node(gpu_id, len(found), slot, gfx, has_cpu))
    return found


def _slot(card: Files) -> Slot | None:
    match = _SLOT.fullmatch(card.get("uevent/PCI_SLOT_NAME", ""))
    return (int(match[1], 16), int(match[2], 16), int(match[3], 16)) if match else None


def _processes(tree: Tree) -> _Holders:
    """By the id of a GPU. amdkfd has a file for each process and each GPU, whether it is used or not."""
    found: _Holders = {}
    for pid, files in tree.processes.items():
        for gpu_id in {gpu_id for _, gpu_id in files}:
            held = mib(f"{files.get(('vram', gpu_id), '')} B")
            units = whole(files.get(("stats", gpu_id)))
            is_using = bool(held or units or whole(files.get(("sdma", gpu_id))))
            process = Process(pid=pid, type="C", memory_mib=held, compute_units=units)
            found.setdefault(gpu_id, []).append(_Holder(process, is_using))
    return found


def _is_apu(card: Files, nodes: list[Node]) -> bool:
    """amdgpu_pm.c: only APUs have in1, a voltage of theirs. Older ones share a node with the CPU."""
    return "in1_label" in card or any(node.has_cpu for node in nodes)


def _gpu(index: int, card: Files, nodes: list[Node], holders: _Holders, tree: Tree) -> Gpu:
    is_apu = _is_apu(card, nodes)
    used, total = (_memory(card, which, with_gtt=is_apu) for which in ("used", "total"))
    own = ",".join(str(node.device) for node in nodes)
    unique = _UNIQUE.fullmatch(card.get("unique_id", ""))
    gpu = Gpu(
        index=index,
        uuid=f"GPU-{unique[0]}" if unique else None,
        name=_name(card, tree),
        bus_id=known(card.get("uevent/PCI_SLOT_NAME")),
        utilization=number(card.get("gpu_busy_percent")),
        memory_used_mib=used,
        memory_total_mib=total,
        temperature_c=_temperature(card),
        temperature_limit_c=_temperature(card, "crit") or None,
        fan_percent=_fan(card),
        power_w=_watts(card.get("power1_average", card.get("power1_input"))),
        power_limit_w=_watts(card.get("power1_cap")) or None,
        processes=_held_by(nodes, holders, is_apu=is_apu),
        processes_known=tree.processes_known,
        device=own if own != str(index) else None,
        memory_shared=is_apu,
        utilization_sticks=is_apu or any(node.gfx >= RDNA4 for node in nodes),
        clock_sm_mhz=_megahertz(card.get("freq1_input")),
        pcie_generation=_generation(card.get("current_link_speed")),
        pcie_generation_max=_generation(card.get("max_link_speed")),
        pcie_width=whole(card.get("current_link_width")),
        pcie_width_max=whole(card.get("max_link_width")),
        serial=known(card.get("serial_number")),
        vbios=known(card.get("vbios_version")),
    )
    return replace(gpu, faults=diagnosis.diagnose(card, gpu))


def _held_by(nodes: list[Node], holders: _Holders, *, is_apu: bool) -> tuple[Process, ...]:
    """Each process once, with what it holds in all partitions. RAM that it uses on an APU is not counted."""
    found: dict[int, Process] = {}
    for node in nodes:
        for process, is_using in holders.get(node.gpu_id, ()):
            if is_using or is_apu:
                before = found.get(process.pid)
                found[process.pid] = _sum(before, process) if before else process
    return tuple(found[pid] for pid in sorted(found))


def _sum(one: Process, two: Process) -> Process:
    return replace(
        one,
        memory_mib=_plus(one.memory_mib, two.memory_mib),
        compute_units=_plus(one.compute_units, two.compute_units),
    )


def _plus(one: N | None, two: N | None) -> N | None:
    return one + two if one is not None and two is not None else None


def _memory(card: Files, which: str, *, with_gtt: bool) -> float | None:
    """driver-misc.rst: bytes. An APU has a part of the RAM as its own, and reaches more of it by the GTT."""
    kinds = ("vram", "gtt") if with_gtt else ("vram",)
    parts = [mib(f"{card.get(f'mem_info_{kind}_{which}', '')} B") for kind in kinds]
    return sum(part for part in parts if part is not None) if None not in parts else None


def _temperature(card: Files, what: str = "input") -> float | None:
    """thermal.rst: temp1 is the edge, temp2 the junction (hotspot), in millidegrees. MI300X has no edge."""
    sensor = "temp1" if "temp1_input" in card else "temp2"
    value = number(card.get(f"{sensor}_{what}"))
    return round(value / 1000, 1) if value is not None else None


def _fan(card: Files) -> float | None:
    """thermal.rst: pwm1 is 0 to pwm1_max, 255; fan1_input and fan1_max are turns per minute."""
    for now, most in (("pwm1", "pwm1_max"), ("fan1_input", "fan1_max")):
        value, limit = number(card.get(now)), number(card.get(most))
        if value is not None and limit and limit > 0:
            return float(round(100 * value / limit))
    return None


def _watts(text: str | None) -> float | None:
    """thermal.rst: microwatts."""
    value = number(text)
    return round(value / 1e6, 2) if value is not None else None


def _megahertz(text: str | None) -> float | None:
    """thermal.rst: freq1 is the clock of the shaders, in hertz."""
    value = number(text)
    return round(value / 1e6, 1) if value is not None else None


def _generation(text: str | None) -> int | None:
    """The PCI core's `16.0 GT/s PCIe`; each generation has a speed of its own."""
    return PCIE_GENERATIONS.get(number((text or "").partition("GT/s")[0].strip()) or 0)


def _name(card: Files, tree: Tree) -> str | None:
    """The board's own name, where its EEPROM has one; else libdrm's, else the PCI id."""
    ids = [_ID.fullmatch(card.get(name, "")) for name in ("device", "revision")]
    device, revision = (match[1].lower() if match else "" for match in ids)
    listed = tree.names.get((device, revision.zfill(2)))
    return known(card.get("product_name")) or listed or (f"AMD 1002:{device}" if device else None)
