"""The first thing on the page: how many GPUs are free, of which models, and what the others do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gpumon_static.model.states import State
from gpumon_static.publish.page.records import (
    KIND_OF,
    Bar,
    Headline,
    HostView,
    Kind,
    ModelCount,
    Quantity,
    StateCount,
)
from gpumon_static.publish.page.words import memory, share
from gpumon_static.survey.names import short_model, slice_model
from gpumon_static.survey.totals import total
from gpumon_static.text import count, natural_key

if TYPE_CHECKING:
    from gpumon_static.model import Gpu, MigDevice
    from gpumon_static.survey.survey import Survey, SurveyedHost

    _Counted = tuple[str, State, float]
    """Model, state, free memory in MiB."""


def build_headline(survey: Survey, views: Iterable[HostView]) -> Headline:
    """Of all GPUs that there are: those of hosts that do not answer, too."""
    sums, hosts = total(survey.hosts), sum(host.state is None for host in survey.hosts)
    if sums.gpus:
        of = f"of {count(sums.gpus + _unreachable(views), 'GPU')}"
        text = f"{of} free{sums.more_free}"
        return Headline(str(sums.free), text, _failures(survey), of, sums.more_free)
    if not any(host.reading for host in survey.hosts):
        return Headline("", "No data yet", "No host has been asked so far: run gpumon-static fetch.")
    if not any(host.ok for host in survey.hosts):
        who = "The only host" if hosts == 1 else f"All {hosts} hosts"
        return Headline("", "No host answered", f"{who} failed; the cards below show why.")
    return Headline("", "No GPUs found", _failures(survey))


def build_models(hosts: Iterable[SurveyedHost], views: Iterable[HostView]) -> tuple[ModelCount, ...]:
    """Whole GPUs by model, those with the most memory first, then slices by profile.

    Those of hosts that do not answer are part of the stock.
    """
    largest: dict[str, float] = {}
    whole: list[_Counted] = []
    cut: list[_Counted] = []
    for host in hosts:
        for gpu, state in zip(host.gpus, host.states, strict=True):
            model = short_model(gpu.name)
            largest[model] = max(largest.get(model, 0), gpu.memory_total_mib or 0)
            whole.append((model, state, _free_mib(gpu)))
        cut += [(slice_model(p.mig, p.gpu), p.state, _free_mib(p.mig)) for p in host.places() if p.mig]
    for view in views:
        for model in filter(None, view.unreachable):
            largest.setdefault(model, 0)
            whole.append((model, State.UNKNOWN, 0))
    by_memory = sorted(largest, key=lambda model: (-largest[model], natural_key(model)))
    by_name = sorted({model for model, _, _ in cut}, key=natural_key)
    return (*_counts(by_memory, whole), *_counts(by_name, cut))


def build_tallies(hosts: Sequence[SurveyedHost], views: Iterable[HostView]) -> tuple[StateCount, ...]:
    states, lost = total(hosts).states, _unreachable(views)
    counts = [StateCount(KIND_OF[state], states[state], state.word) for state in State if states[state]]
    return (*counts, *([StateCount(Kind.FAILED, lost, "unreachable")] if lost else []))


def _unreachable(views: Iterable[HostView]) -> int:
    return sum(len(view.unreachable) for view in views)


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


def _failures(survey: Survey) -> str:
    hosts = sum(host.state is None for host in survey.hosts)
    failed = sum(host.has_failed for host in survey.hosts)
    missing = sum(host.is_unread for host in survey.hosts)
    parts = [f"{failed} of {count(hosts, 'host')} failed"] if failed else []
    parts += [f"{count(missing, 'host')} not fetched yet"] if missing else []
    return ", ".join(parts) or f"on {count(hosts, 'host')}"
