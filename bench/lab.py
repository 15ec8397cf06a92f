"""Many hosts for a bench: one real sshd, each address of 127.0.0.0/8 a host with 8 GPUs."""

from __future__ import annotations

import base64
import csv
import getpass
import hmac
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import measure, smi_xml
from bench.clients import Job
from bench.measure import BenchError, Usage
from gpumon_static.collect.probe import framing
from tests.builders import host_config
from tests.sshd import SSHD, free_port, keygen, wait_for_port

GPUS = 8
FETCH = Path(sys.executable).with_name("gpumon-static")

SSHD_CONFIG = """\
Port {port}
ListenAddress 0.0.0.0
HostKey {home}/host_key
PidFile none
AuthorizedKeysFile {home}/id_ed25519.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 10000
SetEnv PATH={home}/bin:/usr/bin:/bin HOME={home}
"""
CONFIG = """\
[common]
hosts = {hosts}
port = {port}
user = "{user}"
key_filename = "{key}"
[fetch]
known_hosts = "{known_hosts}"
workers = {workers}
connect_timeout = 60
command_timeout = 60
deadline = 3600
processes = {processes}
"""


@dataclass(frozen=True)
class Run:
    """The same hosts, keys and workers for each of the ways to ask them."""

    directory: Path
    addresses: list[str]

    def by_gpumon(self) -> Usage:
        usage = measure.run([FETCH, "fetch", "--config", self.directory / "config.ini"])
        with (self.directory / "data" / "load_data.csv").open(newline="") as file:
            gpus = Counter(row["host"] for row in csv.DictReader(file) if row["status"] == "ok")
        self._check("fetch", sum(gpus[address] >= GPUS for address in self.addresses))
        return usage

    def by_paramiko(self) -> Usage:
        return self._by_client("paramiko")

    def by_paramiko_load(self) -> Usage:
        return self._by_client("paramiko-load")

    def by_asyncssh(self) -> Usage:
        return self._by_client("asyncssh")

    def by_asyncssh_curve25519(self) -> Usage:
        return self._by_client("asyncssh-curve25519")

    def by_ancestor(self) -> Usage:
        return self._by_client("ancestor")

    def by_ssh(self) -> Usage:
        return self._by_client("ssh")

    def by_ssh_curve25519(self) -> Usage:
        return self._by_client("ssh-curve25519")

    def _by_client(self, way: str) -> Usage:
        command: list[str | Path] = [sys.executable, "-m", "bench.clients", way, self.directory / "job.json"]
        usage = measure.run(command)
        self._check(way, int(usage.output))
        return usage

    def _check(self, way: str, answered: int) -> None:
        if answered != len(self.addresses):
            raise BenchError(f"{way}: {answered} of {len(self.addresses)} hosts were read")


@dataclass(frozen=True)
class Lab:
    home: Path
    """The home directory of every login, so that nobody's own .bashrc is measured (or run)."""
    port: int

    @property
    def xml_kb(self) -> int:
        return round((self.home / "smi.xml").stat().st_size / 1000)

    def run(self, name: str, hosts: int, workers: int, *, hashed_entries: int = 0, processes: int = 0) -> Run:
        """`hashed_entries`: so many entries in known_hosts, all hashed, with the hosts' among them."""
        directory = self.home / name
        directory.mkdir()
        addresses = [f"127.30.{number // 250}.{number % 250 + 1}" for number in range(hosts)]
        known_hosts = directory / "known_hosts"
        kind, key = (self.home / "host_key.pub").read_text().split()[:2]
        lines = [f"[{address}]:{self.port} {kind} {key}\n" for address in addresses]
        known_hosts.write_text("".join(_hashed_among(lines, hashed_entries) if hashed_entries else lines))
        job = Job(
            addresses=addresses,
            port=self.port,
            user=getpass.getuser(),
            key=str(self.home / "id_ed25519"),
            known_hosts=str(known_hosts),
            workers=workers,
            probe=framing.stdin(host_config("bench", command_timeout=60.0)).decode(),
        )
        (directory / "job.json").write_text(json.dumps(asdict(job)))
        (directory / "config.ini").write_text(
            CONFIG.format(hosts=json.dumps(addresses), processes=processes, **asdict(job))
        )
        return Run(directory, addresses)


@contextmanager
def open_lab() -> Iterator[Lab]:
    with TemporaryDirectory(prefix="gpumon-bench-") as name:
        lab = Lab(Path(name), free_port())
        # PIDs that exist, so that ps has something to say about them.
        (lab.home / "smi.xml").write_text(smi_xml.document(GPUS, [1, os.getpid()]))
        (lab.home / "bin").mkdir()
        (lab.home / "bin" / "nvidia-smi").write_text(f"#!/bin/sh\nexec cat {lab.home}/smi.xml\n")
        (lab.home / "bin" / "nvidia-smi").chmod(0o755)
        keygen(lab.home / "host_key")
        keygen(lab.home / "id_ed25519")
        config = lab.home / "sshd_config"
        config.write_text(SSHD_CONFIG.format(home=lab.home, port=lab.port))
        with _sshd(config, lab.port):
            yield lab


@contextmanager
def _sshd(config: Path, port: int) -> Iterator[None]:
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with config.with_name("sshd_log").open("w") as log:
        process = subprocess.Popen([SSHD, "-D", "-e", "-f", config], stderr=log)
    try:
        wait_for_port(port)
        yield
    finally:
        process.terminate()
        process.wait(10)


def _hashed_among(lines: list[str], entries: int) -> list[str]:
    chance = random.Random(7)
    strangers = max(0, entries - len(lines))
    made_up = (f"n{i}.lab.example ssh-ed25519 {_key(chance.randbytes(32))}\n" for i in range(strangers))
    hashed = [_hashed(line, chance.randbytes(20)) for line in [*lines, *made_up]]
    chance.shuffle(hashed)
    return hashed


def _hashed(line: str, salt: bytes) -> str:
    name, rest = line.split(" ", 1)
    digest = hmac.digest(salt, name.encode(), "sha1")
    return f"|1|{_base64(salt)}|{_base64(digest)} {rest}"


def _key(public: bytes) -> str:
    kind = b"ssh-ed25519"
    return _base64(b"".join(len(part).to_bytes(4) + part for part in (kind, public)))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
