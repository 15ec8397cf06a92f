"""A small lab to be tortured: local hosts with a stand-in nvidia-smi, and what must hold after each blow."""

from __future__ import annotations

import gzip
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from gpumon_static.errors import GpumonError
from gpumon_static.store import snapshot
from tests.test_fetch_ssh import xml

PROGRAM = [sys.executable, "-m", "gpumon_static"]
HOSTS = ("one", "two", "three")


@dataclass
class Result:
    name: str
    tried: int = 0
    failures: list[str] = field(default_factory=list)

    def note(self, told: str | None) -> None:
        """One more try; `told`: what went wrong with it, None where nothing did."""
        self.tried += 1
        if told:
            self.failures.append(told)

    @property
    def survived(self) -> int:
        return self.tried - len(self.failures)


class Lab:
    def __init__(self, directory: Path, *, hosts: tuple[str, ...] = HOSTS, fetch: str = "") -> None:
        self.directory = directory
        self.hosts = hosts
        self.config = directory / "config.ini"
        self.site = directory / "site"
        self.csv = directory / "data" / "load_data.csv"
        self.history = directory / "data" / "history.db"
        programs = directory / "bin"
        programs.mkdir(parents=True)
        (directory / "smi.xml").write_text(xml("torture"))
        (programs / "nvidia-smi").write_text(f"#!/bin/sh\ncat {directory}/smi.xml\n")
        (programs / "nvidia-smi").chmod(0o755)
        self.environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
        own = "".join(f"[hosts.{host}]\ntransport = 'local'\n" for host in hosts)
        self.config.write_text(f"[common]\nhosts = {list(hosts)}\n[fetch]\n{fetch}[site]\ncsv = true\n{own}")

    def command(self, *words: str) -> list[str]:
        return [*PROGRAM, *words, "-c", str(self.config)]

    def start(self, *words: str, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [*before, *self.command(*words)]
        return subprocess.Popen(command, env=self.environment, stdout=pipe, stderr=pipe, text=True)

    def run(self, *words: str, before: tuple[str, ...] = ()) -> tuple[int, str]:
        process = self.start(*words, before=before)
        _, errors = process.communicate(timeout=120)
        return process.returncode, errors

    def seconds(self, *words: str) -> float:
        """How long a run takes here; the first one, which makes the files, does not count."""
        self.run(*words)
        started = time.monotonic()
        self.run(*words)
        return time.monotonic() - started

    # What must hold at any moment

    def damage(self) -> str | None:
        try:
            return first(self._csv_damage, self._history_damage, self._page_damage)
        except (GpumonError, sqlite3.Error, EOFError, OSError) as error:
            return f"{type(error).__name__}: {error}"

    def _csv_damage(self) -> str | None:
        if not self.csv.exists():
            return None
        found = tuple(reading.host for reading in snapshot.read(self.csv))
        return None if found == self.hosts else f"load_data.csv has the hosts {found}"

    def _history_damage(self) -> str | None:
        """Looked for in a copy: to look is to write, and there may be no room for it."""
        if not self.history.exists():
            return None
        with TemporaryDirectory() as aside:
            for file in self.history.parent.glob("history.db*"):
                shutil.copy(file, aside)
            return self._damage_of(Path(aside) / self.history.name)

    def _damage_of(self, history: Path) -> str | None:
        connection = sqlite3.connect(history)
        try:
            (state,) = connection.execute("PRAGMA integrity_check").fetchone()
            if state != "ok":
                return f"history.db: {state}"
            if not connection.execute("PRAGMA user_version").fetchone()[0]:
                return None
            counted = connection.execute(
                "SELECT g.key, sum(free_s + busy_s + held_s + unknown_s + down_s), l.counted_to - g.first_at"
                " FROM gpu_hours AS h JOIN gpus AS g ON g.id = h.gpu JOIN latest AS l ON l.gpu = g.id GROUP BY g.id"
            )
            doubled = [gpu for gpu, seconds, most in counted if seconds > most]
            return f"counted twice: {doubled}" if doubled else None
        finally:
            connection.close()

    def _page_damage(self) -> str | None:
        page = self.site / "index.html"
        if page.exists() and not page.read_text().rstrip().endswith("</html>"):
            return "half a page"
        packed = self.site / "index.html.gz"
        if packed.exists() and not gzip.decompress(packed.read_bytes()).rstrip().endswith(b"</html>"):
            return "half a packed page"
        return None

    def leftovers(self, seconds: float = 10) -> str | None:
        """Processes of this lab that are still there a while later."""
        end = time.monotonic() + seconds
        while found := processes_with(str(self.directory)):
            if time.monotonic() > end:
                return f"processes left: {found}"
            time.sleep(0.05)
        return None

    def temporary_files(self) -> str | None:
        left = [file.name for file in self.directory.rglob("*.tmp")]
        return f"temporary files left: {left}" if left else None

    def goes_on(self) -> str | None:
        """The next run is as any other."""
        for words in (("fetch",), ("render",)):
            code, errors = self.run(*words)
            if code or errors:
                return f"afterwards {words[0]} exits {code}: {errors.strip()}"
        return self.damage() or self._pages_differ()

    def _pages_differ(self) -> str | None:
        packed = gzip.decompress((self.site / "index.html.gz").read_bytes())
        return None if packed == (self.site / "index.html").read_bytes() else "the packed page is another one"


def first(*checks: Callable[[], str | None]) -> str | None:
    return next((told for check in checks if (told := check())), None)


def processes_with(word: str) -> list[str]:
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            told = (directory / "cmdline").read_bytes() + (directory / "environ").read_bytes()
        except OSError:
            continue
        if word.encode() in told and directory.name != str(os.getpid()):
            found.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found
