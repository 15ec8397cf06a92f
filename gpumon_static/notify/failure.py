"""Messages of no event: that a run itself failed, when no run was there to see a change, and a test."""

from __future__ import annotations

import platform
import uuid
from datetime import datetime
from typing import TYPE_CHECKING

from gpumon_static.errors import GpumonError
from gpumon_static.notify.run import run_command
from gpumon_static.system.command import Command
from gpumon_static.system.programs import Programs
from gpumon_static.text import clip, one_line
from gpumon_static.times import utc_text

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config

RUN_FAILED, TEST = "run-failed", "test"
MOST_LETTERS = 2000


def notify_of_failure(config: Config, unit: str, output: str, now: datetime) -> None:
    """`output`: the last lines that the run printed. Sent whatever `notify.events` lists."""
    lines = [line for line in map(one_line, output.splitlines()) if line]
    text = clip("\n".join(lines), MOST_LETTERS) or f"See: {Command.of('journalctl', '-u', one_line(unit))}"
    _send(config, RUN_FAILED, f"{platform.node()}: {one_line(unit)} failed", text, now)


def send_test(config: Config, now: datetime) -> None:
    """For an admin who wants to see that messages arrive."""
    _send(config, TEST, f"{platform.node()}: a test", "If you read this, [notify] works.", now)


def _send(config: Config, kind: str, title: str, text: str, now: datetime) -> None:
    if not config.notify.command:
        raise GpumonError("notify: the config has no [notify] command")
    at = utc_text(now)
    message = {
        "version": 1,
        "site": config.site.title,
        "title": title,
        "text": text,
        "id": str(uuid.uuid4()),
        "type": kind,
        "host": platform.node(),
        "at": at,
        "since": at,
        "gpus": [],
    }
    if problem := run_command(message, config, config.notify.timeout, Programs()):
        raise GpumonError(f"notify: {problem}")
