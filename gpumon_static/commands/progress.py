"""What `fetch` shows while it runs: a bar on a terminal, a line per failed host under cron."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import click

from gpumon_static.model import HostReading, Status
from gpumon_static.text import count


class FetchReport:
    def __init__(
        self,
        hosts: int,
        *,
        quiet: bool,
        verbose: bool,
        before: Mapping[str, str] | None = None,
        excused: Collection[str] = (),
    ) -> None:
        """`before`: each host's last status, to report only what changed since.

        `excused`: hosts in maintenance, whose failures are not reported.
        """
        self._excused = excused
        self._hosts = hosts
        self._quiet = quiet
        self._verbose = verbose
        self._before = before
        self._failed = 0
        self._bar: Any = None
        self._task: Any = None
        self._stack = ExitStack()

    def __enter__(self) -> FetchReport:
        if sys.stderr.isatty() and not self._quiet:
            self._start_bar()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add(self, reading: HostReading) -> None:
        self._failed += not reading.ok and reading.host not in self._excused
        line = self._line(reading)
        if line:
            self._print(line)
        if self._bar:
            self._bar.update(self._task, advance=1, failed=self._failed)

    def say(self, line: str) -> None:
        if not self._quiet:
            self.warn(line)

    def warn(self, line: str) -> None:
        """Of what is lost, which --quiet does not hide."""
        self._print(f"gpumon-static: {line}")

    def _line(self, reading: HostReading) -> str | None:
        if self._quiet or reading.host in self._excused:
            return None
        last = self._before.get(reading.host) if self._before is not None else None
        if not reading.ok:
            message = f"{reading.host}: {reading.status}: {reading.error}"
            return None if last == reading.status else message
        if last not in (None, Status.OK):
            return f"{reading.host}: ok again; it was: {last}"
        if not self._verbose:
            return None
        seen = count(len(reading.gpus), "GPU")
        if reading.slurm:
            nodes, jobs = reading.slurm.nodes, reading.slurm.jobs
            seen = f"{count(len(nodes), 'node')}, {count(len(jobs), 'job')} with GPUs"
        message = f"{reading.host}: ok, {seen} in {reading.fetch_seconds or 0:.2f} s"
        return "; ".join(filter(None, (message, reading.warning, reading.note)))

    def _print(self, line: str) -> None:
        if self._bar:
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            click.echo(line, err=True)

    def _start_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("Asking hosts"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]} failed"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._stack.enter_context(self._bar)
        self._task = self._bar.add_task("fetch", total=self._hosts, failed=0)
