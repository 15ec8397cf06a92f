"""The console script, and `python -m gpumon_static`: signals are handled before anything is imported."""

import os
import signal
import sys
from types import FrameType


def run() -> None:
    open_streams()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end_at_once)
    from gpumon_static.commands.exits import run_command

    run_command()


def open_streams() -> None:
    """Open those that are closed (`>&-`): else the next file has their number, and gets what is printed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def end_at_once(number: int, _frame: FrameType | None) -> None:
    """Exit without cleaning up: while modules are imported there is nothing to clean up."""
    os.write(2, b"gpumon-static: interrupted\n")
    os._exit(128 + number)


if __name__ == "__main__":
    run()
