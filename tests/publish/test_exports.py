"""What render writes beside index.html for scripts: gpus.json, metrics.prom, feed.xml, free.txt, the CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from defusedxml import ElementTree
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

from gpumon_static.commands.render import render
from gpumon_static.config import file as config_file
from gpumon_static.config.settings import Config, PageConfig
from gpumon_static.errors import GpumonError
from gpumon_static.model import Disk, Fault, HostReading, Machine
from gpumon_static.publish.exports.metrics import FAMILIES
from gpumon_static.store import snapshot
from gpumon_static.store.events import EventMemory
from gpumon_static.survey.changes import note_changes
from tests.builders import NOW, READ_AT, busy_gpu, config, failed, gpu, host_config, process, reading, slices
from tests.command import gpumon
from tests.labs import exports_of

ATOM = "{http://www.w3.org/2005/Atom}"
HOSTILE = 'x"},\\ \n<script>alert(1)</script>&{{7*7}}'

MACHINE = Machine(
    cpu_count=64,
    load_1m=3.5,
    ram_total_mib=1024.0,
    ram_used_mib=512.0,
    cpu_utilization=25.0,
    uptime_s=86400,
    disks=(Disk("/", 50.0, 100.0, spins=False),),
)
LAB = [
    reading(
        "n1",
        [
            busy_gpu(0, processes=(process(), process(pid=9, user="bob", memory_mib=1024.0))),
            gpu(1, faults=(Fault("ecc-errors", "3"), Fault("persistence-off"))),
            gpu(
                2,
                utilization=None,
                fan_percent=None,
                power_w=None,
                processes_known=False,
                memory_used_mib=None,
            ),
        ],
        machine=MACHINE,
        fetch_seconds=1.25,
    ),
    reading("n2", [gpu(0, mig_mode=True, utilization=None, slices=slices(3, 1))]),
    failed("n3"),
]


def lab_config(**site: Any) -> Config:
    setup = config(host_config("n1", group="vision", gpus=4, port=2222, note="alice's"), "n2", "n3", "n4")
    return replace(setup, site=replace(setup.site, **site))


def exports(
    readings: Sequence[HostReading] = LAB, setup: Config | None = None, memory: EventMemory | None = None
) -> dict[str, str]:
    setup = setup or lab_config()
    return exports_of(readings, setup, memory)


def document(readings: Sequence[HostReading] = LAB, setup: Config | None = None) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(exports(readings, setup)["gpus.json"])
    return loaded


def metrics(
    readings: Sequence[HostReading] = LAB, setup: Config | None = None
) -> dict[str, dict[str, float]]:
    """By name, then by the labels as text: `{"gpumon_host_up": {"host=n1": 1.0}}`."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(exports(readings, setup)["metrics.prom"]):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            assert labels not in found.setdefault(sample.name, {})
            found[sample.name][labels] = sample.value
    return found


# gpus.json


@pytest.mark.parametrize("tier", ["names", "pseudonyms", "counts"])
def test_gpus_json_is_as_its_schema_says(tier: str) -> None:
    written = exports(setup=lab_config(users=tier))
    schema = json.loads(written["gpus.schema.json"])
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    assert list(validator.iter_errors(json.loads(written["gpus.json"]))) == []
    assert list(validator.iter_errors({"version": 1})) != []


def test_the_schema_describes_every_field() -> None:
    schema = json.loads(exports()["gpus.schema.json"])
    told = document()
    host = told["hosts"][0]
    pairs = [
        (told, schema["properties"]),
        (host, schema["$defs"]["host"]["properties"]),
        (host["machine"], schema["$defs"]["machine"]["properties"]),
        (host["gpus"][0], schema["$defs"]["gpu"]["properties"]),
        (host["gpus"][0]["processes"][0], schema["$defs"]["process"]["properties"]),
        (told["hosts"][1]["gpus"][0]["slices"][0], schema["$defs"]["slice"]["properties"]),
    ]
    for given, described in pairs:
        assert set(given) == set(described)


