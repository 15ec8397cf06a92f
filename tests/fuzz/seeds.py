"""What is mutated: configs, answers, CSVs, histories and events as a lab has them."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from gpumon_static.config.settings import HOST_KEYS, SECTIONS, Config, PathsConfig
from gpumon_static.demo import answers
from gpumon_static.demo.lab import DemoSpec, build
from gpumon_static.demo.workload import healthy_reading
from gpumon_static.model import HostReading, Status
from gpumon_static.store import events_file, snapshot
from gpumon_static.store.events import Event, EventMemory
from gpumon_static.store.history import record
from gpumon_static.store.history.engine import open_engine, parquet
from gpumon_static.survey.changes import note_changes
from gpumon_static.survey.sightings import sightings
from tests import slurm_texts
from tests.builders import busy_gpu, config, failed, gpu, process, reading, slices

TESTS = Path(__file__).parents[1]
SHARED = TESTS.parents[1] / "shared" / "captures"
NOW = datetime(2025, 11, 14, 9, 10, tzinfo=UTC)
HOSTS = ("node1", "node2", "node3")

OLD = b"""\
; an old file
[common]
user = yourusername
hosts = host1.domain.tld,gpu[01-08]  # comment
key_filename: ~/.ssh/id_rsa
port =
[site]
title = Our GPUs; all of them
"""
VALUES = (
    "0", "-1", "1.5", "true", '""', '"x"', "[]", "[1]", '["a", "b"]', "{}", "{a = 1}", "[[]]", "inf", "nan", "1979-05-27",
    "07:32:00", '"\\u0000"', "'~nobody-has-this/x'", "9" * 30, "9" * 5000, "[" * 450, "0x" + "f" * 5000, '"gpu[1-9999999]"',
    "bare words", "'counts'", "'30d'", "''' x\ny '''", '"' + "x" * 5000 + '"', "[{file = 'a.html'}]", "1e400", "",
)  # fmt: skip


@cache
def configs() -> list[bytes]:
    example = (TESTS.parent / "config.example.ini").read_bytes()
    return [example, OLD, (TESTS / "releases/0.1.0/config.ini").read_bytes()]


def made_config(random: Random) -> bytes:
    """Any keys with any values, known and unknown ones."""
    lines = ["[common]", "hosts = ['node1', 'gpu[1-4]']"] if random.random() < 0.7 else []
    for _ in range(random.randint(1, 6)):
        name = random.choice((*SECTIONS, "hosts.node1", "hosts.'gpu[1-9]'", "users", "other", "[site.pages]"))
        lines.append(f"[{name}]")
        known = [*getattr(SECTIONS.get(name), "__dataclass_fields__", HOST_KEYS), "unknown", "a.b.c"]
        lines += [f"{random.choice(known)} = {random.choice(VALUES)}" for _ in range(random.randint(0, 4))]
    return "\n".join(lines).encode()


@cache
def answers_of_slurm() -> list[bytes]:
    """Plain and packed, in the forms of several versions, and the captures where they are."""
    jobs = "\n".join(
        (
            slurm_texts.job(
                1, slurm_texts.on("gpu[1-2]", "gpu:h200:2(IDX:0-1)"), name="a JobState=PENDING b"
            ),
            slurm_texts.job(
                2, slurm_texts.on("gpu3", "gpu(IDX:2,4)", "GRES_IDX"), ids="ArrayJobId=1 ArrayTaskId=3 "
            ),
            slurm_texts.job(3, state="PENDING", more="ReqTRES=cpu=8,gres/gpu=2,gres/gpu:a100=2", tail=""),
            slurm_texts.job(
                4, state="PENDING", ids="ArrayJobId=4 ArrayTaskId=1-9%2 ", tail="TresPerNode=gres:gpu:a:2"
            ),
        )
    )
    nodes = slurm_texts.node("gpu1", "gpu:a100:1(IDX:0)", "MIXED+DRAIN", reason="disk is full")
    made = [
        slurm_texts.answer(jobs, f"{nodes}\n{slurm_texts.node('gpu2')}", packed=p)
        for p in (False, False, True)
    ]
    captures = sorted((SHARED / "slurm").glob("*.txt"))
    return made + [slurm_texts.answer(file.read_text(errors="replace"), nodes) for file in captures]


@cache
def answers_of_hosts() -> list[bytes]:
    """Of the demo's hosts, and with each capture in the place of their XML; some packed."""
    pieces_of = [answers.files(host, healthy_reading(host, NOW)) for host in build(DemoSpec())]
    made, pieces = [answer(pieces) for pieces in (*pieces_of[:8], *pieces_of[12:])], pieces_of[0]
    folders = (TESTS / "captures", SHARED, SHARED / "derived")
    captures = [file for folder in folders for file in sorted(folder.glob("*.xml"))]
    made += [
        answer(pieces | {"nvidia-smi.xml": file.read_text(errors="replace")}, packed=number % 4 == 3)
        for number, file in enumerate(captures)
    ]
    return made


