"""Worker processes: whatever one host does to its worker, every other host has its reading, in time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpumon_static.collect.engines import ask as engines
from gpumon_static.collect.engines import processes, shards
from gpumon_static.collect.engines.threads import fan_out
from gpumon_static.collect.readers import ReaderFactory
from gpumon_static.config.settings import FetchConfig, HostConfig
from gpumon_static.errors import ConfigError
from gpumon_static.model import HostReading, Status
from tests.builders import host_config
from tests.command import gpumon
from tests.engines_lab import NOW, TROUBLE
from tests.nvidia_xml import xml
from tests.waiting import wait_until


@pytest.fixture
def trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What happens to the worker that reads the answer of the host called `bad`."""

    def cause(code: str) -> None:
        (tmp_path / "sitecustomize.py").write_text(TROUBLE.format(trouble=code))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return cause


@pytest.fixture(autouse=True)
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This machine's nvidia-smi."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "nvidia-smi"
    (tmp_path / "smi.xml").write_text(xml())
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/smi.xml\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return program


def hosts(*names: str) -> tuple[HostConfig, ...]:
    return tuple(host_config(name, transport="local", command_timeout=20.0) for name in names)


def ask(
    names: tuple[str, ...], *, count: int = 2, deadline: float = 60.0, workers: int = 8, memory: int = 4096
) -> dict[str, HostReading]:
    factory = ReaderFactory(Path("config.ini"), hosts(*names), lambda: NOW)
    config = FetchConfig(workers=workers, deadline=deadline, worker_memory=memory)
    seen: list[str] = []
    found = processes.ask(factory, config, count, lambda reading: seen.append(reading.host))
    assert [reading.host for reading in found] == list(names), "one reading per host, in order"
    assert sorted(seen) == sorted(names), "each is told of once"
    return {reading.host: reading for reading in found}


GOOD = tuple(f"good{number}" for number in range(6))
MIXED = (*GOOD[:3], "bad", *GOOD[3:])


def assert_good(found: dict[str, HostReading]) -> None:
    assert {name: found[name].status for name in GOOD} == dict.fromkeys(GOOD, Status.OK)
    assert all(len(found[name].gpus) == 1 for name in GOOD)


def test_hosts_are_asked_by_several_processes(trouble: Callable[[str], None], tmp_path: Path) -> None:
    trouble("pass")
    hook = (tmp_path / "sitecustomize.py").read_text()
    (tmp_path / "sitecustomize.py").write_text(
        hook + f"open(r'{tmp_path}/pids', 'a').write(f'{{os.getpid()}}\\n')\n"
    )
    found = ask(GOOD, count=3)
    assert_good(found)
    assert {reading.fetched_at for reading in found.values()} == {NOW}, "the run's clock counts"
    assert len(set((tmp_path / "pids").read_text().split()) - {str(os.getpid())}) == 3


def test_an_answer_that_kills_its_reader_costs_that_host_only(trouble: Callable[[str], None]) -> None:
    trouble("os.kill(os.getpid(), signal.SIGSEGV)")
    found = ask(MIXED)
    assert_good(found)
    assert found["bad"].status is Status.BAD_OUTPUT
    assert found["bad"].error == "gave up: the reader died on its answer, twice"


def test_check_asks_by_the_same_engine(trouble: Callable[[str], None], tmp_path: Path) -> None:
    """Each step is told by the worker; of the host that killed its worker those up to its answer."""
    trouble("os.kill(os.getpid(), signal.SIGSEGV)")
    (tmp_path / "config.ini").write_text(
        f"[common]\nhosts = {json.dumps(list(MIXED))}\n[fetch]\ntransport = 'local'\nprocesses = 2\n"
    )
    done = gpumon("check", "--json", "-c", tmp_path / "config.ini")
    found = {host["host"]: host for host in json.loads(done.stdout)["hosts"]}
    assert {name: found[name]["status"] for name in MIXED} == dict.fromkeys(GOOD, "ok") | {
        "bad": "bad-output"
    }
    marks = {name: {f["step"]: f["mark"] for f in found[name]["findings"]} for name in MIXED}
    assert all(set(marks[name].values()) == {"ok"} for name in GOOD)
    assert (marks["bad"]["shell"], marks["bad"]["ps"], marks["bad"]["nvidia-smi"]) == ("ok", "ok", "failed")
    (failed,) = (one for one in found["bad"]["findings"] if one["mark"] == "failed")
    assert failed["told"] == "gave up: the reader died on its answer, twice"


