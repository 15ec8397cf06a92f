"""A message that a run itself failed: nothing of it is an event, since no run was there to see a change."""

from __future__ import annotations

import platform
import uuid
from datetime import datetime
from typing import TYPE_CHECKING

from gpumon_static.errors import GpumonError
from gpumon_static.notify.run import run_command
from gpumon_static.programs import Programs
from gpumon_static.text import clip, one_line
from gpumon_static.times import utc_text

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config

RUN_FAILED = "run-failed"
MOST_LETTERS = 2000


def notify_of_failure(config: Config, unit: str, told: str, now: datetime) -> None:
    """`told`: the last lines that the run printed. Sent whatever `notify.events` lists."""
    if not config.notify.command:
        raise GpumonError("notify: the config has no [notify] command")
    lines = [line for line in map(one_line, told.splitlines()) if line]
    host = platform.node()
    at = utc_text(now)
    message = {
        "version": 1,
        "site": config.site.title,
        "title": f"{host}: {one_line(unit)} failed",
        "text": clip("\n".join(lines), MOST_LETTERS) or f"See: journalctl -u {one_line(unit)}",
        "id": str(uuid.uuid4()),
        "type": RUN_FAILED,
        "host": host,
        "at": at,
        "since": at,
        "gpus": [],
    }
    if problem := run_command(message, config, config.notify.timeout, Programs()):
        raise GpumonError(f"notify: {problem}")
