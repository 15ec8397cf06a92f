"""A lab built to leak: no file of the site tells more about people than its tier allows."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from gpumon_static.commands.render import render
from gpumon_static.config import file as config_file
from gpumon_static.config.settings import Config
from gpumon_static.model import (
    Allocated,
    Allocation,
    Disk,
    Fault,
    Gpu,
    HostReading,
    Machine,
    MigDevice,
    NodeState,
    Process,
    SlurmAnswer,
    Status,
    Waiting,
)
from gpumon_static.model.rules import RULES
from gpumon_static.store import events_file, snapshot
from gpumon_static.store.pseudonyms import pseudonym, read_key
from gpumon_static.store.slurm import slurm_file
from gpumon_static.survey.changes import note_changes
from gpumon_static.survey.privacy import REASONS
from tests.builders import NOW, busy_gpu, gpu, process, reading
from tests.past_lab import PastLab

LOGINS = ("zebulonq", "quixotica", "historian", "uid 7919173")
SHOWN = ("Zebulon Quagmire", "Quagmire")
PATHS = ("/home/", "/scratch/", "id_ed25519", "@laptop", "SHA256:")
PIDS = ("3133731", "4042342", "7919179")
UIDS = ("7919173",)
JOBS = ("slurm:98765431", "98765431", "docker:f00dfeed")
PROGRAMS = ("trainer", "python3", "quixotica.py", "--token")
HARDWARE = {
    "driver_version", "cuda_version", "uuid", "bus_id", "profile", "vendor", "device", "performance_state", "vbios",
}  # fmt: skip
"""Texts that describe a GPU or its driver and nobody who uses it; shown on every tier."""

LEAK = (
    "refused the login of zebulonq; keys tried: /home/zebulonq/.ssh/id_ed25519, agent's quixotica@laptop"
    " SHA256:abc, PID 3133731 of uid 7919173 in slurm:98765431, then: ssh-keyscan >> /home/zebulonq/.ssh/x"
)
CONFIG = """
[common]
hosts = ["good", "idle", "odd", {failing}]
user = "quixotica"
key_filename = "/home/zebulonq/.ssh/id_ed25519"
[fetch]
disks = ["/", "/home/zebulonq"]
[site]
users = "{tier}"
split = {split}
csv = true
show_command_lines = true
[[site.pages]]
file = "corridor.html"
title = "All"
users = "{tier}"
[users]
zebulonq = "Zebulon Quagmire"
[hosts.good]
group = "vision"
note = "reserved for zebulonq, ask quixotica"
gpus = 99
[notify]
samples = 1
[history]
idle_after = "30m"
"""


def leaking(record: type, leak: str = LEAK, **given: Any) -> dict[str, Any]:
    """Each text of a record says it all: one that is added later has to be decided upon."""
    texts = {f.name: leak for f in fields(record) if "str" in str(f.type) and f.name not in HARDWARE}
    return texts | given


def test_gpus_and_slices_have_no_texts_but_those_of_the_hardware() -> None:
    for kind in (Gpu, MigDevice):
        assert leaking(kind).keys() <= {"name", "serial"}


def people() -> tuple[Process, ...]:
    trainer = "/home/zebulonq/bin/trainer_of_zebulonq --token zebulonq"
    leak = leaking(Process, type="C", state="R")
    return (
        Process(3133731, **leak | {"user": "zebulonq", "name": trainer, "job": "slurm:98765431"}),
        Process(4042342, **leak | {"user": "quixotica", "name": "python3", "job": "docker:f00dfeed"}),
        Process(7919179, **leak | {"user": None, "uid": 7919173, "name": "python3", "job": None}),
    )


def lab() -> list[HostReading]:
    faults = tuple(Fault(rule, LEAK) for rule in (*RULES, "of-another-version"))
    whole = busy_gpu(0, processes=people(), faults=faults, serial=LEAK)
    cut = gpu(
        1, mig_mode=True, processes=people(), slices=(MigDevice(0, profile="1g.10gb", processes=people()),)
    )
    disks = tuple(Disk(mount, 1.0, 2.0) for mount in ("/", "/home/zebulonq", "/scratch/quixotica"))
    held = busy_gpu(0, utilization=0.0, processes=(process(3133731, user="historian"),))
    told = leaking(HostReading, host="good", status=Status.OK, error=None)
    job = Allocation(Allocated.YES, **leaking(Allocation, user="zebulonq", job="98765431"), ends_at=NOW)
    node = NodeState(**leaking(NodeState, node="idle", state="MIXED+DRAIN", kind="a100"), takes_jobs=False)
    return [
        HostReading(**told, fetched_at=NOW, gpus=(whole, cut), machine=Machine(disks=disks, cpu_count=4)),
        reading("idle", [replace(held, allocation=job), gpu(1, allocation=job)], fetched_at=NOW, node=node),
        HostReading(**leaking(HostReading, host="odd", status=Status.OK), fetched_at=NOW),
        *(
            HostReading(**leaking(HostReading, host=f"host-{s}", status=s), fetched_at=NOW)
            for s in Status
            if s is not Status.OK
        ),
    ]


def healthy(one: HostReading) -> HostReading:
    """The same host before: its GPUs are in use by people of whom only the history knows today."""
    well: Gpu = busy_gpu(0, processes=(process(3133731, user="historian"), *people()[:2]))
    return HostReading(one.host, one.fetched_at, gpus=(well,))


def rendered(directory: Path, tier: str, split: int = 10_000) -> tuple[Config, dict[str, str]]:
    """The texts of all files of the site."""
    failing = ", ".join(f'"host-{s}"' for s in Status if s is not Status.OK)
    (directory / "config.ini").write_text(CONFIG.format(tier=tier, failing=failing, split=split))
    config = config_file.load(directory / "config.ini")
    memory = events_file.load(directory / "none")
    past = PastLab(directory)
    past.config = config
    for minutes in range(-120, 1, 5):
        at = NOW + timedelta(minutes=minutes)
        seen = [replace(r if minutes > -60 else healthy(r), fetched_at=at) for r in lab()]
        past.run_dated(seen)
        note_changes(memory, seen, config)
    assert {event.type for event in memory.events} >= {"host-down", "gpu-fault", "job-idle"}
    events_file.save(events_file.path_in(config.paths.data), memory)
    past.write(memory.events)
    snapshot.write(config.csv_path, lab())
    waiting = SlurmAnswer(waiting=(Waiting("a100", 2, 1, NOW),))
    failed = HostReading("Slurm on login1", NOW, Status.ERROR, LEAK, note=LEAK)
    slurm_file.write(
        slurm_file.path_in(config.paths.data),
        [failed, HostReading("Slurm on login2", NOW, note=LEAK, slurm=waiting)],
    )
    render(config, NOW)
    return config, dict(_texts(config.paths.site))


def _texts(site: Path) -> Iterator[tuple[str, str]]:
    for file in sorted(site.iterdir()):
        packed = file.read_bytes()
        if file.name == "gpufree":
            with zipfile.ZipFile(file) as archive:
                packed = b"".join(map(archive.read, archive.namelist()))
        text = (gzip.decompress(packed) if file.suffix == ".gz" else packed).decode()
        # Styles and scripts are the same on every page, and are ours.
        shown = re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.DOTALL)
        yield file.name, unescape(shown)


def found(texts: dict[str, str], *words: str) -> list[tuple[str, str]]:
    return [
        (name, word)
        for name, text in texts.items()
        if name.removesuffix(".gz") != "gpus.schema.json"
        for word in words
        if word.lower() in text.lower()
    ]


def test_the_lab_leaks_everything_on_a_page_with_names(tmp_path: Path) -> None:
    """Otherwise the tests below could not fail."""
    _, texts = rendered(tmp_path, "names")
    for name in ("index.html", "corridor.html", "gpus.json", "load_data.csv"):
        told = {name: texts[name]}
        for word in ("Zebulon Quagmire", "quixotica", *PATHS, *PIDS, *UIDS, *JOBS[:1], "trainer"):
            assert found(told, word), (name, word)
    assert found({"": texts["index.html"]}, "historian")
    assert found({"": texts["show.txt"]}, "Zebulon Quagmire")
    assert found({"": texts["show.ansi"]}, "Zebulon Quagmire")
    assert found({"": texts["feed.xml"]}, *PATHS)
    assert found({"": texts["feed.xml"]}, "job 98765431 of zebulonq leaves GPUs 0 and 1 idle")
    assert found({"": texts["index.html"]}, "drained in Slurm: refused the login of zebulonq")
    assert found({"": texts["metrics.prom"]}, "Zebulon Quagmire", "/scratch/")


@pytest.mark.parametrize("split", [10_000, 1])
def test_a_site_with_counts_tells_no_login_path_pid_or_job_in_any_file(tmp_path: Path, split: int) -> None:
    _, texts = rendered(tmp_path, "counts", split)
    assert len(texts) >= 8
    assert ("index-vision.html" in texts) == ("corridor-vision.html" in texts) == (split == 1)
    assert found(texts, *LOGINS, *SHOWN, *PATHS, *PIDS, *UIDS, *JOBS, *PROGRAMS, "reserved") == []


FOUND_BY_PS = ("73457", "20:24:17", "12345", "23451", "11:39:43", "2025-11-13T", "09:49:19")
"""Run time, memory, start and end by which a user of the host finds a process, or a job with squeue."""


def traced(tmp_path: Path, tier: str, split: int) -> dict[str, str]:
    """A site whose processes and jobs are each one of a kind."""
    seen = {"elapsed_s": 73457, "compute_units": 3}
    one = process(3133731, user="zebulonq", memory_mib=12345.0, state="Dl+", **seen)
    two = process(4042342, user="quixotica", memory_mib=23451.0, state="Dl+", **seen)
    job = Allocation(
        Allocated.YES, "98765431", None, "zebulonq",
        started_at=NOW - timedelta(hours=21, minutes=32, seconds=17),
        ends_at=NOW + timedelta(minutes=37, seconds=19),
    )  # fmt: skip
    mig = MigDevice(0, profile="1g.10gb", memory_used_mib=900.0, memory_total_mib=9000.0, processes=(two,))
    cards = [
        busy_gpu(0, processes=(one, two)),
        busy_gpu(1, processes=(one,), allocation=job),
        gpu(2, mig_mode=True, slices=(mig,)),
    ]
    path = tmp_path / "config.ini"
    path.write_text(CONFIG.format(failing="", tier=tier, split=split))
    config = config_file.load(path)
    config.paths.data.mkdir(parents=True, exist_ok=True)
    snapshot.write(config.csv_path, [reading("good", cards, fetched_at=NOW)])
    render(config, NOW)
    return dict(_texts(config.paths.site))


@pytest.mark.parametrize("split", [10_000, 1])
def test_a_site_with_counts_has_nothing_by_which_ps_finds_a_process(tmp_path: Path, split: int) -> None:
    texts = traced(tmp_path, "counts", split)
    assert found(texts, *FOUND_BY_PS, "Dl+") == []
    document = json.loads(texts["gpus.json"])
    (host,) = [host for host in document["hosts"] if host["name"] == "good"]
    assert [gpu["state"] for gpu in host["gpus"]] == ["busy", "busy", "busy"]
    assert host["gpus"][1]["slurm"]["started_at"] is None
    rows_ = list(csv.DictReader(io.StringIO(texts["load_data.csv"])))
    assert {row["elapsed_s"] for row in rows_} == {""}
    assert len([row for row in rows_ if row["gpu_index"] == "0"]) == 2, "how many stays"
    assert len({row["process_memory_mib"] for row in rows_ if row["gpu_index"] == "0"}) == 1


def test_the_same_site_with_names_has_all_of_that(tmp_path: Path) -> None:
    """Otherwise the test above could not fail."""
    texts = traced(tmp_path, "names", 10_000)
    for word in ("73457", "12345", "23451", "Dl+", "11:39:43", "09:49:19"):
        assert found({"": texts["load_data.csv"]}, word), word
    # The page has the memory of a process as a difference to another number.
    for word in ("73457", "zebulonq"):
        assert found({"": texts["index.html"]}, word), word


@pytest.mark.parametrize("split", [10_000, 1])
def test_a_site_with_pseudonyms_tells_no_login_path_uid_or_job_in_any_file(
    tmp_path: Path, split: int
) -> None:
    """PIDs and the names of programs are told on this tier."""
    _, texts = rendered(tmp_path, "pseudonyms", split)
    assert found(texts, *LOGINS, *SHOWN, *PATHS, *UIDS, *JOBS, "quixotica.py", "--token", "reserved") == []
    assert found({"": texts["gpus.json"]}, "trainer_of_(name)", *PIDS)


def test_the_same_person_has_the_same_pseudonym_in_every_file(tmp_path: Path) -> None:
    config, texts = rendered(tmp_path, "pseudonyms")
    key = read_key(config.paths.data)
    aliases = {login: pseudonym(login, key) for login in LOGINS}
    of_now = {aliases[login] for login in ("zebulonq", "quixotica", "uid 7919173")}
    told = {name: set(re.findall(r"\b[a-z]+-[a-z]+-\d{3}\b", text)) for name, text in texts.items()}
    assert told["index.html"] == told["corridor.html"] == set(aliases.values())
    assert told["gpus.json"] == told["load_data.csv"] == told["metrics.prom"]
    assert told["gpus.json"] == of_now | {aliases["historian"]}
    assert told["feed.xml"] == told["free.txt"] == set()
    assert told["show.txt"] == told["gpus.json"]
    by_pid = {row["pid"]: row["user"] for row in csv.DictReader(io.StringIO(texts["load_data.csv"]))}
    assert (by_pid["4042342"], by_pid["7919179"]) == (aliases["quixotica"], aliases["uid 7919173"])


@pytest.mark.parametrize("tier", ["pseudonyms", "counts"])
def test_a_failing_host_has_a_sentence_made_from_its_status(tmp_path: Path, tier: str) -> None:
    _, texts = rendered(tmp_path, tier)
    hosts = {host["name"]: host for host in json.loads(texts["gpus.json"])["hosts"]}
    for status in Status:
        if status is not Status.OK:
            sentence = REASONS[status]
            assert hosts[f"host-{status}"]["error"] == sentence
            assert all(found({"": texts[name]}, sentence) for name in ("index.html", "load_data.csv"))
            assert sentence in texts["feed.xml"], status
    assert hosts["good"]["faults"] == ["97 of 99 GPUs missing"]
    assert hosts["odd"]["faults"] == ["The driver reported a warning."]
    assert [disk["mount"] for disk in hosts["good"]["machine"]["disks"]] == ["/", "disk 2", "disk 3"]


def test_every_status_has_its_sentence() -> None:
    assert set(REASONS) == set(Status) - {Status.OK}
    assert all(re.fullmatch(r"[A-Z][^\n]{10,80}\.", sentence) for sentence in REASONS.values())
