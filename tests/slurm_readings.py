"""Readings of a host whose GPUs Slurm gives to jobs."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from gpumon_static.model import (
    Allocated,
    Allocation,
    Gpu,
    HostReading,
    NodeState,
    Status,
    Waiting,
)
from gpumon_static.publish.exports.gpus_json import document
from gpumon_static.store.slurm.slurm_file import ClusterReport
from gpumon_static.survey.offers import Wanted
from gpumon_static.survey.slurm.when import estimates
from gpumon_static.survey.survey import build_survey
from tests.builders import NOW, busy_gpu, config, gpu, host_config, process

NODE = NodeState("gpu-1", "MIXED", None, True, "a100")
V100: dict[str, Any] = {"name": "Tesla V100-SXM2-32GB", "memory_total_mib": 32768.0}


def given(minutes: float | None = 60, user: str | None = "user3", job: str = "7", **more: Any) -> Allocation:
    """`minutes`: from now until its job ends at the latest."""
    ends_at = None if minutes is None else NOW + timedelta(minutes=minutes)
    return Allocation(Allocated.YES, job, user=user, ends_at=ends_at, **more)


def idle(index: int = 0, **more: Any) -> Gpu:
    """Given to a job, without a process."""
    return gpu(index, allocation=given(**more))


def works(index: int = 0, **more: Any) -> Gpu:
    return busy_gpu(index, processes=(process(user="user3", job="slurm:7"),), allocation=given(**more))


def survey_of(*readings: HostReading, **host: Any) -> dict[str, Any]:
    setup = config(*(host_config(one.host, **host) for one in readings))
    told: dict[str, Any] = json.loads(json.dumps(document(build_survey(readings, setup, NOW))))
    return told


def at(minutes: float) -> str:
    return f"{(NOW + timedelta(minutes=minutes)).astimezone():%H:%M}"


def words(wanted: Wanted, *readings: HostReading) -> list[str]:
    return [one.words(NOW) for one in estimates(survey_of(*readings), wanted, NOW)]


REPORTS = (
    ClusterReport("Slurm on a", NOW, Status.OK, version="23.11", waiting=(Waiting("a100", 6, 3, NOW - timedelta(hours=2)), Waiting(None, 1, 1))),
    ClusterReport("Slurm on b", NOW, Status.TIMEOUT, "no answer"),
)  # fmt: skip
