"""A real Dask cluster on loopback: a scheduler and workers, each a program of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.command import rows
from tests.sshd import free_port
from tests.waiting import wait_until

DASK = str(Path(sys.executable).with_name("dask"))


class DaskLab:
    def __init__(
        self,
        directory: Path,
        *,
        host: str = "127.0.0.1",
        protocol: str = "tcp",
        options: Sequence[str] = (),
        listen: str | None = None,
        inside: Sequence[str] = (),
        **environment: str,
    ) -> None:
        self.directory = directory
        self.address = f"{protocol}://{host}:{free_port()}"
        self.options = [*options, "--no-dashboard"]
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        listens = f"{protocol}://{listen or host}:{self.address.rpartition(':')[2]}"
        self.scheduler = self._start(
            "scheduler", ["scheduler", "--host", listens, *self.options], inside, **environment
        )

    def _start(
        self, name: str, words: list[str], inside: Sequence[str] = (), **environment: str
    ) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name}.log").open("w") as log:
            return subprocess.Popen(
                [*inside, DASK, *words],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=os.environ | environment,
            )

    def worker(
        self,
        name: str,
        resources: str = "",
        *,
        host: str = "127.0.0.1",
        inside: Sequence[str] = (),
        **environment: str,
    ) -> subprocess.Popen[bytes]:
        protocol = self.address.partition(":")[0]
        words = ["worker", self.address, "--name", name, "--host", f"{protocol}://{host}", "--no-nanny"]
        words += ["--nthreads", "2", "--memory-limit", "0", "--local-directory", str(self.directory / name)]
        words += ["--resources", f"{resources}=1"] if resources else []
        self.workers[name] = self._start(name, [*words, *self.options], inside, **environment)
        return self.workers[name]

    def wait(self) -> None:
        """Until all workers are there."""
        for name in self.workers:
            wait_until(lambda name=name: "Registered to:" in self.log(name))  # type: ignore[misc]

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()

    def __enter__(self) -> DaskLab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        processes = [*self.workers.values(), self.scheduler]
        for process in processes:
            process.terminate()
        end = time.monotonic() + 5
        for process in processes:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


OTHER_VERSION = """
import importlib.metadata
true_version = importlib.metadata.version
importlib.metadata.version = lambda name: "0.0.9" if name == "gpumon-static" else true_version(name)
"""


def patch(directory: Path, code: str) -> str:
    """A directory for PYTHONPATH whose code is run at the start of every Python."""
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(code)
    return str(directory)


def engine(lab: DaskLab, **keys: object) -> str:
    told = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    return f"engine = 'dask'\nscheduler = '{lab.address}'\n{told}"


def on_worker(label: str, *addresses: str) -> str:
    return "".join(f"[hosts.'{address}']\nworker = '{label}'\n" for address in addresses)


def statuses(directory: Path) -> dict[str, str]:
    return {row["host"]: row["status"] for row in rows(directory / "data/load_data.csv")}


def tls(directory: Path) -> dict[str, str]:
    return {f"tls_{key}": str(directory / file) for key, file in TLS_FILES.items()}


TLS_FILES = {"ca": "ca.pem", "cert": "dask.pem", "key": "dask.key"}
