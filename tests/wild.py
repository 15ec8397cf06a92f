"""Any reading at all, as a host that lies could make a parser give it, for the tests of what the gate lets through."""

from __future__ import annotations

import string
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from gpumon_static.model import (
    Allocated,
    Allocation,
    Disk,
    Fault,
    Gpu,
    HostReading,
    JobGpus,
    Machine,
    MigDevice,
    NodeState,
    Process,
    SlurmAnswer,
    SlurmJob,
    SlurmNode,
    Status,
    Waiting,
)

HOSTILE = [
    "",
    " ",
    "\x00",
    "\x1b[31m",
    "a\u202eb",
    "\u200b\u2066x",
    "\ud800",
    "\uffff",
    "\ue000",
    "\u2028",
    "x\ty\r\nz",
    "=cmd|'/c calc'!A1",
    "+1",
    "-1",
    "@x",
    "'=x",
    "a;b\\",
    'x"},\\ \n<script>alert(1)</script>&{{7*7}}',
    "</script>",
    "</title>",
    "]]>",
    "&amp;",
    "%s %n {0}",
    "__proto__",
    "constructor",
    "[/bold]",
    "x" * 5000,
    "é" * 400,
    "👩\u200d🚀",
    "N/A",
    "nan",
    "0",
]
any_texts = (
    st.sampled_from(HOSTILE) | st.text(st.characters(), max_size=12) | st.sampled_from(["alice", "C", "G"])
)
any_wholes = (
    st.integers(-2, 8)
    | st.integers()
    | st.sampled_from([2**31, 2**32, 2**63, 2**64, -(2**63), 10**30, 10**400])
    # Too long for Python to write it, also in a report of hypothesis.
    | st.none().map(lambda _: -(10**4400))
)
any_numbers = (
    st.floats(0, 100)
    | st.floats()
    | st.sampled_from([-300.0, 0.0, -0.0, 5e-324, 1e-7, 1e302, 2.0**30, 2.0**40, float("inf"), float("nan")])
)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def some(values: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[Any]:
    return st.lists(values, max_size=most).map(tuple)


def many(values: st.SearchStrategy[Any], times: int, number: str = "") -> st.SearchStrategy[Any]:
    """A few, and now and then those few again and again, with a number of their own each."""

    def again(items: tuple[Any, ...]) -> tuple[Any, ...]:
        repeated = items * times
        return tuple(replace(i, **{number: n}) for n, i in enumerate(repeated)) if number else repeated

    few = some(values)
    return st.one_of(few, few, few, few.map(again))


any_processes = st.builds(
    Process,
    pid=any_wholes,
    type=maybe(any_texts),
    name=maybe(any_texts),
    memory_mib=maybe(any_numbers),
    user=maybe(any_texts),
    uid=maybe(any_wholes),
    elapsed_s=maybe(any_wholes),
    state=maybe(any_texts),
    job=maybe(any_texts),
    command_line=maybe(any_texts),
    compute_units=maybe(any_wholes),
)
any_slices = st.builds(
    MigDevice,
    index=any_wholes,
    gpu_instance=maybe(any_wholes),
    compute_instance=maybe(any_wholes),
    uuid=maybe(any_texts),
    profile=maybe(any_texts),
    memory_used_mib=maybe(any_numbers),
    memory_total_mib=maybe(any_numbers),
    processes=some(any_processes),
)
any_faults = st.builds(
    Fault, any_texts | st.sampled_from(["lost", "ecc-errors", "fan", "not-of-ours", "-"]), maybe(any_texts)
)
any_times = st.datetimes(timezones=st.just(UTC)) | st.sampled_from(
    [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, tzinfo=UTC),
        datetime(2025, 11, 14, tzinfo=UTC),
    ]
)
any_allocations = st.builds(
    Allocation,
    allocated=maybe(st.sampled_from(Allocated)),
    job=maybe(any_texts),
    job_name=maybe(any_texts),
    user=maybe(any_texts),
    started_at=maybe(any_times),
    ends_at=maybe(any_times),
    partition=maybe(any_texts),
    account=maybe(any_texts),
)
any_gpus = st.builds(
    Gpu,
    index=any_wholes,
    uuid=maybe(any_texts),
    name=maybe(any_texts),
    bus_id=maybe(any_texts),
    utilization=maybe(any_numbers),
    memory_used_mib=maybe(any_numbers),
    memory_total_mib=maybe(any_numbers),
    temperature_c=maybe(any_numbers),
    temperature_limit_c=maybe(any_numbers),
    fan_percent=maybe(any_numbers),
    power_w=maybe(any_numbers),
    power_limit_w=maybe(any_numbers),
    mig_mode=st.booleans(),
    slices=many(any_slices, 15, "index"),
    processes=many(any_processes, 200, "pid"),
    processes_known=st.booleans(),
    faults=many(any_faults, 10),
    vendor=st.sampled_from(["nvidia", "amd", "of-another-release"]),
    device=maybe(any_texts),
    memory_shared=st.booleans(),
    utilization_sticks=st.booleans(),
    allocation=any_allocations,
)
any_disks = st.builds(Disk, any_texts, maybe(any_numbers), maybe(any_numbers), maybe(st.booleans()))
any_machines = st.builds(
    Machine,
    cpu_count=maybe(any_wholes),
    load_1m=maybe(any_numbers),
    load_5m=maybe(any_numbers),
    load_15m=maybe(any_numbers),
    ram_total_mib=maybe(any_numbers),
    ram_used_mib=maybe(any_numbers),
    cpu_utilization=maybe(any_numbers),
    swap_total_mib=maybe(any_numbers),
    swap_used_mib=maybe(any_numbers),
    uptime_s=maybe(any_wholes),
    disks=many(any_disks, 10),
)
host_names = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)
any_nodes = st.builds(
    NodeState,
    node=maybe(any_texts),
    state=maybe(any_texts),
    reason=maybe(any_texts),
    takes_jobs=maybe(st.booleans()),
    kind=maybe(any_texts),
)
any_answers = st.builds(
    SlurmAnswer,
    version=maybe(any_texts),
    nodes=some(
        st.builds(
            SlurmNode,
            name=any_texts,
            host_name=maybe(any_texts),
            state=maybe(any_texts),
            reason=maybe(any_texts),
            takes_jobs=maybe(st.booleans()),
            kind=maybe(any_texts),
            gpus_used=maybe(any_wholes),
            used=maybe(some(any_wholes)),
            is_shared=st.booleans(),
        )
    ),
    jobs=some(
        st.builds(
            SlurmJob,
            id=any_texts,
            user=maybe(any_texts),
            name=maybe(any_texts),
            started_at=maybe(any_times),
            ends_at=maybe(any_times),
            gpus=some(st.builds(JobGpus, any_texts, any_wholes, some(any_wholes), some(any_wholes))),
            partition=maybe(any_texts),
            account=maybe(any_texts),
        )
    ),
    waiting=some(st.builds(Waiting, maybe(any_texts), any_wholes, any_wholes, maybe(any_times))),
)
any_readings = st.builds(
    HostReading,
    host=host_names,
    fetched_at=st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    status=st.sampled_from([Status.OK, Status.OK, Status.OK, *Status]),
    error=maybe(any_texts),
    fetch_seconds=maybe(any_numbers),
    driver_version=maybe(any_texts),
    cuda_version=maybe(any_texts),
    gpus=many(any_gpus, 60, "index"),
    machine=any_machines,
    warning=maybe(any_texts),
    note=maybe(any_texts),
    node=any_nodes,
    slurm=st.none() | any_answers,
    probe_version=maybe(any_wholes),
    clock_offset_s=maybe(any_wholes),
)
"""The host and the time are the collector's own."""


def labs(most: int) -> st.SearchStrategy[list[HostReading]]:
    """Readings of several hosts. Not by `unique_by`: a retry is reported with all of the above written out."""

    def each_once(readings: list[HostReading]) -> list[HostReading]:
        # The answer of a Slurm is kept beside the readings.
        return [replace(r, slurm=None) for r in {reading.host: reading for reading in readings}.values()]

    return st.lists(any_readings, min_size=1, max_size=most).map(each_once)
