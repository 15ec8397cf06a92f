"""`metrics.prom`: the readings in Prometheus' text format, to be scraped or read by node_exporter.

Base units (bytes, seconds, watts, degrees Celsius, ratios from 0 to 1), no timestamps. What is not known has
no sample: the GPUs of a host that did not answer are absent, and its `gpumon_host_up` is 0. When the data was
read is a metric of its own, so that a stale file does not look fresh.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpumon_static import __version__
from gpumon_static.model import MIB, Disk, HostReading, Machine
from gpumon_static.publish.exports.gpu_metrics import (
    GPU_FAMILIES,
    SLICE_FAMILIES,
    gauges,
    number,
    rows,
    written,
)
from gpumon_static.store.slurm.slurm_file import ClusterReport
from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.survey import Survey, SurveyedHost

Sample = tuple[str, dict[str, str], float | None]
"""Name, labels and value; None where it is not known."""

_OF_READING, _OF_MACHINE, _OF_DISK = map(gauges, (HostReading, Machine, Disk))

FAMILIES = {
    "gpumon_build_info": "The version that made this file; the value is always 1.",
    "gpumon_render_timestamp_seconds": "When this file was made.",
    "gpumon_last_fetch_timestamp_seconds": "When the newest reading was made.",
    "gpumon_fetch_interval_seconds": "How often fetch is meant to run (site.interval).",
    "gpumon_host_up": "1 if the host gave its readings, 0 if it failed.",
    "gpumon_host_status": "How the last reading of the host ended, by status; the value is always 1.",
    "gpumon_host_info": "Group, driver and CUDA version of the host; the value is always 1.",
    "gpumon_host_last_fetch_timestamp_seconds": "When the host was last asked.",
    **{name: gauge.about for name, gauge in _OF_READING.items()},
    "gpumon_host_gpus": "GPUs that the host listed.",
    "gpumon_host_gpus_expected": "GPUs that the host should have, by the config.",
    **{name: gauge.about for name, gauge in _OF_MACHINE.items()},
    "gpumon_host_state": "1 for a host that is not in use, by its state: planned, maintenance or retired.",
    "gpumon_host_takes_jobs": "1 if Slurm starts jobs of everybody on the host, 0 if not.",
    **{name: gauge.about for name, gauge in _OF_DISK.items()},
    **{name: about for name, (about, _) in GPU_FAMILIES.items()},
    **{name: about for name, (about, _) in SLICE_FAMILIES.items()},
    "gpumon_slurm_up": "1 if the Slurm answered, 0 if it failed.",
    "gpumon_slurm_last_fetch_timestamp_seconds": "When the Slurm was last asked.",
    "gpumon_slurm_gpus_waiting": "GPUs that pending jobs wait for, by Slurm's kind (empty: any).",
    "gpumon_slurm_jobs_waiting": "Pending jobs that wait for GPUs, by Slurm's kind.",
    "gpumon_slurm_oldest_waiting_timestamp_seconds": "When the oldest of these jobs was submitted.",
    "gpumon_users": "Users with a process on a GPU.",
    "gpumon_user_gpus": "GPUs and slices on which the user has a process; a shared one counts for each.",
    "gpumon_user_gpu_memory_bytes": "GPU memory that the user's processes hold.",
}
"""All are gauges. Names and labels are a contract with dashboards and alerts."""


def metrics_prom(survey: Survey) -> Iterator[str]:
    """The file, in pieces: at 80,000 GPUs it has 85 MB."""
    gpus, slices = rows(survey.hosts)
    others: dict[str, list[str]] = {name: [] for name in FAMILIES}
    for name, labels, value in _samples(survey):
        if value is not None:
            braced = f"{{{written(labels)}}}" if labels else ""
            others[name].append(f"{name}{braced} {number(value)}\n")
    for name, about in FAMILIES.items():
        if name in GPU_FAMILIES:
            lines = GPU_FAMILIES[name][1](name, gpus)
        elif name in SLICE_FAMILIES:
            lines = SLICE_FAMILIES[name][1](name, slices)
        else:
            lines = iter(others[name])
        # Nothing of a family without a sample.
        first = next(lines, None)
        if first is not None:
            yield f"# HELP {name} {about}\n# TYPE {name} gauge\n{first}"
            yield from lines


def _samples(survey: Survey) -> Iterator[Sample]:
    yield "gpumon_build_info", {"version": __version__}, 1
    yield "gpumon_render_timestamp_seconds", {}, survey.made_at.timestamp()
    yield "gpumon_last_fetch_timestamp_seconds", {}, survey.latest.timestamp() if survey.latest else None
    yield "gpumon_fetch_interval_seconds", {}, survey.interval_s
    for host in survey.hosts:
        yield from _host_samples(host)
    for report in survey.clusters:
        yield from _slurm_samples(report)
    yield from _user_samples(survey)


def _slurm_samples(report: ClusterReport) -> Iterator[Sample]:
    labels = {"slurm": report.name}
    yield "gpumon_slurm_up", labels, float(report.ok)
    yield "gpumon_slurm_last_fetch_timestamp_seconds", labels, report.asked_at.timestamp()
    for one in report.waiting:
        of_kind = labels | {"kind": one.kind or ""}
        yield "gpumon_slurm_gpus_waiting", of_kind, one.gpus
        yield "gpumon_slurm_jobs_waiting", of_kind, one.jobs
        oldest = one.oldest_at.timestamp() if one.oldest_at else None
        yield "gpumon_slurm_oldest_waiting_timestamp_seconds", of_kind, oldest


def _host_samples(host: SurveyedHost) -> Iterator[Sample]:
    labels = {"host": host.name}
    if host.state:
        yield "gpumon_host_state", labels | {"state": host.state}, 1
        return
    yield "gpumon_host_gpus_expected", labels, host.config.gpus
    reading = host.reading
    if reading is None:
        return
    about = {
        "group": host.config.group or "",
        "driver_version": reading.driver_version or "",
        "cuda_version": reading.cuda_version or "",
    }
    yield "gpumon_host_up", labels, float(reading.ok)
    yield "gpumon_host_status", labels | {"status": reading.status.value}, 1
    yield "gpumon_host_info", labels | about, 1
    yield "gpumon_host_last_fetch_timestamp_seconds", labels, reading.fetched_at.timestamp()
    for name, gauge in _OF_READING.items():
        yield name, labels, gauge.of(reading)
    if reading.node.takes_jobs is not None:
        yield "gpumon_host_takes_jobs", labels, float(reading.node.takes_jobs)
    if reading.ok:
        yield "gpumon_host_gpus", labels, len(reading.gpus)
        yield from _machine_samples(reading.machine, labels)


def _machine_samples(machine: Machine, labels: dict[str, str]) -> Iterator[Sample]:
    for name, gauge in _OF_MACHINE.items():
        yield name, labels, gauge.of(machine)
    for disk in {disk.mount: disk for disk in machine.disks}.values():
        mount = labels | {"mountpoint": disk.mount}
        for name, gauge in _OF_DISK.items():
            yield name, mount, gauge.of(disk)


@dataclass
class _Holding:
    places: set[tuple[str, str]] = field(default_factory=set)
    memory_mib: float = 0.0


def _user_samples(survey: Survey) -> Iterator[Sample]:
    held: dict[str, _Holding] = {}
    for host in survey.hosts:
        for gpu in host.gpus:
            # A process beside the slices of a GPU holds that GPU.
            for process in gpu.all_processes:
                if process.user and not process.is_graphics_only:
                    held.setdefault(process.user, _Holding()).memory_mib += process.memory_mib or 0
            for place in host.places_of(gpu):
                for process in place.working:
                    if process.user:
                        held[process.user].places.add((host.name, place.index))
    yield "gpumon_users", {}, len(held)
    if survey.tier is Tier.COUNTS:
        return
    for user, holding in sorted(held.items()):
        yield "gpumon_user_gpus", {"user": user}, len(holding.places)
        yield "gpumon_user_gpu_memory_bytes", {"user": user}, holding.memory_mib * MIB
