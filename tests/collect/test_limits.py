"""Limits of the collector are not the hosts' fault: all are read, a few at a time, and a line names the limit."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpumon_static.collect.engines.threads import fan_out
from gpumon_static.config.settings import HostConfig
from gpumon_static.errors import HostError
from gpumon_static.model import HostReading, Status
from tests.builders import host_config
from tests.command import PROGRAM, rows
from tests.nvidia_xml import xml
from tests.sshd import GpuHosts

NOW = datetime(2025, 1, 1, tzinfo=UTC)
HOSTS = 60
NOBODY_ELSE = "uucp"
"""A user without processes on any Debian: the system counts those of a user together, and of root none."""
CAPABILITIES = "+dac_override,+dac_read_search"


@pytest.fixture
def lab(gpu_hosts: GpuHosts) -> Iterator[Path]:
    """The config of 60 hosts that take a second each."""
    with TemporaryDirectory(prefix="gpumon-limits-") as name:
        directory = Path(name)
        directory.chmod(0o777)
        (directory / "smi.xml").write_text(xml())
        answer = f"sleep 1; cat {directory}/smi.xml"
        yield gpu_hosts.config(directory, *(gpu_hosts.add(answer) for _ in range(HOSTS)))


def limited(limit: str, command: str, config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    script = f"ulimit {limit}; exec {' '.join(PROGRAM)} {command} -c {config}"
    home = os.environ | {"HOME": str(config.parent)}
    return subprocess.run(
        [*words, "bash", "-c", script], env=home, capture_output=True, text=True, timeout=200
    )


def assert_all_read(config: Path, done: subprocess.CompletedProcess[str], line: str) -> list[str]:
    """Return what is printed beside the limit."""
    assert [row["status"] for row in rows(config.parent / "data/load_data.csv")] == ["ok"] * HOSTS
    assert done.returncode == 0
    first, *others = done.stderr.splitlines()
    assert first.startswith(f"gpumon-static: the limit of {line}: ")
    assert first.endswith(" at a time are asked")
    return others


def test_all_hosts_are_read_with_few_open_files(lab: Path) -> None:
    assert assert_all_read(lab, limited("-n 64", "fetch", lab), "open files is 64 (ulimit -n)") == []


def test_all_hosts_are_read_with_little_memory_but_not_recorded(lab: Path) -> None:
    """DuckDB reserves a gigabyte of addresses, and ends the whole process where it gets none."""
    line = "memory is 300000 kB (ulimit -v)"
    (other,) = assert_all_read(lab, limited("-v 300000", "fetch", lab), line)
    assert other.startswith(f"gpumon-static: history: the limit of {line}; the history needs ")
    assert other.endswith(" kB; this run is not in it")
    limited("-v unlimited", "fetch", lab)
    rendered = limited("-v 300000", "render", lab)
    assert (rendered.returncode, rendered.stderr) == (0, "")
    assert (lab.parent / "site/index.html").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_all_hosts_are_read_with_few_threads(lab: Path) -> None:
    lab.with_name("known_hosts").chmod(0o644)
    user = ["setpriv", f"--reuid={NOBODY_ELSE}", f"--regid={NOBODY_ELSE}", "--clear-groups"]
    # The interpreter of the tests may be in a directory of root's.
    user += [f"--inh-caps={CAPABILITIES}", f"--ambient-caps={CAPABILITIES}"]
    done = limited("-u 64", "fetch", lab, *user)
    assert assert_all_read(lab, done, "processes and threads is 64 (ulimit -u)") == []


def test_check_tells_what_to_raise(lab: Path) -> None:
    told = limited("-n 64", "check", lab).stdout
    assert "warning  the limit of open files is 64 (ulimit -n): 14 at a time are asked" in told
    assert "next: ulimit -n 200, in a systemd unit LimitNOFILE=200; or lower workers in [fetch]" in told


def hosts(count: int) -> list[HostConfig]:
    return [host_config(f"n{number}") for number in range(count)]


def test_a_host_that_meets_our_limit_is_asked_again_when_another_has_ended() -> None:
    """Whatever the estimate was: jump hosts and other programs of this user take files too."""
    open_now, lock = set[str](), threading.Lock()

    def read(host: HostConfig) -> HostReading:
        with lock:
            if len(open_now) >= 3:
                raise HostError(Status.ERROR, "no socket") from OSError(errno.EMFILE, "Too many open files")
            open_now.add(host.name)
        threading.Event().wait(0.02)
        with lock:
            open_now.remove(host.name)
        return HostReading(host.name, NOW)

    found = fan_out(hosts(40), read, workers=16, deadline=30, clock=lambda: NOW)
    assert [reading.status for reading in found] == [Status.OK] * 40


def test_a_host_that_could_not_be_asked_is_told_as_that() -> None:
    def read(host: HostConfig) -> HostReading:
        if host.name == "n1":
            raise OSError(errno.EMFILE, "Too many open files")
        return HostReading(host.name, NOW)

    told: list[str] = []
    found = fan_out(
        hosts(3), read, workers=2, deadline=30, clock=lambda: NOW, on_reading=lambda r: told.append(r.host)
    )
    assert [reading.status for reading in found] == [Status.OK, Status.ERROR, Status.OK]
    assert found[1].error == "not asked: too many open files on the collector"
    assert sorted(told) == ["n0", "n1", "n2"]
