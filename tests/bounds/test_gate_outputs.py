"""Whatever passes the gate passes through everything that comes after."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from defusedxml import ElementTree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

from gpumon_static.bounds import tables as bounds
from gpumon_static.bounds.reading import bounded
from gpumon_static.config.settings import Config
from gpumon_static.model import (
    Disk,
    Fault,
    Gpu,
    HostReading,
    Machine,
    MigDevice,
    Process,
)
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.view import build_page
from gpumon_static.store import events_file, snapshot
from gpumon_static.store.columns import COLUMNS
from gpumon_static.store.events import EventMemory
from gpumon_static.store.history import past as history_past
from gpumon_static.store.history.reader import ask
from gpumon_static.store.history.record import add
from gpumon_static.survey.changes import note_changes
from gpumon_static.survey.offers import Wanted, offers
from gpumon_static.survey.sightings import sightings
from gpumon_static.terminal import free
from gpumon_static.terminal.rows import Look
from gpumon_static.terminal.show import Choice, survey_of, table
from gpumon_static.text import one_line
from tests.browser import OpenPage
from tests.builders import NOW, READ_AT, busy_gpu, config, failed, host_config, process
from tests.builders import reading as a_reading
from tests.gate_lab import FORBIDDEN, PageReader, assert_clean, check_answers
from tests.labs import exports_of
from tests.wild import any_readings, any_texts, labs

LARGEST_PAGE = 3_000_000
"""Of one host that fills every list, most of it markup of its cards."""


# Whatever passes the gate passes through everything that comes after.


@given(any_readings)
def test_the_gate_lets_pass_what_it_has_let_pass(given: HostReading) -> None:
    once = bounded(given)
    assert bounded(once) is once


@given(any_texts, st.integers(2, 40))
def test_a_line_is_one_line_and_clean(text: str, longest: int) -> None:
    line = one_line(text, longest)
    if line is not None:
        assert 0 < len(line) <= longest
        assert not {unicodedata.category(letter) for letter in line} & FORBIDDEN
        assert line == " ".join(line.split())


@cache
def _schema() -> Draft202012Validator:
    exports = exports_of([], config("a"))
    return Draft202012Validator(json.loads(exports["gpus.schema.json"]))


def _check_csv(folder: Path, readings: list[HostReading]) -> None:
    snapshot.write(folder / "x.csv", readings)
    # Not by assert: the difference of two large readings takes minutes to print.
    for had, got in zip(readings, snapshot.read(folder / "x.csv"), strict=True):
        if had != got:
            pytest.fail(f"{had.host} with {len(had.gpus)} GPUs does not come back from the CSV as it was")
    text = (folder / "x.csv").read_text(encoding="utf-8")
    numbers = {name for name in COLUMNS if name.endswith(("_c", "_w", "_mib", "_offset_s"))}
    for row in csv.DictReader(io.StringIO(text)):
        assert not [name for name, cell in row.items() if cell[:1] in set("=+-@") and name not in numbers]


def _check_history(folder: Path, setup: Config, readings: list[HostReading]) -> history_past.Past:
    setup = replace(setup, paths=replace(setup.paths, data=folder / "data"))
    at = max(reading.fetched_at for reading in readings)
    said: list[str] = []
    for minutes in (0, 5):
        run = [replace(r, fetched_at=r.fetched_at + timedelta(minutes=minutes)) for r in readings]
        snapshot.write(setup.csv_path, run)
        add(setup, sightings(run, setup.busy), at + timedelta(minutes=minutes), said.append)
    assert {line.split(" sent ")[1].split(" processes ")[-1] for line in said} <= {
        "with too much text: left out"
    }
    return ask(setup.history_path, lambda reader: check_answers(reader, at + timedelta(minutes=5)))


def _check_events(folder: Path, setup: Config, readings: list[HostReading]) -> EventMemory:
    memory = EventMemory()
    note_changes(memory, [failed(reading.host) for reading in readings], setup)
    for minutes in range(5, 30, 5):
        later = [replace(r, fetched_at=r.fetched_at + timedelta(minutes=minutes)) for r in readings]
        note_changes(memory, later, setup)
    events_file.save(folder / "events.json", memory)
    loaded = events_file.load(folder / "events.json")
    if loaded != memory:
        pytest.fail("the events do not come back as they were")
    return loaded


def _check_exports(setup: Config, readings: list[HostReading], memory: EventMemory) -> dict[str, Any]:
    exports = exports_of(readings, setup, memory)
    document: dict[str, Any] = json.loads(exports["gpus.json"], parse_constant=pytest.fail)
    _schema().validate(document)
    families = {f.name: f for f in text_string_to_metric_families(exports["metrics.prom"])}
    assert len(families["gpumon_host_up"].samples) == len(readings)
    samples = [(s.name, tuple(sorted(s.labels.items()))) for f in families.values() for s in f.samples]
    assert len(samples) == len(set(samples)), "a sample that is there twice is refused by Prometheus"
    ElementTree.fromstring(exports["feed.xml"].encode())
    for line in exports["free.txt"].splitlines():
        assert re.fullmatch(r"\S+ \S+ (\d+|-) \S+", line)
    return document


def _check_page(setup: Config, readings: list[HostReading], past: history_past.Past | None) -> str:
    html = render_page(build_page(readings, setup, NOW, past=past))
    assert len(html) < LARGEST_PAGE * len(readings)
    found = PageReader()
    found.feed(html)
    assert found.tags["script"] == _ordinary_tags()["script"] + (past is not None)
    assert found.tags["section"] >= len(readings)
    assert_clean(html.splitlines())
    for name in ("data", *(["past"] if past else [])):
        json.loads(found.blocks[name], parse_constant=pytest.fail)
    return html


@cache
def _ordinary_tags() -> dict[str, int]:
    found = PageReader()
    found.feed(render_page(build_page([a_reading("a", [busy_gpu()])], config("a"), NOW)))
    return found.tags


def _check_terminal(setup: Config, readings: list[HostReading], document: dict[str, Any]) -> None:
    survey = survey_of(readings, setup, NOW)
    for look in (Look(), Look(processes=True, details=True, seen=True, every_node=True)):
        for width in (None, 100):
            assert_clean(line.plain for line in table(survey, Choice(), look, width))
    found = offers(document, Wanted(), None)
    assert_clean([*free.lines(found), *free.plain_lines(found)])
    json.loads(free.as_json(found))


def _setup(readings: Sequence[HostReading]) -> Config:
    return config(*(host_config(r.host, gpus=2, group="g") for r in readings))


@settings(max_examples=12)
@given(labs(3))
def test_what_passed_the_gate_breaks_nothing(given: list[HostReading]) -> None:
    readings = [replace(bounded(reading), fetched_at=READ_AT) for reading in given]
    setup = _setup(readings)
    with TemporaryDirectory() as directory:
        folder = Path(directory)
        _check_csv(folder, readings)
        past = _check_history(folder, setup, readings)
        memory = _check_events(folder, setup, readings)
    document = _check_exports(setup, readings, memory)
    _check_terminal(setup, readings, document)
    _check_page(setup, readings, past)


def _full(letter: str) -> HostReading:
    """A host that fills all that the gate lets it fill."""

    def texts(kind: type) -> dict[str, Any]:
        return dict.fromkeys(bounds.TEXTS[kind], letter * 999)

    def processes(first: int) -> tuple[Process, ...]:
        return tuple(Process(first + n, **texts(Process), memory_mib=n + 0.123) for n in range(40))

    cut = tuple(
        MigDevice(n, **texts(MigDevice) | {"uuid": "u" * 96}, processes=processes(n * 100 + 1))
        for n in range(99)
    )
    gpus = [
        Gpu(
            index,
            **texts(Gpu) | {"uuid": "u" * 96},
            slices=cut,
            faults=tuple(
                Fault(rule, letter * 999) for rule in ("lost", "fan", "fabric", "ecc-errors", "slowdown")
            ),
        )
        for index in range(200)
    ]
    disks = tuple(Disk(f"/{n}{letter * 999}", 1.5, 2.5) for n in range(99))
    return bounded(a_reading("a", gpus, **texts(HostReading), machine=Machine(disks=disks)))


def test_a_host_that_fills_every_list_fills_neither_the_page_nor_the_file(tmp_path: Path) -> None:
    full = _full("x")
    assert len(full.gpus) == 128
    _check_csv(tmp_path, [full])
    assert (tmp_path / "x.csv").stat().st_size < 10_000_000
    _check_page(_setup([full]), [full], _check_history(tmp_path, _setup([full]), [full]))


def _generated(number: int) -> list[HostReading]:
    """So many hosts, each with a reading of its own, the same in every run of the tests."""
    found: list[HostReading] = []

    @settings(max_examples=number, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(any_readings)
    def collect(given: HostReading) -> None:
        passed = bounded(given)
        few = tuple(replace(gpu, slices=gpu.slices[:3]) for gpu in passed.gpus[:4])
        found.append(replace(passed, host=f"h{len(found)}", fetched_at=READ_AT, gpus=few, slurm=None))

    collect()
    return found


def test_the_pages_own_scripts_take_whatever_passed_the_gate(open_page: OpenPage, tmp_path: Path) -> None:
    names = ["constructor", "__proto__", "toString", "</script>", "a\u202eb"]
    holders = tuple(process(n + 1, user=name, name=name) for n, name in enumerate(names))
    readings = [bounded(a_reading("first", [busy_gpu(0, processes=holders)])), *_generated(120)]
    setup = _setup(readings)
    html = _check_page(setup, readings, _check_history(tmp_path, setup, readings))
    opened = open_page(html)
    opened.page.wait_for_function("() => gpumon.state.hosts?.length > 0")
    assert opened.page.evaluate("() => gpumon.state.hosts.length") == len(readings)
    shown = opened.page.evaluate(
        "() => gpumon.state.hosts.find((host) => host.name === 'first').gpus[0].names"
    )
    assert set(shown) == {"__proto__", "</script>", "a\ufffdb", "constructor", "toString"}
    search = opened.page.locator("input[type=search]").first
    for text in ("constructor", "<", "\ufffd", ""):
        search.fill(text)
    opened.page.locator("#host-first .card").first.hover()
    assert opened.problems == []
