"""What is written beside `index.html` for scripts, on the same privacy tier and of the same hosts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpumon_static.publish.exports.badge import badges
from gpumon_static.publish.exports.feed import feed_xml
from gpumon_static.publish.exports.gpus_json import gpus_json
from gpumon_static.publish.exports.metrics import metrics_prom
from gpumon_static.publish.exports.schema import schema
from gpumon_static.survey.names import short_model
from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.survey import Survey

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config
    from gpumon_static.model import Gpu, HostReading, Process
    from gpumon_static.store.events import EventMemory

SCHEMA = "gpus.schema.json"


def build_exports(
    survey: Survey, config: Config, memory: EventMemory, to_csv: Callable[[Sequence[HostReading]], str]
) -> dict[str, str | Iterator[str]]:
    """File name to text, of the largest in pieces. `memory`: the events; `to_csv`: the store's own form."""
    names = {host.name for host in survey.hosts}
    exports: dict[str, str | Iterator[str]] = {
        "gpus.json": gpus_json(survey),
        SCHEMA: f"{json.dumps(schema(), ensure_ascii=False, indent=1)}\n",
        "metrics.prom": metrics_prom(survey),
        "free.txt": free_txt(survey),
        "feed.xml": feed_xml(memory, names, survey.title, with_errors=survey.tier is Tier.NAMES),
    }
    exports |= badges(survey)
    if config.site.csv:
        exports["load_data.csv"] = to_csv(_csv_readings(survey))
    return exports


def free_txt(survey: Survey) -> str:
    """One line per GPU or slice that is offered: host, what CUDA_VISIBLE_DEVICES takes, MiB, model."""
    lines = []
    for host in survey.hosts:
        for place in host.places() if not survey.is_stale(host) else ():
            if not place.is_offered:
                continue
            total, used = place.memory_total_mib, place.memory_used_mib
            free = f"{max(0, total - used):.0f}" if total is not None and used is not None else "-"
            cut = f":{place.mig.profile or 'MIG'}" if place.mig else ""
            model = f"{short_model(place.gpu.name)}{cut}".replace(" ", "-")
            lines.append(f"{host.name} {place.device} {free} {model}\n")
    return "".join(lines)


def _csv_readings(survey: Survey) -> list[HostReading]:
    def rounded(process: Process) -> Process:
        # The numbers that stand for users on the lowest tier are for counting only.
        return replace(process, user=None if survey.tier is Tier.COUNTS else process.user)

    def with_owner(gpu: Gpu) -> Gpu:
        if survey.tier is not Tier.COUNTS or gpu.allocation.user is None:
            return gpu
        return replace(gpu, allocation=replace(gpu.allocation, user=None))

    readings = [host.reading.with_processes(rounded) for host in survey.hosts if host.reading]
    return [replace(reading, gpus=tuple(map(with_owner, reading.gpus))) for reading in readings]
