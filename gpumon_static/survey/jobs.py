"""Jobs: which processes belong together, decided once for page, terminal and gpus.json.

Processes with the same job id (`slurm:8841`) are one job, whatever host they are on. Without an id, processes
of one user are one job if they run the same program on several GPUs and were started within two minutes of
the first of them. One whose start, user or program is not known joins no other. GPUs that Slurm has given to
a job belong to it too, with or without a process.

A job's address is its id, or user, program and the minute of its start. A start is the time of a reading less
a number of seconds, and so differs a little from run to run: `find` takes the nearest minute.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from gpumon_static.model import Allocated, Process
from gpumon_static.survey.owners import UNKNOWN, USER_LETTERS, Owner, shown_owner
from gpumon_static.survey.privacy import Tier, program
from gpumon_static.text import clip, count, natural_key

if TYPE_CHECKING:
    from gpumon_static.survey.survey import Place, Survey

TOGETHER_S = 120
"""Start at most so long after the first of them."""
SAME_S = 90
"""The minute in an address and the start of its job differ by no more: half a minute by rounding, and a slow
answer. Two jobs with the same user and program are over `TOGETHER_S` apart."""
PROGRAM_LETTERS = 48
ID_LETTERS = 80


class JobPlace(NamedTuple):
    host: str
    gpu: str
    """Its index: 3, or 3:1 for a slice."""


@dataclass(frozen=True)
class Job:
    address: str
    """In the page's address and in gpus.json: slurm:8841, or jonas,python3,2026-11-16T09:10Z."""
    id: str | None
    users: tuple[str, ...]
    """Those with the most processes first."""
    program: str | None
    places: tuple[JobPlace, ...]
    """In the order of hosts and GPUs."""
    utilization: float | None
    """Mean of those of its GPUs that report it."""
    memory_mib: float | None
    since: datetime | None
    """Start of its first process, or of the job, where Slurm reports it and there is none."""
    unused: tuple[JobPlace, ...] = ()
    """Those of its places that Slurm has given it, and where it has no process."""
    ends_at: datetime | None = None
    """At the latest, by its time limit in Slurm."""
    partition: str | None = None
    account: str | None = None

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place.host for place in self.places))

    @property
    def size(self) -> str:
        """6 GPUs on 2 hosts; with slices: 1 GPU + 2 slices on 1 host."""
        slices = sum(":" in place.gpu for place in self.places)
        gpus = len(self.places) - slices
        parts = [count(gpus, "GPU")] if gpus else []
        parts += [count(slices, "slice")] if slices else []
        return f"{' + '.join(parts)} on {count(len(self.hosts), 'host')}"

    @property
    def by_host(self) -> list[tuple[str, str]]:
        """Host, and its GPUs as 0–3, 5: where it runs."""
        there = itertools.groupby(self.places, key=lambda place: place.host)
        return [(host, listed([place.gpu for place in places])) for host, places in there]

    def words(self, now: datetime) -> str:
        """6 GPUs on 2 hosts, 93 %, since 09:10: in the time zone of `now`."""
        parts = [self.size]
        parts += [f"{self.utilization:.0f} %"] if self.utilization is not None else []
        parts += [f"{len(self.unused)} unused"] if self.unused else []
        parts += [since_words(self.since, now)] if self.since else []
        return ", ".join(parts)


def since_words(at: datetime, now: datetime) -> str:
    """since 09:10, since yesterday, since 3 Nov: in the time zone of `now`."""
    then = at.astimezone(now.tzinfo)
    days = (now.date() - then.date()).days
    return "since " + (
        f"{then:%H:%M}" if days == 0 else "yesterday" if days == 1 else f"{then.day} {then:%b}"
    )


class Jobs:
    """All jobs of a survey, those on most GPUs first."""

    def __init__(self, found: Iterable[Job]) -> None:
        self.all = tuple(sorted(found, key=lambda job: (-len(job.places), job.users, job.address)))

    def of(self, user: str) -> list[Job]:
        return [job for job in self.all if user in job.users]


class _Member(NamedTuple):
    number: int
    """In the order of hosts, GPUs and processes."""
    host: str
    place: Place
    process: Process
    owner: Owner
    program: str | None
    start_s: int | None


def find_jobs(survey: Survey) -> Jobs:
    """On the survey's privacy tier: one that hides job ids has jobs by user, and one that counts has none."""
    if survey.tier is Tier.COUNTS:
        return Jobs(())
    by_id: dict[str, list[_Member]] = defaultdict(list)
    given = _allocated(survey)
    alike: dict[tuple[str, str], list[_Member]] = defaultdict(list)
    for member in _members(survey):
        if member.process.job:
            by_id[clip(member.process.job, ID_LETTERS)].append(member)
        elif member.owner.is_somebody and member.program and member.start_s is not None:
            alike[member.owner.name, member.program].append(member)
    found = [_with_allocation(_job(by_id[id_], id_), given[id_]) for id_ in by_id if id_ in given]
    found += [_job(members, id_) for id_, members in by_id.items() if id_ not in given]
    found += [_with_allocation(None, gpus) for id_, gpus in given.items() if id_ not in by_id]
    for members in alike.values():
        found += [_job(together) for together in _started_together(members) if len(_places(together)) > 1]
    return Jobs(found)


