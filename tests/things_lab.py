"""A lab with five days of history: a job over two hosts, GPUs held idle, a host that went down, a fault."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpumon_static.config.settings import Config, PathsConfig
from gpumon_static.model import Disk, Fault, HostReading, Machine
from gpumon_static.publish.page import records
from gpumon_static.publish.page.view import build_page
from gpumon_static.store.events import EventMemory
from gpumon_static.store.history.past import Past
from gpumon_static.survey.changes import note_changes
from tests.builders import READ_AT, busy_gpu, config, failed, gpu, host_config, process, reading
from tests.past_lab import PastLab

Kept = tuple[Config, Past]

DAYS = 5
STEP_MIN = 60
NOW = READ_AT + timedelta(days=DAYS)
MACHINE = Machine(
    cpu_count=64,
    load_1m=12.5,
    cpu_utilization=40.0,
    ram_total_mib=512 * 1024.0,
    ram_used_mib=128 * 1024.0,
    uptime_s=90000,
    disks=(Disk("/", 10.0, 100.0), Disk("/data", 950.0, 1000.0)),
)


def lab_at(hour: int) -> list[HostReading]:
    """A job of jonas over two hosts, a GPU that mira holds idle, a host that went down, a fault that came."""
    at = READ_AT + timedelta(hours=hour)
    age = int((at - READ_AT).total_seconds()) + 7200
    member = [
        process(pid, user="jonas", name="/usr/bin/python3", job="slurm:8841", elapsed_s=age)
        for pid in range(3)
    ]
    idle = gpu(
        2, memory_used_mib=20480.0, processes=(process(9, user="mira", name="jupyter", elapsed_s=age),)
    )
    sick = (Fault("ecc-errors", "uncorrected: 2"),) if hour > 100 else ()
    both = [
        reading(
            "vision-01",
            [busy_gpu(0, processes=(member[0],)), busy_gpu(1, processes=(member[1],)), idle],
            machine=MACHINE,
        ),
        reading(
            "vision-02",
            [busy_gpu(0, uuid="GPU-v2", processes=(member[2],)), gpu(1, uuid="GPU-v3", faults=sick)],
            machine=MACHINE,
            driver_version="535.183.01",
        ),
        failed("vision-03") if hour > 110 else reading("vision-03", [gpu(0, uuid="GPU-w", name="Tesla T4")]),
    ]
    return [replace(one, fetched_at=at) for one in both]


def lab_config(directory: Path, users: str = "names") -> Config:
    hosts = [
        host_config("vision-01", group="vision", note="ask first by day"),
        host_config("vision-02", group="vision"),
        host_config("vision-03", group="teaching"),
    ]
    setup = replace(config(*hosts), paths=PathsConfig(directory, directory))
    return replace(setup, site=replace(setup.site, users=users, interval=STEP_MIN * 60))


@contextmanager
def kept_lab() -> Iterator[Kept]:
    with TemporaryDirectory() as directory:
        lab = PastLab(Path(directory))
        lab.config = lab_config(Path(directory))
        memory, events = EventMemory(), []
        for hour in range(DAYS * 24 + 1):
            readings = lab_at(hour)
            events += note_changes(memory, readings, lab.config)
            lab.run_dated(readings)
        lab.write(events)
        yield lab.config, lab.past(int(NOW.timestamp()))


def page_of(kept: Kept, users: str = "names", **more: Any) -> records.Page:
    setup, past = kept
    setup = replace(setup, site=replace(setup.site, users=users))
    return build_page(lab_at(DAYS * 24), setup, NOW, key=b"k" * 32, past=past, **more)
