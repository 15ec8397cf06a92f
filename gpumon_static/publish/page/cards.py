"""One card per GPU; of one that is cut into slices one for each, and the GPU's own around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from gpumon_static.bounds.vendors import vendor_of
from gpumon_static.model.rules import marked
from gpumon_static.publish.page.past import CardPast
from gpumon_static.publish.page.records import Bar, Card, CutGpu, Holder, Numbers, Since
from gpumon_static.publish.page.tooltips import SHARED, build_tooltip, ends_seconds
from gpumon_static.publish.page.words import memory, memory_of, percent, share
from gpumon_static.survey.faults import fault_words
from gpumon_static.survey.names import short_model, slice_model
from gpumon_static.survey.owners import USER_LETTERS, by_owner
from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.slurm.when import clock_time
from gpumon_static.survey.state import ghost_mib
from gpumon_static.text import DASH, PROFILE_LETTERS, clip, count
from gpumon_static.times import by_minute, duration, utc_text

if TYPE_CHECKING:
    from gpumon_static.config.settings import BusyConfig
    from gpumon_static.model import Gpu, Process
    from gpumon_static.publish.page.past import PastView
    from gpumon_static.survey.owners import Owner
    from gpumon_static.survey.survey import Place, SurveyedHost

    Owners = list[tuple[Owner, list[Process]]]


def build_cards(host: SurveyedHost, anchor: str, tier: Tier, past: PastView | None) -> tuple[Card, ...]:
    return tuple([_card(host, anchor, place, tier, past) for place in host.places()])


def _card(host: SurveyedHost, anchor: str, place: Place, tier: Tier, past: PastView | None) -> Card:
    gpu, mig = place.gpu, place.mig
    owners = by_owner(place.working)
    longest = _longest(place.working)
    holder = _holder(place, tier, host.busy, owners, longest)
    was = past.of_card(host.name, place.index, place.state, holder) if past else CardPast(holder)
    return Card(
        anchor=f"{anchor}:{gpu.index}.{mig.index}" if mig else f"{anchor}:{gpu.index}",
        index=place.index,
        model=slice_model(mig, gpu) if mig else short_model(gpu.name),
        state=place.shown_state,
        utilization=Bar(share(place.utilization, 100), percent(place.utilization)),
        memory=_memory_bar(place.memory_used_mib, place.memory_total_mib),
        holder=was.holder,
        tooltip=build_tooltip(gpu, place.cut, tier, host.busy),
        numbers=_numbers(place, owners, longest),
        fault=_fault(gpu) if gpu.faults else "",
        shared=SHARED if gpu.memory_shared else "",
        since=was.since,
        ribbon=was.ribbon,
        since_s=was.since_s,
        ends=_ends(place, host.reading.fetched_at) if host.reading else None,
        profile=clip(mig.profile or "MIG", PROFILE_LETTERS) if mig else "",
    )


def build_boxes(gpus: Iterable[Gpu], anchor: str, cards: Sequence[Card]) -> tuple[Card | CutGpu, ...]:
    """The cards as they stand on the page: slices in that of their GPU."""
    rest = iter(cards)
    return tuple(
        _cut_gpu(gpu, anchor, tuple(islice(rest, len(gpu.slices)))) if gpu.slices else next(rest)
        for gpu in gpus
    )


def _cut_gpu(gpu: Gpu, anchor: str, slices: tuple[Card, ...]) -> CutGpu:
    return CutGpu(
        anchor=f"{anchor}:{gpu.index}",
        index=str(gpu.index),
        model=short_model(gpu.name),
        utilization=Bar(share(gpu.utilization, 100), percent(gpu.utilization)),
        memory=_memory_bar(gpu.memory_used_mib, gpu.memory_total_mib),
        fault=_fault(gpu) if gpu.faults else "",
        slices=slices,
    )


def _ends(place: Place, now: datetime) -> Since | None:
    at = None if place.mig else place.gpu.allocation.ends_at
    return ends_words(at, now, "until") if at else None


@lru_cache(maxsize=4096)
def ends_words(at: datetime, now: datetime, word: str = "ends by") -> Since:
    """In UTC, as all times are written; the browser shows the reader's."""
    return Since(f"{word} {clock_time(at, now, UTC)} UTC", utc_text(by_minute(at)).replace(":00Z", "Z"))


def _fault(gpu: Gpu) -> str:
    """The first fault, which is the worst one, and how many more there are."""
    words = fault_words(gpu)
    more = f" +{len(words) - 1}" if len(words) > 1 else ""
    return words[0] + more if words else ""


def _memory_bar(used_mib: float | None, total_mib: float | None) -> Bar:
    return Bar(share(used_mib, total_mib), memory_of(used_mib, total_mib))


def _numbers(place: Place, owners: Owners, longest: int | None) -> Numbers:
    will_be_free = place.takes_jobs and not place.mig and not marked(place.gpu.faults)
    ends_at = place.gpu.allocation.ends_at if will_be_free else None
    vendor = vendor_of(place.gpu.vendor)
    return Numbers(
        utilization=place.utilization,
        used_mib=place.memory_used_mib,
        total_mib=place.memory_total_mib,
        owners=_names(place, owners),
        runtime_s=longest,
        temperature_c=place.gpu.temperature_c,
        power_w=place.gpu.power_w,
        device=place.device if place.device != place.index else None,
        environment=vendor.environment,
        vendor=vendor.word,
        is_offered=place.is_offered,
        ends_at=ends_seconds(ends_at),
    )


def _names(place: Place, owners: Owners) -> tuple[str, ...]:
    """Of its processes; without any, of the Slurm job that has it."""
    of_job = place.gpu.allocation.user
    if place.is_allocated_only and of_job:
        return (clip(of_job, USER_LETTERS),)
    return tuple([who.name for who, _ in owners])


def _longest(processes: Iterable[Process]) -> int | None:
    return max([p.elapsed_s for p in processes if p.elapsed_s is not None], default=None)


def _holder(place: Place, tier: Tier, busy: BusyConfig, owners: Owners, longest: int | None) -> Holder:
    if place.is_allocated_only:
        of_job = place.gpu.allocation.user if tier is not Tier.COUNTS else None
        return Holder(clip(of_job or "a Slurm job", USER_LETTERS), of_job is not None, more="", runtime="")
    if not owners:
        ghost = ghost_mib(place.gpu, place.cut, busy)
        held = f"{memory(ghost, place.memory_total_mib)} held by no process" if ghost else _nobody(place)
        return Holder(held, False, more="", runtime="", is_unused=_is_unused(place), is_nobody=True)
    if tier is Tier.COUNTS:
        return Holder(count(len(owners), "user"), is_name=False, more="", runtime="")
    runtime = DASH if longest is None else duration(longest)
    (name, is_name), _ = owners[0]
    return Holder(name, is_name, more=f"+{len(owners) - 1}" if len(owners) > 1 else "", runtime=runtime)


def _is_unused(place: Place) -> bool:
    """Known to have no process at all: the line has room for how long that has been so."""
    return place.is_usable and place.gpu.processes_known and not place.processes


def _nobody(place: Place) -> str:
    if not place.gpu.processes_known:
        return "processes not listed"
    if place.state.is_taken:
        return "no visible process"
    if place.gpu.mig_mode and not place.gpu.slices:
        return "MIG on, no slices yet"
    return "desktop only" if place.processes else "no processes"
