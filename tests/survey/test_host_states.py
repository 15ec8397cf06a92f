"""Hosts that are planned, in maintenance or retired: a quiet card, no alert, no failure, no offer."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from gpumon_static.check import surroundings
from gpumon_static.commands.render import render
from gpumon_static.config.choose import choose
from gpumon_static.config.file import load
from gpumon_static.config.settings import Config
from gpumon_static.errors import ConfigError
from gpumon_static.model import HostReading, Status
from gpumon_static.publish.page.records import Kind
from gpumon_static.publish.page.view import build_page
from gpumon_static.store import snapshot
from gpumon_static.store.events import EventMemory
from gpumon_static.survey.changes import note_changes
from gpumon_static.terminal.rows import Look
from gpumon_static.terminal.show import Choice, survey_of, table
from tests.builders import NOW, busy_gpu, config, failed, gpu, host_config, reading
from tests.command import gpumon, rows
from tests.history_lab import INTERVAL, START, HistoryLab

pytestmark = pytest.mark.usefixtures("home")

CONFIG = """
[common]
hosts = ["good", "new", "ill", "old"]
[fetch]
transport = "local"
[hosts.new]
state = "planned"
[hosts.ill]
state = "maintenance"
until = 2999-12-01
note = "a new fan"
gpus = 8
[hosts.old]
state = "retired"
"""


def lab() -> Config:
    return config(
        "good",
        host_config("new", state="planned"),
        host_config("ill", state="maintenance", until=date(2999, 12, 1), note="a new fan", gpus=8),
        host_config("old", state="retired"),
    )


def readings() -> list[HostReading]:
    """As if all had been asked: those that are not in use are free, broken or down."""
    return [
        reading("good", [busy_gpu()]),
        reading("new", [gpu()]),
        failed("ill", Status.TIMEOUT),
        reading("old", [gpu(), gpu(1)]),
    ]


def test_the_config_knows_states_and_when_they_end(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text(CONFIG)
    loaded = load(tmp_path / "config.ini")
    assert [host.state_at(NOW) for host in loaded.hosts] == [None, "planned", "maintenance", "retired"]
    assert [host.name for host in loaded.asked(NOW)] == ["good", "ill"]
    wrong = CONFIG.replace('state = "planned"', 'state = "away"\nuntil = "soon"')
    (tmp_path / "config.ini").write_text(wrong.replace('state = "retired"', "until = '2026-12-01'"))
    with pytest.raises(ConfigError) as error:
        load(tmp_path / "config.ini")
    assert sorted(error.value.problems) == [
        "hosts.new.state: must be 'planned' or 'maintenance' or 'retired', not 'away'",
        "hosts.new.until: must be a day such as 2026-12-01, not 'soon'",
        "hosts.old.until: needs a state, which ends then",
    ]


def test_a_state_ends_when_its_day_begins() -> None:
    host = host_config("a", state="maintenance", until=date(2026, 12, 1))
    before = datetime(2026, 11, 30, 23, 59, 59).astimezone()
    assert host.state_at(before) == "maintenance"
    assert host.state_at(before + timedelta(seconds=1)) is None
    assert host_config("a", state="retired").state_at(before) == "retired"


def test_fetch_asks_what_is_in_use_or_in_maintenance_and_complains_of_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without nvidia-smi each host that is asked fails."""
    (tmp_path / "config.ini").write_text(CONFIG.replace('"good", ', ""))
    done = gpumon("fetch", "--strict", "-c", tmp_path / "config.ini")
    assert (done.returncode, done.stderr) == (0, "")
    assert {(row["host"], row["status"] != "ok") for row in rows(tmp_path / "data/load_data.csv")} == {
        ("ill", True)
    }
    (tmp_path / "config.ini").write_text(CONFIG)
    done = gpumon("fetch", "--strict", "-c", tmp_path / "config.ini")
    assert (done.returncode, done.stderr.split(":")[0]) == (3, "good")
    assert "ill" not in done.stderr
    # Who names a host asks it.
    named = gpumon("fetch", "--only", "old", "-c", tmp_path / "config.ini")
    assert named.returncode == 0
    assert [row["host"] for row in rows(tmp_path / "data/load_data.csv")] == ["good", "ill", "old"]


def test_on_the_page_they_have_a_quiet_card_and_are_no_failure_and_no_offer() -> None:
    page = build_page(readings(), lab(), NOW)
    notices = {host.full_name: host.notice for host in page.hosts if host.notice}
    assert {name: (n.kind, n.word) for name, n in notices.items()} == {
        "new": (Kind.WAITING, "planned"),
        "ill": (Kind.WAITING, "maintenance until 2999-12-01"),
        "old": (Kind.WAITING, "retired"),
    }
    assert {host.full_name: host.note for host in page.hosts}["ill"] == "a new fan"
    assert (page.headline.number, page.headline.text) == ("0", "of 1 GPU free")
    assert page.attention == ()
    assert [card for host in page.hosts if host.full_name != "good" for card in host.cards] == []


