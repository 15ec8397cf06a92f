"""The lab as one page or script may show it: hosts, GPUs and their states, on that page's privacy tier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from gpumon_static.model import Gpu, HostReading, MigDevice, Process
from gpumon_static.model.rules import marked
from gpumon_static.model.states import State
from gpumon_static.survey.faults import HostFault, host_faults, judged
from gpumon_static.survey.jobs import Jobs, find_jobs
from gpumon_static.survey.privacy import Tier, apply_tier, report_on_tier
from gpumon_static.survey.shown_names import with_shown_names, without_command_lines
from gpumon_static.survey.slurm.given import given_to
from gpumon_static.survey.slurm.nodes import closed_words
from gpumon_static.survey.state import Slice, gpu_state, is_allocated_only, slice_state, slices_of
from gpumon_static.text import DEVICE, NUMBERS, natural_key
from gpumon_static.times import Age, age_of

if TYPE_CHECKING:
    from gpumon_static.config.settings import BusyConfig, Config, HostConfig, PageConfig
    from gpumon_static.store.slurm.slurm_file import ClusterReport
    from gpumon_static.survey.owners import Owner
    from gpumon_static.survey.slurm.given import Given

GRACE_S = 60
"""Time that a run may need until its data is there, before it counts as missed."""


@dataclass(frozen=True)
class Place:
    """Something that one can run on: a whole GPU, or a slice."""

    gpu: Gpu
    cut: Slice | None
    index: str
    """3, or 3:1 for a slice."""
    state: State
    takes_jobs: bool = True
    """False where Slurm starts nothing on its host."""

    @property
    def mig(self) -> MigDevice | None:
        return self.cut.mig if self.cut else None

    @property
    def memory_used_mib(self) -> float | None:
        return (self.mig or self.gpu).memory_used_mib

    @property
    def memory_total_mib(self) -> float | None:
        return (self.mig or self.gpu).memory_total_mib

    @property
    def utilization(self) -> float | None:
        """None is reported of a slice."""
        return None if self.mig else self.gpu.utilization

    @property
    def processes(self) -> tuple[Process, ...]:
        return (self.mig or self.gpu).processes

    @property
    def working(self) -> list[Process]:
        return [process for process in self.processes if not process.is_graphics_only]

    @property
    def device(self) -> str | None:
        """What CUDA_VISIBLE_DEVICES or its kin takes: a whole GPU has a number, a slice its UUID."""
        if self.mig is None:
            own = self.gpu.device
            return own if own and NUMBERS.fullmatch(own) else str(self.gpu.index)
        return self.mig.uuid if self.mig.uuid and DEVICE.fullmatch(self.mig.uuid) else None

    @property
    def is_usable(self) -> bool:
        """One can run on it now."""
        return self.state is State.FREE and self.takes_jobs

    @property
    def is_allocated_only(self) -> bool:
        """A job has it, and no process is seen on it."""
        return self.cut is None and is_allocated_only(self.gpu)

    @property
    def shown_state(self) -> State:
        """The state as users see it."""
        return State.ALLOCATED if self.state is State.HELD and self.is_allocated_only else self.state

    @property
    def is_offered(self) -> bool:
        """Free, nothing is known to be wrong with it, and selectable by a program."""
        return self.is_usable and not marked(self.gpu.faults) and self.device is not None


@dataclass(frozen=True)
class SurveyedHost:
    config: HostConfig
    reading: HostReading | None
    """None for a host that no fetch has asked yet, and for one that is not in use."""
    found: tuple[HostFault, ...]
    """Faults of the host as a whole."""
    busy: BusyConfig
    state: str | None = None
    """Of a host that is not in use: planned, maintenance or retired."""
    state_words: str = ""
    """With the first day without it: `maintenance until 2026-12-01`."""

    @property
    def faults(self) -> tuple[str, ...]:
        """In words."""
        return tuple(fault.words for fault in self.found)

    @property
    def has_failed(self) -> bool:
        return self.reading is not None and not self.reading.ok

    @property
    def is_unread(self) -> bool:
        """No fetch has asked it yet."""
        return self.reading is None and self.state is None

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def ok(self) -> bool:
        return self.reading is not None and self.reading.ok

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return self.reading.gpus if self.reading and self.reading.ok else ()

    @property
    def vendor(self) -> str:
        """Of its first GPU, whose driver the reading has; empty where there is none."""
        return self.gpus[0].vendor if self.gpus else ""

    @property
    def slurm_words(self) -> str | None:
        """Why Slurm starts no jobs of everybody there; None where it does, or where none manages it."""
        return closed_words(self.reading.node) if self.reading else None

    def state_of(self, gpu: Gpu) -> State:
        """Of one of its own GPUs."""
        return self._state_by_index[gpu.index]

    @cached_property
    def _state_by_index(self) -> dict[int, State]:
        """Asked for often, and worked out once, as the places."""
        return {gpu.index: gpu_state(gpu, self.busy) for gpu in self.gpus}

    @cached_property
    def states(self) -> tuple[State, ...]:
        """Of its GPUs, in their order."""
        return tuple(self._state_by_index.values())

    @property
    def is_cut(self) -> bool:
        """It has slices."""
        return any(gpu.slices for gpu in self.gpus)

    @cached_property
    def _places_by_index(self) -> dict[int, tuple[Place, ...]]:
        return {gpu.index: tuple(self._cut(gpu)) for gpu in self.gpus}

    @cached_property
    def _places(self) -> tuple[Place, ...]:
        return tuple(place for places in self._places_by_index.values() for place in places)

    def places(self) -> tuple[Place, ...]:
        """Its GPUs, and in the place of one that is cut its slices."""
        return self._places

    def places_of(self, gpu: Gpu) -> tuple[Place, ...]:
        """The same of one of its own GPUs."""
        return self._places_by_index[gpu.index]

    def _cut(self, gpu: Gpu) -> Iterator[Place]:
        return places_of(self.reading, gpu, self.busy, self.state_of(gpu))


def places_of(reading: HostReading | None, gpu: Gpu, busy: BusyConfig, state: State) -> Iterator[Place]:
    """A GPU of that state, or its slices."""
    takes_jobs = reading is None or reading.node.takes_jobs is not False
    if not gpu.slices:
        yield Place(gpu, None, str(gpu.index), state, takes_jobs)
    for cut in slices_of(gpu):
        yield Place(gpu, cut, f"{gpu.index}:{cut.mig.index}", slice_state(cut, gpu, busy), takes_jobs)


@dataclass(frozen=True)
class Survey:
    title: str
    tier: Tier
    hosts: tuple[SurveyedHost, ...]
    """In natural order: n2 before n10."""
    made_at: datetime
    interval_s: int
    refresh_s: int
    clusters: tuple[ClusterReport, ...] = ()
    """How the question to each Slurm ended."""
    lost_workers: tuple[tuple[str, str], ...] = ()
    """Of Dask, each with the reason."""

    @cached_property
    def latest(self) -> datetime | None:
        """The time of the newest reading. One that is dated ahead does not date the others."""
        times = [host.reading.fetched_at for host in self.hosts if host.reading]
        return max((time for time in times if not self.age(time).is_ahead), default=max(times, default=None))

    @cached_property
    def jobs(self) -> Jobs:
        """For the page and for gpus.json."""
        return find_jobs(self)

    @cached_property
    def given(self) -> dict[Owner, Given]:
        """What Slurm has given to whom."""
        return given_to(host.reading for host in self.hosts if host.reading)

    @property
    def stale_after_s(self) -> int:
        return stale_after_s(self.interval_s)

    def age(self, time: datetime) -> Age:
        """When this was made."""
        return age_of(time, self.made_at, self.stale_after_s)

    def is_stale(self, host: SurveyedHost) -> bool:
        """Its reading was stale when this was made: it offers nothing."""
        return host.reading is None or self.age(host.reading.fetched_at).is_stale


def stale_after_s(interval_s: int) -> int:
    """Two runs were missed. `interval_s`: between two runs (site.interval)."""
    return 2 * interval_s + GRACE_S


def build_survey(
    readings: Sequence[HostReading],
    config: Config,
    now: datetime,
    spec: PageConfig | None = None,
    key: bytes = b"",
    clusters: Iterable[ClusterReport] = (),
) -> Survey:
    """`spec`: the page whose tier and hosts it has, index.html by default; `key`: for pseudonyms."""
    spec = spec or config.pages[0]
    tier = Tier(spec.users or config.site.users)
    known = judged(readings, config, now)
    if not config.site.show_command_lines:
        known = without_command_lines(known)
    if tier is Tier.NAMES:
        known = with_shown_names(known, config.users)
    on_tier = apply_tier(known, tier, key, (*config.users, *config.users.values()))
    return replace(
        assemble(on_tier, config, now, spec, tier), clusters=tuple(report_on_tier(c, tier) for c in clusters)
    )


def assemble(
    readings: Iterable[HostReading], config: Config, now: datetime, spec: PageConfig, tier: Tier
) -> Survey:
    read = {reading.host: reading for reading in readings}
    chosen = (host for host in config.hosts if not spec.groups or host.group in spec.groups)
    hosts = sorted(chosen, key=lambda host: natural_key(host.name))
    return Survey(
        title=spec.title or config.site.title,
        tier=tier,
        hosts=tuple(_surveyed(host, read.get(host.name), config, now) for host in hosts),
        made_at=now,
        interval_s=config.site.interval,
        refresh_s=config.site.refresh,
    )


def _surveyed(host: HostConfig, reading: HostReading | None, config: Config, now: datetime) -> SurveyedHost:
    if state := host.state_at(now):
        # Whatever it reported: nobody is to run there, and nothing of it is a fault.
        return SurveyedHost(host, None, (), config.busy, state, host.state_words(now))
    ignored = {
        *config.site.ignore_faults,
        *(one.rule for one in host.ignore if host.known(one.rule, None, now)),
    }
    found = host_faults(host, reading, ignored) if reading and reading.ok else []
    return SurveyedHost(host, reading, tuple(found), config.busy)
