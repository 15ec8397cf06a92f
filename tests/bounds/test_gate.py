"""The gate: whatever a host says, only its own cards suffer, and nothing that comes after can break."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from gpumon_static.bounds import tables as bounds
from gpumon_static.bounds.reading import bounded
from gpumon_static.collect import gate, reading
from gpumon_static.commands.render import render
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
from gpumon_static.publish.page.view import build_page
from gpumon_static.store import snapshot
from gpumon_static.store.events import Event, EventGpu
from gpumon_static.store.history import past as history_past
from gpumon_static.store.history import questions
from gpumon_static.store.history.engine import open_engine
from gpumon_static.store.history.layout import read_listing
from gpumon_static.store.history.reader import Period, Reader, ask
from gpumon_static.survey.news import tell
from gpumon_static.survey.sightings import sightings
from gpumon_static.survey.state import gpu_state
from gpumon_static.terminal.history import reports
from gpumon_static.text import one_line, plain
from tests.builders import NOW, READ_AT, busy_gpu, config, failed, gpu, process, slices
from tests.builders import reading as a_reading
from tests.command import gpumon, rows
from tests.gate_lab import PageReader, assert_clean, check_answers, run
from tests.labs import exports_of, lab
from tests.places import CAPTURES
from tests.sshd import GpuHosts

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
    assert_clean(page(settings).splitlines())
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
    past = ask(settings.history_path, lambda reader: check_answers(reader, now))
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


def _blocks(html: str) -> dict[str, str]:
    reader = PageReader()
    reader.feed(html)
    return reader.blocks
