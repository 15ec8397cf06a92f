"""The probe's `amd` section to the files of each card, each node of amdkfd and each process on it.

    release:6.8.0-45-generic
    ../module/amdgpu/version:6.10.5
    drm/card1/device/vendor:0x1002
    drm/card1/device/hwmon/hwmon4/temp2_input:61000
    drm/card1/device/uevent:PCI_SLOT_NAME=0000:05:00.0
    kfd/kfd/topology/nodes/1/gpu_id:51140
    kfd/kfd/topology/nodes/1/properties:location_id 1280
    kfd/kfd/proc/4242/vram_51140:68719476736
    processes:

A line is a path and, after the first colon, a line of that file. `processes:` stands where amdkfd has a list
of them at all: kernels before 5.6 do not.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon_static.collect.values import known, lines

MOST_LINES = 100_000
"""500 processes on 64 partitions, each with three files."""
MOST_CARDS = 1024
MOST_PROCESSES = 2000
"""The probe asks ps for no more."""
LONGEST_PATH = 120
LONGEST_VALUE = 200
MOST_NAMES = 10_000
"""Lines of libdrm's list, which has 800 in all."""

FACTS = VERSION, RELEASE, PROCESSES = "../module/amdgpu/version", "release", "processes"
"""What is not a file of a card, node or process."""

_CARD = re.compile(r"drm/card(\d{1,4})/device/(?:hwmon/hwmon\d{1,4}/)?([a-z0-9_/]+)")
_NODE = re.compile(r"kfd/kfd/topology/nodes/(\d{1,4})/(gpu_id|properties)")
_PROCESS = re.compile(r"kfd/kfd/proc/(\d{1,9})/(vram|sdma|stats)_(\d{1,10})(?:/cu_occupancy)?")

Files = dict[str, str]
"""The first line of each file; of `uevent` and `properties` and of error counts, each line by its key."""


@dataclass
class Tree:
    driver: str | None = None
    cards: Mapping[int, Files] = field(default_factory=lambda: defaultdict(dict))
    nodes: Mapping[int, Files] = field(default_factory=lambda: defaultdict(dict))
    processes: Mapping[int, Mapping[tuple[str, int], str]] = field(default_factory=lambda: defaultdict(dict))
    """By PID, then by kind of file and id of the GPU."""
    processes_known: bool = False
    names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """What libdrm calls a device and revision, both in lower case."""


def parse(text: str, names: str = "") -> Tree:
    cards: defaultdict[int, Files] = defaultdict(dict)
    nodes: defaultdict[int, Files] = defaultdict(dict)
    processes: defaultdict[int, dict[tuple[str, int], str]] = defaultdict(dict)
    facts: Files = {}
    for line in lines(text, MOST_LINES):
        path, colon, value = line[: LONGEST_PATH + LONGEST_VALUE].partition(":")
        if not colon or len(path) > LONGEST_PATH:
            continue
        value = value.strip()
        if match := _PROCESS.fullmatch(path):
            if int(match[1]) in processes or len(processes) < MOST_PROCESSES:
                processes[int(match[1])].setdefault((match[2], int(match[3])), value)
        elif match := _CARD.fullmatch(path):
            if int(match[1]) in cards or len(cards) < MOST_CARDS:
                _keep(cards[int(match[1])], match[2], value)
        elif match := _NODE.fullmatch(path):
            _keep(nodes[int(match[1])], match[2], value)
        elif path in FACTS:
            facts.setdefault(path, value)
    driver = known(facts.get(VERSION)) or known(facts.get(RELEASE))
    return Tree(driver, cards, nodes, processes, PROCESSES in facts, _names(names))


def _keep(files: Files, name: str, value: str) -> None:
    """A file of several lines has a key in each: `location_id 1280`, `PCI_SLOT_NAME=...`, `ue: 0`."""
    if name in ("properties", "uevent") or name.endswith("_err_count"):
        key, _, value = value.replace("=", " ", 1).replace(": ", " ", 1).partition(" ")
        name = f"{name}/{key}"
    files.setdefault(name, value)


def _names(text: str) -> dict[tuple[str, str], str]:
    """Lines of amdgpu.ids: `744C,<tab>C8,<tab>AMD Radeon RX 7900 XTX`."""
    found: dict[tuple[str, str], str] = {}
    for line in lines(text, MOST_NAMES):
        parts = [part.strip() for part in line[:LONGEST_VALUE].split(",", 2)]
        if len(parts) == 3 and (name := known(parts[2])):
            found.setdefault((parts[0].lower(), parts[1].lower()), name)
    return found
