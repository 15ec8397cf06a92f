"""The first thing on the page: how many GPUs are free, of which models, and what the others do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gpumon_static.publish.cards import KIND_OF, slice_model
from gpumon_static.publish.names import short_model
from gpumon_static.publish.page import Bar, Headline, ModelCount, Quantity, Tally
from gpumon_static.publish.words import count, memory, natural_key, share
from gpumon_static.state import State, gpu_state, slice_state

if TYPE_CHECKING:
    from gpumon_static.config import BusyConfig
    from gpumon_static.model import Gpu, HostReading, MigDevice

    _Counted = tuple[str, State, float]
    """Model, state, free memory in MiB."""


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
    largest: dict[str, float] = {}
    whole: list[_Counted] = []
    for gpu in gpus:
        model = short_model(gpu.name)
        largest[model] = max(largest.get(model, 0), gpu.memory_total_mib or 0)
        whole.append((model, gpu_state(gpu, busy), _free_mib(gpu)))
    cut = [
        (slice_model(mig, gpu), slice_state(mig, gpu, busy), _free_mib(mig))
        for gpu in gpus
        for mig in gpu.slices
    ]
    by_memory = sorted(largest, key=lambda model: (-largest[model], natural_key(model)))
    by_name = sorted({model for model, _, _ in cut}, key=natural_key)
    return (*_counts(by_memory, whole), *_counts(by_name, cut))


def build_tallies(readings: Iterable[HostReading], busy: BusyConfig) -> tuple[Tally, ...]:
    states = Counter(gpu_state(gpu, busy) for reading in readings if reading.ok for gpu in reading.gpus)
    return tuple(Tally(KIND_OF[state], states[state], state.value) for state in State if states[state])


def _free_mib(shown: Gpu | MigDevice) -> float:
    return max(0.0, (shown.memory_total_mib or 0) - (shown.memory_used_mib or 0))


def _counts(models: Iterable[str], counted: Sequence[_Counted]) -> list[ModelCount]:
    totals = Counter(model for model, _, _ in counted)
    free: Counter[str] = Counter()
    free_mib: Counter[str] = Counter()
    for model, state, mib in counted:
        if state is State.FREE:
            free[model] += 1
            free_mib[model] += round(mib)
    return [
        ModelCount(
            model,
            free[model],
            totals[model],
            Bar(share(free[model], totals[model]), Quantity(f"{free[model]} / {totals[model]}")),
            f"{_plenty(free_mib[model])} free" if free_mib[model] else "",
        )
        for model in models
    ]


def _plenty(mib: float) -> Quantity:
    return Quantity(f"{mib / 1024 / 1024:.0f}", "TB") if mib >= 10 * 1024 * 1024 else memory(mib)


def _failures(readings: Sequence[HostReading], hosts: int) -> str:
    failed = sum(not reading.ok for reading in readings)
    missing = hosts - len(readings)
    parts = [f"{failed} of {count(hosts, 'host')} failed"] if failed else []
    parts += [f"{count(missing, 'host')} not fetched yet"] if missing else []
    return ", ".join(parts) or f"on {count(hosts, 'host')}"
