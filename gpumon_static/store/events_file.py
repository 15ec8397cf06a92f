"""`data/events.json`: what the last fetches saw, and the events for the feed.

A missing file counts as empty. One that was read twice and is damaged, or not ours, is put aside by the next
fetch, which starts again from nothing. One that cannot be read now is left as it is: it may be whole.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from gpumon_static.errors import GpumonError
from gpumon_static.store.events import Event, EventGpu, EventMemory, HostMemory, Watched
from gpumon_static.system.files import NotAFile, read_file, write_atomic
from gpumon_static.text import Say
from gpumon_static.times import utc_text

T = TypeVar("T")

VERSION = 1
MOST_BYTES = 64 << 20


class DamagedEvents(ValueError):
    """What is wrong with the file, for a line on stderr."""


class UnreadableEvents(GpumonError):
    """The file is there, and the system does not let us read it: a fault of the disk, or a limit."""


def path_in(data: Path) -> Path:
    return data / "events.json"


def load(path: Path) -> EventMemory:
    """The file's content; empty for a damaged file. Raises `UnreadableEvents`."""
    try:
        return read(path)
    except DamagedEvents:
        return EventMemory()


def load_or_put_aside(path: Path, now: datetime, say: Say) -> EventMemory:
    """Raises `UnreadableEvents`: what was not read is not put aside."""
    with suppress(DamagedEvents):
        return read(path)
    try:
        # A second time: memory, disks and file servers have moments.
        return read(path)
    except DamagedEvents as error:
        aside = path.with_name(f"{path.name}.damaged-{now:%Y%m%dT%H%M%S}")
        try:
            path.rename(aside)
        except OSError as problem:
            say(f"events: {error}; it cannot be put aside: {problem.strerror}")
        else:
            say(f"events: {error}; the file is now {aside.name}, and a new one begins")
        return EventMemory()


def read(path: Path) -> EventMemory:
    """Raises `DamagedEvents` for anything but a whole file of ours, and `UnreadableEvents`."""
    try:
        content = read_file(path, MOST_BYTES + 1)
    except FileNotFoundError:
        return EventMemory()
    except NotAFile as error:
        raise DamagedEvents(f"{path} is not a file") from error
    except OSError as error:
        raise UnreadableEvents(f"cannot read {path}: {error.strerror}") from error
    try:
        return _memory(json.loads(content.decode()), path)
    except DamagedEvents:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DamagedEvents(f"{path} is damaged") from error


def save(path: Path, memory: EventMemory) -> None:
    document = {"version": VERSION, **_sparse(memory)}
    text = json.dumps(document, default=_time_text, separators=(",", ":"))
    write_atomic(path, text + "\n", private=True)


def event_document(event: Event) -> dict[str, Any]:
    """An event as JSON has it: times as text, what is not known left out."""
    document: dict[str, Any] = json.loads(json.dumps(_sparse(event), default=_time_text))
    return document


def _sparse(value: Any) -> Any:
    """Records as dicts. `asdict` would copy each of their values as well."""
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        return {k: _sparse(v) for k, v in value.items() if v is not None}
    return [_sparse(v) for v in value] if isinstance(value, list | tuple) else value


def _time_text(value: Any) -> str:
    if not isinstance(value, datetime):
        raise TypeError(type(value).__name__)
    return utc_text(value, exact=True)


def _memory(document: Mapping[str, Any], path: Path) -> EventMemory:
    if document["version"] != VERSION:
        raise DamagedEvents(f"{path} is of another version of gpumon-static")
    return EventMemory(
        feed_id=_feed_id(document["feed_id"]),
        hosts={name: _host(host) for name, host in document["hosts"].items()},
        events=[event_of(event) for event in document["events"]],
        workers={_text(name): _watched(one) for name, one in document.get("workers", {}).items()},
        doubted=[_time(at) for at in document.get("doubted", ())],
    )


def _feed_id(given: Any) -> str:
    """A new memory has none yet."""
    return str(uuid.UUID(given)) if given else ""


def _host(given: Mapping[str, Any]) -> HostMemory:
    return HostMemory(
        read_at=_time(given["read_at"]),
        host=_watched(given["host"]),
        uses={key: _watched(watched) for key, watched in given["uses"].items()},
        faults={key: _watched(watched) for key, watched in given["faults"].items()},
        faulty={key: _text(value) for key, value in given.get("faulty", {}).items()},
        idle={key: _watched(watched) for key, watched in given.get("idle", {}).items()},
    )


def _watched(given: Mapping[str, Any]) -> Watched:
    return Watched(
        state=_text(given["state"]),
        since=_time(given["since"]),
        next=_optional(given, "next", _text),
        next_since=_optional(given, "next_since", _time),
        seen=_whole(given.get("seen", 0)),
        seen_at=_optional(given, "seen_at", _time),
        place=_optional(given, "place", _text),
    )


def event_of(given: Mapping[str, Any]) -> Event:
    """The event of a document; raises what wrong values cause."""
    return Event(
        id=_text(given["id"]),
        type=_text(given["type"]),
        host=_text(given["host"]),
        group=_optional(given, "group", _text),
        at=_time(given["at"]),
        since=_time(given["since"]),
        lasted_s=_optional(given, "lasted_s", _number),
        status=_optional(given, "status", _text),
        error=_optional(given, "error", _text),
        gpus=tuple(map(_gpu, given["gpus"])),
        job=_optional(given, "job", _text),
        user=_optional(given, "user", _text),
    )


def _gpu(given: Mapping[str, Any]) -> EventGpu:
    return EventGpu(
        index=_optional(given, "index", _whole),
        name=_optional(given, "name", _text),
        uuid=_optional(given, "uuid", _text),
        rules=tuple(map(_text, given.get("rules", ()))),
        detail=_optional(given, "detail", _text),
    )


def _optional(given: Mapping[str, Any], name: str, check: Callable[[Any], T]) -> T | None:
    return check(given[name]) if name in given else None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    # Half of a pair of surrogates, which JSON can write and UTF-8 cannot.
    value.encode()
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(value)
    return value


def _number(value: Any) -> float:
    if not math.isfinite(value):
        raise ValueError(value)
    return float(value)


def _time(value: Any) -> datetime:
    """A time with its zone: one without cannot be compared with ours."""
    time = datetime.fromisoformat(value)
    if time.tzinfo is None:
        raise ValueError(value)
    return time
