"""The messages between a run and its worker processes, beside the readings themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpumon_static.collect.readers import ReaderFactory
from gpumon_static.collect.ssh.target import SecretCommand

BEAT_S = 2.0
"""Seconds between two signs of life of a worker."""


@dataclass(frozen=True)
class Task:
    factory: ReaderFactory
    threads: int
    processes: int
    """That share what a user may start."""
    deadline: float
    """Seconds left until the deadline of the run."""
    whole_deadline: float
    memory_mib: int
    """Of address space. What is more is a `MemoryError`, and so the `error` of the host that caused it."""


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
    command: SecretCommand = field(repr=False)


@dataclass(frozen=True)
class Limited:
    """A limit of ours leaves room for fewer hosts at once than the config allows."""

    line: str


@dataclass(frozen=True)
class BadConfig:
    """A file that the config names cannot be used: no host can be asked."""

    problems: tuple[str, ...]


class Beat:
    """The worker is alive."""