def test_gpus_json_tells_what_the_page_tells() -> None:
    told = document()
    assert told["version"] == 1
    assert told["fetched_at"] == "2025-11-14T09:10:00Z"
    assert told["made_at"] == "2025-11-14T09:12:00Z"
    assert told["stale_after_s"] == 660
    assert told["totals"] == {
        "hosts": 4,
        "hosts_failed": 1,
        "gpus": 4,
        "gpus_free": 1,
        "gpus_busy": 2,
        "gpus_held": 0,
        "gpus_unknown": 1,
        "slices": 3,
        "slices_free": 2,
    }
    n1, n2, n3, n4 = told["hosts"]
    assert [n1["ssh_port"], n2["ssh_port"]] == [2222, None]
    assert [gpu["state"] for gpu in n1["gpus"]] == ["busy", "free", "unknown"]
    assert [gpu["is_usable"] for gpu in n1["gpus"]] == [False, True, False]
    assert n1["gpus"][0]["users"] == ["alice", "bob"]
    assert n1["gpus"][1]["faults"] == [
        {"rule": "ecc-errors", "word": "ECC errors", "severity": "fault", "detail": "3"},
        {"rule": "persistence-off", "word": "persistence off", "severity": "notice", "detail": None},
    ]
    assert n1["faults"] == ["1 of 4 GPUs missing"]
    assert n1["gpus"][2]["utilization"] is None
    assert n1["gpus"][2]["processes"] is None
    assert [s["state"] for s in n2["gpus"][0]["slices"]] == ["free", "busy", "free"]
    assert (n2["gpus"][0]["is_usable"], n2["gpus"][0]["state"]) == (False, "busy")
    assert (n3["status"], n3["error"], n3["gpus"]) == ("timeout", "no answer within 10 s", [])
    assert (n4["status"], n4["fetched_at"], n4["gpus"]) == (None, None, [])


@pytest.mark.parametrize("tier", ["pseudonyms", "counts"])
def test_no_export_tells_more_than_the_page(tier: str) -> None:
    error = "refused the login of alice"
    lab = [*LAB[:2], failed("n3", error=error)]
    memory = EventMemory()
    setup = lab_config(users=tier, csv=True)
    note_changes(memory, [reading("n3", [gpu()], fetched_at=READ_AT - timedelta(hours=1))], setup)
    for minutes in (10, 5):
        down = failed("n3", error=error)
        note_changes(memory, [replace(down, fetched_at=READ_AT - timedelta(minutes=minutes))], setup)
    assert [event.type for event in memory.events] == ["host-down"]
    written = exports(lab, setup, memory)
    assert set(written) == {
        "gpus.json",
        "gpus.schema.json",
        "metrics.prom",
        "free.txt",
        "feed.xml",
        "load_data.csv",
        "badge.svg",
        "badge-a100-80g.svg",
    }
    for name, content in written.items():
        assert "alice" not in content, name
        assert "bob" not in content, name
    first = json.loads(written["gpus.json"])["hosts"][0]["gpus"][0]
    assert first["user_count"] == 2
    rows = list(csv.DictReader(io.StringIO(written["load_data.csv"])))
    users = {row["user"] for row in rows if row["pid"]}
    if tier == "counts":
        assert (first["users"], first["processes"]) == (None, None)
        assert users == {""}
        assert "gpumon_user_gpus" not in written["metrics.prom"]
        assert "\ngpumon_users 3\n" in written["metrics.prom"]
    else:
        assert len(set(first["users"])) == 2
        assert len(users) == 3


def test_exports_have_the_hosts_of_the_main_page_only() -> None:
    setup = lab_config()
    pages = (PageConfig("index.html", groups=("vision",)),)
    written = exports(setup=replace(setup, site=replace(setup.site, pages=pages)))
    assert [host["name"] for host in json.loads(written["gpus.json"])["hosts"]] == ["n1"]
    assert 'host="n2"' not in written["metrics.prom"]


# metrics.prom


