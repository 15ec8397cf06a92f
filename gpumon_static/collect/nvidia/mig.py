"""MIG: the slices of a GPU, from the XML, and their profiles and UUIDs, which only `nvidia-smi -L` has.

    GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-2f4c77af-...)
      MIG 1g.10gb     Device  0: (UUID: MIG-9d3c5e1f-...)

The processes of a slice are children of the GPU in the XML, and name its GPU and compute instance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpumon_static.collect.nvidia.document import Texts, first, first_text
from gpumon_static.collect.values import known, lines, mib, whole
from gpumon_static.model import Gpu, MigDevice, Process

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

Instances = tuple[int | None, int | None]
"""GPU instance and compute instance."""

MOST_LINES = 20_000

_GPU_LINE = re.compile(r"^GPU (\d{1,6}): (.*?) ?\(UUID: ([^)\s]{1,100})\)\s*$")
_SLICE_LINE = re.compile(r"^\s+MIG (\S{1,100})\s+Device\s+(\d{1,6}): \(UUID: ([^)\s]{1,100})\)\s*$")


@dataclass(frozen=True)
class ListedSlice:
    profile: str
    uuid: str


@dataclass
class ListedGpu:
    index: int
    name: str | None
    uuid: str
    slices: dict[int, ListedSlice] = field(default_factory=dict)


def parse_list(text: str) -> list[ListedGpu]:
    """The answer of `nvidia-smi -L`; lines that are neither GPU nor slice are skipped."""
    gpus: list[ListedGpu] = []
    for line in lines(text, MOST_LINES):
        if gpu := _GPU_LINE.match(line):
            gpus.append(ListedGpu(int(gpu[1]), known(gpu[2]), gpu[3]))
        elif gpus and (mig := _SLICE_LINE.match(line)):
            gpus[-1].slices[int(mig[2])] = ListedSlice(mig[1], mig[3])
    return gpus


def with_profiles(gpus: Sequence[Gpu], listed: Sequence[ListedGpu]) -> list[Gpu]:
    """The GPUs with what `-L` reports of their slices, whose device numbers are the indices of the XML."""
    # Of two that are listed alike, the first counts.
    by_uuid = {one.uuid: one for one in reversed(listed)}
    by_index = {one.index: one for one in reversed(listed)}
    return [_with_slices(gpu, by_uuid.get(gpu.uuid) if gpu.uuid else by_index.get(gpu.index)) for gpu in gpus]


def _with_slices(gpu: Gpu, listed: ListedGpu | None) -> Gpu:
    if not gpu.slices or listed is None:
        return gpu
    return replace(gpu, slices=tuple(_with_profile(mig, listed.slices) for mig in gpu.slices))


def _with_profile(mig: MigDevice, listed: Mapping[int, ListedSlice]) -> MigDevice:
    found = listed.get(mig.index)
    return replace(mig, profile=found.profile, uuid=found.uuid) if found else mig


def slices(
    gpu: Element,
    infos: Sequence[Texts],
    processes: Callable[[Sequence[Texts]], tuple[Process, ...]],
) -> tuple[tuple[MigDevice, ...], list[Texts]]:
    """The MIG devices with their processes, and the processes that are in none of them."""
    devices = gpu.findall("mig_devices/mig_device")
    if not devices:
        return (), list(infos)
    by_instances: dict[Instances, list[Texts]] = {}
    for info in infos:
        by_instances.setdefault(_instances(info), []).append(info)
    found: dict[int, MigDevice] = {}
    for position, device in enumerate(map(Texts, devices)):
        instances = _instances(device)
        index = first(device, ["index"], whole)
        index = position if index is None else index
        if index in found:
            continue
        mine = [] if None in instances else by_instances.pop(instances, [])
        found[index] = MigDevice(
            index=index,
            gpu_instance=instances[0],
            compute_instance=instances[1],
            uuid=first_text(device, "uuid"),
            profile=first_text(device, "profile", "profile_name", "name"),
            memory_used_mib=first(device, ["fb_memory_usage/used"], mib),
            memory_total_mib=first(device, ["fb_memory_usage/total"], mib),
            processes=processes(mine),
        )
    return tuple(found.values()), [info for unplaced in by_instances.values() for info in unplaced]


def _instances(texts: Texts) -> Instances:
    return first(texts, ["gpu_instance_id"], whole), first(texts, ["compute_instance_id"], whole)
