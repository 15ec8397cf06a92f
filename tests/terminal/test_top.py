"""`gpumon-static top` in a real terminal: what it draws, its keys, and that it gives the terminal back."""

from __future__ import annotations

import csv
import errno
import itertools
import re
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from gpumon_static.collect.readers import ReaderFactory, Readers
from gpumon_static.collect.session import Session
from gpumon_static.config import file as config_file
from gpumon_static.config.settings import Config
from gpumon_static.demo.cluster import DemoCluster
from gpumon_static.demo.lab import DemoSpec
from gpumon_static.demo.server import SshServer
from gpumon_static.errors import HostError
from gpumon_static.model import HostReading, Status
from gpumon_static.terminal.rntop_log import RntopLog, rows
from gpumon_static.terminal.rows import Look
from gpumon_static.terminal.screen import parse_keys
from gpumon_static.terminal.top import survey_now, with_news
from gpumon_static.terminal.top_view import View, frame, press
from gpumon_static.terminal.watch import Watch
from tests.builders import NOW, busy_gpu, config, failed, gpu, host_config, reading
from tests.command import PROGRAM, gpumon
from tests.places import CAPTURES
from tests.sshd import GpuHosts
from tests.terminal_lab import Terminal

CAPTURE = CAPTURES / "driver-470-rtx-3090-desktop.xml"


class Lab:
    """Twelve demo hosts, of which one refuses and one has no driver, and how often they were connected to."""

    def __init__(self, directory: Path, cluster: DemoCluster) -> None:
        self.directory = directory
        self.cluster = cluster
        self.servers: list[SshServer] = []
        self.connections = 0

    def top(self, *arguments: str, columns: int = 80, lines: int = 24) -> Terminal:
        words = [*PROGRAM, "top", "-i", "1", *arguments]
        return Terminal(words, self.directory, columns, lines)

    def hang_up(self) -> None:
        for server in self.servers:
            for transport in server._transports:
                transport.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("top")
    patch = pytest.MonkeyPatch()
    cluster = DemoCluster(DemoSpec(hosts=12), directory, datetime.now(UTC))
    made = Lab(directory, cluster)
    welcome = SshServer._welcome

    def counting(server: SshServer, *arguments: Any) -> None:
        made.connections += 1
        made.servers = [server]
        welcome(server, *arguments)

    patch.setattr(SshServer, "_welcome", counting)
    with cluster:
        (directory / "config.ini").write_text(cluster.config_text())
        yield made
    patch.undo()


def test_it_shows_the_lab_and_goes_on_over_the_same_connections(lab: Lab) -> None:
    before = lab.connections
    log = lab.directory / "same.log"
    with lab.top("-n", "chem|language-03|render", "--output", str(log), columns=100) as terminal:
        terminal.wait_for(lambda screen: "chem-02" in screen and "language-03  refused" in screen)
        terminal.wait_for(lambda screen: "render-01" in screen)
        wait_until(lambda: len(log.read_text().splitlines()) >= 1 + 4 * 6, terminal)
        assert "of 6 GPUs free" in terminal.screen
        assert "2 of 4 hosts failed" in terminal.screen
        terminal.wait_for(lambda screen: "drained in Slurm" in screen)
        assert max(map(len, terminal.screen.splitlines())) <= 100
        assert len(terminal.screen.splitlines()) == 24
        terminal.press("q")
        assert terminal.ended() == 0
        assert terminal.is_restored
    # Two hosts and Slurm's answer, over one connection each; render-01's driver is broken.
    assert lab.connections - before == 4
    assert_log_of_rntop(log)