def test_metrics_are_in_base_units() -> None:
    found = metrics()
    at = "gpu=0,host=n1,model=A100 80G"
    assert found["gpumon_gpu_utilization_ratio"][at] == 0.97
    assert found["gpumon_gpu_memory_used_bytes"][at] == 41000 * 1024 * 1024
    assert found["gpumon_gpu_memory_total_bytes"][at] == 81920 * 1024 * 1024
    assert found["gpumon_gpu_temperature_celsius"][at] == 31
    assert found["gpumon_gpu_power_watts"][at] == 52
    assert found["gpumon_gpu_processes"][at] == 2
    assert found["gpumon_last_fetch_timestamp_seconds"][""] == READ_AT.timestamp()
    assert found["gpumon_render_timestamp_seconds"][""] == NOW.timestamp()
    assert found["gpumon_host_fetch_duration_seconds"] == {"host=n1": 1.25}
    assert found["gpumon_host_cpu_utilization_ratio"]["host=n1"] == 0.25
    assert found["gpumon_host_memory_total_bytes"]["host=n1"] == 1024**3
    assert found["gpumon_host_filesystem_used_bytes"] == {"host=n1,mountpoint=/": 50 * 1024 * 1024}
    assert found["gpumon_user_gpus"] == {"user=alice": 1, "user=bob": 1, "user=mia": 1}
    assert found["gpumon_user_gpu_memory_bytes"]["user=bob"] == 1024**3


def test_each_gpu_is_in_one_state() -> None:
    found = metrics()["gpumon_gpu_state"]
    at = "gpu=1,host=n1,model=A100 80G,state="
    assert {name: value for name, value in found.items() if name.startswith(at)} == {
        f"{at}free": 1,
        f"{at}busy": 0,
        f"{at}held": 0,
        f"{at}unknown": 0,
    }
    assert sum(found.values()) == 4
    assert metrics()["gpumon_gpu_fault"] == {"gpu=1,host=n1,model=A100 80G,rule=ecc-errors": 1}


def test_slices_are_counted_apart_from_gpus() -> None:
    found = metrics()
    free = [value for name, value in found["gpumon_slice_state"].items() if name.endswith("state=free")]
    assert free == [1, 0, 1]
    assert found["gpumon_host_gpus"] == {"host=n1": 3, "host=n2": 1}


def test_what_is_not_known_has_no_sample() -> None:
    found = metrics()
    unknown = "gpu=2,host=n1,model=A100 80G"
    for name in ("utilization_ratio", "memory_used_bytes", "fan_speed_ratio", "power_watts", "processes"):
        assert unknown not in found.get(f"gpumon_gpu_{name}", {})
    assert found["gpumon_gpu_memory_total_bytes"][unknown] > 0
    assert found["gpumon_host_up"] == {"host=n1": 1, "host=n2": 1, "host=n3": 0}
    assert found["gpumon_host_status"]["host=n3,status=timeout"] == 1
    assert not [labels for name in found if "_gpu_" in name for labels in found[name] if "n3" in labels]


def test_metrics_have_help_and_type_and_no_two_samples_alike() -> None:
    text = exports()["metrics.prom"]
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert set(names) <= set(FAMILIES)
    assert all(f"# HELP {name} " in text for name in names)
    assert text.endswith("\n")


def test_hostile_names_stay_inside_their_label() -> None:
    hostile = reading("n1", [busy_gpu(0, name=HOSTILE, processes=(process(user=HOSTILE),))])
    found = metrics([hostile])
    assert found["gpumon_user_gpus"] == {f"user={HOSTILE}": 1}
    assert len(found["gpumon_gpu_info"]) == 1


# free.txt


def test_free_txt_is_a_line_per_place_to_run() -> None:
    # GPU 1 of n1 is free, and has memory errors.
    assert exports()["free.txt"].splitlines() == [
        "n2 MIG-0 9718 A100-80G:1g.10gb",
        "n2 MIG-2 9718 A100-80G:1g.10gb",
    ]


def test_mig_mode_without_slices_is_no_place_to_run() -> None:
    assert exports([reading("n1", [gpu(0, mig_mode=True)])])["free.txt"] == ""


# feed.xml


def test_the_feed_has_the_changes_newest_first() -> None:
    setup = lab_config()
    memory = EventMemory()
    hours = [
        reading("n2", [gpu()]),
        failed("n2"),
        failed("n2"),
        reading("n2", [gpu()]),
        reading("n2", [gpu()]),
    ]
    for number, seen in enumerate(hours):
        note_changes(memory, [replace(seen, fetched_at=READ_AT + timedelta(hours=number))], setup)
    text = exports(setup=setup, memory=memory)["feed.xml"]
    feed = ElementTree.fromstring(text)
    assert feed.tag == f"{ATOM}feed"
    titles = [entry.findtext(f"{ATOM}title") for entry in feed.findall(f"{ATOM}entry")]
    assert titles == ["n2 is back", "n2 gives no data: timeout"]
    assert feed.findtext(f"{ATOM}updated") == "2025-11-14T13:10:00Z"
    ids = [entry.findtext(f"{ATOM}id") or "" for entry in feed.findall(f"{ATOM}entry")]
    assert len(set(ids)) == 2
    assert all(one.startswith("urn:uuid:") for one in ids)
    later = exports_of(LAB, setup, memory, now=NOW + timedelta(days=1))
    assert later["feed.xml"] == text


