"""One card per GPU, or per slice where a GPU is cut into slices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gpumon_static.publish.names import short_model
from gpumon_static.publish.page import Bar, Card, Holder, Kind
from gpumon_static.publish.tooltips import build_tooltip, by_owner
from gpumon_static.publish.words import DASH, clip, duration, memory_of, percent, share
from gpumon_static.state import State, gpu_state, slice_state

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


def build_cards(host: str, anchor: str, gpus: Iterable[Gpu], busy: BusyConfig) -> tuple[Card, ...]:
    cards: list[Card] = []
    for gpu in gpus:
        if gpu.slices:
            cards += [_slice_card(host, anchor, gpu, mig, busy) for mig in gpu.slices]
        else:
            cards.append(_gpu_card(host, anchor, gpu, busy))
    return tuple(cards)


def profile(mig: MigDevice) -> str:
    return clip(mig.profile or "MIG", PROFILE_LETTERS)


def _gpu_card(host: str, anchor: str, gpu: Gpu, busy: BusyConfig) -> Card:
    state = gpu_state(gpu, busy)
    return Card(
        anchor=f"{anchor}:{gpu.index}",
        index=str(gpu.index),
        model=short_model(gpu.name),
        kind=KIND_OF[state],
        word=state.value,
        utilization=Bar(share(gpu.utilization, 100), percent(gpu.utilization)),
        memory=_memory_bar(gpu.memory_used_mib, gpu.memory_total_mib),
        holder=_holder(gpu, gpu.processes, state),
        tooltip=build_tooltip(host, gpu),
    )


def _slice_card(host: str, anchor: str, gpu: Gpu, mig: MigDevice, busy: BusyConfig) -> Card:
    state = slice_state(mig, gpu, busy)
    return Card(
        anchor=f"{anchor}:{gpu.index}.{mig.index}",
        index=f"{gpu.index}:{mig.index}",
        model=f"{profile(mig)} {short_model(gpu.name)}",
        kind=KIND_OF[state],
        word=state.value,
        utilization=Bar(None, percent(None)),
        memory=_memory_bar(mig.memory_used_mib, mig.memory_total_mib),
        holder=_holder(gpu, mig.processes, state),
        tooltip=build_tooltip(host, gpu, mig),
    )


def _memory_bar(used_mib: float | None, total_mib: float | None) -> Bar:
    return Bar(share(used_mib, total_mib), memory_of(used_mib, total_mib))


def _holder(gpu: Gpu, processes: Sequence[Process], state: State) -> Holder:
    owners = by_owner(p for p in processes if not p.is_graphics_only)
    if not owners:
        return Holder(_nobody(gpu, processes, state), is_name=False, more="", runtime="")
    (name, is_name), _ = owners[0]
    runtimes = [p.elapsed_s for _, held in owners for p in held if p.elapsed_s is not None]
    return Holder(
        text=name,
        is_name=is_name,
        more=f"+{len(owners) - 1}" if len(owners) > 1 else "",
        runtime=duration(max(runtimes)) if runtimes else DASH,
    )


def _nobody(gpu: Gpu, processes: Sequence[Process], state: State) -> str:
    if not gpu.processes_known:
        return "processes not listed"
    if state.is_taken:
        return "no process to be seen"
    if gpu.mig_mode and not gpu.slices:
        return "MIG on, no slices yet"
    return "desktop only" if processes else "no processes"