def answer(pieces: dict[str, str], *, packed: bool = False) -> bytes:
    """As probe.sh frames it."""
    cgroups = "".join(
        f"{name.split('/')[1]}/cgroup:{text}" for name, text in pieces.items() if name.endswith("/cgroup")
    )
    disks = "".join(f"0 {line}\n" for line in pieces["df"].splitlines()[1:])
    cpu = pieces["proc/stat"].splitlines()[0]
    sections = [
        *(_smi(pieces, packed=packed) if "nvidia-smi.xml" in pieces else _amd(pieces)),
        ("ps", pieces["ps"].encode()),
        ("cgroups", cgroups.encode()),
        ("names", b"alice:x:1000:1000:Alice:/home/alice:/bin/bash\n"),
        ("load", pieces["proc/loadavg"].encode()),
        ("uptime", pieces["proc/uptime"].encode()),
        ("cpus", b"64\n"),
        ("cpu", f"{cpu}\n{cpu.replace('1', '2')}\n".encode()),
        ("memory", pieces["proc/meminfo"].encode()),
        ("disks", disks.encode()),
        ("clock", b"1763111400\n"),
    ]
    body = b"".join(b"\n@@gpumon ab12 %s\n%s" % (name.encode(), text) for name, text in sections)
    return b"Welcome!\n@@gpumon begin 1 ab12\n" + body + b"\n@@gpumon ab12 end\n"


def _smi(pieces: dict[str, str], *, packed: bool) -> list[tuple[str, bytes]]:
    xml = pieces["nvidia-smi.xml"].encode()
    return [
        ("smi-stderr", b""),
        ("smi-status", b"0\n"),
        ("smi-gz", gzip.compress(xml, mtime=0)) if packed else ("smi", xml),
        ("smi-list", pieces["nvidia-smi.list"].encode()),
    ]


def _amd(pieces: dict[str, str]) -> list[tuple[str, bytes]]:
    files = {name.removeprefix("sys/class/"): text for name, text in pieces.items() if "sys/class/" in name}
    read = [f"{name}:{line}\n" for name, text in files.items() for line in text.splitlines()]
    names = pieces["share/libdrm/amdgpu.ids"]
    return [
        ("amd", "".join([*read, "processes:\n"]).encode()),
        ("amd-status", b"0\n"),
        ("amd-names", names.encode()),
    ]


def lab(minute: int = 0) -> list[HostReading]:
    """A host with everything, one with slices, one that fails now and then."""
    at = NOW + timedelta(minutes=minute)
    third = failed("node3", Status.AUTH, "refused, then: x") if minute % 20 else reading("node3", [gpu(0)])
    bob = process(77, user="bob", name="=1+1", job="slurm:1", uid=1000, command_line="a, b")
    found = [
        reading("node1", [busy_gpu(0), busy_gpu(1, utilization=0.0, processes=(bob,)), gpu(2)]),
        reading(
            "node2", [gpu(0, mig_mode=True, slices=slices(3, 1))], warning="WARNING: infoROM is corrupted"
        ),
        third,
    ]
    return [replace(one, fetched_at=at) for one in found]


@cache
def csvs() -> list[bytes]:
    return [snapshot.to_csv(lab()).encode(), (TESTS / "releases/0.1.0/data/load_data.csv").read_bytes()]


