"""Who runs what, when: jobs as a pure function of a lane and a window of time.

A lane is one GPU or a few that are used together. Its time is cut into windows of about a day and a half
with borders that differ from lane to lane; all jobs of a window follow from the lane's key and the
window's number. So any moment, also one a year ago, is found without playing through the time before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from math import pi, sin
from random import Random

from gpumon_static.demo.chance import dice
from gpumon_static.demo.people import (
    DEBUGGING,
    FINETUNING,
    FORGOTTEN,
    GROUPS,
    TRAINING,
    DemoUser,
    Program,
    Rhythm,
)

HOUR = 3600
DAY = 24 * HOUR
WINDOW = 36 * HOUR
WORKING_HOURS = 10
LESSON_FROM, LESSON_UNTIL = 12, 17
"""Hours (UTC) of a course."""
ALONE = 0.35
"""How often the GPUs of a wide lane are used one by one instead of together."""


class Habit(Enum):
    NORMAL = auto()
    """Jobs and pauses, by day and by night."""
    BUSY = auto()
    TEAM = auto()
    """Busy with jobs that run on the same GPUs of other hosts too."""
    COURSE = auto()
    """Used on weekday afternoons, all at once, and hardly at other times."""
    HELD = auto()
    """A user holds memory, and nothing computes."""
    SHARED = auto()
    FREE = auto()
    ALLOCATED = auto()
    """A Slurm job has it, and runs nothing on it."""
    DESKTOP = auto()
    """Only a screen is attached."""
    GONE = auto()
    """The driver still lists a process that ended long ago."""


@dataclass(frozen=True)
class Slot:
    gpu: int
    slice: int | None = None


@dataclass(frozen=True)
class Lane:
    key: str
    """Seed, host and first GPU: all chance in it comes from here."""
    habit: Habit
    group: str
    places: tuple[Slot, ...]

    def __hash__(self) -> int:
        # The windows are looked up by lane, a million times for a month of history.
        return hash(self.key)


@dataclass(frozen=True)
class DemoJob:
    start: int
    """Seconds since 1970, as all times here."""
    end: int
    places: tuple[Slot, ...]
    person: DemoUser
    program: Program
    memory: float
    load: float
    phase: float
    number: int
    """PIDs are made of it."""

    @property
    def slurm_id(self) -> int:
        return 20_000 + self.number % 80_000


def running(lane: Lane, at: int) -> Iterator[DemoJob]:
    return (job for job in _window(lane, _window_number(lane.key, at)) if job.start <= at < job.end)


def utilization(job: DemoJob, at: int, rank: int = 0) -> float:
    """Percent at that second, on the job's GPU number `rank`."""
    if not job.load:
        return 0.0
    phase = job.phase + 0.4 * rank
    wave = 0.6 * sin(at / 613 + phase) + 0.4 * sin(at / 97 + 2.3 * phase)
    if job.program.rhythm is Rhythm.BURSTS:
        return max(0.0, job.load + 10 * wave) if sin(at / 2900 + phase) > 0.75 else 0.0
    if job.program.rhythm is Rhythm.DAILY:
        return min(100.0, max(0.0, job.load * daylight(at) + 5 * wave))
    # A pause each hour or so: the model is evaluated, a checkpoint written.
    pausing = (at + int(job.phase * 1000)) % 4000 < 120
    return min(100.0, max(8.0, job.load * (0.4 if pausing else 1) + 5 * wave))


def daylight(at: int) -> float:
    """From 0.05 in the night to 1 in the afternoon."""
    return max(0.05, 0.5 + 0.5 * sin((at % DAY / DAY - 0.33) * 2 * pi))


def _window_number(key: str, at: int) -> int:
    number = at // WINDOW
    return number if at >= _border(key, number) else number - 1


@lru_cache(maxsize=65536)
def _border(key: str, number: int) -> int:
    return number * WINDOW + int(dice(key, "border", number).random() * WINDOW / 2)


@lru_cache(maxsize=16384)
def _window(lane: Lane, number: int) -> tuple[DemoJob, ...]:
    start, end = _border(lane.key, number), _border(lane.key, number + 1)
    chance = dice(lane.key, number)
    people, programs = _who_and_what(lane)
    jobs: list[DemoJob] = []
    if lane.habit is Habit.COURSE:
        return tuple(_lessons(people, programs, lane.places, start, end, chance))
    for holders, places in _parts(lane, people, chance):
        jobs += _sequence(lane.habit, holders, programs, places, start, end, chance)
    return tuple(jobs)


