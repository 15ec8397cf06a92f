"""`gpus.json`: everything on the page, for scripts. `gpus.schema.json` beside this file describes it.

Within a version names and meanings stay and fields may be added; what is not known is null, never 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gpumon_static import __version__
from gpumon_static.model import Fault, HostReading, Machine, MigDevice, Process
from gpumon_static.rules import Severity, marked, word
from gpumon_static.survey.jobs import Job
from gpumon_static.survey.names import short_model
from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.survey import STATES, Place, Survey, SurveyedHost
from gpumon_static.survey.totals import total
from gpumon_static.times import utc_text

if TYPE_CHECKING:
    from gpumon_static.model import Gpu
    from gpumon_static.store.slurm.slurm_file import ClusterReport

VERSION = 1
SSH_PORT = 22


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
        **{f"gpus_{word}": sums.states[state] for state, word in STATES.items()},
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
        "slurm": _node(reading) if reading and reading.node.node else None,
        "status": reading.status.value if reading else None,
        "error": reading.error if reading else None,
        "fetched_at": _time(reading.fetched_at) if reading else None,
        "fetch_seconds": reading.fetch_seconds if reading else None,
        "driver_version": reading.driver_version if reading else None,
        "probe_version": reading.probe_version if reading else None,
        "clock_offset_s": reading.clock_offset_s if reading else None,
        "cuda_version": reading.cuda_version if reading else None,
        "faults": list(host.faults),
        "gpus_expected": host.config.gpus,
        "machine": _machine(reading) if reading and reading.ok else None,
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
        "waiting": [
            {"kind": one.kind, "gpus": one.gpus, "jobs": one.jobs, "oldest_at": _time(one.oldest_at)}
            for one in report.waiting
        ],
    }


def _node(reading: HostReading) -> dict[str, Any]:
    node = reading.node
    return {
        "node": node.node,
        "state": node.state,
        "reason": node.reason,
        "takes_jobs": node.takes_jobs,
        "kind": node.kind,
    }


def _allocation(gpu: Gpu, tier: Tier) -> dict[str, Any] | None:
    given = gpu.allocation
    if given.allocated is None:
        return None
    return {
        "allocated": given.allocated.value,
        "job": given.job,
        "job_name": given.job_name,
        "partition": given.partition,
        "account": given.account,
        "user": given.user if tier is not Tier.COUNTS else None,
        "started_at": _time(given.started_at),
        "ends_at": _time(given.ends_at),
    }


def _machine(reading: HostReading) -> dict[str, Any]:
    machine: Machine = reading.machine
    return {
        "cpu_count": machine.cpu_count,
        "cpu_utilization": machine.cpu_utilization,
        "load_1m": machine.load_1m,
        "load_5m": machine.load_5m,
        "load_15m": machine.load_15m,
        "ram_used_mib": machine.ram_used_mib,
        "ram_total_mib": machine.ram_total_mib,
        "swap_used_mib": machine.swap_used_mib,
        "swap_total_mib": machine.swap_total_mib,
        "uptime_s": machine.uptime_s,
        "disks": [
            {"mount": disk.mount, "used_mib": disk.used_mib, "total_mib": disk.total_mib, "spins": disk.spins}
            for disk in machine.disks
        ],
    }


def _gpu(host: SurveyedHost, gpu: Gpu, tier: Tier) -> dict[str, Any]:
    places = list(host.places_of(gpu))
    cut = [place for place in places if place.mig]
    return {
        "index": gpu.index,
        "vendor": gpu.vendor,
        "device": places[0].device if not cut else None,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "model": short_model(gpu.name),
        "bus_id": gpu.bus_id,
        "state": STATES[host.state_of(gpu)],
        "is_usable": not cut and places[0].is_usable,
        "utilization": gpu.utilization,
        "memory_used_mib": gpu.memory_used_mib,
        "memory_total_mib": gpu.memory_total_mib,
        "memory_shared": gpu.memory_shared,
        "temperature_c": gpu.temperature_c,
        "temperature_limit_c": gpu.temperature_limit_c,
        "fan_percent": gpu.fan_percent,
        "power_w": gpu.power_w,
        "power_limit_w": gpu.power_limit_w,
        "mig_mode": gpu.mig_mode,
        "faults": [_fault(fault) for fault in gpu.faults],
        **_people(gpu.processes, gpu.processes_known, tier),
        "slurm": _allocation(gpu, tier),
        "slices": [_slice(place, place.mig, tier) for place in cut if place.mig],
    }


def _slice(place: Place, mig: MigDevice, tier: Tier) -> dict[str, Any]:
    return {
        "index": mig.index,
        "uuid": mig.uuid,
        "profile": mig.profile,
        "gpu_instance": mig.gpu_instance,
        "compute_instance": mig.compute_instance,
        "state": STATES[place.state],
        "is_usable": place.is_usable,
        "memory_used_mib": mig.memory_used_mib,
        "memory_total_mib": mig.memory_total_mib,
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
    return {"rule": fault.rule, "word": word(fault.rule), "severity": severity.value, "detail": fault.detail}


def _people(processes: Iterable[Process], known: bool, tier: Tier) -> dict[str, Any]:
    """Graphics processes are listed, and their owners are no users: a desktop does not hold a GPU."""
    listed = list(processes)
    users = list(dict.fromkeys(p.user for p in listed if p.user and not p.is_graphics_only))
    told = tier is not Tier.COUNTS
    return {
        "user_count": len(users) if known else None,
        "process_count": len(listed) if known else None,
        "users": users if known and told else None,
        "processes": [_process(process) for process in listed] if known and told else None,
    }


def _process(process: Process) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "type": process.type,
        "name": process.name,
        "memory_mib": process.memory_mib,
        "user": process.user,
        "uid": process.uid,
        "elapsed_s": process.elapsed_s,
        "state": process.state,
        "job": process.job,
    }


def _time(time: datetime | None) -> str | None:
    return utc_text(time) if time else None