def test_files_for_scripts_know_their_state_and_count_nothing_of_them(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text(CONFIG)
    loaded = load(tmp_path / "config.ini")
    snapshot.write(loaded.csv_path, readings())
    site = render(loaded, NOW).parent
    told = json.loads((site / "gpus.json").read_text())
    hosts = {
        host["name"]: (host["state"], host["until"], host["status"], host["gpus"]) for host in told["hosts"]
    }
    assert hosts["ill"] == ("maintenance", "2999-12-01", None, [])
    assert hosts["old"] == ("retired", None, None, [])
    assert hosts["good"][:3] == (None, None, "ok")
    assert (told["totals"]["hosts_failed"], told["totals"]["gpus"]) == (0, 1)
    assert (site / "free.txt").read_text() == ""
    metrics = (site / "metrics.prom").read_text()
    assert 'gpumon_host_state{host="ill",state="maintenance"} 1' in metrics
    assert re.findall(r'gpumon_host_up\{host="(\w+)"\}', metrics) == ["good"]
    assert "gpumon_host_gpus_expected" not in metrics
    shown = (site / "show.txt").read_text()
    assert "1 host\n" in shown
    assert "ill  maintenance until 2999-12-01: a new fan\n" in shown
    assert "not fetched yet" not in shown


def test_the_note_of_a_host_is_on_a_page_with_names_only() -> None:
    survey = replace(survey_of(readings(), lab(), NOW), tier=type(survey_of([], lab(), NOW).tier)("counts"))
    text = "\n".join(line.plain for line in table(survey, Choice(), Look(), None))
    assert "maintenance until 2999-12-01\n" in text
    assert "a new fan" not in text


def test_no_event_while_it_lasts_and_one_when_it_is_over(tmp_path: Path) -> None:
    memory = EventMemory()
    up = config("a")
    away = config(host_config("a", state="maintenance"))

    def run(minute: int, setup: Config, ok: bool) -> list[str]:
        at = NOW + timedelta(minutes=minute)
        seen = reading("a", [gpu()]) if ok else failed("a")
        return [event.type for event in note_changes(memory, [replace(seen, fetched_at=at)], setup)]

    assert [run(minute, up, True) for minute in (0, 5, 10)] == [[], [], []]
    assert [run(minute, away, False) for minute in (15, 20, 25, 30)] == [[], [], [], []]
    assert [run(minute, up, False) for minute in (35, 40)] == [[], ["host-down"]]


def test_a_retired_host_keeps_its_history_also_when_its_gpus_live_on(tmp_path: Path) -> None:
    lab_ = HistoryLab(tmp_path, "node1")
    lab_.every(START, START + INTERVAL, reading("node1", [busy_gpu(0, uuid="GPU-1")]))
    lab_.config = replace(lab_.config, hosts=(host_config("node1", state="retired"), host_config("node2")))
    for number in (2, 3):
        lab_.add(START + number * INTERVAL, reading("node2", [busy_gpu(0, uuid="GPU-1")]))
    uses = lab_.gpus(START, START + 3 * INTERVAL)
    assert [(use.host, use.busy_s) for use in uses] == [("node1", 2 * INTERVAL), ("node2", INTERVAL)]
    assert lab_.lines == []


def test_check_says_which_hosts_it_does_not_ask(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text(CONFIG)
    loaded = load(tmp_path / "config.ini")
    for hosts, away in (
        (loaded.asked(NOW), "new (planned), old (retired)"),
        # Who names a host leaves out others, which fetch asks all the same.
        (choose(loaded.hosts, "good"), "new (planned), old (retired)"),
        (choose(loaded.hosts, "good,old"), "new (planned)"),
    ):
        told = surroundings.look(loaded, hosts, now=NOW)[0].message
        assert told == f"{tmp_path}/config.ini: 4 hosts; fetch does not ask {away}"


def test_check_does_not_ask_about_a_state_that_is_over(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text(CONFIG.replace('"planned"', '"planned"\nuntil = 2020-01-01'))
    loaded = load(tmp_path / "config.ini")
    told = surroundings.look(loaded, choose(loaded.hosts, "good"), now=NOW)[0].message
    assert told.endswith("4 hosts; fetch does not ask old (retired)")


def test_check_reports_a_host_in_maintenance_that_fails_and_counts_it_as_no_failure(tmp_path: Path) -> None:
    """On a machine without nvidia-smi each host that is asked fails."""
    (tmp_path / "config.ini").write_text(CONFIG.replace('"good", ', ""))
    done = gpumon("check", "-c", tmp_path / "config.ini")
    assert done.returncode == 0, done.stdout
    assert re.search(r"^ill +FAILED +.* s, maintenance until 2999-12-01$", done.stdout, re.M)
    assert done.stdout.splitlines()[-1] == "1 host: 0 ok, 1 failed (not in use)"
    told = json.loads(gpumon("check", "--json", "-c", tmp_path / "config.ini").stdout)
    assert (told["ok"], told["hosts"][0]["state"]) == (True, "maintenance until 2999-12-01")
    (tmp_path / "config.ini").write_text(CONFIG)
    done = gpumon("check", "-c", tmp_path / "config.ini")
    assert done.returncode == 3
    assert done.stdout.splitlines()[-1] == "2 hosts: 0 ok, 1 failed, 1 failed (not in use)"