def test_an_answer_that_never_ends_to_be_read_costs_that_host_only(trouble: Callable[[str], None]) -> None:
    """The pattern holds Python's own lock: no thread of that worker goes on."""
    trouble("re.match(r'(a+)+$', 'a' * 64 + 'b')")
    started = time.monotonic()
    found = ask(MIXED, deadline=16)
    assert_good(found)
    assert found["bad"].status is Status.BAD_OUTPUT
    assert found["bad"].error == "gave up: the reader hung on its answer, twice"
    assert time.monotonic() - started < 16 + processes.GRACE_S + 100, "by the deadline"


def test_an_answer_that_eats_memory_costs_that_host_only(trouble: Callable[[str], None]) -> None:
    trouble("hoard = [bytes(2**28) for _ in range(10**6)]")
    found = ask(MIXED)
    assert_good(found)
    assert found["bad"].status is Status.ERROR
    assert (found["bad"].error or "").startswith("MemoryError")


@pytest.mark.parametrize(("memory", "status"), [(1024, Status.ERROR), (4096, Status.OK)])
def test_how_much_an_answer_may_eat_is_set_by_the_config(
    trouble: Callable[[str], None], memory: int, status: Status
) -> None:
    trouble("bytes(2**30)")
    found = ask(MIXED, memory=memory)
    assert_good(found)
    assert found["bad"].status is status


def test_at_the_deadline_the_run_ends_whatever_the_workers_do(trouble: Callable[[str], None]) -> None:
    trouble("re.match(r'(a+)+$', 'a' * 64 + 'b')")
    started = time.monotonic()
    found = ask(("bad",), count=1, deadline=3)
    assert not found["bad"].ok
    assert time.monotonic() - started < 3 + processes.GRACE_S + 100


