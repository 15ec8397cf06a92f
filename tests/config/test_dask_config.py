"""The Dask engine in config.ini."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpumon_static.collect.engines import processes
from gpumon_static.collect.readers import ReaderFactory
from gpumon_static.config.file import load
from gpumon_static.config.settings import FetchConfig
from gpumon_static.errors import ConfigError
from gpumon_static.model import HostReading
from tests.builders import host_config
from tests.command import gpumon

pytestmark = pytest.mark.usefixtures("home")


# The config.


def problems(tmp_path: Path, fetch: str, hosts: str = "'a'") -> str:
    path = tmp_path / "config.ini"
    path.write_text(f"[common]\nhosts = {hosts}\n[fetch]\n{fetch}\n")
    try:
        load(path, need_keys=True)
    except ConfigError as error:
        return str(error).removeprefix(f"{path}: ")
    return ""


@pytest.mark.parametrize(
    "address", ["tcp://10.0.0.1:8786", "tcp://scheduler.lab.example:8786", "tcp://0.0.0.0:1"]
)
def test_a_scheduler_without_tls_away_from_this_machine_is_refused(tmp_path: Path, address: str) -> None:
    told = problems(tmp_path, f"engine = 'dask'\nscheduler = '{address}'")
    assert told.startswith(f"fetch.scheduler: {address} is not encrypted")
    assert gpumon("fetch", "-c", tmp_path / "config.ini").returncode == 2
    assert not problems(tmp_path, f"engine = 'dask'\nscheduler = '{address}'\ninsecure_scheduler = true")


@pytest.mark.parametrize(
    "address", ["tls://10.0.0.1:8786", "tcp://127.0.0.1:8786", "tcp://[::1]:8786", "tcp://localhost:8786"]
)
def test_tls_and_loopback_are_accepted(tmp_path: Path, address: str) -> None:
    assert not problems(tmp_path, f"engine = 'dask'\nscheduler = '{address}'")


@pytest.mark.parametrize(
    ("fetch", "told"),
    [
        ("engine = 'dask'", "fetch.scheduler: missing"),
        ("engine = 'ray'", "fetch.engine: must be 'threads' or 'processes' or 'dask'"),
        ("scheduler = 'scheduler:8786'", "fetch.scheduler: must be an address such as"),
        ("engine = 'dask'\nscheduler = 'tls://s:1'\ntls_ca = 'ca.pem'", "fetch.tls_cert: missing"),
        ("[hosts.a]\nworker = 'a=1'", "hosts.a.worker: must be the name of a Dask resource"),
    ],
)
def test_what_is_wrong_with_the_engine_is_named(tmp_path: Path, fetch: str, told: str) -> None:
    assert told in problems(tmp_path, fetch)


def test_this_machine_needs_a_worker_of_its_own(tmp_path: Path) -> None:
    dask = "engine = 'dask'\nscheduler = 'tls://s:1'\n"
    assert problems(tmp_path, dask, "'localhost'").startswith("host localhost: read without SSH")
    assert not problems(tmp_path, dask + "[hosts.localhost]\nworker = 'a'", "'localhost'")


def test_keys_are_looked_for_on_the_workers_only(tmp_path: Path) -> None:
    assert "key_filename" in problems(tmp_path, "[hosts.a]\nkey_filename = '/nowhere/key'")
    dask = "engine = 'dask'\nscheduler = 'tls://s:1'\n"
    assert not problems(tmp_path, dask + "[hosts.a]\nkey_filename = '/nowhere/key'")


def test_a_node_set_can_have_a_worker(tmp_path: Path) -> None:
    path = tmp_path / "config.ini"
    path.write_text("[common]\nhosts = ['gpu[1-3]', 'x']\n[hosts.'gpu[1-2]']\nworker = 'b'\n")
    assert [host.worker for host in load(path).hosts] == ["b", "b", None, None]


def test_threads_are_those_of_fetch_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`engine = "threads"`: no process is started, and the readings are the same."""
    from gpumon_static.collect.engines import ask
    from tests.engines_lab import NOW

    def refuse(*_: object, **__: object) -> list[HostReading]:
        raise AssertionError("a process was started")

    monkeypatch.setattr(processes, "ask", refuse)
    hosts = (host_config("a", transport="local"), host_config("b", transport="local"))
    found = ask.ask(ReaderFactory(Path("config.ini"), hosts, lambda: NOW), FetchConfig(engine="threads"))
    assert [reading.host for reading in found] == ["a", "b"]