def wait_until(holds: Any, terminal: Terminal, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        terminal.read()
        assert time.monotonic() < end, terminal.screen


def assert_log_of_rntop(log: Path) -> None:
    with log.open(newline="") as file:
        logged = list(csv.reader(file))
    assert logged[0] == "timestamp,node,index,utilization,memory_used,memory_total".split(",")
    assert {row[1] for row in logged[1:]} == {"chem-01", "chem-02"}
    for row in logged[1:]:
        assert re.fullmatch(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}", row[0])
        assert all(cell.isdecimal() for cell in row[2:])


def test_what_is_not_known_has_no_row_in_the_log() -> None:
    known = reading("n1", [busy_gpu(0), gpu(1, utilization=None)])
    at = known.fetched_at.astimezone()
    assert rows(known) == [f"{at:%Y/%m/%d %H:%M:%S}.000,n1,0,97,41000,81920"]
    assert rows(failed("n2")) == []


def test_keys_sort_filter_pause_and_quit(lab: Lab) -> None:
    with lab.top("-n", "chem|teach", columns=120, lines=30) as terminal:
        terminal.wait_for(lambda screen: all(name in screen for name in ("chem-01", "chem-02", "teach-01")))
        terminal.press("m")
        terminal.wait_for(lambda screen: "sorted by memory" in screen and "all" not in screen)
        used = [float(number) for number in re.findall(r"(\d+\.\d) / \d", terminal.screen)]
        assert len(used) == 10
        assert used == sorted(used, reverse=True)
        terminal.press("n/t4\r")
        terminal.wait_for(lambda screen: "filter: t4" in screen and "chem" not in screen)
        assert "teach-01" in terminal.screen
        terminal.press("\x1b")
        terminal.wait_for(lambda screen: "chem-01" in screen)
        terminal.press("p")
        terminal.wait_for(lambda screen: "PID" in screen)
        terminal.press("p d")
        terminal.wait_for(lambda screen: "PAUSED" in screen and "Temp" in screen)
        terminal.press(" ")
        terminal.wait_for(lambda screen: "every 1 s" in screen)
        terminal.resize(60, 20)
        terminal.wait_for(lambda screen: max(map(len, screen.splitlines())) <= 60)
        terminal.press("q")
        assert terminal.ended() == 0
        assert terminal.is_restored


def test_a_host_that_hung_up_is_connected_to_again(lab: Lab) -> None:
    log = lab.directory / "again.log"
    with lab.top("-n", "chem-01", "--output", str(log)) as terminal:
        terminal.wait_for(lambda screen: "of 4 GPUs free" in screen)
        before, logged = lab.connections, len(log.read_text())
        lab.hang_up()
        wait_until(lambda: lab.connections == before + 1, terminal)
        wait_until(lambda: len(log.read_text()) > logged + 200, terminal)
        assert "of 4 GPUs free" in terminal.screen
        terminal.press("q")
        assert terminal.ended() == 0
        assert lab.connections == before + 1


def test_a_host_that_fails_is_asked_later_and_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def refuse(_: Session) -> None:
        asked.append(time.monotonic())
        raise HostError(Status.REFUSED, "no")

    monkeypatch.setattr(Session, "read", refuse)
    watch = Watch(tmp_path, [host_config("n1", transport="local")], 8, 0.2, lambda: NOW)
    watch.start()
    time.sleep(4)
    watch.stop()
    gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert 2 <= len(gaps) <= 4
    assert all(gap >= 0.2 * 2**number for number, gap in enumerate(gaps, start=1))
    assert {r.status for r in watch.news()} == {Status.REFUSED}


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_signal_ends_it_and_the_terminal_is_given_back(
    lab: Lab, number: signal.Signals, status: int
) -> None:
    with lab.top("-n", "chem-01") as terminal:
        terminal.wait_for(lambda screen: "every 1 s" in screen)
        terminal.process.send_signal(number)
        assert terminal.ended() == status
        assert terminal.is_restored


def test_ctrl_z_gives_the_terminal_back_for_as_long_as_it_sleeps(lab: Lab) -> None:
    with lab.top("-n", "chem-01") as terminal:
        terminal.wait_for(lambda screen: "every 1 s" in screen)
        # Sent by its number: a shell's job control is what lets the key itself stop a session's leader.
        terminal.process.send_signal(signal.SIGTSTP)
        wait_until(lambda: terminal.is_restored, terminal)
        terminal.process.send_signal(signal.SIGCONT)
        wait_until(lambda: not terminal.is_restored, terminal)
        terminal.press("q")
        assert terminal.ended() == 0
        assert terminal.is_restored


def test_an_error_of_ours_gives_the_terminal_back_and_is_told(lab: Lab) -> None:
    code = (
        "import sys, gpumon_static.terminal.top as top\n"
        "from gpumon_static.__main__ import run\n"
        "def broken(*_): raise RuntimeError('drawing failed')\n"
        "top.frame = broken\n"
        "sys.argv = ['gpumon-static', 'top', '-n', 'chem-01']\n"
        "run()"
    )
    with Terminal([sys.executable, "-c", code], lab.directory) as terminal:
        assert terminal.ended() == 1
        assert terminal.is_restored
        after = terminal.output.rpartition("\x1b[?1049l")[2]
        assert "unexpected RuntimeError: drawing failed" in after


def test_without_a_terminal_it_says_what_there_is_instead(lab: Lab) -> None:
    done = gpumon("top", cwd=lab.directory)
    assert done.returncode == 1
    assert done.stderr == (
        "gpumon-static: top needs a terminal; for a pipe there is: gpumon-static show --live\n"
    )
    assert gpumon("top", "-n", "nowhere", cwd=lab.directory).returncode == 2


# A session: one connection for many readings


@pytest.mark.parametrize("transport", ["paramiko", "openssh"])
def test_a_session_keeps_its_connection(
    tmp_path: Path, home: Path, gpu_hosts: GpuHosts, transport: str
) -> None:
    seen_by = gpu_hosts.answers / f"{transport}.seen"
    address = gpu_hosts.add(f"echo $SSH_CONNECTION >> {seen_by}; cat {CAPTURE}")
    path = gpu_hosts.config(tmp_path, address)
    path.write_text(path.read_text().replace("[fetch]\n", f"[fetch]\ntransport = '{transport}'\n"))
    setup = config_file.load(path)
    with ReaderFactory(path, setup.hosts, lambda: datetime.now(UTC)).open() as shared:
        turn = MagicMock()
        session = Session(setup.hosts[0], shared, lambda: shared, turn)
        read = [session.read() for _ in range(3)]
        # Who is connected waits for nobody; hundreds that are not take turns.
        assert turn.__enter__.call_count == 1
        assert [r.status for r in read] == [Status.OK] * 3
        assert [len(r.gpus) for r in read] == [1, 1, 1]
        session.close()
    seen = seen_by.read_text().splitlines()
    assert len(seen) == 3
    assert len({line.split()[1] for line in seen}) == 1


def test_a_session_that_failed_starts_anew(tmp_path: Path, home: Path, gpu_hosts: GpuHosts) -> None:
    address = gpu_hosts.add(f"cat {CAPTURE}")
    path = gpu_hosts.config(tmp_path, address)
    known = tmp_path / "known_hosts"
    right = known.read_text()
    known.write_text("")
    setup = config_file.load(path)

    def anew() -> Readers:
        return ReaderFactory(path, setup.hosts, lambda: datetime.now(UTC)).open()

    session = Session(setup.hosts[0], anew(), anew)
    with pytest.raises(HostError) as told:
        session.read()
    assert told.value.status is Status.HOST_KEY
    # Mended meanwhile by who reads the screen.
    known.write_text(right)
    assert session.read().ok
    session.close()


# Without a terminal: what is seen, and what the keys do


def view(**changes: Any) -> View:
    lab = [reading("n1", [busy_gpu(0), gpu(1)]), reading("n2", [gpu(0, temperature_c=80.0)]), failed("n3")]
    return replace(View(Look(), 5, readings={r.host: r for r in lab}), **changes)


def setup() -> Config:
    return config("n1", "n2", "n3", "n4")


def drawn(given: View, height: int = 20, width: int = 80) -> list[str]:
    lines, _ = frame(given, survey_now(given, setup(), NOW), width, height)
    return [line.plain.rstrip() for line in lines]


@pytest.mark.parametrize("state", ["planned", "maintenance", "retired"])
def test_a_host_that_is_not_asked_is_not_waited_for(state: str) -> None:
    hosts = [host_config(name) for name in ("n1", "n2", "n3")]
    lab = replace(setup(), hosts=(*hosts, host_config("n4", state=state)))
    lines, _ = frame(view(), survey_now(view(), lab, NOW), 80, 20)
    assert lines[0].plain.endswith("1 of 3 hosts failed")


def test_a_frame_fills_the_screen_exactly() -> None:
    lines = drawn(view())
    assert len(lines) == 20
    assert lines[0] == "2 of 3 GPUs free · utilization 32% · 1 of 3 hosts failed · 1 not answered yet"
    assert lines[3:9] == [
        "Host  GPU  Model     Memory GiB  Mem  Util  Who",
        "n1    all            40.0 / 160  25%   48%  1 of 2 free",
        "        0  A100 80G   40.0 / 80  50%   97%  alice 3 h",
        "        1  A100 80G    0.0 / 80   0%    0%  free",
        "n2      0  A100 80G    0.0 / 80   0%    0%  free",
        "",
    ]
    assert lines[9] == "n3  timeout: no answer within 10 s"
    assert lines[-1].startswith("q quit")


HEADS = {
    16: ("2 of 3 GPUs free", "every 5 s", "q quit  / filter"),
    40: (
        "2 of 3 GPUs free · 1 of 3 hosts failed",
        "14:33:00 UTC  every 5 s  sorted by host",
        "q quit  / filter  n u m c w f sort",
    ),
    60: (
        "2 of 3 GPUs free · 1 of 3 hosts failed · 1 not answered yet",
        "14:33:00 UTC  every 5 s  sorted by host",
        "q quit  space pause  / filter  n u m c w f sort  p processes",
    ),
    200: (
        "2 of 3 GPUs free · memory 17% · utilization 32% · 1 of 3 hosts failed · 1 not answered yet",
        "14:33:00 UTC  every 5 s  sorted by host",
        "q quit  space pause  / filter  n u m c w f sort  p processes  d details  ↑↓",
    ),
}


@pytest.mark.parametrize("width", HEADS)
def test_a_narrow_screen_leaves_out_whole_parts_of_a_line(width: int) -> None:
    lines = drawn(view(), width=width)
    clock = HEADS[width][1].replace("14:33:00 UTC", f"{NOW.astimezone():%H:%M:%S %Z}")
    assert (lines[0], lines[1], lines[-1]) == (HEADS[width][0], clock, HEADS[width][2])


def test_before_the_first_answer_it_says_that_it_asks() -> None:
    assert drawn(view(readings={}))[0] == "Asking the hosts"


def test_scrolling_keeps_the_head_and_ends_at_the_end() -> None:
    lines, scroll = frame(view(scroll=10**6), survey_now(view(), setup(), NOW), 80, 8)
    texts = [line.plain.rstrip() for line in lines]
    assert len(texts) == 8
    assert texts[3].startswith("Host")
    assert "n3  timeout" in texts[5]
    assert scroll == 4
    assert frame(view(scroll=-5), survey_now(view(), setup(), NOW), 80, 8)[1] == 0


@pytest.mark.parametrize(
    ("key", "first"), [("u", "n1      0"), ("m", "n1      0"), ("c", "n2      0"), ("f", "n1      1")]
)
def test_sorting(key: str, first: str) -> None:
    assert drawn(press(view(), key, 10))[4].startswith(first)


def test_typing_a_filter() -> None:
    typed = view()
    for key in ["/", "A", "l", "x", "backspace", "q", "backspace", "enter"]:
        typed = press(typed, key, 10)
    assert (typed.filter, typed.is_typing, typed.has_ended) == ("Al", False, False)
    assert [line[:9] for line in drawn(typed)[4:6]] == ["n1    all", "        0"]
    assert press(typed, "escape", 10).filter == ""
    assert press(typed, "q", 10).has_ended
    assert press(typed, "ü", 10) == typed


def test_a_log_that_cannot_be_written_is_an_error_at_the_start(lab: Lab) -> None:
    for path in ("/dev/full", "/nowhere/rntop.log"):
        with lab.top("-n", "chem-01", "--output", path) as terminal:
            assert terminal.ended() == 1
            assert f"gpumon-static: cannot write {path}: No s" in terminal.output


def test_a_disk_that_fills_up_later_does_not_end_it(tmp_path: Path) -> None:
    class Full(RntopLog):
        def add(self, _: HostReading) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    watch = Watch(tmp_path, [], 8, 5, lambda: NOW)
    watch._answers.put(reading("n9", [gpu()]))
    log = Full(tmp_path / "log")
    after = with_news(view(), watch, log)
    log.close()
    assert "n9" in after.readings
    assert drawn(after)[-1] == "--output: No space left on device"


@pytest.mark.parametrize(
    ("pressed", "keys"),
    [
        ("\x1b[1~\x1b[4~", ["home", "end"]),  # tmux, screen, the Linux console
        ("\x1b[7~\x1b[8~", ["home", "end"]),  # rxvt
        ("\x1bOH\x1bOF", ["home", "end"]),  # xterm in its application mode
        ("\x1b[H\x1b[F", ["home", "end"]),
        ("\x1b[5~\x1b[Aq", ["page-up", "up", "q"]),
    ],
)
def test_keys_as_terminals_send_them(pressed: str, keys: list[str]) -> None:
    assert parse_keys(pressed) == keys


def test_a_host_that_is_tried_again_and_again_holds_one_reader(tmp_path: Path) -> None:
    path = tmp_path / "config.ini"
    path.write_text("[common]\nhosts = ['127.0.0.1:1']\n[fetch]\nssh_config = ''\n")
    watch = Watch(path, config_file.load(path).hosts, 4, 0.01, lambda: NOW)
    watch.start()
    end, tries = time.monotonic() + 60, 0
    while tries < 4 and time.monotonic() < end:
        tries += len(list(watch.news()))
        time.sleep(0.01)
    watch.stop()
    assert tries >= 4
    assert len(watch._made_anew) == 1


def test_long_host_names_keep_their_ends_and_the_clock_names_its_zone() -> None:
    hosts = [f"very-long-name-of-a-rack-and-a-row-{number:03}" for number in (1, 2)]
    readings = {name: reading(name, [busy_gpu()]) for name in hosts}
    view = View(Look(processes=True), 5, readings=readings)
    lines, _ = frame(view, survey_now(view, config(*hosts), NOW), 60, 24)
    text = [line.plain for line in lines]
    assert [line.split()[0][-3:] for line in text if line.startswith("v")] == ["001", "002"]
    assert text[1].startswith(f"{NOW.astimezone():%H:%M:%S %Z}  every 5 s")
