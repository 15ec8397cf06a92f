"""The gate: whatever a host says, only its own cards suffer, and nothing that comes after can break."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from defusedxml import ElementTree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from gpumon_static.bounds import tables as bounds
from gpumon_static.bounds.reading import bounded
from gpumon_static.collect import gate, reading
from gpumon_static.collect.engines.threads import fan_out
from gpumon_static.commands.render import render
from gpumon_static.config import file as config_file
from gpumon_static.config.settings import BusyConfig, Config
from gpumon_static.errors import HostError
from gpumon_static.model import (
    Allocation,
    Disk,
    Fault,
    Gpu,
    HostReading,
    JobGpus,
    Machine,
    MigDevice,
    NodeState,
    Process,
    SlurmAnswer,
    SlurmJob,
    SlurmNode,
    Status,
    Waiting,
)
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.view import build_page
from gpumon_static.store import events_file, snapshot
from gpumon_static.store.columns import COLUMNS
from gpumon_static.store.events import Event, EventGpu, EventMemory
from gpumon_static.store.history import past as history_past
from gpumon_static.store.history import questions
from gpumon_static.store.history.engine import open_engine
from gpumon_static.store.history.layout import read_listing
from gpumon_static.store.history.reader import Period, Reader, ask
from gpumon_static.store.history.record import add, record
from gpumon_static.survey.changes import note_changes
from gpumon_static.survey.news import tell
from gpumon_static.survey.offers import Wanted, offers
from gpumon_static.survey.sightings import sightings
from gpumon_static.survey.state import gpu_state
from gpumon_static.terminal import free
from gpumon_static.terminal.history import reports
from gpumon_static.terminal.rows import Look
from gpumon_static.terminal.show import Choice, survey_of, table
from gpumon_static.text import one_line, plain
from tests.browser import OpenPage
from tests.builders import NOW, READ_AT, busy_gpu, config, failed, gpu, host_config, process, slices
from tests.builders import reading as a_reading
from tests.command import gpumon, rows
from tests.labs import exports_of, lab
from tests.places import CAPTURES
from tests.sshd import GpuHosts
from tests.wild import any_readings, any_texts, labs

FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
LARGEST_PAGE = 3_000_000
"""Of one host that fills every list, most of it markup of its cards."""

# A host as a probe reports it.

XML = """<?xml version="1.0" ?>
<nvidia_smi_log><driver_version>550.90.07</driver_version><cuda_version>12.4</cuda_version>
<gpu id="00000000:17:00.0"><product_name>NVIDIA A100-SXM4-80GB</product_name><uuid>{uuid}</uuid>
<fb_memory_usage><total>81920 MiB</total><used>512 MiB</used></fb_memory_usage>
<utilization><gpu_util>97 %</gpu_util></utilization>
<temperature><gpu_temp>{temperature}</gpu_temp></temperature>{more}
<processes><process_info><pid>7</pid><type>C</type><process_name>python</process_name>
<used_memory>400 MiB</used_memory></process_info></processes></gpu></nvidia_smi_log>
"""
MIG = "<mig_devices><mig_device><index>{}</index><gpu_instance_id>1</gpu_instance_id></mig_device></mig_devices>"
PS = "{pid} 1000 {elapsed} Rl {user:32} {command}"


def probed(temperature: str = "40 C", more: str = "", uuid: str = "GPU-1", **sections: str) -> str:
    """What the probe sends of a host with one GPU."""
    found = {
        "smi": XML.format(temperature=temperature, more=more, uuid=uuid),
        "smi-status": "0",
        "ps": PS.format(pid=7, elapsed="01:00", user="alice", command="python"),
        **{name.replace("_", "-"): text for name, text in sections.items()},
    }
    marked = "".join(f"@@gpumon ab {name}\n{text}\n" for name, text in found.items())
    return f"@@gpumon begin 1 ab\n{marked}@@gpumon ab end\n"


GOOD = probed(uuid="GPU-2")
LIES = {
    "cold": probed("-300 C"),
    "hot": probed("9" * 30 + " C"),
    "ram": probed(memory=f"MemTotal: {'9' * 308} kB\nMemAvailable: 1 kB"),
    "disk": probed(disks=f"0 /dev/sda {'9' * 308} {'8' * 308} 1 14% /"),
    "disks": probed(disks="\n".join(f"0 /dev/sda 9 8 1 14% /mnt/{n}/{'x' * 180}" for n in range(900))),
    "slice index": probed(more=MIG.format("9" * 30)),
    "listed index": probed(smi_list=f"GPU {'9' * 20}: NVIDIA A100 (UUID: GPU-1)"),
    "listed uuid": probed(smi_list=f"GPU 0: A (UUID: GPU-1)\nGPU 1: A (UUID: {'u' * 1_000_000})"),
    "listed profile": probed(
        more=MIG.format(0),
        smi_list=f"GPU 0: A (UUID: GPU-1)\n  MIG {'p' * 1_000_000} Device 0: (UUID: MIG-1)",
    ),
    "run time": probed(ps=PS.format(pid=7, elapsed="9" * 4299 + "-01:00:00", user="alice", command="python")),
    "direction": probed(ps=PS.format(pid=7, elapsed="01:00", user="a\u202eb", command="p\u2066\u200by")),
    "lost": probed(
        smi_stderr="\n".join(
            f"Unable to determine the device handle for GPU {n:08X}:00:00.0: Unknown Error"
            for n in range(2000)
        )
    ),
}

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


def readings_of(reader: Reader, host: str) -> int:
    rows = reader.rows(Period(0, 4_000_000_000))
    number: int = reader.engine.value(f"SELECT count(*) FROM ({rows}) WHERE level = 3 AND host = '{host}'")
    return number


def page(settings: Config) -> str:
    return settings.page_path.read_text()


@pytest.mark.parametrize("lie", LIES)
def test_a_host_that_lies_reaches_only_its_own_cards_then_and_later(tmp_path: Path, lie: str) -> None:
    settings = run(tmp_path, {"bad": LIES[lie], "good": GOOD})
    found = {r.host: r for r in snapshot.read(settings.csv_path)}
    assert found["good"].gpus[0].temperature_c == 40.0
    assert found["good"].gpus[0].processes[0].user == "alice"
    assert 'id="host-good:0"' in page(settings)
    _clean(page(settings).splitlines())
    assert len(page(settings)) < 1_000_000
    assert settings.csv_path.stat().st_size < 1_000_000
    run(tmp_path, {"bad": probed(), "good": GOOD}, minutes=5)
    assert 'id="host-bad:0"' in page(settings), "it is well again"
    now = READ_AT + timedelta(minutes=5)
    past, readings = ask(
        settings.history_path, lambda reader: (history_past.read(reader, now), readings_of(reader, "good"))
    )
    assert readings == 2, "both runs are in the history"
    assert past.gpus["good", "0"].users == ("alice",)


def test_minus_300_degrees_over_ssh_are_not_known_and_said_so(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    bad = gpu_hosts.add_xml(XML.format(temperature="-300 C", more="", uuid="GPU-1"))
    good = gpu_hosts.add_xml(XML.format(temperature="40 C", more="", uuid="GPU-1"))
    path = gpu_hosts.config(tmp_path, bad, good)
    assert gpumon("fetch", "-c", path).returncode == 0
    done = gpumon("render", "-c", path)
    assert (done.returncode, done.stderr) == (0, "")
    found = {row["host"]: row for row in rows(tmp_path / "data" / "load_data.csv")}
    assert (found[bad]["gpu_temperature_c"], found[good]["gpu_temperature_c"]) == ("", "40")
    assert found[bad]["note"] == "1 value out of range (temperature -300 °C)"
    assert "1 value out of range (temperature -300 °C)" in (tmp_path / "site" / "index.html").read_text()


MANY = {
    "10,000 GPUs": (
        a_reading("bad", [gpu(n) for n in range(10_000)]),
        "left out: 9872 GPUs",
    ),
    "20,000 slices": (
        a_reading("bad", [gpu(0, mig_mode=True, slices=slices(20_000))]),
        "left out: 19968 slices",
    ),
    "20,000 slices of one GPU instance": (
        a_reading("bad", [gpu(0, slices=tuple(MigDevice(n, gpu_instance=1) for n in range(20_000)))]),
        "left out: 19968 slices",
    ),
    "100,000 processes": (
        a_reading("bad", [busy_gpu(0, processes=tuple(process(n) for n in range(1, 100_001)))]),
        "left out: 99488 processes",
    ),
    "2,000 lost": (
        a_reading("bad", [Gpu(n, faults=(Fault("lost", "x" * 200),)) for n in range(2000)]),
        "left out: 1872 GPUs",
    ),
    "the same GPU again": (
        a_reading("bad", [gpu(0), gpu(0, name="another"), gpu(1, slices=slices(2) + slices(2))]),
        "left out: 1 GPU, 2 slices",
    ),
    "impossible numbers": (
        a_reading("bad", [gpu(10**20), gpu(-1), gpu(0, processes=(process(0), process(10**30)))]),
        "left out: 2 GPUs, 2 processes",
    ),
}


@pytest.mark.parametrize("what", MANY)
def test_what_is_too_much_is_left_out_and_the_hosts_card_says_so(tmp_path: Path, what: str) -> None:
    given, words = MANY[what]
    settings = run(tmp_path, {"bad": given, "good": GOOD})
    assert words in page(settings)
    assert len(page(settings)) < 1_000_000
    assert settings.csv_path.stat().st_size < 1_000_000
    for file in settings.paths.site.iterdir():
        assert file.stat().st_size < 1_000_000, file.name


def test_the_words_of_a_host_that_failed_are_bounded_and_clean(tmp_path: Path) -> None:
    said = HostError(Status.BAD_OUTPUT, "it said: \x1b[31m\u202e" + "x" * 100_000)
    settings = run(tmp_path, {"bad": said, "good": GOOD})
    bad = snapshot.read(settings.csv_path)[0]
    assert bad.error is not None
    assert bad.error.startswith("it said: [31m\ufffdxxx")
    assert len(bad.error) == 2000


def test_an_error_of_ours_is_one_line_of_that_host() -> None:
    def read() -> HostReading:
        raise ValueError("no\ngood " + "x" * 10_000)

    found = gate.answer("a", read, lambda: NOW)
    assert (found.status, found.fetched_at) == (Status.ERROR, NOW)
    assert found.error is not None
    assert found.error.startswith("ValueError: no good xxx")
    assert len(found.error) == 2000


WORSE = """SELECT * REPLACE (-300 AS gpu_temperature_c, 1 << 30 AS gpu_power_w, -5 AS gpu_utilization,
    2147483647 AS gpu_memory_used_mib, -1 AS gpu_memory_total_mib, ['ali\u202ece'] AS held_by) FROM read_parquet('{}')"""


def test_files_that_hold_worse_break_nothing(tmp_path: Path) -> None:
    """As another version or another program may have written them."""
    settings = run(tmp_path, {"bad": probed(), "good": GOOD})
    run(tmp_path, {"bad": probed(), "good": GOOD}, minutes=5)
    now = READ_AT + timedelta(minutes=5)
    with open_engine(settings.history_path) as engine:
        for file in read_listing(settings.history_path).files():
            engine.do(f"CREATE OR REPLACE TEMP TABLE worse AS {WORSE.format(file.path)}")
            engine.write("SELECT * FROM worse", file.path)
    render(settings, now)
    assert "\u202e" not in page(settings)
    past = ask(settings.history_path, lambda reader: _check_answers(reader, now))
    assert set(past.gpus) == {("bad", "0"), ("good", "0")}


def test_frost_is_drawn_at_the_bottom_of_the_chart(tmp_path: Path) -> None:
    settings = run(tmp_path, {"bad": probed("-20 C"), "good": probed("0 C", uuid="GPU-2")})
    past = json.loads(_blocks(page(settings))["past"])
    assert past["gpus"][0][0][2] == past["gpus"][1][0][2]


def test_a_spreadsheet_or_a_terminal_acts_upon_no_login_of_the_history(tmp_path: Path) -> None:
    def held(user: str) -> HostReading:
        return a_reading("bad", [busy_gpu(0, processes=(process(user=user),))])

    settings = run(tmp_path, {"bad": held("=cmd|'/c calc'!A1"), "good": GOOD})
    run(
        tmp_path,
        {"bad": replace(held("[/bold]"), fetched_at=READ_AT + timedelta(minutes=5)), "good": GOOD},
        5,
    )
    run(tmp_path, {"bad": replace(held("x"), fetched_at=READ_AT + timedelta(minutes=10)), "good": GOOD}, 10)
    done = gpumon("history", "users", "--since", "2025-11-14", "--csv", "-c", settings.path)
    assert done.returncode == 0
    assert "\n'=cmd|'/c calc'!A1," in done.stdout
    asked = Period(0, int(READ_AT.timestamp()) + 600)
    uses = ask(settings.history_path, lambda reader: questions.users(reader, asked))
    report = reports.users_report(uses, None)
    console = Console(file=io.StringIO(), width=120)
    console.print(*reports._as_table(report, asked, 120), sep="\n")
    assert "[/bold]" in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_news_of_a_host_that_breaks_everywhere_is_short() -> None:
    broken = tuple(EventGpu(n, "A100", None, ("lost", "fan", "fabric")) for n in range(128))
    news = tell(Event("1", "gpu-fault", "a", None, NOW, NOW, gpus=broken))
    assert news.text.splitlines()[-1] == "And 352 more."
    assert len(news.text) < 10_000


def test_a_line_of_free_txt_has_four_words_whatever_a_profile_is_called() -> None:
    cut = gpu(
        0, mig_mode=True, slices=(MigDevice(0, uuid="MIG-1", profile="1g 10gb plus", memory_total_mib=9.0),)
    )
    exports = exports_of([a_reading("a", [cut])], config("a"))
    assert exports["free.txt"] == "a MIG-1 - A100-80G:1g-10gb-plus\n"


# What is ordinary passes as it is.


@pytest.mark.parametrize("given", [*lab(), failed("x"), a_reading("y", machine=Machine(disks=(Disk("/"),)))])
def test_an_ordinary_reading_passes_as_it_is(given: HostReading) -> None:
    assert bounded(given) is given


@pytest.mark.parametrize("capture", sorted(CAPTURES.glob("*.xml")), ids=lambda p: p.stem)
def test_a_real_capture_passes_as_it_is(capture: Path) -> None:
    given = reading.parse(
        "a", f"@@gpumon begin 1 ab\n@@gpumon ab smi\n{capture.read_text()}\n@@gpumon ab end\n", NOW
    )
    assert bounded(given) is given


@pytest.mark.parametrize(
    ("field", "kept", "unknown"),
    [
        ("utilization", [0.0, 100.0], [-1.0, 100.1]),
        ("temperature_c", [-50.0, 200.0], [-51.0, 201.0]),
        ("temperature_limit_c", [83.0, 200.0], [201.0, float("nan")]),
        ("fan_percent", [0.0, 150.0], [-1.0, 201.0]),
        ("power_w", [0.0, 20_000.0], [-0.1, 20_001.0]),
        ("power_limit_w", [0.0], [float("inf"), float("nan")]),
        ("memory_used_mib", [0.0, 2.0**30], [-1.0, 2.0**31, float("-inf")]),
    ],
)
def test_a_number_out_of_its_range_is_not_known(field: str, kept: list[float], unknown: list[float]) -> None:
    for value in kept:
        assert getattr(bounded(a_reading("a", [gpu(0, **{field: value})])).gpus[0], field) == value
    for value in unknown:
        found = bounded(a_reading("a", [gpu(0, **{field: value})]))
        assert getattr(found.gpus[0], field) is None
        assert found.note is not None
        assert found.note.startswith("1 value out of range (")


def test_every_number_and_text_of_a_reading_has_its_bounds() -> None:
    """A field that is added to the model is added to the table."""
    apart = {
        HostReading: {"host", "fetched_at", "status", "gpus", "machine", "node", "slurm"},
        Machine: {"disks"},
        Disk: {"spins"},
        Gpu: {"index", "mig_mode", "slices", "processes", "processes_known", "faults", "memory_shared"}
        | {"utilization_sticks", "allocation"},
        MigDevice: {"index", "processes"},
        Process: {"pid"},
        Fault: {"rule"},
        Allocation: {"allocated"},
        NodeState: {"takes_jobs"},
        SlurmAnswer: {"nodes", "jobs", "waiting"},
        SlurmNode: {"name", "used", "takes_jobs", "is_shared"},
        SlurmJob: {"id", "gpus"},
        JobGpus: {"node", "count", "indexes", "parts"},
        Waiting: {"gpus", "jobs"},
    }
    for kind, others in apart.items():
        bounded_ones = {*bounds.NUMBERS[kind], *bounds.TEXTS[kind], *bounds.TIMES.get(kind, ())}
        assert set(kind.__dataclass_fields__) == others | bounded_ones  # type: ignore[attr-defined]


def test_the_note_of_the_parser_is_kept_behind_ours() -> None:
    found = bounded(a_reading("a", [gpu(utilization=500.0)], note="nvidia-smi's schema v99 is new here"))
    assert found.note == "1 value out of range (utilization 500 %); nvidia-smi's schema v99 is new here"


FORMS = [
    "GPU-2f4c77af-1111-2222-3333-444444444444",
    "MIG-2f4c77af-1111-2222-3333-444444444444",
    "MIG-GPU-2f4c77af-1111-2222-3333-444444444444/7/0",
    "GPU-000102030405060708-1011121314151617",
    "GPU-a1b2c3d4e5f60718",
]
NO_FORMS = [
    "u" * 97, "GPU-1 2", "GPU\u202e", "GPU-\x00", "~!!!", "curl evil|sh", "$(reboot)", "GPU-1;reboot", "GPU-`x`",
    "GPU-" + "1" * 93, "GPU-", "GPU-1\n", "-GPU-1", "GPU-1/../x", "GPU-\u0661",
]  # fmt: skip


def test_a_uuid_that_no_vendor_writes_is_not_known() -> None:
    for uuid in FORMS:
        assert bounded(a_reading("a", [gpu(uuid=uuid)])).gpus[0].uuid == uuid
    for uuid in NO_FORMS:
        slice_ = MigDevice(0, uuid=uuid)
        (found,) = bounded(a_reading("a", [gpu(uuid=uuid, slices=(slice_,))])).gpus
        assert (found.uuid, found.slices[0].uuid) == (None, None)


@pytest.mark.parametrize(
    "letter", "\u3164\u2800\u115f\u034f\ufe0f\U000e0100\u00ad\u200b\uffa0\u17b4\u180b\u1160"
)
def test_no_letter_of_a_host_is_invisible(letter: str) -> None:
    """root and root with something behind it look the same."""
    for text in (letter, f"root{letter}", f"ro{letter}ot"):
        assert one_line(text) == text.replace(letter, "\ufffd")
        assert plain(text) == text.replace(letter, "\ufffd")


def test_a_letter_has_at_most_two_marks() -> None:
    assert one_line("Việt e\u0301\u0323") == "Việt e\u0301\u0323"
    assert one_line("Z" + "\u0301\u20dd\u0489" * 20 + "a\u0301") == "Z\u0301\u20dda\u0301"


class Counted(tuple[MigDevice, ...]):
    """Slices that count how many of them are looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[MigDevice]:
        for mig in super().__iter__():
            Counted.looked_at += 1
            yield mig


