"""The console script, and `python -m gpumon_static`: signals are handled before anything is imported."""

import os
import signal
from types import FrameType


def run() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end_at_once)
    from gpumon_static.commands.exits import run_command

    run_command()


def end_at_once(number: int, _frame: FrameType | None) -> None:
    """Exit without cleaning up: while modules are imported there is nothing to clean up."""
    os.write(2, b"gpumon-static: interrupted\n")
    os._exit(128 + number)


if __name__ == "__main__":
    run()
