"""The probe's answer about Slurm to a reading: pure, so that it is tested with a string."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from gpumon_static.bounds.tables import MOST_JOBS, MOST_NODES
from gpumon_static.collect.probe import framing
from gpumon_static.collect.slurm import owners
from gpumon_static.collect.slurm.jobs import JobLines, records
from gpumon_static.collect.slurm.nodes import parse_node
from gpumon_static.collect.slurm.values import NodeLists
from gpumon_static.collect.values import lines
from gpumon_static.errors import HostError
from gpumon_static.model import HostReading, SlurmAnswer, Status
from gpumon_static.text import count, one_line

PACKED = ("slurm-jobs", "slurm-nodes")
OWNERS = "slurm-owners"
MOST_LINES = 100_000
MOST_NODES_OF_JOBS = 200_000
STATUS = "\nstatus "
LONGEST_STATUS = 8
LATE = ("137", "143", "124")
CUT_OFF = "141"
"""SIGPIPE: the probe sends 16 MiB of each answer."""


def parse(host: str, output: bytes, fetched_at: datetime) -> HostReading:
    """Raises `HostError` where the output has no answer of Slurm in it."""
    sections = framing.sections(framing.decoded(output, (*PACKED, OWNERS), framing.MOST_SLURM_BYTES))
    if "slurm-missing" in sections:
        raise HostError(
            Status.ERROR, "there is no scontrol on this host, or not on the PATH of its login shell"
        )
    if "slurm-late" in sections:
        raise HostError(Status.TIMEOUT, "scontrol hangs and cannot be ended")
    if "slurm-jobs" not in sections or "slurm-nodes" not in sections:
        message = (
            "the probe that is installed there is of an older version, without Slurm: install the new one"
        )
        raise HostError(Status.BAD_OUTPUT, message)
    errors = one_line(sections.get("slurm-stderr"))
    jobs_text, nodes_text = (_answered(sections[name], errors) for name in PACKED)
    confirmed = _confirmed(sections.get(OWNERS))
    jobs = JobLines(NodeLists(MOST_NODES_OF_JOBS), confirmed)
    for record in records(lines(jobs_text, MOST_LINES), confirmed):
        if record != "No jobs in the system":
            jobs.add(record)
    nodes = [node for line in lines(nodes_text, MOST_LINES) if (node := parse_node(line))]
    version = one_line(sections.get("slurm-version"))
    answer = SlurmAnswer(
        version=version.split()[-1] if version else None,
        nodes=tuple(nodes[: MOST_NODES + 1]),
        jobs=tuple(jobs.holding.values())[: MOST_JOBS + 1],
        waiting=tuple(jobs.waiting()),
    )
    return HostReading(host, fetched_at, note=_left_out(jobs, sections), slurm=answer)


def _answered(text: str, errors: str | None) -> str:
    """The lines of scontrol; raises `HostError` where it failed."""
    answer, _, status = text.rpartition(STATUS)
    status = one_line(status, LONGEST_STATUS) or "unknown"
    if status in LATE:
        raise HostError(Status.TIMEOUT, "Slurm did not answer scontrol in time")
    if status == CUT_OFF:
        # The last line is a part of one.
        return answer[: answer.rfind("\n") + 1]
    if status != "0":
        raise HostError(Status.ERROR, f"scontrol failed: {errors or f'exit status {status}'}")
    return answer


def _confirmed(text: str | None) -> dict[str, owners.JobOwner] | None:
    """The jobs that squeue has; None of a probe of an older version, or where squeue failed."""
    answer, _, status = (text or "").rpartition(STATUS)
    return owners.parse(answer) if one_line(status, LONGEST_STATUS) == "0" else None


def _left_out(jobs: JobLines, sections: Mapping[str, str]) -> str | None:
    notes = []
    if OWNERS in sections and jobs.owners is None:
        notes.append("squeue failed: owners of jobs are not confirmed")
    if any(sections[name].rpartition(STATUS)[2].strip() == CUT_OFF for name in PACKED):
        notes.append("scontrol prints more than 16 MiB: what comes after that is not known")
    if jobs.bad_lines:
        notes.append(f"{count(jobs.bad_lines, 'line')} about jobs not understood")
    if jobs.node_lists.left_out:
        notes.append(f"{count(jobs.node_lists.left_out, 'list')} of nodes left out")
    return "; ".join(notes) or None