@pytest.mark.parametrize("instance", [None, 1])
def test_the_work_for_slices_grows_with_their_number(instance: int | None) -> None:
    card = gpu(0, slices=Counted(MigDevice(n, gpu_instance=instance) for n in range(1000)))
    setup = config("a")
    for work in (
        lambda: gpu_state(card, BusyConfig()),
        lambda: sightings([a_reading("a", [card])], BusyConfig()),
        lambda: build_page([a_reading("a", [card])], setup, NOW),
    ):
        Counted.looked_at = 0
        work()
        assert Counted.looked_at < 60 * 1000


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


class _Reader(HTMLParser):
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


def _blocks(html: str) -> dict[str, str]:
    reader = _Reader()
    reader.feed(html)
    return reader.blocks


def _clean(texts: Iterable[str]) -> None:
    for text in texts:
        found = {unicodedata.category(letter) for letter in text} & FORBIDDEN
        assert not found, (found, text)


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
    return ask(setup.history_path, lambda reader: _check_answers(reader, at + timedelta(minutes=5)))


def _check_answers(reader: Reader, now: datetime) -> history_past.Past:
    asked = questions.period(reader, int(now.timestamp()) - 86400, int(now.timestamp()))
    for report in (
        reports.users_report(questions.users(reader, asked), None),
        reports.gpus_report(questions.gpus(reader, asked), by_host=False),
        reports.gpus_report(questions.hosts(reader, asked), by_host=True),
    ):
        _clean(reports._as_lines(report))
        json.loads(reports._as_json(report, asked))
        assert len(reports._as_table(report, asked, 80)) >= 3
    return history_past.read(reader, now)


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
    found = _Reader()
    found.feed(html)
    assert found.tags["script"] == _ordinary_tags()["script"] + (past is not None)
    assert found.tags["section"] >= len(readings)
    _clean(html.splitlines())
    for name in ("data", *(["past"] if past else [])):
        json.loads(found.blocks[name], parse_constant=pytest.fail)
    return html


@cache
def _ordinary_tags() -> dict[str, int]:
    found = _Reader()
    found.feed(render_page(build_page([a_reading("a", [busy_gpu()])], config("a"), NOW)))
    return found.tags


def _check_terminal(setup: Config, readings: list[HostReading], document: dict[str, Any]) -> None:
    survey = survey_of(readings, setup, NOW)
    for look in (Look(), Look(processes=True, details=True, seen=True, every_node=True)):
        for width in (None, 100):
            _clean(line.plain for line in table(survey, Choice(), look, width))
    found = offers(document, Wanted(), None)
    _clean([*free.lines(found), *free.plain_lines(found)])
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
