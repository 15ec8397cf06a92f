"""The states of a GPU, of a slice, and of a host that does not answer. survey/ decides which one it is in."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Its value is its name in files: gpus.json, metrics.prom, the history."""

    word: str
    """For readers."""
    mark: str
    """Its icon and colour on the page: a CSS class."""
    is_taken: bool

    FREE = "free", "free", "free", False
    BUSY = "busy", "busy", "busy", True
    HELD = "held", "held idle", "held", True
    """Taken, by memory or a process, but not computing at this moment."""
    UNKNOWN = "unknown", "unknown", "unknown", False
    DOWN = "down", "down", "failed", False
    """Of a host that did not answer, and so of its GPUs: in the history only."""
    ALLOCATED = "allocated", "allocated", "held", True
    """How a held GPU is shown where a Slurm job has it and no process is seen; in files it is held."""

    def __new__(cls, value: str, word: str, mark: str, is_taken: bool) -> State:
        made = str.__new__(cls, value)
        made._value_ = value
        made.word, made.mark, made.is_taken = word, mark, is_taken
        return made

    @property
    def number(self) -> int:
        """In the page's data, whose list of states has it at this place."""
        return _NUMBERS[self]


_NUMBERS = {state: number for number, state in enumerate(State)}
READ = (State.FREE, State.BUSY, State.HELD, State.UNKNOWN)
"""Those that a reading can show."""
TAKEN = tuple(state for state in State if state.is_taken)
