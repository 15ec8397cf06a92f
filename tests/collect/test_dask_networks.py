"""Dask over TLS, in networks of their own, and what is deployed."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import ssh_lab
from tests.command import PROGRAM
from tests.dask_lab import DASK, DaskLab, engine, on_worker, statuses, tls
from tests.nvidia_xml import xml
from tests.places import ROOT
from tests.ssh_lab import root_only
from tests.sshd import GpuHosts

pytestmark = pytest.mark.usefixtures("home")

DEPLOY = ROOT / "deploy"


# TLS, and networks of their own.


def certificates(directory: Path) -> Path:
    """A CA, and a certificate that it signed."""
    directory.mkdir()
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    sign = ["openssl", "x509", "-req", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"]
    for words in (
        [*new, "-x509", "-days", "2", "-subj", "/CN=lab CA", "-keyout", "ca.key", "-out", "ca.pem"],
        [*new, "-subj", "/CN=dask", "-keyout", "dask.key", "-out", "dask.csr"],
        [*sign, "-in", "dask.csr", "-out", "dask.pem"],
    ):
        subprocess.run(words, cwd=directory, check=True, capture_output=True)
    return directory


def link(ours: list[str], theirs: list[str], number: int) -> str:
    """A cable between two networks; returns the address of the far end, 10.9.NUMBER.2."""
    pid = theirs[-1]
    for words in (
        [*ours, "ip", "link", "add", f"to{number}", "type", "veth", "peer", "name", "uplink", "netns", pid],
        [*ours, "ip", "address", "add", f"10.9.{number}.1/30", "dev", f"to{number}"],
        [*ours, "ip", "link", "set", f"to{number}", "up"],
        [*theirs, "ip", "address", "add", f"10.9.{number}.2/30", "dev", "uplink"],
        [*theirs, "ip", "link", "set", "uplink", "up"],
        [*theirs, "ip", "route", "add", "default", "via", f"10.9.{number}.1"],
    ):
        subprocess.run(words, check=True)
    return f"10.9.{number}.2"


@root_only
def test_workers_in_networks_of_their_own_read_their_hosts_over_tls(
    gpu_hosts: GpuHosts, tmp_path: Path
) -> None:
    ours, others = certificates(tmp_path / "ours"), certificates(tmp_path / "others")
    options = ["--tls-ca-file", "ours/ca.pem", "--tls-cert", "ours/dask.pem", "--tls-key", "ours/dask.key"]
    addresses = {name: gpu_hosts.add_xml(xml(name)) for name in "abc"}
    kind, key = gpu_hosts.host_key.with_suffix(".pub").read_text().split()[:2]
    with ExitStack() as stack:
        middle, *far = (stack.enter_context(ssh_lab.network()) for _ in range(3))
        ends = {name: link(middle, inside, n) for n, (name, inside) in enumerate(zip("ab", far, strict=True))}
        networks = dict(zip("abc", (*far, middle), strict=True))
        sshds = {
            name: stack.enter_context(ssh_lab.sshd(gpu_hosts, tmp_path / name, inside=inside))
            for name, inside in networks.items()
        }
        lab = stack.enter_context(
            DaskLab(
                tmp_path, protocol="tls", host="10.9.0.1", listen="0.0.0.0", options=options, inside=middle
            )
        )
        for name, inside in networks.items():
            lab.worker(name, name, host=ends.get(name, "10.9.0.1"), inside=inside)
        lab.wait()
        hosts = [f"{address}:{sshds[name].port}" for name, address in addresses.items()]
        lines = [f"[{addresses[name]}]:{sshds[name].port} {kind} {key}\n" for name in "abc"]
        (tmp_path / "known_hosts").write_text("".join(lines))
        labels = "".join(on_worker(name, address) for name, address in addresses.items())

        def fetch(more: str) -> subprocess.CompletedProcess[str]:
            config = gpu_hosts.config(tmp_path, *hosts, more=more + labels)
            command = [*middle, *PROGRAM, "fetch", "-c", str(config)]
            return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)

        assert fetch("engine = 'processes'\n").returncode == 0
        a, b, c = addresses.values()
        assert statuses(tmp_path) == {a: "refused", b: "refused", c: "ok"}, "the collector reaches its own"
        done = fetch(engine(lab, **tls(ours)))
        assert (done.returncode, done.stderr) == (0, "")
        assert statuses(tmp_path) == {a: "ok", b: "ok", c: "ok"}
        kept = (tmp_path / "data/load_data.csv").read_bytes()
        for wrong in ({"deadline": 4, **tls(others)}, {"deadline": 4}):
            done = fetch(engine(lab, dask_fallback=False, **wrong))
            assert done.returncode == 1
            assert re.fullmatch(
                f"gpumon-static: cannot reach the Dask scheduler {lab.address}: .+\n", done.stderr
            )
        assert (tmp_path / "data/load_data.csv").read_bytes() == kept


# What is deployed, and what is not imported.


def test_the_unit_of_the_worker_is_valid_and_may_do_little(tmp_path: Path) -> None:
    unit = (DEPLOY / "gpumon-dask-worker.service").read_text()
    (command,) = re.findall(r"^ExecStart=(.*?[^\\])\n", unit, re.MULTILINE | re.DOTALL)
    known = subprocess.run([DASK, "worker", "--help"], capture_output=True, text=True, check=True).stdout
    options = re.findall(r"--[a-z-]+", command)
    assert len(options) > 8
    assert [option for option in options if not re.search(rf"{option}\b", known)] == []
    # systemd looks for the program and for the user.
    here = unit.replace("/opt/gpumon-static/bin/dask", DASK).replace("=gpumon\n", "=root\n")
    copy = tmp_path / "gpumon-dask-worker.service"
    copy.write_text(here)
    for words in (["verify", "--man=no"], ["security", "--offline=true", "--no-pager"]):
        done = subprocess.run(["systemd-analyze", *words, copy], capture_output=True, text=True, check=False)
        assert "gpumon-dask-worker.service:" not in done.stderr, done.stderr
    level = re.search(r"Overall exposure level for gpumon-dask-worker.service: ([\d.]+)", done.stdout)
    assert level, done.stderr
    assert float(level[1]) < 2.5


def test_dask_is_imported_by_its_own_engine_only() -> None:
    code = (
        "import sys, gpumon_static.commands.fetch, gpumon_static.commands.show, gpumon_static.check.show;"
        "import gpumon_static.collect.engines.worker;"
        "sys.exit(bool({'dask', 'distributed'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
