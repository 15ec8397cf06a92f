"""`data/slurm.json`: how the question to each Slurm ended in the last run, and what its jobs wait for.

What Slurm reports of single GPUs and hosts is in load_data.csv. A file that is missing, damaged or of another
version counts as empty: the next fetch writes it again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from gpumon_static.bounds.reading import bounded
from gpumon_static.model import HostReading, SlurmAnswer, Status, Waiting
from gpumon_static.system.files import read_file, write_atomic
from gpumon_static.times import utc_text

VERSION = 1
MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class ClusterReport:
    """One Slurm in the last run."""

    name: str
    """`Slurm on login1`."""
    asked_at: datetime
    status: Status
    error: str | None = None
    note: str | None = None
    """What was left out of its answer."""
    version: str | None = None
    nodes: int = 0
    """With GPUs."""
    jobs: int = 0
    """That hold GPUs."""
    waiting: tuple[Waiting, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status is Status.OK


def path_in(data: Path) -> Path:
    return data / "slurm.json"


def write(path: Path, readings: Sequence[HostReading]) -> None:
    """`readings`: one per cluster; without any, the file of an older config is removed."""
    if not readings:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return
    document = {"version": VERSION, "clusters": [asdict(report(reading)) for reading in readings]}
    write_atomic(path, json.dumps(document, indent=1, default=utc_text) + "\n", private=True)


def read(path: Path) -> list[ClusterReport]:
    try:
        document = json.loads(read_file(path, MOST_BYTES))
        if document["version"] != VERSION:
            return []
        return [_report(given) for given in document["clusters"]]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return []


def statuses(data: Path) -> dict[str, str]:
    """How each cluster's last question ended."""
    return {report.name: report.status for report in read(path_in(data))}


def report(reading: HostReading) -> ClusterReport:
    answer = reading.slurm or SlurmAnswer()
    return ClusterReport(
        reading.host,
        reading.fetched_at,
        reading.status,
        reading.error,
        reading.note,
        answer.version,
        len(answer.nodes),
        len(answer.jobs),
        answer.waiting,
    )


def _report(given: Mapping[str, Any]) -> ClusterReport:
    """Within the bounds of a reading, as everything that is read back."""
    waiting = tuple(
        Waiting(one["kind"], int(one["gpus"]), int(one["jobs"]), _moment(one["oldest_at"]))
        for one in given["waiting"]
    )
    reading = bounded(
        HostReading(
            str(given["name"]),
            datetime.fromisoformat(given["asked_at"]),
            Status(given["status"]),
            given["error"],
            note=given["note"],
            slurm=SlurmAnswer(given["version"], waiting=waiting),
        )
    )
    return replace(report(reading), nodes=int(given["nodes"]), jobs=int(given["jobs"]))


def _moment(given: str | None) -> datetime | None:
    return datetime.fromisoformat(given) if given else None
