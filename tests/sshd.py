"""A real OpenSSH sshd on loopback that plays many GPU hosts.

It listens on all of 127.0.0.0/8, so each address is a host. What differs is the stand-in `nvidia-smi`:
it looks up which address the connection came in on ($SSH_CONNECTION) and runs that host's own script.
"""

from __future__ import annotations

import getpass
import itertools
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"

STAND_IN = """#!/bin/sh
address=${{SSH_CONNECTION#* * }}
exec sh {answers}/${{address%% *}} "$@"
"""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def keygen(path: Path, kind: str = "ed25519") -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", path], check=True)
    return path


class GpuHosts:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.user = getpass.getuser()
        self.answers = directory / "answers"
        self._addresses: Iterator[int] = itertools.count(1)
        self._worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])

    def __enter__(self) -> GpuHosts:
        programs = self.directory / "bin"
        programs.mkdir()
        self.answers.mkdir()
        (programs / "nvidia-smi").write_text(STAND_IN.format(answers=self.answers))
        (programs / "nvidia-smi").chmod(0o755)
        self.host_key = keygen(self.directory / "host_key")
        self.key = keygen(self.directory / "id_ed25519")
        (self.directory / "authorized_keys").write_text(self.key.with_suffix(".pub").read_text())
        config = self.directory / "sshd_config"
        config.write_text(
            f"Port {self.port}\n"
            "ListenAddress 0.0.0.0\n"
            f"HostKey {self.host_key}\n"
            f"PidFile {self.directory}/pid\n"
            f"AuthorizedKeysFile {self.directory}/authorized_keys\n"
            "StrictModes no\n"
            "UsePAM no\n"
            "PasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\n"
            "MaxStartups 1000\n"
            # A home of its own: a slow ~/.bashrc of the person who runs the tests is not our subject.
            f"SetEnv PATH={programs}:/usr/bin:/bin HOME={self.directory}\n"
            # A host without a driver: no nvidia-smi on its PATH.
            "Match LocalAddress 127.77.0.0/16\n"
            f"  SetEnv PATH=/usr/bin:/bin HOME={self.directory}\n"
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        log = (self.directory / "log").open("w")
        self.process = subprocess.Popen([SSHD, "-D", "-e", "-f", config], stderr=log)
        log.close()
        wait_for_port(self.port)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        self.process.wait(120)

    def address(self, network: int = 20) -> str:
        """A host of 127.0.0.0/8 that no other test has."""
        number = next(self._addresses)
        return f"127.{network}.{self._worker * 16 + number // 250}.{number % 250 + 1}"

    def add(self, script: str, network: int = 20) -> str:
        """A new host whose nvidia-smi is this sh script; returns its address."""
        address = self.address(network)
        (self.answers / address).write_text(script)
        return address

    def add_xml(self, xml: str) -> str:
        file = self.directory / f"{next(self._addresses)}.xml"
        file.write_text(xml)
        return self.add(f"cat {file}")

    def known_hosts_line(self, address: str) -> str:
        kind, key = self.host_key.with_suffix(".pub").read_text().split()[:2]
        return f"[{address}]:{self.port} {kind} {key}\n"

    def config(self, directory: Path, *addresses: str, more: str = "") -> Path:
        """A config.ini for these hosts, and a known_hosts that has their keys."""
        names = [a if a.count(":") else f"{a}:{self.port}" for a in addresses]
        known = directory / "known_hosts"
        if not known.exists():
            known.write_text("".join(self.known_hosts_line(a) for a in addresses))
        path = directory / "config.ini"
        path.write_text(
            f"[common]\nhosts = {names}\nuser = '{self.user}'\nkey_filename = '{self.key}'\n"
            f"[fetch]\nknown_hosts = '{known}'\nconnect_timeout = 5\ncommand_timeout = 10\n" + more
        )
        return path


def wait_for_port(port: int, address: str = "127.0.0.1") -> None:
    end = time.monotonic() + 120
    while True:
        try:
            socket.create_connection((address, port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
