"""The demo lab, up and running on 127.0.0.1.

    with DemoCluster(DemoSpec(hosts=3), directory, now) as cluster:
        (directory / "config.ini").write_text(cluster.config_text())
        ...                     # fetch: real SSH, the real probe
        cluster.refresh(later)  # the hosts now answer as of that time

`directory` gets the client's key and a known_hosts with the hosts' keys.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime
from io import StringIO
from pathlib import Path
from types import TracebackType

import paramiko
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gpumon_static.demo import answers, lab, slurm, workload
from gpumon_static.demo.lab import DemoHost, DemoSpec
from gpumon_static.demo.server import SshServer
from gpumon_static.model import Status

USER = "monitor"
ADDRESS = "127.0.0.1"

CONFIG_HEAD = """\
# The demo lab of gpumon-static, written by `gpumon-static demo`, and again by its next run.
# The hosts are up only while that command runs; `gpumon-static demo --serve` keeps them up.

[common]
user = "{user}"
key_filename = "{key}"    # relative to this file, as all paths here
hosts = [
{hosts}
]

[fetch]
workers = 16
connect_timeout = 30             # seconds; all hosts are on this computer
host_keys = "strict"             # the keys of the demo hosts are in this file:
known_hosts = "{known_hosts}"
disks = ["/", "/data"]           # shown for each host, with how full they are

[paths]
data = "data"                    # load_data.csv
site = "site"                    # index.html

[site]
title = "Demo Lab"
refresh = 60                     # seconds

[slurm]
host = "{login}"                # it has scontrol, for the groups vision, language and chemistry

# What differs from host to host. In your lab the name is the address and the port is 22: leave both out.
"""
CONFIG_SLURM = """
[hosts.{login}]
address = "{address}"
port = {port}
"""


class DemoCluster:
    def __init__(self, spec: DemoSpec, directory: Path, now: datetime) -> None:
        self.hosts: tuple[DemoHost, ...] = lab.build(spec)
        self.ports: dict[str, int] = {}
        self.key_path = directory / "id_ed25519"
        self.known_hosts_path = directory / "known_hosts"
        self._now = now
        self._stack = ExitStack()
        self._root = Path()
        self._answers = Path()
        self._refreshes = 0

    def __enter__(self) -> DemoCluster:
        with self._stack:
            self._start()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def failing(self) -> tuple[DemoHost, ...]:
        """Those that fail on purpose."""
        return tuple(host for host in self.hosts if host.fate is not Status.OK)

    def refresh(self, now: datetime) -> None:
        """Let the hosts answer as of that time; a command that has begun keeps its answers."""
        before_last = self._root / f"answers-{self._refreshes - 1}"
        self._refreshes += 1
        fresh = self._root / f"answers-{self._refreshes}"
        for host in self.hosts:
            _write(fresh / host.name, answers.files(host, workload.healthy_reading(host, now)))
        _write(fresh / slurm.LOGIN, slurm.files(self.hosts, int(now.timestamp())))
        self._answers = fresh
        shutil.rmtree(before_last, ignore_errors=True)

    def config_text(self) -> str:
        head = CONFIG_HEAD.format(
            user=USER,
            login=slurm.LOGIN,
            key=self.key_path.name,
            known_hosts=self.known_hosts_path.name,
            hosts="\n".join(f'  "{host.name}",' for host in self.hosts),
        )
        login = CONFIG_SLURM.format(login=slurm.LOGIN, address=ADDRESS, port=self.ports[slurm.LOGIN])
        return head + login + "".join(self._host_section(host) for host in self.hosts)

    def _host_section(self, host: DemoHost) -> str:
        note = f'note = "{host.note}"\n' if host.note else ""
        note += 'run = "slurm"\n' if slurm.is_managed(host) else ""
        return (
            f'\n[hosts.{host.name}]\naddress = "{ADDRESS}"\nport = {self.ports[host.name]}\n'
            f'group = "{host.group}"\ngpus = {len(host.gpus)}\n{note}'
        )

    def _start(self) -> None:
        self._root = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="gpumon-demo-")))
        _write_stand_ins(self._root / "bin")
        self.refresh(self._now)
        client_key, host_key = _generate_key(), _generate_key()
        server = SshServer(_load(host_key), _load(client_key), self._environment)
        self._stack.callback(server.stop)
        for host in self.hosts:
            if host.fate is Status.REFUSED:
                self.ports[host.name] = self._port_that_refuses()
            else:
                self.ports[host.name] = server.listen(host.name)
        self.ports[slurm.LOGIN] = server.listen(slurm.LOGIN)
        _write_private(self.key_path, client_key)
        self.known_hosts_path.write_text(self._known_hosts(_load(host_key)), encoding="utf-8")
        server.start()

    def _port_that_refuses(self) -> int:
        """A port that is bound, so that no other program gets it, and not listening."""
        bound = self._stack.enter_context(socket.socket())
        bound.bind((ADDRESS, 0))
        return int(bound.getsockname()[1])

    def _known_hosts(self, key: paramiko.PKey) -> str:
        return "".join(
            f"[{ADDRESS}]:{port} {key.get_name()} {key.get_base64()}\n" for port in self.ports.values()
        )

    def _environment(self, host: str) -> Mapping[str, str]:
        own = self._answers / host
        path = os.environ.get("PATH", os.defpath)
        return {
            "PATH": f"{self._root / 'bin'}:{path}",
            "DEMO_ANSWERS": str(own),
            "GPUMON_PROC": str(own / "proc"),
            "GPUMON_SYS": str(own / "sys"),
            "GPUMON_SHARE": str(own / "share"),
        }


def _write(directory: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _write_stand_ins(directory: Path) -> None:
    directory.mkdir()
    for name, text in answers.STAND_INS.items():
        program = directory / name
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)


def _generate_key() -> str:
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def _load(key: str) -> paramiko.PKey:
    return paramiko.Ed25519Key.from_private_key(StringIO(key))


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
