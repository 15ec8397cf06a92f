"""A command that a person pastes: words of the config and constants, quoted here and nowhere else.

    Command.of("ssh", "-p", 2222, "node9", "true")    ssh -p 2222 node9 true
    Command.of("echo", line).appended_to(file)    echo 'node9 ssh-rsa AAAA' >> /my/file
    Command.of(program, "probe").piped_to(other)    /my/gpumon-static probe | ssh node9 sh -s
    Command.of("chown", "gpumon:", file).by("root")    (as root) chown gpumon: /my/file

Errors, the next steps of `check` and the page's buttons carry no other type. No text of a host is a word of
one: it is shown beside it, as what it is. tests/check/test_command.py sends hostile texts everywhere.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from gpumon_static.text import plain


@dataclass(frozen=True)
class Command:
    line: str
    """As it is pasted."""
    user: str = ""
    """Who is to paste it, where that matters: a file that root writes for gpumon is closed to gpumon."""

    @classmethod
    def of(cls, *words: object) -> Command:
        return cls(" ".join(map(_quoted, words)))

    @classmethod
    def constant(cls, script: str) -> Command:
        """A line for a shell that is written in our code, and has no other text in it."""
        return cls(script)

    def by(self, user: str) -> Command:
        return Command(self.line, plain(user))

    def then(self, other: Command) -> Command:
        return Command(f"{self.line} && {other.line}", self.user)

    def to_shell(self) -> Command:
        """Before the shell of whoever pastes it, which each kind of shell knows by the same name."""
        return Command(f"{self.line} $SHELL")

    def piped_to(self, other: Command) -> Command:
        return Command(f"{self.line} | {other.line}", self.user)

    def appended_to(self, file: object) -> Command:
        return Command(f"{self.line} >> {_quoted(file)}", self.user)

    def into(self, file: object) -> Command:
        """Its output replaces a file, if it succeeds."""
        new = _quoted(f"{file}.new")
        return Command(f"{self.line} > {new} && mv {new} {_quoted(file)}", self.user)

    @property
    def who(self) -> str:
        """`as gpumon`, for the words before it."""
        return f"as {self.user}" if self.user else ""

    def __str__(self) -> str:
        return self.line


def _quoted(word: object) -> str:
    """One word, whatever is in it: a terminal acts upon control characters even inside quotes."""
    return shlex.quote(plain(str(word)))
