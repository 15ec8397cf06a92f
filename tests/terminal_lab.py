"""A real terminal (a pty) for programs that want one."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.command import PROGRAM

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)")


def without_escapes(text: str) -> str:
    return _ESCAPES.sub("", text)


class Terminal:
    """Runs a program in a terminal of its own; `screen` is what it drew last."""

    def __init__(self, words: list[str], cwd: Path, columns: int = 80, lines: int = 24) -> None:
        self.control, self._side = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(self._side)
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            words,
            cwd=cwd,
            stdin=self._side,
            stdout=self._side,
            stderr=self._side,
            env=environment | {"TERM": "xterm-256color"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self.output = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.control)
        os.close(self._side)

    @property
    def screen(self) -> str:
        """The last frame: what follows the last move of the cursor to the upper left."""
        return without_escapes(self.output.rpartition("\x1b[H")[2]).replace("\r", "")

    @property
    def is_restored(self) -> bool:
        """As it was, with the cursor seen and the first screen back."""
        same = termios.tcgetattr(self._side) == self.before
        last_screen = self.output.rfind("\x1b[?1049l") > self.output.rfind("\x1b[?1049h")
        return same and last_screen and self.output.rfind("\x1b[?25h") > self.output.rfind("\x1b[?25l")

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._side, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self.control, keys.encode())

    def read(self, seconds: float = 0.05) -> None:
        while select.select([self.control], [], [], seconds)[0]:
            try:
                chunk = os.read(self.control, 65536)
            except OSError:
                return
            self.output += chunk.decode("utf-8", errors="replace")

    def wait_for(self, holds: Callable[[str], Any], seconds: float = 60) -> None:
        """Until this holds of the screen."""
        end = time.monotonic() + seconds
        while not holds(self.screen):
            self.read()
            assert self.process.poll() is None, self.output
            assert time.monotonic() < end, self.screen

    def ended(self, seconds: float = 30) -> int:
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            self.read()
            assert time.monotonic() < end, self.screen
        self.read()
        return self.process.returncode


@dataclass(frozen=True)
class Seen:
    returncode: int
    output: str

    @property
    def text(self) -> str:
        return without_escapes(self.output).replace("\r", "")


def in_terminal(*arguments: str, cwd: Path, columns: int = 80) -> Seen:
    with Terminal([*PROGRAM, *arguments], cwd, columns) as terminal:
        return Seen(terminal.ended(), terminal.output)
