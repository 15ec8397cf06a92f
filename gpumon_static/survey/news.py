"""An event in words: one line for a subject, and a few sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumon_static.model import rules
from gpumon_static.store.events import WORKER_DOWN, WORKER_UP
from gpumon_static.survey.names import short_model
from gpumon_static.survey.privacy import REASONS
from gpumon_static.times import duration

if TYPE_CHECKING:
    from gpumon_static.store.events import Event, EventGpu


WITHOUT_WORKER = (
    "Other workers or the collector read the hosts of any worker; those with `worker = ...` may be down."
)
MOST_LINES = 32
"""Of one event: the feed has fifty of them."""


@dataclass(frozen=True, slots=True)
class News:
    title: str
    text: str


def tell(event: Event, *, with_error: bool = True) -> News:
    """`with_error`: the host's own error too, which may contain names; else a sentence for the status."""
    if event.type == "host-down":
        error = _reason(event, with_error)
        since = f"{event.since.astimezone():%d %b %H:%M %Z}"
        return News(
            f"{event.host} gives no data: {event.status}",
            f"{event.host} has been failing since {since}.{error}",
        )
    if event.type == "host-up":
        return News(f"{event.host} is back", f"It gave no data for {duration(event.lasted_s)}.")
    if event.type == WORKER_DOWN:
        since = f"{event.since.astimezone():%d %b %H:%M %Z}"
        return News(f"{event.host} {event.error}", f"Since {since}. {WITHOUT_WORKER}")
    if event.type == WORKER_UP:
        return News(f"{event.host} is back", f"It could not be used for {duration(event.lasted_s)}.")
    if event.type == "gpu-fault":
        return _fault(event, with_error)
    if event.type == "job-idle":
        return _idle(event, with_error)
    which = _which(event.gpus)
    if event.type == "gpu-recovered":
        return News(f"{event.host}: {which} healthy again", f"The fault is gone: {_words(event.gpus)}.")
    models = ", ".join(dict.fromkeys(short_model(gpu.name) for gpu in event.gpus))
    text = f"{models} on {event.host}, free again after {duration(event.lasted_s)} in use."
    return News(f"{event.host}: {which} free", text)


def _idle(event: Event, with_names: bool) -> News:
    job = "a Slurm job"
    if with_names:
        job = f"job {event.job}" + (f" of {event.user}" if event.user else "")
    models = ", ".join(dict.fromkeys(short_model(gpu.name) for gpu in event.gpus))
    which = _numbered(event.gpus)
    text = f"{models} on {event.host}, allocated by Slurm and idle for {duration(event.lasted_s)}."
    return News(f"{event.host}: {job} leaves {which} idle", text)


def _reason(event: Event, with_error: bool) -> str:
    if with_error:
        return f" {event.error}." if event.error else ""
    return next((f" {sentence}" for status, sentence in REASONS.items() if status == event.status), "")


def _fault(event: Event, with_detail: bool) -> News:
    lines = []
    for gpu in event.gpus:
        who = "The host" if gpu.index is None else f"GPU {gpu.index}"
        for rule in gpu.rules:
            detail = f" ({gpu.detail})" if gpu.detail and with_detail and len(gpu.rules) == 1 else ""
            explained = f" {rules.explanation(rule)}".rstrip()
            lines.append(f"{who}: {rules.word(rule)}{detail}.{explained}")
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"And {len(lines) - MOST_LINES} more."]
    whole_host = all(gpu.index is None for gpu in event.gpus)
    which = "" if whole_host else f"{_numbered([g for g in event.gpus if g.index is not None])}: "
    return News(f"{event.host}: {which}{_words(event.gpus)}", "\n".join(lines))


def _words(gpus: Sequence[EventGpu]) -> str:
    found = dict.fromkeys(rule for gpu in gpus for rule in gpu.rules)
    return ", ".join(map(rules.word, found))


def _which(gpus: Sequence[EventGpu]) -> str:
    numbered = [gpu for gpu in gpus if gpu.index is not None]
    if not numbered:
        return "the host is"
    return f"{_numbered(numbered)} {'is' if len(numbered) == 1 else 'are'}"


def _numbered(gpus: Sequence[EventGpu]) -> str:
    indexes = [str(gpu.index) for gpu in gpus]
    if len(indexes) == 1:
        return f"GPU {indexes[0]}"
    return f"GPUs {', '.join(indexes[:-1])} and {indexes[-1]}"
