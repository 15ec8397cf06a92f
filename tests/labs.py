"""A small lab that most browser tests look at, and its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from gpumon_static.config.settings import Config, HostConfig
from gpumon_static.model import Disk, Fault, HostReading, Machine
from gpumon_static.publish.exports.files import build_exports
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.view import build_page
from gpumon_static.store import snapshot
from gpumon_static.store.events import EventMemory
from gpumon_static.survey.survey import build_survey
from tests.builders import NOW, busy_gpu, config, failed, gpu, host_config, process, reading, slices

SMALL = {"name": "NVIDIA GeForce RTX 3090", "memory_total_mib": 24576.0}

HOSTS = (
    host_config("node1", group="vision", note="reserved until 1 December"),
    host_config("node2", group="vision"),
    host_config("node3", group="language", port=2222),
    host_config("node4", group="teaching"),
    host_config("node10", group="language"),
)


def lab(*, node2_is_free: bool = False) -> list[HostReading]:
    """9 GPUs, 5 of them free: 3 A100 and 2 RTX 3090, one of which has ECC errors; and 2 slices, one free."""
    bob = (process(77, user="bob", memory_mib=2048.0, elapsed_s=86400),)
    second = gpu(1) if node2_is_free else busy_gpu(1)
    return [
        reading(
            "node1",
            [gpu(0), busy_gpu(1), gpu(2)],
            machine=Machine(cpu_count=64, load_1m=32.0, ram_total_mib=524288.0, ram_used_mib=122880.0),
        ),
        reading(
            "node2",
            [gpu(0), second, busy_gpu(2, utilization=0.0, memory_used_mib=2100.0, processes=bob)],
            machine=Machine(cpu_count=64, load_1m=1.0, ram_total_mib=524288.0, ram_used_mib=522000.0),
        ),
        reading(
            "node3",
            [gpu(0, **SMALL), gpu(1, **SMALL, faults=(Fault("ecc-errors", "3 uncorrectable"),))],
            machine=Machine(cpu_count=16, load_1m=1.0, disks=(Disk("/", 500.0, 1000.0),)),
        ),
        reading("node4", [gpu(0, mig_mode=True, utilization=None, slices=slices(2, 1))]),
        failed("node10"),
    ]


def page_of(
    readings: list[HostReading],
    *,
    hosts: tuple[HostConfig, ...] = HOSTS,
    now: datetime = NOW,
    key: bytes = b"",
    **site: Any,
) -> str:
    settings = config(*hosts)
    settings = replace(settings, site=replace(settings.site, **site))
    return render_page(build_page(readings, settings, now, key=key))


def exports_of(
    readings: Sequence[HostReading],
    setup: Config,
    memory: EventMemory | None = None,
    *,
    now: datetime = NOW,
    key: bytes = b"k" * 32,
) -> dict[str, str]:
    """File name to whole text."""
    survey = build_survey(readings, setup, now, key=key)
    made = build_exports(survey, setup, memory or EventMemory(), snapshot.to_csv)
    return {name: "".join(content) for name, content in made.items()}