def find(jobs: Iterable[Job], address: str) -> Job | None:
    """The job with that address; of jobs without an id the one that started nearest to its minute."""
    listed = list(jobs)
    exact = next((job for job in listed if job.address == address), None)
    name, comma, minute = address.rpartition(",")
    if exact or not comma:
        return exact
    try:
        at = datetime.fromisoformat(minute).timestamp()
    except ValueError:
        return None
    near = [(abs(job.since.timestamp() - at), job) for job in listed if _named(job) == name and job.since]
    distance, job = min(near, key=lambda pair: pair[0], default=(SAME_S + 1, None))
    return job if distance <= SAME_S else None


def _named(job: Job) -> str | None:
    return None if job.id else job.address.rpartition(",")[0]


def _members(survey: Survey) -> Iterator[_Member]:
    numbers = itertools.count()
    for host in survey.hosts:
        read_at = int(host.reading.fetched_at.timestamp()) if host.reading else 0
        for place in host.places():
            for process in place.working:
                start = None if process.elapsed_s is None else read_at - process.elapsed_s
                runs = program(process)
                yield _Member(
                    next(numbers),
                    host.name,
                    place,
                    process,
                    shown_owner(process),
                    clip(runs, PROGRAM_LETTERS) if runs else None,
                    start,
                )


def _started_together(members: list[_Member]) -> Iterator[list[_Member]]:
    """Counted from the first: a sweep that starts a process each minute does not become one endless job."""
    together: list[_Member] = []
    for member in sorted(members, key=lambda m: m.start_s or 0):
        if together and (member.start_s or 0) - (together[0].start_s or 0) > TOGETHER_S:
            yield together
            together = []
        together.append(member)
    if together:
        yield together


def _job(members: Sequence[_Member], id_: str | None = None) -> Job:
    """Without an id: of one user, with one program, with known starts."""
    places = _places(members)
    loads = [place.utilization for place in places.values() if place.utilization is not None]
    held = [m.process.memory_mib for m in members if m.process.memory_mib is not None]
    start = min((m.start_s for m in members if m.start_s is not None), default=None)
    users = _most_first(m.owner.name for m in members)
    programs = _most_first(m.program for m in members if m.program)
    return Job(
        address=id_ or f"{users[0]},{programs[0]},{_minute(start or 0)}",
        id=id_,
        users=users,
        program=programs[0] if programs else None,
        places=tuple(places),
        utilization=sum(loads) / len(loads) if loads else None,
        memory_mib=sum(held) if held else None,
        since=None if start is None else datetime.fromtimestamp(start, UTC),
    )


class _Allocated(NamedTuple):
    """A GPU that Slurm has given to a job."""

    at: JobPlace
    place: Place
    is_unused: bool


def _allocated(survey: Survey) -> dict[str, list[_Allocated]]:
    """By job; on a tier that hides job ids there are none."""
    found: dict[str, list[_Allocated]] = defaultdict(list)
    for host in survey.hosts:
        for place in host.places():
            number = place.gpu.allocation.job
            if number and place.mig is None and place.gpu.allocation.allocated is Allocated.YES:
                at = JobPlace(host.name, place.index)
                found[f"slurm:{number}"].append(_Allocated(at, place, place.is_allocated_only))
    return found


def _with_allocation(job: Job | None, given: Sequence[_Allocated]) -> Job:
    """The job with the GPUs that Slurm has given it too; `job` None: it has no process at all."""
    first = given[0].place.gpu.allocation
    whose = clip(first.user or UNKNOWN, USER_LETTERS)
    id_ = f"slurm:{first.job}"
    job = job or Job(id_, id_, (whose,), None, (), None, None, first.started_at)
    # Also where others have processes: the job has none of its own to be seen by.
    there = set(job.places)
    more = {one.at: one.place for one in given if one.at not in there}
    unused = [one.at for one in given if one.is_unused and one.at in more]
    used = len(job.places) if job.utilization is not None else 0
    loads = [place.utilization for place in more.values() if place.utilization is not None]
    known = used + len(loads)
    ends = [one.place.gpu.allocation.ends_at for one in given]
    return replace(
        job,
        places=tuple(sorted((*job.places, *more), key=_in_order)) if more else job.places,
        utilization=((job.utilization or 0) * used + sum(loads)) / known if known else None,
        unused=tuple(unused),
        ends_at=max((at for at in ends if at), default=None),
        partition=first.partition,
        account=first.account,
    )


def _in_order(at: JobPlace) -> tuple[object, ...]:
    return natural_key(at.host), natural_key(at.gpu)


def _places(members: Iterable[_Member]) -> dict[JobPlace, Place]:
    ordered = sorted(members, key=lambda member: member.number)
    return {JobPlace(m.host, m.place.index): m.place for m in ordered}


def _most_first(names: Iterable[str]) -> tuple[str, ...]:
    counted = Counter(names)
    if len(counted) == 1:
        return tuple(counted)
    return tuple(sorted(counted, key=lambda name: (-counted[name], name)))


def _minute(seconds: int) -> str:
    """The nearest one, in UTC."""
    return f"{datetime.fromtimestamp((seconds + 30) // 60 * 60, UTC):%Y-%m-%dT%H:%MZ}"


def listed(indexes: Sequence[str]) -> str:
    """0–3, 5, 6: three and more in a row are a range."""
    runs: list[list[str]] = []
    for index in indexes:
        follows = runs and index.isdecimal() and runs[-1][-1].isdecimal()
        if follows and int(index) == int(runs[-1][-1]) + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs)
