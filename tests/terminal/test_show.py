"""`gpumon-static show`: what a person sees in a terminal, and what a script gets."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from gpumon_static.commands.cli import main
from gpumon_static.config.settings import Config
from gpumon_static.demo.cluster import DemoCluster
from gpumon_static.demo.lab import DemoSpec
from gpumon_static.model import GONE, Fault, HostReading
from gpumon_static.store import snapshot
from gpumon_static.terminal.rows import Look
from gpumon_static.terminal.show import Choice, show, survey_of
from gpumon_static.text import plain
from tests.builders import NOW, busy_gpu, config, failed, gpu, process, reading, slices
from tests.command import PROGRAM, gpumon
from tests.terminal_lab import in_terminal

LAB = [
    reading(
        "gpu01.lab.example",
        [
            busy_gpu(0),
            gpu(1),
            gpu(2, memory_used_mib=20480.0, processes=(process(pid=77, user="bob", memory_mib=20480.0),)),
        ],
    ),
    reading("gpu02.lab.example", [gpu(0, name="Tesla T4", memory_total_mib=15360.0)]),
    failed("gpu03.lab.example", error="no answer from 10.0.0.3 within 10 s"),
]


def shown(
    readings: Sequence[HostReading] = LAB,
    choice: Choice | None = None,
    *,
    width: int | None = None,
    now: datetime = NOW,
    setup: Config | None = None,
    **look: Any,
) -> list[str]:
    """The lines; with a width as in a terminal of that width, else as in a pipe."""
    file = io.StringIO()
    console = Console(file=file, width=width or 80, force_terminal=width is not None, color_system=None)
    setup = setup or config(*(r.host for r in readings))
    look = {"every_node": width is None, **look}
    show(console, survey_of(readings, setup, now), choice or Choice(), Look(**look))
    return file.getvalue().splitlines()


def test_the_whole_table_as_a_person_sees_it() -> None:
    assert shown(width=80, me="bob") == [
        "Host   GPU  Model     Memory GiB  Mem  Util  Who",
        "gpu01  all            60.0 / 240  25%   32%  1 of 3 free",
        "         0  A100 80G   40.0 / 80  50%   97%  alice 3 h",
        "         1  A100 80G    0.0 / 80   0%    0%  free",
        "         2  A100 80G   20.0 / 80  25%    0%  bob* 3 h",
        "gpu02    0  T4          0.0 / 15   0%    0%  free",
        "",
        "gpu03  timeout: no answer from 10.0.0.3 within 10 s",
        "",
        "2 of 4 GPUs free · memory 60.0 / 255 GiB (24%) · utilization 24% · 1 of 3 hosts ",
        "failed",
        "Free: 1 x A100 80G, 1 x T4",
        f"Data of {local('2025-11-14 09:10:00')}, 2 min ago",
    ]


def local(utc: str) -> str:
    return f"{datetime.fromisoformat(utc + '+00:00').astimezone():%Y-%m-%d %H:%M:%S %Z}"


def test_utilization_is_the_mean_over_gpus_not_over_hosts() -> None:
    three = reading("n1", [busy_gpu(index, utilization=100.0) for index in range(3)])
    one = reading("n2", [gpu(0)])
    assert "utilization 75%" in shown([three, one])[-3]
    unknown = reading("n3", [gpu(0, utilization=None)])
    assert "utilization 75%" in shown([three, one, unknown])[-3]


def test_in_a_pipe_every_line_has_its_host_in_full_and_no_colour() -> None:
    lines = shown()
    rows = lines[1:6]
    assert [row.split()[0] for row in rows] == [*["gpu01.lab.example"] * 4, "gpu02.lab.example"]
    assert "\x1b" not in "".join(lines)
    assert "gpu03.lab.example  timeout: no answer from 10.0.0.3 within 10 s" in lines


def test_processes_are_a_line_each() -> None:
    two = (process(), process(pid=12, user=None, memory_mib=1024.0, elapsed_s=None, state=GONE, name="a.out"))
    lines = shown(
        [reading("n1", [busy_gpu(0, processes=two), gpu(1)])], width=100, processes=True, me="alice"
    )
    assert lines[:5] == [
        "Host  GPU  Model     Memory GiB  Mem  Util  User           PID   GiB  Time  Process",
        "n1    all            40.0 / 160  25%   48%  1 of 2 free",
        "        0  A100 80G   40.0 / 80  50%   97%  alice*        4711  40.0   3 h  python",
        "                                            unknown user    12   1.0     –  a.out",
        "        1  A100 80G    0.0 / 80   0%    0%  free",
    ]


def test_details_and_times() -> None:
    lines = shown([reading("n1", [gpu(0, fan_percent=30.0)])], details=True, seen=True)
    assert lines[0].split() == "Host GPU Model Memory GiB Mem Util Fan Temp Power W Seen Who".split()
    assert lines[1].split("  ")[-5:] == ["30%", "31°C", " 52/400", "2 min", "free"]


def test_what_is_not_known_is_a_dash() -> None:
    lines = shown([reading("n1", [gpu(0, utilization=None, memory_used_mib=None, processes_known=False)])])
    assert lines[1].split() == ["n1", "0", "A100", "80G", "–", "/", "80", "–", "–", "unknown"]


def test_slices_are_rows_and_counted_apart() -> None:
    cut = reading("n1", [gpu(0, mig_mode=True, utilization=None, slices=slices(2, 1)), gpu(1)])
    lines = shown([cut], width=100)
    assert lines[1].endswith("1 of 2 free, 1 of 2 slices")
    assert lines[2].split() == "0:0 1g.10gb A100 80G 0.0 / 9.5 0% – free".split()
    assert lines[3].split() == "0:1 1g.10gb A100 80G 4.9 / 9.5 51% – mia 3 h".split()
    assert lines[-3].startswith("1 of 2 GPUs free · 1 of 2 slices · ")


def test_a_vendors_own_number_stands_beside_its_model_where_it_is_not_the_index() -> None:
    """HIP counts AMD's cards from 0 on a host that has NVIDIA's, too."""
    radeon = {"vendor": "amd", "name": "AMD Radeon RX 7900 XTX"}
    lines = shown([reading("a", [gpu(0), gpu(1, device="0", **radeon), gpu(2, device="2", **radeon)])])
    models = [re.split(r"  +", line.strip())[:3] for line in lines if "7900" in line]
    assert models[:2] == [["a", "1", "RX 7900 XTX (AMD 0)"], ["a", "2", "RX 7900 XTX"]]


def test_faults_are_told_where_they_are() -> None:
    lab = [
        reading("n1", [gpu(0, faults=(Fault("lost"),)), busy_gpu(1, faults=(Fault("ecc-errors"),))]),
        reading("n2", [gpu(0, faults=(Fault("persistence-off"),))]),
    ]
    lines = shown(lab, width=100)
    assert lines[2].endswith("! lost")
    assert lines[3].endswith("alice 3 h  ! ECC errors")
    assert lines[4].endswith("  free")
    with_processes = shown(lab, width=120, processes=True)
    assert [line.split("  ")[-1].strip() for line in with_processes[2:5]] == [
        "! lost",
        "python",
        "! ECC errors",
    ]


@pytest.mark.parametrize(
    ("unit", "words"),
    [("mib", "41000 / 81920"), ("gib", "40.0 / 80"), ("mb", "42992 / 85899"), ("gb", "43.0 / 85.9")],
)
def test_memory_in_the_unit_of_choice(unit: str, words: str) -> None:
    lines = shown([reading("n1", [busy_gpu(0)])], unit=unit)
    assert words in lines[1]


def test_choices() -> None:
    def rows(choice: Choice) -> list[str]:
        lines = shown(choice=choice)
        return [f"{line.split()[0][:5]} {line.split()[1]}" for line in lines[1 : lines.index("")]]

    assert rows(Choice(nodes=re.compile("02|03"))) == ["gpu02 0"]
    assert rows(Choice(user="bob")) == ["gpu01 all", "gpu01 2"]
    assert rows(Choice(free=True)) == ["gpu01 all", "gpu01 1", "gpu02 0"]
    assert "bob: 1 GPU with 20.0 GiB on 1 host" in shown(choice=Choice(user="bob"))
    assert not [line for line in shown(choice=Choice(free=True)) if "timeout" in line]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("look", [{}, {"processes": True, "details": True, "seen": True}])
def test_it_fits_the_width(width: int, look: dict[str, Any]) -> None:
    lab = [
        reading(f"node{number:02}.a-long-domain.example", [busy_gpu(i, processes=(LONG,)) for i in range(2)])
        for number in range(3)
    ]
    lines = shown(lab, width=width, **look)
    assert max(map(len, lines)) <= width
    assert lines.index("") == 1 + 3 * 3
    assert lines[1].startswith("node00")
    assert lines[-1].startswith("Data of ")
    assert any(line.endswith("…") for line in lines) is (width == 60 or (bool(look) and width < 200))
    assert all(word in lines[0] for word in ("Host", "GPU", "Memory GiB", "Util"))
    assert ("Model" in lines[0]) is (width == 200 or not look)


LONG = process(user="a-rather-long-user-name", name="/opt/conda/envs/experiment/bin/python3.11")


def test_old_data_says_so() -> None:
    assert shown(now=NOW + timedelta(hours=2))[-1].startswith("STALE DATA of ")
    assert shown(now=NOW + timedelta(hours=2))[-1].endswith("2 h ago: fetch seems to have stopped")


def test_names_cannot_reach_the_terminal() -> None:
    hostile = "\x1b]0;owned\x07\x1b[31m[bold red]evil[/]\u202e:smile:\r\n"
    lab = [
        reading(
            "n1", [busy_gpu(0, name=f"NVIDIA {hostile}", processes=(process(user=hostile, name=hostile),))]
        ),
        failed("n2", error=hostile),
    ]
    for processes in (False, True):
        text = "\n".join(shown(lab, width=200, processes=processes))
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert "[bold red]evil[/]" in text
        assert ":smile:" in text
    assert plain("gpu-01 ü 名前") == "gpu-01 ü 名前"


# As a program


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    now = datetime.now(UTC)
    snapshot.write(tmp_path / "data/load_data.csv", [replace(r, fetched_at=now) for r in LAB])
    (tmp_path / "config.ini").write_text(f"[common]\nhosts = {[r.host for r in LAB]}\n")
    return tmp_path


def test_in_a_pipe_no_column_is_cut_off(lab: Path) -> None:
    lines = gpumon("show", "-p", "-d", "-t", cwd=lab).stdout.splitlines()
    heads = "Host GPU Model Memory GiB Mem Util Fan Temp Power W Seen User PID GiB Time Process"
    assert lines[0].split() == heads.split()
    assert any(line.endswith("python") and len(line) > 80 for line in lines)


def test_a_terminal_has_colours_and_a_pipe_has_none(lab: Path) -> None:
    piped = gpumon("show", cwd=lab)
    assert (piped.returncode, piped.stderr) == (0, "")
    assert "\x1b" not in piped.stdout
    seen = in_terminal("show", cwd=lab, columns=80)
    assert seen.returncode == 0
    assert "\x1b[32mfree\x1b[0m" in seen.output
    assert max(len(line) for line in seen.text.splitlines()) <= 80


def test_a_terminal_without_utf_8_is_no_obstacle(lab: Path) -> None:
    latin = os.environ | {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    done = subprocess.run([*PROGRAM, "show"], cwd=lab, env=latin, capture_output=True, check=True)
    assert b"2 of 4 GPUs free \xb7 memory" in done.stdout


def test_json_is_the_form_of_gpus_json(lab: Path) -> None:
    told = json.loads(gpumon("show", "--json", "-u", "bob", cwd=lab).stdout)
    assert told["version"] == 1
    assert [(host["name"], [gpu["index"] for gpu in host["gpus"]]) for host in told["hosts"]] == [
        ("gpu01.lab.example", [2]),
        ("gpu02.lab.example", []),
        ("gpu03.lab.example", []),
    ]


def test_csv_is_the_form_of_load_data_csv(lab: Path) -> None:
    done = gpumon("show", "--csv", cwd=lab)
    assert done.stdout == (lab / "data/load_data.csv").read_text()
    free = list(csv.DictReader(io.StringIO(gpumon("show", "--csv", "--free", cwd=lab).stdout)))
    assert [(row["host"][:5], row["gpu_index"]) for row in free] == [("gpu01", "1"), ("gpu02", "0")]


def test_what_is_wrong_is_said(lab: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["show", "-c", str(lab / "config.ini"), "-n", "gpu["])
    assert done.exit_code == 2
    assert "'gpu[' is not a regular expression" in done.output
    done = CliRunner().invoke(main, ["show", "-c", str(lab / "config.ini"), "--json", "--csv"])
    assert done.exit_code == 2
    (lab / "data/load_data.csv").unlink()
    ended = gpumon("show", cwd=lab)
    assert ended.returncode == 1
    assert "run `gpumon-static fetch` first" in ended.stderr


def test_live_asks_now_and_writes_nothing(tmp_path: Path) -> None:
    with DemoCluster(DemoSpec(hosts=12), tmp_path, datetime.now(UTC)) as cluster:
        (tmp_path / "config.ini").write_text(cluster.config_text())
        before = sorted(tmp_path.iterdir())
        done = gpumon("show", "--live", "-n", "chem-01|language-03", cwd=tmp_path)
    assert done.returncode == 0
    rows = [line.split()[:2] for line in done.stdout.splitlines() if line.startswith("chem-01")]
    assert rows == [["chem-01", "all"], *(["chem-01", str(index)] for index in range(4))]
    assert "language-03  refused: connection refused at 127.0.0.1" in done.stdout
    assert sorted(tmp_path.iterdir()) == before


def test_head_has_seen_enough_without_a_complaint(lab: Path) -> None:
    many = [replace(LAB[0], host=f"n{number}") for number in range(100)]
    snapshot.write(lab / "data/load_data.csv", many)
    (lab / "config.ini").write_text("[common]\nhosts = 'n[0-99]'\n")
    for form in ("", "--json"):
        words = f"{shlex.join(PROGRAM)} show {form} | head -1"
        done = subprocess.run(words, shell=True, cwd=lab, capture_output=True, text=True, check=True)
        assert (len(done.stdout.splitlines()), done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sh", ["show"]),
        ("show --unit", ["--units"]),
        ("show --units g", ["gib", "gb"]),
        ("free --mo", ["--model", "--most"]),
    ],
)
def test_a_shell_completes_commands_options_and_values(line: str, words: list[str]) -> None:
    typed = ["gpumon-static", *line.split()]
    asked = {
        "_GPUMON_STATIC_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(typed),
        "COMP_CWORD": str(len(typed) - 1),
    }
    done = subprocess.run(PROGRAM, env=os.environ | asked, capture_output=True, text=True, check=False)
    assert [answer.partition(",")[2] for answer in done.stdout.split()] == words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_the_shell(shell: str) -> None:
    asked = os.environ | {"_GPUMON_STATIC_COMPLETE": f"{shell}_source"}
    done = subprocess.run(PROGRAM, env=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert f"_GPUMON_STATIC_COMPLETE={shell}_complete" in done.stdout
