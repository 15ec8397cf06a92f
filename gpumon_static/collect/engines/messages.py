"""The messages between a run and its worker processes, beside the readings themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpumon_static.collect.readers import ReaderFactory
from gpumon_static.collect.ssh.target import Command

BEAT_S = 2.0
"""Seconds between two signs of life of a worker."""


@dataclass(frozen=True)
class Task:
    factory: ReaderFactory
    threads: int
    deadline: float
    """Seconds left until the deadline of the run."""
    whole_deadline: float


@dataclass(frozen=True)
class Asking:
    """The host is being asked."""

    host: str


@dataclass(frozen=True)
class Parsing:
    """The host has answered, and its answer is being read."""

    host: str


@dataclass(frozen=True)
class Noted:
    """What the reader of a host notes on the way."""

    host: str
    what: Any


@dataclass(frozen=True)
class WantsSecret:
    """A password or passphrase, to be asked for by the run; the reply is bytes."""

    number: int
    command: Command = field(repr=False)


@dataclass(frozen=True)
class BadConfig:
    """A file that the config names cannot be used: no host can be asked."""

    problems: tuple[str, ...]


class Beat:
    """The worker is alive."""
