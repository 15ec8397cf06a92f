"""The first thing on the page: how many GPUs are free, of which models, and what the others do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gpumon_static.publish.cards import KIND_OF, profile
from gpumon_static.publish.names import short_model
from gpumon_static.publish.page import Bar, Headline, ModelCount, Quantity, Tally
from gpumon_static.publish.words import count, natural_key, share
from gpumon_static.state import State, gpu_state, slice_state

if TYPE_CHECKING:
    from gpumon_static.config import BusyConfig
    from gpumon_static.model import HostReading


def build_headline(readings: Sequence[HostReading], hosts: int, busy: BusyConfig) -> Headline:
    """Counts whole GPUs; one that is cut into slices is free when all of them are."""
    answered = [reading for reading in readings if reading.ok]
    states = [gpu_state(gpu, busy) for reading in answered for gpu in reading.gpus]
    if states:
        free = states.count(State.FREE)
        return Headline(str(free), f"of {count(len(states), 'GPU')} free", _failures(readings, hosts))
    if not readings:
        return Headline("", "No data yet", "No host has been asked so far: gpumon-static fetch does that.")
    if not answered:
        who = "The only host" if hosts == 1 else f"All {hosts} hosts"
        return Headline("", "No host answered", f"{who} failed; the cards below say why.")
    return Headline("", "No GPUs found", _failures(readings, hosts))


def build_models(readings: Iterable[HostReading], busy: BusyConfig) -> tuple[ModelCount, ...]:
    """Whole GPUs by model, those with the most memory first, then slices by profile."""
    gpus = [gpu for reading in readings if reading.ok for gpu in reading.gpus]
    memory: dict[str, float] = {}
    whole: list[tuple[str, State]] = []
    for gpu in gpus:
        model = short_model(gpu.name)
        memory[model] = max(memory.get(model, 0), gpu.memory_total_mib or 0)
        whole.append((model, gpu_state(gpu, busy)))
    cut = [
        (f"{short_model(gpu.name)} {profile(mig)}", slice_state(mig, gpu, busy))
        for gpu in gpus
        for mig in gpu.slices
    ]
    by_memory = sorted(memory, key=lambda model: (-memory[model], natural_key(model)))
    by_name = sorted({model for model, _ in cut}, key=natural_key)
    return (*_counts(by_memory, whole), *_counts(by_name, cut))


def build_tallies(readings: Iterable[HostReading], busy: BusyConfig) -> tuple[Tally, ...]:
    states = Counter(gpu_state(gpu, busy) for reading in readings if reading.ok for gpu in reading.gpus)
    return tuple(Tally(KIND_OF[state], states[state], state.value) for state in State if states[state])


def _counts(models: Iterable[str], states: Sequence[tuple[str, State]]) -> list[ModelCount]:
    totals = Counter(model for model, _ in states)
    free = Counter(model for model, state in states if state is State.FREE)
    return [
        ModelCount(
            model,
            free[model],
            totals[model],
            Bar(share(free[model], totals[model]), Quantity(f"{free[model]} / {totals[model]}")),
        )
        for model in models
    ]


def _failures(readings: Sequence[HostReading], hosts: int) -> str:
    failed = sum(not reading.ok for reading in readings)
    missing = hosts - len(readings)
    parts = [f"{failed} of {count(hosts, 'host')} failed"] if failed else []
    parts += [f"{count(missing, 'host')} not fetched yet"] if missing else []
    return ", ".join(parts) or f"on {count(hosts, 'host')}"
