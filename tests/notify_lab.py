"""The commands of docs/notifications.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpumon_static.config.settings import Config, HostConfig, NotifyConfig
from gpumon_static.model import HostReading
from gpumon_static.notify.run import notify
from gpumon_static.store import events_file
from gpumon_static.store.events import Event, EventMemory
from gpumon_static.survey.changes import note_changes
from tests.builders import READ_AT, config, gpu, reading

EXAMPLES = {
    "smtp": """sh -c 'printf "To: %s\\nSubject: %s\\n\\n%s\\n" admin@lab.example "$GPUMON_TITLE" "$GPUMON_TEXT" | curl -fsS --crlf smtp://localhost --mail-from gpumon@lab.example --mail-rcpt admin@lab.example -T -'""",
    "mail": """sh -c 'echo "$GPUMON_TEXT" | mail -s "$GPUMON_TITLE" admin@lab.example'""",
    "curl": """sh -c 'curl -fsS -H "Title: $GPUMON_TITLE" --data-raw "$GPUMON_TEXT" https://ntfy.lab.example/gpus'""",
}

STEP = timedelta(minutes=5)


UP = reading("n1", [gpu(0), gpu(1)])


def lab(*hosts: HostConfig | str, **changes: Any) -> Config:
    return replace(config(*(hosts or ("n1",))), notify=NotifyConfig(**changes))


def run(fetches: Sequence[HostReading | Sequence[HostReading]], setup: Config | None = None) -> list[Event]:
    """Five minutes apart; each is the reading of one host, or of several."""
    memory = EventMemory()
    found: list[Event] = []
    for number, readings in enumerate(fetches):
        listed = [readings] if isinstance(readings, HostReading) else readings
        at = READ_AT + number * STEP
        found += note_changes(memory, [replace(r, fetched_at=at) for r in listed], setup or lab())
        memory = through_the_file(memory)
    return found


def through_the_file(memory: EventMemory) -> EventMemory:
    """Each fetch is a process of its own: what it knows, it knows from events.json."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "events.json"
        events_file.save(path, memory)
        assert events_file.load(path) == memory
        return events_file.load(path)


# The command


def event(number: int = 1, kind: str = "host-down") -> Event:
    return Event(f"id-{number}", kind, f"n{number}", "vision", READ_AT, READ_AT, status="timeout")


def told(setup: Config, *events: Event) -> list[str]:
    lines: list[str] = []
    notify(events, setup, lines.append)
    return lines
