"""One card per GPU, or per slice where a GPU is cut into slices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gpumon_static.health import faults
from gpumon_static.publish.health import card_word
from gpumon_static.publish.names import short_model
from gpumon_static.publish.page import Bar, Card, Holder, Kind, Numbers
from gpumon_static.publish.privacy import Tier
from gpumon_static.publish.tooltips import build_tooltip, by_owner
from gpumon_static.publish.words import DASH, clip, count, duration, memory, memory_of, percent, share
from gpumon_static.state import State, ghost_mib, gpu_state, slice_state

if TYPE_CHECKING:
    from gpumon_static.config import BusyConfig
    from gpumon_static.model import Gpu, MigDevice, Process

PROFILE_LETTERS = 16

KIND_OF = {
    State.FREE: Kind.FREE,
    State.BUSY: Kind.BUSY,
    State.HELD: Kind.HELD,
    State.UNKNOWN: Kind.UNKNOWN,
}


def build_cards(
    host: str, anchor: str, gpus: Iterable[Gpu], busy: BusyConfig, tier: Tier = Tier.NAMES
) -> tuple[Card, ...]:
    cards: list[Card] = []
    for gpu in gpus:
        if gpu.slices:
            cards += [_slice_card(host, anchor, gpu, mig, busy, tier) for mig in gpu.slices]
        else:
            cards.append(_gpu_card(host, anchor, gpu, busy, tier))
    return tuple(cards)


def slice_model(mig: MigDevice, gpu: Gpu) -> str:
    """Its profile first: that is what differs, and what is left where there is no room for all of it."""
    return f"{clip(mig.profile or 'MIG', PROFILE_LETTERS)} {short_model(gpu.name)}"


def _gpu_card(host: str, anchor: str, gpu: Gpu, busy: BusyConfig, tier: Tier) -> Card:
    state = gpu_state(gpu, busy)
    return Card(
        anchor=f"{anchor}:{gpu.index}",
        index=str(gpu.index),
        model=short_model(gpu.name),
        kind=KIND_OF[state],
        word=state.value,
        utilization=Bar(share(gpu.utilization, 100), percent(gpu.utilization)),
        memory=_memory_bar(gpu.memory_used_mib, gpu.memory_total_mib),
        holder=_holder(gpu, gpu.processes, state, tier, ghost_mib(gpu, None, busy)),
        tooltip=build_tooltip(host, gpu, tier=tier, busy=busy),
        numbers=_numbers(gpu, gpu, state),
        fault=card_word(gpu),
    )


def _slice_card(host: str, anchor: str, gpu: Gpu, mig: MigDevice, busy: BusyConfig, tier: Tier) -> Card:
    state = slice_state(mig, gpu, busy)
    return Card(
        anchor=f"{anchor}:{gpu.index}.{mig.index}",
        index=f"{gpu.index}:{mig.index}",
        model=slice_model(mig, gpu),
        kind=KIND_OF[state],
        word=state.value,
        utilization=Bar(None, percent(None)),
        memory=_memory_bar(mig.memory_used_mib, mig.memory_total_mib),
        holder=_holder(gpu, mig.processes, state, tier, ghost_mib(gpu, mig, busy)),
        tooltip=build_tooltip(host, gpu, mig, tier, busy),
        numbers=_numbers(gpu, mig, state),
        fault=card_word(gpu),
    )


def _memory_bar(used_mib: float | None, total_mib: float | None) -> Bar:
    return Bar(share(used_mib, total_mib), memory_of(used_mib, total_mib))


def _numbers(gpu: Gpu, shown: Gpu | MigDevice, state: State) -> Numbers:
    is_slice = shown is not gpu
    working = [p for p in shown.processes if not p.is_graphics_only]
    return Numbers(
        utilization=None if is_slice else gpu.utilization,
        used_mib=shown.memory_used_mib,
        total_mib=shown.memory_total_mib,
        owners=tuple(name for (name, _), _ in by_owner(working)),
        runtime_s=_longest(working),
        temperature_c=gpu.temperature_c,
        power_w=gpu.power_w,
        uuid=shown.uuid if is_slice else None,
        is_usable=state is State.FREE and not faults(gpu.faults),
    )


def _longest(processes: Iterable[Process]) -> int | None:
    return max((p.elapsed_s for p in processes if p.elapsed_s is not None), default=None)


def _holder(
    gpu: Gpu, processes: Sequence[Process], state: State, tier: Tier, ghost_mib: float | None
) -> Holder:
    working = [p for p in processes if not p.is_graphics_only]
    owners = by_owner(working)
    if not owners:
        nobody = f"{memory(ghost_mib)} held by no process" if ghost_mib else _nobody(gpu, processes, state)
        return Holder(nobody, is_name=False, more="", runtime="")
    longest = _longest(working)
    runtime = DASH if longest is None else duration(longest)
    if tier is Tier.COUNTS:
        return Holder(count(len(owners), "user"), is_name=False, more="", runtime=runtime)
    (name, is_name), _ = owners[0]
    return Holder(name, is_name, more=f"+{len(owners) - 1}" if len(owners) > 1 else "", runtime=runtime)


def _nobody(gpu: Gpu, processes: Sequence[Process], state: State) -> str:
    if not gpu.processes_known:
        return "processes not listed"
    if state.is_taken:
        return "no process to be seen"
    if gpu.mig_mode and not gpu.slices:
        return "MIG on, no slices yet"
    return "desktop only" if processes else "no processes"
