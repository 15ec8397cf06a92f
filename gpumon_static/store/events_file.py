"""`data/events.json`: what the last fetches saw, and the events for the feed.

A file that is missing or damaged is an empty one: the next fetch takes note of everything anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from gpumon_static.files import write_atomic
from gpumon_static.store.events import Event, EventGpu, EventMemory, HostMemory, Watched
from gpumon_static.times import utc_text

VERSION = 1


def path_in(data: Path) -> Path:
    return data / "events.json"


def load(path: Path) -> EventMemory:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["version"] != VERSION:
            return EventMemory()
        return EventMemory(
            feed_id=document["feed_id"],
            hosts={name: _host(host) for name, host in document["hosts"].items()},
            events=[_event(event) for event in document["events"]],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return EventMemory()


def save(path: Path, memory: EventMemory) -> None:
    document = {"version": VERSION, **asdict(memory)}
    write_atomic(path, json.dumps(_sparse(document), default=_time_text, separators=(",", ":")) + "\n")


def event_document(event: Event) -> dict[str, Any]:
    """An event as JSON has it: times as text, what is not known left out."""
    document: dict[str, Any] = json.loads(json.dumps(_sparse(asdict(event)), default=_time_text))
    return document


def _sparse(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _sparse(v) for k, v in value.items() if v is not None}
    return [_sparse(v) for v in value] if isinstance(value, list | tuple) else value


def _time_text(value: Any) -> str:
    if not isinstance(value, datetime):
        raise TypeError(type(value).__name__)
    return utc_text(value, exact=True)


def _host(given: Mapping[str, Any]) -> HostMemory:
    return HostMemory(
        read_at=datetime.fromisoformat(given["read_at"]),
        host=_watched(given["host"]),
        uses={key: _watched(watched) for key, watched in given["uses"].items()},
        faults={key: _watched(watched) for key, watched in given["faults"].items()},
    )


def _watched(given: Mapping[str, Any]) -> Watched:
    return Watched(**_with_times(given, "since", "next_since"))


def _event(given: Mapping[str, Any]) -> Event:
    gpus = tuple(
        EventGpu(**{"index": None, **gpu, "rules": tuple(gpu.get("rules", ()))}) for gpu in given["gpus"]
    )
    return Event(**{"group": None, **_with_times(given, "at", "since"), "gpus": gpus})


def _with_times(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    times = {name: datetime.fromisoformat(given[name]) for name in names if name in given}
    return {**given, **times}
