"""A small lab to be tortured: local hosts with a stand-in nvidia-smi, and what must hold after each blow."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpumon_static.errors import GpumonError
from gpumon_static.store import snapshot
from gpumon_static.store.history.reader import Period, Reader, ask
from tests.nvidia_xml import xml

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
        self.history = directory / "data" / "history"
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
        except (GpumonError, EOFError, OSError) as error:
            return f"{type(error).__name__}: {error}"

    def _csv_damage(self) -> str | None:
        if not self.csv.exists():
            return None
        found = tuple(reading.host for reading in snapshot.read(self.csv))
        return None if found == self.hosts else f"load_data.csv has the hosts {found}"

    def _history_damage(self) -> str | None:
        """A file that cannot be read, a reading that is there twice, or more seconds than have passed."""
        if not self.history.is_dir():
            return None
        lines: list[str] = []
        doubled, overlong = ask(self.history, _doubled, lines.append)
        if lines:
            return "; ".join(lines)
        return f"counted twice: {doubled} readings, {overlong} hosts" if doubled or overlong else None

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


def _doubled(reader: Reader) -> tuple[int, int]:
    """Readings of a host that are there twice; hosts with more seconds than there are in their time."""
    readings = f"({reader.rows(Period(0, 4_000_000_000))}) WHERE level = 3"
    doubled: int = reader.engine.value(
        f"SELECT count(*) - count(DISTINCT (host, fetched_at)) FROM {readings}"
    )
    per_host = (
        f"SELECT sum(seconds) > epoch(max(fetched_at) - min(fetched_at)) + 450 AS is_more FROM {readings}"
    )
    overlong: int = reader.engine.value(f"SELECT count(*) FILTER (is_more) FROM ({per_host} GROUP BY host)")
    return doubled, overlong


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
