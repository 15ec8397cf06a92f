"""The console script: errors as a line on stderr, an exit status for each, and no waiting for threads."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from types import FrameType
from typing import Any, NoReturn

import click

from gpumon_static.commands.cli import main
from gpumon_static.errors import GpumonError

BROKEN_PIPE_EXIT = 141
TIDY_S = 1.5
"""Seconds in which an interrupted command may close what it has open."""
IMPORT_S, MOST_WAITS = 0.02, 50
"""An import is waited for, a second in all: one from a dead file server may never end."""
COMPLETION = "_GPUMON_STATIC_COMPLETE"


class Stopped(KeyboardInterrupt):
    """Raised when a signal ends the command: what is open is closed on the way out."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__()


def run_command() -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    _complete()
    _exit(_run())


def _stop(number: int, frame: FrameType | None, waits: int = MOST_WAITS) -> None:
    # A second signal, or cleaning up that takes too long, ends it at once.
    for again in (signal.SIGINT, signal.SIGTERM):
        signal.signal(again, lambda *_: os._exit(128 + number))
    if waits and _is_importing(frame):
        # What is raised there may be printed and ignored, or come out as another error: a moment later.
        signal.signal(signal.SIGALRM, lambda _, there: _stop(number, there, waits - 1))
        signal.setitimer(signal.ITIMER_REAL, IMPORT_S)
        return
    signal.signal(signal.SIGALRM, lambda *_: os._exit(128 + number))
    signal.setitimer(signal.ITIMER_REAL, TIDY_S)
    raise Stopped(number)


def _is_importing(frame: FrameType | None) -> bool:
    while frame and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def _complete() -> None:
    """Answer a shell's request for completions; click does this only in its own `main`."""
    if instruction := os.environ.get(COMPLETION):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(main, {}, "gpumon-static", COMPLETION, instruction))


def _run() -> int:
    context: dict[str, Any] = {}
    try:
        with main.make_context("gpumon-static", sys.argv[1:]) as click_context:
            context = click_context.meta
            main.invoke(click_context)
    except GpumonError as error:
        _say(str(error), context)
        return error.exit_code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as stop:
        click.echo("gpumon-static: interrupted", err=True)
        signal.setitimer(signal.ITIMER_REAL, 0)
        return 128 + (stop.number if isinstance(stop, Stopped) else signal.SIGINT)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except BrokenPipeError:
        # The reader of the pipe is gone, as with `| head`; what is still to be flushed is discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE_EXIT
    except Exception as error:
        _say(f"unexpected {type(error).__name__}: {error} (--debug shows where)", context)
        return 1
    return 0


def _say(message: str, context: dict[str, Any]) -> None:
    if context.get("debug"):
        traceback.print_exc()
    click.echo(f"gpumon-static: {message}", err=True)


def _exit(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    if threading.active_count() > 1:
        # A thread may hang on a dead host for ever; all files are written.
        os._exit(code)
    # Python takes its handlers away on the way out: the alarm of `_stop` would end it with another status.
    signal.setitimer(signal.ITIMER_REAL, 0)
    sys.exit(code)
