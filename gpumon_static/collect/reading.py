"""The probe's whole output to one `HostReading`: pure, so that it is tested with a string."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from gpumon_static.collect import machine, nvidia_smi, probe, ps
from gpumon_static.model import GONE, Gpu, HostReading, Process


def parse(host: str, output: str, fetched_at: datetime) -> HostReading:
    """Raises `HostError` where the output has no readings in it."""
    sections = probe.sections(output)
    status = sections.get("smi-status", "").strip()
    report = nvidia_smi.parse(
        sections.get("smi", ""),
        sections.get("smi-stderr", ""),
        int(status) if status.isdecimal() else 0,
    )
    processes = ps.parse(sections.get("ps", ""))
    return HostReading(
        host=host,
        fetched_at=fetched_at,
        driver_version=report.driver_version,
        cuda_version=report.cuda_version,
        gpus=tuple(_with_owners(gpu, processes) for gpu in report.gpus),
        machine=machine.parse(sections),
        warning=report.warning,
    )


def _with_owners(gpu: Gpu, entries: dict[int, ps.PsEntry]) -> Gpu:
    return replace(
        gpu,
        processes=tuple(_with_owner(p, entries) for p in gpu.processes),
        slices=tuple(
            replace(s, processes=tuple(_with_owner(p, entries) for p in s.processes)) for s in gpu.slices
        ),
    )


def _with_owner(process: Process, entries: dict[int, ps.PsEntry]) -> Process:
    if not entries:
        return process
    entry = entries.get(process.pid)
    if entry is None:
        return replace(process, state=GONE)
    return replace(
        process,
        name=process.name or entry.command,
        user=entry.user,
        uid=entry.uid,
        elapsed_s=entry.elapsed_s,
        state=entry.state,
    )