def test_a_feed_without_news_is_a_feed_all_the_same() -> None:
    feed = ElementTree.fromstring(exports()["feed.xml"])
    assert feed.findall(f"{ATOM}entry") == []
    for needed in ("id", "title", "updated", "author"):
        assert feed.find(f"{ATOM}{needed}") is not None


def test_hostile_text_is_text_in_the_feed() -> None:
    memory = EventMemory()
    setup = lab_config()
    for number, seen in enumerate(
        [reading("n2", [gpu()]), *[failed("n2", error=HOSTILE.replace("\n", " "))] * 2]
    ):
        note_changes(memory, [replace(seen, fetched_at=READ_AT + timedelta(hours=number))], setup)
    feed = ElementTree.fromstring(exports(setup=setup, memory=memory)["feed.xml"])
    assert "<script>alert(1)</script>" in (feed.findtext(f"{ATOM}entry/{ATOM}content") or "")


# render


def site(tmp_path: Path, more: str = "") -> Path:
    (tmp_path / "config.ini").write_text(f"[common]\nhosts = ['n1', 'n2', 'n3']\n{more}")
    snapshot.write(tmp_path / "data/load_data.csv", LAB)
    return tmp_path


def rendered(directory: Path) -> None:
    render(config_file.load(directory / "config.ini"), NOW)


def test_render_writes_them_beside_the_page(tmp_path: Path) -> None:
    assert gpumon("render", cwd=site(tmp_path)).returncode == 0
    written = {path.name for path in (tmp_path / "site").iterdir() if path.suffix != ".gz"}
    assert written == {
        "badge.svg",
        "badge-a100-80g.svg",
        "index.html",
        "gpus.json",
        "gpus.schema.json",
        "metrics.prom",
        "feed.xml",
        "free.txt",
        "show.txt",
        "show.ansi",
        "gpufree",
    }
    assert json.loads((tmp_path / "site/gpus.json").read_text())["totals"]["gpus"] == 4


def test_the_csv_is_published_where_the_config_says_so(tmp_path: Path) -> None:
    rendered(site(tmp_path, "[site]\ncsv = true\n"))
    assert (tmp_path / "site/load_data.csv").read_text() == (tmp_path / "data/load_data.csv").read_text()


def test_command_lines_are_published_only_where_the_config_says_so() -> None:
    lab = [reading("n1", [busy_gpu(0, processes=(process(command_line="train --token 1234"),))])]
    assert "1234" not in "".join(exports(lab, lab_config(csv=True)).values())
    assert "1234" in exports(lab, lab_config(csv=True, show_command_lines=True))["load_data.csv"]


def test_a_render_that_fails_leaves_all_of_them(tmp_path: Path) -> None:
    rendered(site(tmp_path))
    before = {path.name: path.read_bytes() for path in (tmp_path / "site").iterdir()}
    snapshot.write(tmp_path / "data/load_data.csv", [failed("n1"), failed("n2"), failed("n3")])
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/index.html.j2").write_text("{{ nonsense }}")
    site_config = (tmp_path / "config.ini").read_text() + "[site]\ntemplates = 'templates'\n"
    (tmp_path / "config.ini").write_text(site_config)
    with pytest.raises(GpumonError, match="nonsense"):
        rendered(tmp_path)
    assert {path.name: path.read_bytes() for path in (tmp_path / "site").iterdir()} == before


def test_the_exports_of_a_lab_that_was_never_read() -> None:
    written = exports([])
    assert json.loads(written["gpus.json"])["fetched_at"] is None
    assert "gpumon_last_fetch_timestamp_seconds" not in written["metrics.prom"]
    assert written["free.txt"] == ""
