"""The console script: errors as a line on stderr, an exit status for each, and no waiting for threads."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import traceback
from types import FrameType
from typing import Any, NoReturn

import click

from gpumon_static.commands.cli import main
from gpumon_static.errors import ON_STOP, GpumonError

BROKEN_PIPE_EXIT = 141
TIDY_S = 1.5
"""Seconds in which an interrupted command may close what it has open."""
IMPORT_S, MOST_WAITS = 0.02, 50
"""An import is waited for, a second in all: one from a dead file server may never end."""
NO_ROOM = "cannot write what it prints: no space left on device"
COMPLETION = "_GPUMON_STATIC_COMPLETE"


_signals: list[int] = []
"""That have ended the command: a library may raise another error in the place of `Stopped`."""


class Stopped(KeyboardInterrupt):
    """Raised when a signal ends the command: what is open is closed on the way out."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__()


def run_command() -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    try:
        _complete()
        code = _run()
        _end_with(code)
    except Stopped as stop:
        # Between our last line and the end: nothing is open.
        code = 128 + stop.number
        _end_with(code)
    _exit(code)


def _end_with(code: int) -> None:
    """What the command came to is known: a signal from now on only ends it sooner."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(code))
    # Python takes its handlers away on the way out: the alarm of `_stop` would end it with another status.
    signal.setitimer(signal.ITIMER_REAL, 0)


def _stop(number: int, frame: FrameType | None, waits: int = MOST_WAITS) -> None:
    # A second signal, or cleaning up that takes too long, ends it at once.
    for again in (signal.SIGINT, signal.SIGTERM):
        signal.signal(again, lambda *_: os._exit(128 + number))
    if waits and _is_importing(frame):
        # What is raised there may be printed and ignored, or come out as another error: a moment later.
        signal.signal(signal.SIGALRM, lambda _, there: _stop(number, there, waits - 1))
        signal.setitimer(signal.ITIMER_REAL, IMPORT_S)
        return
    signal.signal(signal.SIGALRM, lambda *_: _end_late(number))
    signal.setitimer(signal.ITIMER_REAL, TIDY_S)
    _signals.append(number)
    for stop in ON_STOP:
        stop()
    raise Stopped(number)


def _end_late(number: int) -> NoReturn:
    """Exit although something is still open: the line is printed here, nobody else will."""
    os.write(2, b"gpumon-static: interrupted\n")
    os._exit(128 + number)


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
    except BaseException as error:
        return _explained(error, context)
    return 0


def _explained(error: BaseException, context: dict[str, Any]) -> int:
    """Say in a line why the command ends; return its exit status."""
    stop = _stop_behind(error)
    match stop or error:
        case click.Abort() | KeyboardInterrupt():
            click.echo("gpumon-static: interrupted", err=True)
            return 128 + (stop.number if stop else [*_signals, signal.SIGINT][0])
        case GpumonError() as known:
            _say(str(known), context)
            return known.exit_code
        case click.exceptions.Exit() as end:
            return end.exit_code
        case click.ClickException() as usage:
            usage.show()
            return usage.exit_code
        case SystemExit(code=code):
            return code if isinstance(code, int) else 1
        case BrokenPipeError():
            # The reader of the pipe is gone, as with `| head`; what is still to be flushed is discarded.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE_EXIT
        case OSError(errno=errno.ENOSPC, filename=None):
            # Errors of files have their names; this is what was printed, into a file or a full /dev/full.
            _say(NO_ROOM, context)
            return 1
    _say(f"unexpected {type(error).__name__}: {error} (--debug shows where)", context)
    return 1


def _stop_behind(error: BaseException | None) -> Stopped | None:
    """The signal that ended the command, also where closing what was open then failed."""
    while error:
        if isinstance(error, Stopped):
            return error
        error = error.__context__
    return None


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
    sys.exit(code)
