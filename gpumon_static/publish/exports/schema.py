"""`gpus.schema.json`: what stands in gpus.json, field by field.

Fields that were read are declared in model/readings.py; what is decided, counted or configured is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpumon_static.model import (
    Allocated,
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
from gpumon_static.model.facts import Declared, declared, sentence
from gpumon_static.model.rules import Severity
from gpumon_static.model.states import READ
from gpumon_static.survey.privacy import Tier

Schema = dict[str, Any]

_TYPES: dict[str, Schema] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "datetime": {"type": "string", "format": "date-time"},
    "Status": {"type": "string"},
    "Allocated": {"type": "string"},
}
NAMES_ONLY = "; null on other tiers than names"


def json_fields(record: type) -> tuple[Declared, ...]:
    """The fields of a record that gpus.json has under their own names."""
    return tuple(one for one in declared(record) if one.fact.in_json and one.type in _TYPES)


def schema() -> Schema:
    about = (
        "The readings of the last fetch, on the privacy tier of index.html. What is not known is null, never"
        " 0. Within a version fields may be added, and none changes its name or meaning."
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpus.json of gpumon-static",
        "description": about,
        **_object(_TOP, optional=("jobs",)),
        "$defs": {
            "host": _object(_HOST, optional=("state", "until")),
            "machine": _object(_read(Machine) | _MACHINE),
            "gpu": _object(_GPU),
            "slice": _object(_SLICE),
            "process": _object(_read(Process)),
            "job": _object(_JOB),
            "node": _object(_read(NodeState) | {"node": _text("Slurm's name of the host.")}),
            "allocation": _object(_read(Allocation) | _ALLOCATION),
            "cluster": _object(_CLUSTER),
            "waiting": _object(_read(Waiting) | _WAITING),
        },
    }


def _read(record: type) -> dict[str, Schema]:
    return dict(_properties(record))


def _properties(record: type) -> Iterator[tuple[str, Schema]]:
    for one in json_fields(record):
        about = sentence(f"{one.words}{NAMES_ONLY if one.fact.only_names else ''}")
        kind = _TYPES[one.type]
        yield one.name, _or_null(kind, about) if one.can_be_unknown else {**kind, "description": about}


def _object(properties: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _or_null(kind: Schema, about: str) -> Schema:
    return {**kind, "type": [kind["type"], "null"], "description": about}


def _of(kind: str, about: str, **more: Any) -> Schema:
    return {"type": kind, **more, "description": about}


def _text(about: str) -> Schema:
    return _of("string", about)


def _count(about: str, least: int = 0) -> Schema:
    return _of("integer", about, minimum=least)


def _flag(about: str) -> Schema:
    return _of("boolean", about)


def _time(about: str) -> Schema:
    return {**_TYPES["datetime"], "description": about}


def _some(kind: str, about: str) -> Schema:
    """Of that type, or null."""
    return _or_null(_TYPES[kind], about)


def _one_of(words: Any, about: str) -> Schema:
    return {"enum": [str(word) for word in words], "description": about}


def _part(name: str, about: str) -> Schema:
    return {"oneOf": [{"$ref": f"#/$defs/{name}"}, {"type": "null"}], "description": about}


def _list(of: Schema, about: str) -> Schema:
    return _of("array", about, items=of)


def _list_or_null(of: Schema, about: str) -> Schema:
    return {"type": ["array", "null"], "items": of, "description": about}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


_STRINGS: Schema = {"type": "string"}
_TOTALS = {
    "hosts": _count("Hosts on the page."),
    "hosts_failed": _count("Hosts whose last reading failed."),
    "gpus": _count("Whole GPUs."),
    "gpus_free": _count("GPUs that are free."),
    "gpus_busy": _count("GPUs that are busy."),
    "gpus_held": _count("GPUs that are held idle."),
    "gpus_unknown": _count("GPUs whose state is not known."),
    "slices": _count("MIG slices."),
    "slices_free": _count("MIG slices that are free."),
}
_TOP = {
    "version": {"const": 1, "description": "Of this format."},
    "generator": _text("Name and version of the program."),
    "title": _text("Title of the page (site.title)."),
    "made_at": _time("When render wrote this file, UTC."),
    "fetched_at": _some("datetime", "When the newest reading was made, UTC."),
    "interval_s": _count("Seconds between two runs of fetch (site.interval).", 1),
    "stale_after_s": _count(
        "Data older than this is stale: two runs were missed. So is data dated further ahead of the clock"
        " than this.",
        1,
    ),
    "refresh_s": _count("How often a reader may ask again (site.refresh); 0: not set."),
    "users": _one_of(Tier, "How much is shown about users: the privacy tier."),
    "totals": {**_object(_TOTALS), "description": "Counts over all hosts."},
    "slurm": _list(_ref("cluster"), "How the question to each Slurm ended; empty without [slurm]."),
    "hosts": _list(_ref("host"), "One entry per host, sorted by name."),
    "jobs": _list_or_null(
        _ref("job"),
        "Processes that belong together, those on most GPUs first. null on the tier counts.",
    ),
}
_HOST = {
    "name": _text("As in the config, without user and port."),
    "group": _some("str", "Of the config."),
    "note": _some("str", "Of the config; null unless users is names."),
    "state": _some(
        "str",
        "planned, maintenance or retired: it has no status and no GPUs then; null: it is in use.",
    ),
    "until": _some("str", "The first day on which that state is over: 2026-12-01."),
    "ssh_port": _some("int", "null: the usual one."),
    "run": _one_of(("ssh", "slurm"), "How users start programs there (site.run)."),
    "slurm": _part("node", "What Slurm reports of the host; null where none manages it."),
    **_read(HostReading),
    "status": _some("str", "ok, or why there are no readings; null: not asked yet."),
    "fetched_at": _some("datetime", "When the host was last read, UTC."),
    "faults": _list(_STRINGS, "Of the host as a whole, in words."),
    "gpus_expected": _some("int", "gpus of the config."),
    "machine": _part("machine", "The host around the GPUs; null where the host failed."),
    "gpus": _list(_ref("gpu"), "Empty where the host failed."),
}
_MACHINE = {"disks": _list(_object(_read(Disk)), "The mount points of fetch.disks.")}
_FAULT = {
    **_read(Fault),
    "word": _text("Its short word."),
    "severity": _one_of(Severity, "A notice is harmless on many machines."),
}


def _use(of: str) -> dict[str, Schema]:
    """Who is there."""
    return {
        "user_count": _some("int", "Users with a process here; null where the driver gives no list."),
        "process_count": _some("int", "Processes here, graphics included."),
        "users": _list_or_null(
            _STRINGS, "Logins, shown names or pseudonyms; null on a page that only counts."
        ),
        "processes": _list_or_null(_ref("process"), f"Processes of the {of}; null as users."),
    }


_GPU = {
    **_read(Gpu),
    "device": _some(
        "str",
        "What CUDA_VISIBLE_DEVICES, or HIP_VISIBLE_DEVICES of AMD, takes; null for a GPU that is cut into"
        " slices.",
    ),
    "model": _text("Its short name."),
    "state": _one_of(
        READ,
        "held: taken, and not computing at this moment. A GPU that is cut into slices is free if all of them"
        " are.",
    ),
    "is_usable": _flag("One can run on the whole GPU now."),
    "is_offered": _flag("And nothing is known to be wrong with it: what free, wait and the page offer."),
    "faults": _list(_object(_FAULT), "What is wrong with the GPU."),
    **_use("whole GPU"),
    "slurm": _part("allocation", "What Slurm reports of the GPU; null where none manages its host."),
    "slices": _list(_ref("slice"), "Its MIG slices."),
}
_SLICE = {
    **_read(MigDevice),
    "state": _one_of(READ, "As for a GPU; a slice is never held, since its utilization is not reported."),
    "is_usable": _flag("One can run on the slice now."),
    "is_offered": _flag("And nothing is known to be wrong with its GPU, and a program can select it."),
    **_use("slice"),
}
_ALLOCATION = {
    "allocated": _one_of(Allocated, "Whether a job has it. One that a job has and does not use is held."),
}
_WAITING = {"gpus": _count("GPUs that are waited for."), "jobs": _count("Jobs that wait.")}
_CLUSTER = {
    "name": _text("'Slurm on' and the host that was asked."),
    "status": _text("ok, or why there is no answer: as for a host."),
    "error": _some("str", "One line that explains the status."),
    "asked_at": _time("UTC."),
    "version": _some("str", "Version of Slurm."),
    "nodes": _count("Nodes with GPUs."),
    "jobs": _count("Jobs that hold GPUs."),
    "waiting": _list(_ref("waiting"), "What pending jobs wait for."),
}
_JOB = {
    "address": _text(
        "Names the job on the page (#job/ADDRESS): its id, or user, program and the minute of its start,"
        " which may differ by one from run to run."
    ),
    "id": _some(
        "str",
        "Job id: slurm:8841, docker:3f2a... null for processes of one user that were started together.",
    ),
    "users": _list(_STRINGS, "Its users, those with the most processes first."),
    "program": _some("str", "The program that most of its processes run, without directories."),
    "gpus": _list(
        _object({"host": _text("Host name."), "index": _text("GPU index, or index:slice.")}),
        "The GPUs and slices that it runs on.",
    ),
    "host_count": _count("Number of hosts that it runs on.", 1),
    "utilization": _some("float", "Percent; mean of those of its GPUs that report it."),
    "memory_mib": _some("float", "MiB; of its processes together, as far as known."),
    "since": _some("datetime", "Start of its first process, UTC."),
    "gpus_unused": _count("Of its GPUs, those that Slurm has given it and where it has no process."),
    "ends_at": _some("datetime", "When it ends at the latest, by its time limit in Slurm, UTC."),
}