def _who_and_what(lane: Lane) -> tuple[Sequence[DemoUser], Sequence[Program]]:
    group = GROUPS[lane.group]
    programs = {
        Habit.BUSY: [p for p in group.programs if p.rhythm is Rhythm.STEADY and p is not DEBUGGING]
        or [TRAINING],
        Habit.TEAM: [TRAINING],
        Habit.COURSE: [DEBUGGING, FINETUNING],
        Habit.HELD: [FORGOTTEN],
        Habit.GONE: [FORGOTTEN],
        Habit.SHARED: [DEBUGGING, FINETUNING],
    }
    return group.people, programs.get(lane.habit, group.programs)


def _parts(
    lane: Lane, people: Sequence[DemoUser], chance: Random
) -> list[tuple[Sequence[DemoUser], tuple[Slot, ...]]]:
    """The rows of jobs in a window: whose they are, and on which GPUs."""
    if lane.habit in (Habit.FREE, Habit.ALLOCATED, Habit.DESKTOP):
        return []
    if lane.habit is Habit.SHARED:
        # Two rows on the same GPUs, of different users.
        return [(people[0::2], lane.places), (people[1::2], lane.places)]
    if len(lane.places) > 1 and lane.habit is Habit.NORMAL and chance.random() < ALONE:
        return [(people, (place,)) for place in lane.places]
    return [(people, lane.places)]


def _sequence(
    habit: Habit,
    people: Sequence[DemoUser],
    programs: Sequence[Program],
    places: tuple[Slot, ...],
    start: int,
    end: int,
    chance: Random,
) -> Iterator[DemoJob]:
    while start < end:
        person, program = chance.choice(people), chance.choice(programs)
        if habit is Habit.NORMAL:
            start = _next_start(person, start, chance)
        until = start + int(chance.uniform(*program.hours) * HOUR)
        if start < end:
            yield _job(start, min(until, end), places, person, program, habit, chance)
        start = until


def _lessons(
    people: Sequence[DemoUser],
    programs: Sequence[Program],
    places: tuple[Slot, ...],
    start: int,
    end: int,
    chance: Random,
) -> Iterator[DemoJob]:
    """A job on each weekday afternoon, as if the hosts were booked for it."""
    for day in range(start // DAY, end // DAY + 1):
        first = day * DAY + int((LESSON_FROM + chance.uniform(0, 0.1)) * HOUR)
        last = day * DAY + int((LESSON_UNTIL + chance.uniform(0, 0.5)) * HOUR)
        person, program = chance.choice(people), chance.choice(programs)
        if not _is_weekend(day) and start <= first < end:
            yield _job(first, min(last, end), places, person, program, Habit.COURSE, chance)


def _is_weekend(day: int) -> bool:
    # The 1st of January 1970 was a Thursday.
    return (day + 3) % 7 >= 5


def _next_start(person: DemoUser, start: int, chance: Random) -> int:
    """Somewhat after `start`, when this one is at work and it is not Sunday."""
    start += int(chance.expovariate(1 / (1.5 * HOUR)))
    hours_late = (start // HOUR - person.starts_at) % 24
    if hours_late >= WORKING_HOURS:
        start += (24 - hours_late) * HOUR
    # The 1st of January 1970 was a Thursday.
    is_sunday = (start // DAY + 3) % 7 == 6
    return start + DAY if is_sunday and chance.random() < 0.7 else start


def _job(
    start: int,
    end: int,
    places: tuple[Slot, ...],
    person: DemoUser,
    program: Program,
    habit: Habit,
    chance: Random,
) -> DemoJob:
    memory = chance.uniform(*program.memory)
    return DemoJob(
        start=start,
        end=end,
        places=places,
        person=person,
        program=program,
        memory=min(memory, 0.45) if habit is Habit.SHARED else memory,
        load=chance.uniform(*program.load),
        phase=chance.uniform(0, 2 * pi),
        number=chance.randrange(30_000),
    )
