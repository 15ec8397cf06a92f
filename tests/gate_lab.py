"""What each check of the gate has in common."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from datetime import datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from gpumon_static.collect import reading
from gpumon_static.collect.engines.threads import fan_out
from gpumon_static.commands.render import render
from gpumon_static.config import file as config_file
from gpumon_static.config.settings import Config
from gpumon_static.errors import HostError
from gpumon_static.model import (
    HostReading,
)
from gpumon_static.store import events_file, snapshot
from gpumon_static.store.history import past as history_past
from gpumon_static.store.history import questions
from gpumon_static.store.history.reader import Reader
from gpumon_static.store.history.record import record
from gpumon_static.survey.changes import note_changes
from gpumon_static.survey.sightings import sightings
from gpumon_static.terminal.history import reports
from tests.builders import READ_AT

FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

SETUP = '[common]\nhosts = ["bad", "good"]\n[site]\ncsv = true\n'


def run(folder: Path, outputs: dict[str, str | HostReading | HostError], minutes: int = 0) -> Config:
    """A fetch of these hosts and a render, without the way to the hosts."""
    path = folder / "config.ini"
    path.write_text(SETUP)
    settings = config_file.load(path)
    at = READ_AT + timedelta(minutes=minutes)

    def read(host: Any) -> HostReading:
        answer = outputs[host.name]
        if isinstance(answer, HostError):
            raise answer
        return answer if isinstance(answer, HostReading) else reading.parse(host.name, answer, at)

    readings = fan_out(settings.hosts, read, workers=2, deadline=300, clock=lambda: at)
    said: list[str] = []
    snapshot.write(settings.csv_path, readings)
    record(settings, sightings(readings, settings.busy), at, said.append)
    memory = events_file.load(events_file.path_in(settings.paths.data))
    note_changes(memory, readings, settings)
    events_file.save(events_file.path_in(settings.paths.data), memory)
    render(settings, at)
    assert said == []
    return settings


class PageReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.blocks: dict[str, str] = {}
        self.tags: dict[str, int] = {}
        self._block = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self._block = str(dict(attrs).get("id") or "") if tag == "script" else ""

    def handle_endtag(self, _tag: str) -> None:
        self._block = ""

    def handle_data(self, data: str) -> None:
        if self._block:
            self.blocks[self._block] = self.blocks.get(self._block, "") + data


def assert_clean(texts: Iterable[str]) -> None:
    for text in texts:
        found = {unicodedata.category(letter) for letter in text} & FORBIDDEN
        assert not found, (found, text)


def check_answers(reader: Reader, now: datetime) -> history_past.Past:
    asked = questions.period(reader, int(now.timestamp()) - 86400, int(now.timestamp()))
    for report in (
        reports.users_report(questions.users(reader, asked), None),
        reports.gpus_report(questions.gpus(reader, asked), by_host=False),
        reports.gpus_report(questions.hosts(reader, asked), by_host=True),
    ):
        assert_clean(reports._as_lines(report))
        json.loads(reports._as_json(report, asked))
        assert len(reports._as_table(report, asked, 80)) >= 3
    return history_past.read(reader, now)
