"""What may come out of each input, whatever it is. An oracle raises `AssertionError`, or what our code raises."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from gpumon_static.bounds.reading import bounded
from gpumon_static.collect.readers import Readers
from gpumon_static.collect.slurm.join import join
from gpumon_static.config import file as config_file
from gpumon_static.config.settings import Config, SlurmCluster
from gpumon_static.errors import ConfigError, GpumonError, HostError
from gpumon_static.model import HostReading, Status
from gpumon_static.publish.exports.feed import feed_xml
from gpumon_static.store import events_file, snapshot
from gpumon_static.store.events import EventMemory
from gpumon_static.store.history import past
from gpumon_static.store.history.engine import HistoryError
from gpumon_static.store.history.reader import ask
from gpumon_static.survey.changes import note_changes
from tests.builders import busy_gpu, gpu, host_config
from tests.builders import config as plain_config
from tests.builders import reading as a_reading
from tests.fuzz import seeds

LONGEST_TEXT = 1000
LONGEST_ERROR = 10_000


def config(content: bytes, directory: Path) -> None:
    """A whole Config, or a ConfigError that fits on a screen or two."""
    path = directory / "config.ini"
    path.write_bytes(content)
    try:
        loaded = config_file.load(path)
    except ConfigError as error:
        assert error.problems
        assert len(str(error)) <= LONGEST_ERROR, "the text of the error has no bounds"
        assert "unexpected" not in str(error)
        return
    assert isinstance(loaded, Config)
    assert 0 < len(loaded.hosts) <= 100_000
    assert len({host.name for host in loaded.hosts}) == len(loaded.hosts)
    assert all(isinstance(path, Path) for path in (loaded.paths.data, loaded.paths.site))


def answer(content: bytes, _directory: Path) -> None:
    """A reading of clean, bounded lines and finite numbers, or a status with one clear line."""
    try:
        reading = bounded(Readers(lambda: seeds.NOW).parse(host_config("node1"), content))
    except HostError as error:
        assert error.status in Status
        assert error.status is not Status.OK
        _check_text("HostError", error.reason)
        return
    assert reading.ok
    assert len({gpu.index for gpu in reading.gpus}) == len(reading.gpus), "two GPUs have the same index"
    check_reading(reading)


def slurm(content: bytes, _directory: Path) -> None:
    """The same of what Slurm answers, joined to readings that nothing of it can break."""
    asked = host_config("Slurm on node1", asks_slurm=True)
    try:
        reading = bounded(Readers(lambda: seeds.NOW).parse(asked, content))
    except HostError as error:
        assert error.status is not Status.OK
        _check_text("HostError", error.reason)
        return
    assert reading.slurm
    check_reading(reading)
    lab = replace(plain_config("gpu1", "gpu2"), clusters=(SlurmCluster(asked, job_names=True),))
    before = [a_reading(name, [gpu(0), busy_gpu(1)]) for name in ("gpu1", "gpu2")]
    for joined in join(before, {asked.name: reading}, lab):
        check_reading(joined)
        assert bounded(joined) is joined


def csv(content: bytes, directory: Path) -> None:
    path = directory / "load_data.csv"
    path.write_bytes(content)
    try:
        readings = snapshot.read(path)
    except GpumonError as error:
        assert "\n" not in str(error), "more than one line"
        assert len(str(error)) <= LONGEST_TEXT + len(str(path)), "the text of the error has no bounds"
        return
    assert all(isinstance(reading, HostReading) for reading in readings)
    for name, value in _leaves(readings):
        assert not isinstance(value, float) or math.isfinite(value), f"{name} is {value}"


def history(content: bytes, directory: Path) -> None:
    """What is left of it is read, or one line says why not; the next runs are recorded, and then it is read."""
    settings = seeds.history_config(directory)
    seeds.write_history(content, settings.history_path)
    now = seeds.NOW + timedelta(minutes=10)
    lines: list[str] = []
    with suppress(HistoryError):
        ask(settings.history_path, lambda reader: past.read(reader, now), lines.append)
    for minute in (5, 10):
        lines += seeds.add_run(settings, minute)
    found = ask(settings.history_path, lambda reader: past.read(reader, now), lines.append)
    assert {host for host, _ in found.gpus} <= set(seeds.HOSTS)
    for line in lines:
        _check_text("said", line.replace(str(directory), ""))
        assert "unexpected" not in line, line


def events(content: bytes, directory: Path) -> None:
    path = directory / "events.json"
    path.write_bytes(content)
    memory = events_file.load(path)
    assert isinstance(memory, EventMemory)
    settings = plain_config(*seeds.HOSTS)
    for minute in (500, 505, 510):
        note_changes(memory, seeds.lab(minute), settings)
    assert set(memory.hosts) == set(seeds.HOSTS)
    assert feed_xml(memory, seeds.HOSTS, "Lab", with_errors=True).startswith("<?xml")
    events_file.save(path, memory)
    assert events_file.load(path) == memory, "what was saved is not what is loaded"


def check_reading(reading: HostReading) -> None:
    for name, value in _leaves(reading):
        if isinstance(value, str):
            _check_text(name, value)
        elif isinstance(value, int | float):
            assert math.isfinite(value), f"{name} is {value}"
            assert abs(value) < 2**63, f"{name} is out of range"


def _check_text(name: str, text: str) -> None:
    assert text, f"{name} is empty"
    assert len(text) <= LONGEST_TEXT, f"{name} has {len(text)} letters"
    assert text.isprintable(), f"{name} has {[c for c in text if not c.isprintable()][:3]!a}"


def _leaves(value: Any, name: str = "reading") -> Iterator[tuple[str, Any]]:
    if is_dataclass(value):
        for field in fields(value):
            yield from _leaves(getattr(value, field.name), f"{type(value).__name__}.{field.name}")
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _leaves(one, name)
    elif value is not None:
        yield name, value
