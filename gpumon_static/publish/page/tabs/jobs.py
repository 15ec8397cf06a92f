"""Jobs as rows of the tab People."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from gpumon_static.publish.page.cards import ends_words
from gpumon_static.publish.page.records import Since
from gpumon_static.publish.page.thing_records import JobRow
from gpumon_static.publish.page.words import memory, percent
from gpumon_static.survey.jobs import Job, since_words
from gpumon_static.text import DASH, clip, split_name
from gpumon_static.times import utc_text

MOST_JOBS = 100
MOST_HOSTS = 8
ID_LETTERS = 48


def build_jobs(jobs: Iterable[Job], now: datetime) -> tuple[JobRow, ...]:
    return tuple(_row(job, now) for job in list(jobs)[:MOST_JOBS])


def _row(job: Job, now: datetime) -> JobRow:
    return JobRow(
        address=job.address,
        id=clip(job.id, ID_LETTERS) if job.id else DASH,
        users=job.users[:3],
        program=job.program or DASH,
        places=tuple((host, split_name(host)[0], gpus) for host, gpus in job.by_host[:MOST_HOSTS]),
        more_hosts=max(0, len(job.hosts) - MOST_HOSTS),
        size=job.size,
        gpus=len(job.places),
        utilization=percent(job.utilization),
        memory=memory(job.memory_mib),
        since=Since(since_words(job.since, now), utc_text(job.since)) if job.since else None,
        unused=len(job.unused),
        ends=ends_words(job.ends_at, now) if job.ends_at else None,
    )
