"""The labs, questions and answers of offers.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from gpumon_static.config.settings import Config
from gpumon_static.model import Disk, Fault, HostReading, Machine, MigDevice, Process
from tests.builders import NOW, busy_gpu, config, failed, gpu, host_config, process, reading

FILE = Path(__file__).parent / "offers.json"
MODELS = {
    "A100": ("NVIDIA A100-SXM4-80GB", 81920),
    "A100 PCIe": ("NVIDIA A100 80GB PCIe", 81920),
    "A100 40": ("NVIDIA A100-SXM4-40GB", 40960),
    "A10": ("NVIDIA A10", 23028),
    "L4": ("NVIDIA L4", 23034),
    "L40S": ("NVIDIA L40S", 46068),
    "6000": ("Quadro RTX 6000", 24576),
    "6000 Ada": ("NVIDIA RTX 6000 Ada Generation", 49140),
    "3090": ("NVIDIA GeForce RTX 3090", 24576),
    "W7900": ("AMD Radeon Pro W7900", 46064),
    "MI300X": ("AMD Instinct MI300X OAM", 196592),
    "?": (None, None),
}


# A lab as the file has it, to readings


def readings_of(hosts: dict[str, Any]) -> tuple[list[HostReading], Config]:
    read = [_reading(name, host) for name, host in hosts.items()]
    asked = [
        host_config(name, note=host.get("note"), port=host.get("port"), gpus=host.get("expects"))
        for name, host in hosts.items()
    ]
    return read, config(*asked)


def _reading(name: str, host: dict[str, Any]) -> HostReading:
    if host.get("failed"):
        return failed(name)
    machine = Machine(
        cpu_count=host.get("cpus"),
        load_1m=host.get("load"),
        ram_total_mib=host.get("ram") and 512_000.0,
        ram_used_mib=host.get("ram") and 512_000.0 - host["ram"],
        disks=tuple(Disk(mount, used, 1000.0) for mount, used in host.get("disks", {}).items()),
    )
    gpus = [_gpu(index, *text.split(": ")) for index, text in enumerate(host["gpus"])]
    age = timedelta(minutes=host.get("minutes_old", 0))
    return reading(name, gpus, machine=machine, fetched_at=NOW - age)


def _gpu(index: int, model: str, state: str) -> Any:
    name, total = MODELS[model]
    if state.startswith("slices"):
        return gpu(
            index, name=name, memory_total_mib=total, mig_mode=True, slices=tuple(_slices(index, state))
        )
    made: dict[str, Any] = {
        "name": name,
        "memory_total_mib": total,
        "memory_used_mib": 4.4 if total else None,
        **_vendor(index, name),
    }
    changes: dict[str, dict[str, Any]] = {
        "sick": {"faults": (Fault("ecc-errors"),)},
        "notice": {"faults": (Fault("persistence-off"),)},
        "unknown memory": {"memory_used_mib": None},
        # A desktop's memory, which does not make a GPU busy.
        "half": {"memory_used_mib": (total or 0) / 2, "processes": _desktop((total or 0) / 2)},
    }
    if state == "busy":
        return busy_gpu(index, name=name, memory_total_mib=total, **_vendor(index, name))
    return gpu(index, **made | changes.get(state, {}))


def _vendor(index: int, name: str | None) -> dict[str, Any]:
    """AMD counts its own ones: here from 10 on, to be told apart."""
    return {"vendor": "amd", "device": str(10 + index)} if name and name.startswith("AMD") else {}


def _desktop(mib: float) -> tuple[Process, ...]:
    return (process(type="G", memory_mib=mib),)


def _slices(index: int, state: str) -> Iterator[MigDevice]:
    """`slices fx-`: one that is free, one that is busy, one whose UUID no shell should see."""
    for place, letter in enumerate(state.split()[1]):
        uuid = "MIG-1; rm -rf ~" if letter == "-" else f"MIG-{index}-{place}"
        used = 10.0 if letter != "x" else 5000.0
        yield MigDevice(place, place + 7, 0, uuid, "1g.10gb", memory_used_mib=used, memory_total_mib=9728.0)


def load() -> dict[str, list[dict[str, Any]]]:
    loaded: dict[str, list[dict[str, Any]]] = json.loads(FILE.read_text(encoding="utf-8"))
    return loaded
