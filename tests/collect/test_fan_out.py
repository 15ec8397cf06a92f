"""Many hosts at once: one reading per host, in order, whatever the hosts do."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

from gpumon_static.collect.engines.threads import fan_out
from gpumon_static.config.settings import HostConfig
from gpumon_static.errors import HostError
from gpumon_static.model import HostReading, Status
from tests.builders import host_config

NOW = datetime(2025, 1, 1, tzinfo=UTC)


def hosts(count: int, **changes: object) -> list[HostConfig]:
    return [host_config(f"n{i}", **changes) for i in range(count)]


def run(given: list[HostConfig], read: object, workers: int = 8, deadline: float = 30.0) -> list[HostReading]:
    return fan_out(given, read, workers=workers, deadline=deadline, clock=lambda: NOW)  # type: ignore[arg-type]


def ok(host: HostConfig) -> HostReading:
    return HostReading(host.name, NOW)


def test_readings_come_in_the_order_of_the_config() -> None:
    def read(host: HostConfig) -> HostReading:
        time.sleep(0.05 if host.name in ("n0", "n3") else 0)
        return ok(host)

    assert [r.host for r in run(hosts(20), read)] == [f"n{i}" for i in range(20)]


def test_one_hosts_fault_is_that_hosts_row() -> None:
    def read(host: HostConfig) -> HostReading:
        if host.name == "n1":
            raise HostError(Status.AUTH, "no")
        if host.name == "n2":
            raise ZeroDivisionError("a bug\nof ours")
        return ok(host)

    found = run(hosts(4), read)
    assert [r.status for r in found] == [Status.OK, Status.AUTH, Status.ERROR, Status.OK]
    assert found[1].error == "no"
    assert found[2].error == "ZeroDivisionError: a bug of ours"


def test_no_more_than_the_workers_are_asked_at_once() -> None:
    lock, now, most = threading.Lock(), [0], [0]

    def read(host: HostConfig) -> HostReading:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.01)
        with lock:
            now[0] -= 1
        return ok(host)

    run(hosts(30), read, workers=3)
    assert most[0] == 3


def test_at_the_deadline_open_hosts_are_timeouts_and_the_rest_is_kept() -> None:
    stuck = threading.Event()

    def read(host: HostConfig) -> HostReading:
        if host.name in ("n1", "n2"):
            stuck.wait(60)
        return ok(host)

    started = time.monotonic()
    found = run(hosts(5), read, workers=2, deadline=0.5)
    assert time.monotonic() - started < 30
    assert [r.status for r in found] == ["ok", "timeout", "timeout", "timeout", "timeout"]
    assert found[1].error == "not finished when the run's deadline of 0.5 s came"
    assert found[4].error == "not asked: the run's deadline of 0.5 s came first"
    stuck.set()


def test_a_stuck_thread_gives_its_place_to_the_next_host(monkeypatch: object) -> None:
    stuck = threading.Event()

    def read(host: HostConfig) -> HostReading:
        if host.name == "n0":
            stuck.wait(60)
        return ok(host)

    given = hosts(3, connect_timeout=0.1, command_timeout=0.1)
    found = run(given, read, workers=1)
    assert [r.status for r in found] == ["timeout", "ok", "ok"]
    assert "the reader hung" in (found[0].error or "")
    stuck.set()


def test_each_reading_is_told_once_as_it_comes() -> None:
    told: list[str] = []
    fan_out(hosts(5), ok, workers=2, deadline=9, clock=lambda: NOW, on_reading=lambda r: told.append(r.host))
    assert sorted(told) == ["n0", "n1", "n2", "n3", "n4"]
