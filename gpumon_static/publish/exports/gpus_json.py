"""`gpus.json`: everything on the page, for scripts. schema.py describes it, as gpus.schema.json.

What was read of a record comes from its declaration in model/readings.py; what is decided or counted is here.
Within a version names and meanings stay and fields may be added; what is not known is null, never 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from gpumon_static import __version__
from gpumon_static.model import (
    Allocation,
    Disk,
    Fault,
    Gpu,
    HostReading,
    Machine,
    MigDevice,
    NodeState,
    Process,
    Waiting,
)
from gpumon_static.model.rules import Severity, marked, word
from gpumon_static.model.states import READ
from gpumon_static.publish.exports.schema import json_fields
from gpumon_static.survey.jobs import Job
from gpumon_static.survey.names import short_model
from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.survey import Place, Survey, SurveyedHost
from gpumon_static.survey.totals import total
from gpumon_static.times import utc_text

if TYPE_CHECKING:
    from gpumon_static.store.slurm.slurm_file import ClusterReport

VERSION = 1
SSH_PORT = 22


class _Read:
    """What gpus.json has of a record as it was read."""

    def __init__(self, record: type) -> None:
        self.names = [one.name for one in json_fields(record)]
        self._values = attrgetter(*self.names)
        self._times = [one.name for one in json_fields(record) if one.type == "datetime"]

    def of(self, record: object) -> dict[str, Any]:
        made = dict(zip(self.names, self._values(record)))  # noqa: B905  the getter gives as many, 80,000 times
        for name in self._times:
            made[name] = _time(made[name])
        return made


_READING, _MACHINE, _DISK, _NODE, _GPU, _FAULT, _SLICE, _PROCESS, _ALLOCATION, _WAITING = map(
    _Read,
    (HostReading, Machine, Disk, NodeState, Gpu, Fault, MigDevice, Process, Allocation, Waiting),
)


def gpus_json(survey: Survey) -> Iterator[str]:
    """The file, in pieces: the hosts are its last key, and are written one by one."""
    before = ""
    yield f'{_text(_head(survey))[:-1]},"hosts":['
    for host in survey.hosts:
        yield before + _text(_host(host, survey.tier))
        before = ","
    yield "]}\n"


def document(survey: Survey) -> dict[str, Any]:
    """The same as one record."""
    return {**_head(survey), "hosts": [_host(host, survey.tier) for host in survey.hosts]}


def _text(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def _head(survey: Survey) -> dict[str, Any]:
    return {
        "version": VERSION,
        "generator": f"gpumon-static {__version__}",
        "title": survey.title,
        "made_at": _time(survey.made_at),
        "fetched_at": _time(survey.latest),
        "interval_s": survey.interval_s,
        "stale_after_s": survey.stale_after_s,
        "refresh_s": survey.refresh_s,
        "users": survey.tier.value,
        "totals": _totals(survey.hosts),
        "slurm": [_cluster(report) for report in survey.clusters],
        "jobs": None if survey.tier is Tier.COUNTS else [_job(job) for job in survey.jobs.all],
    }


def _totals(hosts: Sequence[SurveyedHost]) -> dict[str, int]:
    """Whole GPUs; those that are cut up are counted once, and their slices apart."""
    sums = total(hosts)
    return {
        "hosts": len(hosts),
        "hosts_failed": sum(host.has_failed for host in hosts),
        "gpus": sums.gpus,
        **{f"gpus_{state}": sums.states[state] for state in READ},
        "slices": sums.slices,
        "slices_free": sums.slices_free,
    }


def _host(host: SurveyedHost, tier: Tier) -> dict[str, Any]:
    reading = host.reading
    # A note is free text and may contain names.
    note = host.config.note if tier is Tier.NAMES else None
    port = host.config.port
    return {
        "name": host.name,
        "group": host.config.group,
        "note": note,
        "state": host.state,
        "until": host.config.until.isoformat() if host.state and host.config.until else None,
        "ssh_port": port if port != SSH_PORT else None,
        "run": host.config.run,
        "slurm": _NODE.of(reading.node) if reading and reading.node.node else None,
        **(_READING.of(reading) if reading else dict.fromkeys(_READING.names)),
        "faults": list(host.faults),
        "gpus_expected": host.config.gpus,
        "machine": _machine(reading.machine) if reading and reading.ok else None,
        "gpus": [_gpu(host, gpu, tier) for gpu in host.gpus],
    }


def _cluster(report: ClusterReport) -> dict[str, Any]:
    return {
        "name": report.name,
        "status": report.status.value,
        "error": report.error,
        "asked_at": _time(report.asked_at),
        "version": report.version,
        "nodes": report.nodes,
        "jobs": report.jobs,
        "waiting": [_WAITING.of(one) for one in report.waiting],
    }


def _allocation(gpu: Gpu, tier: Tier) -> dict[str, Any] | None:
    if gpu.allocation.allocated is None:
        return None
    made = _ALLOCATION.of(gpu.allocation)
    return made if tier is not Tier.COUNTS else {**made, "user": None}


def _machine(machine: Machine) -> dict[str, Any]:
    return {**_MACHINE.of(machine), "disks": [_DISK.of(disk) for disk in machine.disks]}


def _gpu(host: SurveyedHost, gpu: Gpu, tier: Tier) -> dict[str, Any]:
    places = list(host.places_of(gpu))
    cut = [place for place in places if place.mig]
    return {
        **_GPU.of(gpu),
        "device": places[0].device if not cut else None,
        "model": short_model(gpu.name),
        "state": host.state_of(gpu),
        "is_usable": not cut and places[0].is_usable,
        "is_offered": not cut and places[0].is_offered,
        "faults": [_fault(fault) for fault in gpu.faults],
        **_people(gpu.processes, gpu.processes_known, tier),
        "slurm": _allocation(gpu, tier),
        "slices": [_slice(place, place.mig, tier) for place in cut if place.mig],
    }


def _slice(place: Place, mig: MigDevice, tier: Tier) -> dict[str, Any]:
    return {
        **_SLICE.of(mig),
        "state": place.state,
        "is_usable": place.is_usable,
        "is_offered": place.is_offered,
        **_people(mig.processes, place.gpu.processes_known, tier),
    }


def _job(job: Job) -> dict[str, Any]:
    return {
        "address": job.address,
        "id": job.id,
        "users": list(job.users),
        "program": job.program,
        "gpus": [{"host": host, "index": gpu} for host, gpu in job.places],
        "host_count": len(job.hosts),
        "utilization": job.utilization,
        "memory_mib": job.memory_mib,
        "since": _time(job.since),
        "gpus_unused": len(job.unused),
        "ends_at": _time(job.ends_at),
    }


def _fault(fault: Fault) -> dict[str, Any]:
    severity = Severity.FAULT if marked([fault]) else Severity.NOTICE
    return {**_FAULT.of(fault), "word": word(fault.rule), "severity": severity.value}


def _people(processes: Iterable[Process], known: bool, tier: Tier) -> dict[str, Any]:
    """Graphics processes are listed, and their owners are no users: a desktop does not hold a GPU."""
    listed = list(processes)
    users = list(dict.fromkeys(p.user for p in listed if p.user and not p.is_graphics_only))
    has_names = tier is not Tier.COUNTS
    return {
        "user_count": len(users) if known else None,
        "process_count": len(listed) if known else None,
        "users": users if known and has_names else None,
        "processes": [_PROCESS.of(process) for process in listed] if known and has_names else None,
    }


def _time(time: datetime | None) -> str | None:
    return utc_text(time) if time else None
