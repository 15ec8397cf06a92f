"""`[notify] command`: run once per event, with the event as JSON on its standard input.

Run by `fetch`, since a state changes when the hosts are asked, not when a page is made (which may happen
often, or never). At most once per event: a command that fails is reported in one line and not tried
again, and it never changes the outcome of the run.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from gpumon_static.store.events_file import event_document
from gpumon_static.survey.news import tell
from gpumon_static.system.programs import Late, Programs
from gpumon_static.text import Say, one_line

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config
    from gpumon_static.store.events import Event

AT_ONCE = 8
WHOLE_SECONDS = 60.0
"""For all events of a run: a rack that goes down is many at once."""
MOST_ERROR = 2000


def notify(events: Sequence[Event], config: Config, say: Say) -> None:
    wanted = [event for event in events if event.type in config.notify.events]
    if not wanted or not config.notify.command:
        return
    end = time.monotonic() + WHOLE_SECONDS
    programs = Programs()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for problem in pool.map(lambda event: _run(event, config, end, programs), wanted):
            if problem:
                say(f"notify: {problem}")


def document(event: Event, site_title: str) -> dict[str, Any]:
    """The JSON for the command: the event, and its title and text."""
    news = tell(event)
    return {"version": 1, "site": site_title, "title": news.title, "text": news.text, **event_document(event)}


def _run(event: Event, config: Config, end: float, programs: Programs) -> str | None:
    """What went wrong, in one line."""
    seconds = min(config.notify.timeout, end - time.monotonic())
    if seconds <= 0:
        return f"{event.type} of {event.host} not sent: the commands before it took {WHOLE_SECONDS:g} s"
    return run_command(document(event, config.site.title), config, seconds, programs)


def run_command(document: dict[str, Any], config: Config, seconds: float, programs: Programs) -> str | None:
    """Run the command with a message on its standard input. Returns what went wrong, in one line."""
    about = f"{document['type']} of {document['host']}"
    # A file, not a pipe: what the command leaves running, as mail does, may go on writing to it.
    with tempfile.TemporaryFile() as errors:
        try:
            done = programs.run(
                list(config.notify.command or ()),
                json.dumps(document, ensure_ascii=False).encode() + b"\n",
                seconds=seconds,
                spare_children=True,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd=config.path.absolute().parent,
                env=os.environ | _environment(document),
            )
            problem = f"exited with {done.exit_status}" if done.exit_status else None
        except Late:
            problem = f"did not end within {seconds:.0f} s"
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return f"the command cannot be run for {about}: {reason}"
        errors.seek(0)
        printed = one_line(errors.read(MOST_ERROR).decode("utf-8", errors="replace"))
    if problem is None:
        return None
    return f"the command {problem} for {about}" + (f": {printed}" if printed else "")


def _environment(document: dict[str, Any]) -> dict[str, str]:
    """For one-line commands, such as `sh -c 'mail -s "$GPUMON_TITLE" ...'`."""
    names = ("type", "host", "title", "text")
    return {f"GPUMON_{name.upper()}": str(document[name]).replace("\0", "") for name in names}