def test_what_is_left_of_a_deadline_includes_the_start_of_a_process(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Dask worker whose machine is slow must not come too late with the readings that it has."""
    (tmp_path / "sitecustomize.py").write_text("import time; time.sleep(5)")
    stand_in.write_text("#!/bin/sh\nexec sleep 300\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    factory = ReaderFactory(Path("config.ini"), hosts("a", "b"), lambda: NOW)
    started = time.monotonic()
    found = processes.ask(factory, FetchConfig(), 1, lambda _: None, seconds=7)
    assert [reading.status for reading in found] == [Status.TIMEOUT] * 2
    assert time.monotonic() - started < 100


def test_what_nobody_waits_for_any_more_is_ended(stand_in: Path) -> None:
    stand_in.write_text("#!/bin/sh\nexec sleep 300\n")
    factory = ReaderFactory(Path("config.ini"), hosts("a", "b"), lambda: NOW)
    with pytest.raises(processes.Unwanted):
        processes.ask(
            factory, FetchConfig(), 1, lambda _: None, is_wanted=lambda: not workers_of(os.getpid())
        )
    assert workers_of(os.getpid()) == []


def workers_of(parent: int) -> list[int]:
    done = subprocess.run(
        ["pgrep", "-P", str(parent), "-f", processes.WORKER], capture_output=True, text=True
    )
    return [int(pid) for pid in done.stdout.split()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_that_is_killed_or_stopped_loses_no_reading(stand_in: Path, number: signal.Signals) -> None:
    stand_in.write_text(stand_in.read_text().replace("cat", "sleep 2; cat"))

    def interfere() -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if found := workers_of(os.getpid()):
                time.sleep(1)
                os.kill(found[0], number)
                return
            time.sleep(0.05)

    thread = threading.Thread(target=interfere)
    thread.start()
    found = ask(GOOD, deadline=40)
    thread.join()
    assert_good(found)
    assert workers_of(os.getpid()) == []


def test_what_a_hung_worker_has_started_ends_with_it(stand_in: Path, tmp_path: Path) -> None:
    stand_in.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/started\nexec sleep 300\n")
    started = time.monotonic()
    found = ask(GOOD[:2], count=1, deadline=4)
    assert {reading.status for reading in found.values()} == {Status.TIMEOUT}
    assert time.monotonic() - started < 120
    for pid in (tmp_path / "started").read_text().split():
        wait_until(lambda pid=pid: not Path("/proc", pid).exists())  # type: ignore[misc]


def test_without_any_process_to_be_had_the_hosts_are_asked_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    popen = subprocess.Popen

    def refuse(words: list[str], *rest: object, **options: object) -> object:
        if processes.WORKER in words:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return popen(words, *rest, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(processes.subprocess, "Popen", refuse)  # type: ignore[attr-defined]
    factory = ReaderFactory(Path("config.ini"), hosts(*GOOD), lambda: NOW)
    found = engines.ask(factory, FetchConfig())
    assert [reading.status for reading in found] == [Status.OK] * len(GOOD)


def test_workers_that_end_at_once_are_not_started_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with an installation that is half replaced: the hosts are asked without them."""
    (tmp_path / "sitecustomize.py").write_text(
        f"import os, sys\nif {processes.WORKER!r} in sys.orig_argv:\n"
        f"    open(r'{tmp_path}/started', 'a').write('x')\n    os._exit(3)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    factory = ReaderFactory(Path("config.ini"), hosts(*GOOD), lambda: NOW)
    found = engines.ask(factory, FetchConfig())
    assert [reading.status for reading in found] == [Status.OK] * len(GOOD)
    assert len((tmp_path / "started").read_text()) == processes.MOST_NEVER_BEGAN


def test_threads_that_cannot_be_started_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    running: list[threading.Thread] = []

    def limited(self: threading.Thread) -> None:
        running[:] = [thread for thread in running if thread.is_alive()]
        if len(running) >= 2:
            raise RuntimeError("can't start new thread")
        running.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", limited)
    found = fan_out(
        hosts(*GOOD), lambda host: HostReading(host.name, NOW), workers=6, deadline=20, clock=lambda: NOW
    )
    assert [reading.status for reading in found] == [Status.OK] * len(GOOD)


def test_no_thread_at_all_is_the_error_of_each_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    found = fan_out(
        hosts("a", "b"), lambda host: HostReading(host.name, NOW), workers=6, deadline=20, clock=lambda: NOW
    )
    assert [(reading.status, reading.error) for reading in found] == [
        (Status.ERROR, "not asked: no more threads can be started on the collector")
    ] * 2


def test_a_key_that_cannot_be_used_is_an_error_of_the_config(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("not a key")
    by_ssh = tuple(host_config(name, key_filename=key) for name in ("a", "b"))
    factory = ReaderFactory(Path("config.ini"), by_ssh, lambda: NOW)
    with pytest.raises(ConfigError, match="is not a private key"):
        processes.ask(factory, FetchConfig(), 2, lambda _: None)


@pytest.mark.parametrize(
    ("count", "wanted", "processes_used"), [(1, 0, 1), (199, 0, 1), (200, 0, None), (10, 4, 4), (3, 8, 3)]
)
def test_many_hosts_have_a_process_for_each_core(count: int, wanted: int, processes_used: int | None) -> None:
    cores = len(os.sched_getaffinity(0))
    assert shards.processes_for(count, wanted) == (processes_used or cores)


def test_hosts_are_dealt_evenly_and_those_behind_a_jump_host_stay_together(tmp_path: Path) -> None:
    ssh_config = tmp_path / "config"
    ssh_config.write_text("Host far*\n  ProxyJump bastion\nHost off*\n  ProxyJump other\n")
    names = [f"{kind}{number}" for number in range(6) for kind in ("near", "far", "off")]
    given = [host_config(name, ssh_config=ssh_config) for name in names]
    dealt = shards.deal(given, 3)
    assert sorted(host.name for share in dealt for host in share) == sorted(names)
    for kind in ("far", "off"):
        assert sum(any(host.name.startswith(kind) for host in share) for share in dealt) == 1
    assert max(map(len, shards.deal([host_config(name) for name in names], 3))) == 6


def test_readers_can_be_made_from_a_recipe_that_was_sent() -> None:
    import pickle

    from gpumon_static.times import utc_now

    sent = pickle.loads(pickle.dumps(ReaderFactory(Path("config.ini"), hosts("a"), utc_now)))
    with sent.open() as read:
        assert read(sent.hosts[0]).ok