@cache
def events() -> list[bytes]:
    memory = EventMemory("6d1ddcc4-93c6-4b0e-9a3c-4a1d5cfe5f3e")
    for minute in range(0, 400, 5):
        note_changes(memory, lab(minute), config(*HOSTS))
    with TemporaryDirectory() as directory:
        path = Path(directory) / "events.json"
        events_file.save(path, memory)
        made = path.read_bytes()
    return [made, (TESTS / "releases/0.1.0/data/events.json").read_bytes()]


def made_events(random: Random) -> bytes:
    """A document whose values are of other kinds, somewhere."""
    document = json.loads(random.choice(events()))
    for _ in range(random.randint(1, 3)):
        _change(document, random)
    return json.dumps(document).encode()


def _change(value: Any, random: Random) -> None:
    """Walks down to some value, and puts another one in its place."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = random.choice(keys)
        if isinstance(value[key], dict | list) and value[key] and random.random() < 0.9:
            value = value[key]
            continue
        value[key] = random.choice(
            (None, 0, -1, 1e308, True, "", "x", [], {}, "2025-11-14", "9999-12-31T23:59:59Z", 10**40)
        )
        return


@cache
def history_files() -> dict[str, bytes]:
    """A small history by the names of its files: an hour, runs, sums, events, the last state, checksums."""
    with TemporaryDirectory() as directory:
        settings = history_config(Path(directory))
        for minute in range(-90, 1, 15):
            add_run(settings, minute, [down_at(NOW + timedelta(minutes=minute))])
        folder = settings.history_path
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def add_run(settings: Config, minute: int, events: Sequence[Event] = ()) -> list[str]:
    """What was printed."""
    at = NOW + timedelta(minutes=minute)
    lines: list[str] = []
    readings = [replace(one, fetched_at=at) for one in lab(minute)]
    snapshot.write(settings.csv_path, readings)
    record.record(settings, sightings(readings, settings.busy), at, lines.append, events=events)
    return lines


def histories() -> list[bytes]:
    """Each file of it: its name, a zero byte, what is in it."""
    return [name.encode() + b"\0" + content for name, content in history_files().items()]


def write_history(content: bytes, folder: Path) -> None:
    """A history in which one file is another; a name that it does not have stands for one that it has."""
    name, _, changed = content.partition(b"\0")
    files = dict(history_files())
    known = name.decode("utf-8", "replace")
    files[known if known in files else sorted(files)[len(content) % len(files)]] = changed
    shutil.rmtree(folder, ignore_errors=True)
    for place, text in files.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(text)


def down_at(at: datetime) -> Event:
    return Event(f"id {at}", "host-down", HOSTS[0], None, at, at, status="timeout", error="no answer")


def history_config(directory: Path) -> Config:
    return replace(config(*HOSTS), paths=PathsConfig(directory, directory))


SQL_VALUES = ("NULL", "0", "-1", "2147483647", "''", "'x'", "repeat('x', 500)", "'\\xFF\\x00'::BLOB", "'inf'::DOUBLE",
          "TIMESTAMPTZ '2999-01-01 00:00:00Z'", "TIMESTAMPTZ '1970-01-01 00:00:00Z'", "[1, 2]", "['', NULL]")  # fmt: skip


def made_history(random: Random) -> bytes:
    """A whole Parquet file with columns that should not be so."""
    name = random.choice([name for name in history_files() if name.endswith(".parquet")])
    with TemporaryDirectory() as directory, open_engine(Path(directory)) as engine:
        path, made = Path(directory, "old.parquet"), Path(directory, "new.parquet")
        path.write_bytes(history_files()[name])
        described = engine.rows(f"DESCRIBE SELECT * FROM {parquet([path])}")
        column, kind = random.choice([row[:2] for row in described])
        value = random.choice(SQL_VALUES)
        cast = f"TRY_CAST({value} AS {kind})" if random.random() < 0.7 else value
        change = f'REPLACE ({cast} AS "{column}")' if random.random() < 0.85 else f'EXCLUDE ("{column}")'
        with suppress(duckdb.Error):
            engine.write(f"SELECT * {change} FROM {parquet([path])}", made)
        return name.encode() + b"\0" + (made if made.exists() else path).read_bytes()
