"""The probe's whole output to one `HostReading`: pure, so that it is tested with a string."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from gpumon_static.collect.probe import framing, machine, ps
from gpumon_static.collect.values import whole
from gpumon_static.collect.vendors import read_gpus
from gpumon_static.model import HostReading


def parse(host: str, output: str, fetched_at: datetime, vendor: str | None = None) -> HostReading:
    """`vendor`: the host's, in the config. Raises `HostError` where the output has no readings in it."""
    sections = framing.sections(output)
    report = read_gpus(sections, vendor)
    processes = ps.table(sections)
    return HostReading(
        host=host,
        fetched_at=fetched_at,
        driver_version=report.driver_version,
        cuda_version=report.cuda_version,
        gpus=tuple(gpu.with_processes(processes.complete) for gpu in report.gpus),
        machine=machine.parse(sections),
        warning=report.warning,
        note=report.note,
        probe_version=framing.probe_version_of(output),
        clock_offset_s=_clock_offset(sections, fetched_at),
    )


def _clock_offset(sections: Mapping[str, str], now: datetime) -> int | None:
    clock = whole(sections.get("clock"))
    return None if clock is None else clock - round(now.timestamp())
