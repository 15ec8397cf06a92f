"""The lab through the real `fetch`, `render` and command line: the only module here that imports the package.

Replaced are the way to a host (`Readers.raw`: bytes of the probe) and the clock. Threads, parsers, gate, Slurm,
CSV, history, events and page are the real ones.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from click.testing import CliRunner

from gpumon_static.collect.readers import Readers
from gpumon_static.commands import cli_history, cli_terminal, options
from gpumon_static.commands.cli import main
from gpumon_static.commands.fetch import fetch
from gpumon_static.commands.render import render
from gpumon_static.config import file
from tests.truth.printed import host_answer, slurm_answer
from tests.truth.schedule import GROUPS, SHOWN_NAMES, SLURM_HOST, ZONE, Lab

CONFIG = """
[common]
hosts = {hosts}
user = "monitor"
[fetch]
engine = "threads"
workers = 1
transport = "openssh"
[site]
interval = {interval}
[slurm]
host = "ctl"
hosts = ["{slurm}"]
[users]
{users}
"""


@contextmanager
def zone(name: str) -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


class Pipeline:
    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        path = folder / "config.ini"
        groups = "".join(f'[hosts.{host}]\ngroup = "{group}"\n' for host, group in GROUPS.items())
        users = "".join(f'{login} = "{name}"\n' for login, name in SHOWN_NAMES.items())
        text = CONFIG.format(hosts=list(GROUPS), interval=lab.interval, slurm=SLURM_HOST, users=users)
        path.write_text(text + groups)
        self.path = path
        self.config = file.load(path)
        self.lines: list[str] = []
        """What fetch printed."""
        self._here = threading.local()

    def run(self, at: int) -> None:
        """One `fetch` that starts then; a host is asked some seconds later."""

        def clock() -> datetime:
            return datetime.fromtimestamp(getattr(self._here, "at", at), UTC)

        def raw(_readers: Readers, host: Any) -> bytes:
            if host.asks_slurm:
                self._here.at = at
                return slurm_answer(self.lab, at)
            self._here.at = asked_at(host.name, at)
            return host_answer(self.lab, host.name, self._here.at)

        self._here.at = asked_at("", at)
        with patch.object(Readers, "raw", raw):
            fetch(self.config, clock=clock, say=self.lines.append)

    def render(self, at: int) -> None:
        render(self.config, datetime.fromtimestamp(at, UTC))

    def site(self, name: str) -> str:
        return (self.config.paths.site / name).read_text(encoding="utf-8")

    def block(self, name: str) -> Any:
        """The data that is embedded in the page for the browser."""
        found = re.search(rf'<script[^>]*id="{name}"[^>]*>(.*?)</script>', self.site("index.html"), re.DOTALL)
        assert found, name
        return json.loads(found[1])

    def command(self, at: int, *words: str) -> str:
        """What `gpumon-static WORDS` prints when it is called then, in a pipe."""
        now = lambda: datetime.fromtimestamp(at, UTC)  # noqa: E731
        modules = (options, cli_history, cli_terminal)
        with ExitStack() as replaced:
            for module in modules:
                replaced.enter_context(patch.object(module, "now", now))
            result = CliRunner().invoke(main, [*words, "-c", str(self.path)], catch_exceptions=False)
        assert result.exit_code == 0, (words, result.output)
        return result.stdout

    def rows(self, at: int, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.command(at, *words, "--json"))["rows"]
        return found


def asked_at(host: str, run: int) -> int:
    """Hosts answer one after the other: v1 after 0 s, v2 after 2 s. Without a name: when the run ends."""
    return run + 2 * (list(GROUPS).index(host) if host else len(GROUPS))


__all__ = ["ZONE", "Pipeline", "asked_at", "zone"]
