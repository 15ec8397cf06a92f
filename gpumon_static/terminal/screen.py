"""The terminal while `top` runs: the alternate screen, keys as they are pressed. It is restored afterwards.

It is restored however `top` ends: by q, an error, Ctrl-C, SIGTERM or SIGHUP; and while Ctrl-Z stops it.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

from rich.console import Console
from rich.text import Text

ENTER = "\x1b[?1049h\x1b[?25l"
LEAVE = "\x1b[?25h\x1b[?1049l"
KEYS = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "page-up",
    "\x1b[6~": "page-down",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1bOH": "home",
    "\x1bOF": "end",
    # tmux, screen and the Linux console.
    "\x1b[1~": "home",
    "\x1b[4~": "end",
    # rxvt.
    "\x1b[7~": "home",
    "\x1b[8~": "end",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
}
_KEY = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])?|[\s\S]")
ENDING = (signal.SIGTERM, signal.SIGHUP)


class Screen:
    def __init__(self) -> None:
        self._console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
        self._in = sys.stdin.fileno()
        self._saved: list[Any] | None = None
        self._handlers: dict[int, Any] = {}
        self.was_away = False
        """Another program has drawn since: everything must be drawn again."""

    def __enter__(self) -> Screen:
        self._saved = termios.tcgetattr(self._in)
        for number in ENDING:
            self._handlers[number] = signal.signal(number, _end)
        self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._suspend)
        self._handlers[signal.SIGINT] = signal.getsignal(signal.SIGINT)
        self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A second signal must not interrupt the restoring.
        for number in (*ENDING, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        self._give_back()
        for kept, handler in self._handlers.items():
            signal.signal(kept, handler)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return tuple(os.get_terminal_size(sys.stdout.fileno()))  # type: ignore[return-value]

    def keys(self, seconds: float) -> list[str]:
        """The keys pressed within these seconds; the first one ends the wait."""
        ready, _, _ = select.select([self._in], [], [], seconds)
        if not ready:
            return []
        pressed = os.read(self._in, 1024)
        if not pressed:
            raise SystemExit(0)
        return parse_keys(pressed.decode("utf-8", errors="replace"))

    def draw(self, lines: Sequence[Text]) -> None:
        """Draw everything in one write, without clearing first, so that nothing flickers."""
        width, height = self.size
        self._console.size = (width, height)
        with self._console.capture() as captured:
            for line in lines[:height]:
                line.truncate(width, overflow="crop")
                self._console.print(line, soft_wrap=True)
        drawn = captured.get().rstrip("\n").replace("\n", "\x1b[K\r\n")
        self._write(f"\x1b[H{drawn}\x1b[K\x1b[J")

    def _take(self) -> None:
        tty.setcbreak(self._in, termios.TCSANOW)
        self._write(ENTER)
        self.was_away = True

    def _give_back(self) -> None:
        # After SIGHUP there is no terminal any more.
        with suppress(OSError, termios.error):
            self._write(LEAVE)
        if self._saved:
            with suppress(OSError, termios.error):
                termios.tcsetattr(self._in, termios.TCSANOW, self._saved)

    def _suspend(self, _number: int, _frame: FrameType | None) -> None:
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def parse_keys(pressed: str) -> list[str]:
    """What a terminal sent to the names of its keys; other keys are as they were sent."""
    return [KEYS.get(key, key) for key in _KEY.findall(pressed)]


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
