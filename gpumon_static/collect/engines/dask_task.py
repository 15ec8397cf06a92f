"""What a Dask worker does for a run: read a shard of the hosts, with the files of its own machine.

The shard is read by a supervised worker process, as everywhere: a hostile answer cannot hurt the Dask worker.
It travels as bytes, so that the scheduler, which unpickles what it passes on, makes nothing of it.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpumon_static.collect.engines import processes
from gpumon_static.collect.engines.messages import BEAT_S
from gpumon_static.collect.engines.shards import processes_for
from gpumon_static.collect.readers import ReaderFactory
from gpumon_static.config.host_sections import unreadable_files
from gpumon_static.config.settings import FetchConfig, HostConfig
from gpumon_static.errors import ConfigError
from gpumon_static.model import HostReading
from gpumon_static.text import one_line
from gpumon_static.times import utc_now

TOPIC = "gpumon-static"
MOST_BYTES = 64 * 1024


@dataclass(frozen=True)
class Shard:
    factory: ReaderFactory
    config: FetchConfig
    seconds: float
    """What is left of the deadline."""
    mark: str
    """Of what it sends on the way."""


@dataclass(frozen=True)
class ShardReadings:
    readings: list[HostReading]
    """One per host that was asked."""
    notes: list[tuple[str, Any]]
    refused: dict[str, str]
    """Hosts that this worker cannot ask, and why: another one may."""


def pack(
    factory: ReaderFactory, hosts: Iterable[HostConfig], config: FetchConfig, seconds: float, mark: str
) -> bytes:
    """A path in the home directory of this machine's user becomes one in that of the worker's user."""
    home = str(Path.home()).rstrip("/")

    def without_home(word: str) -> str:
        return "~" + word[len(home) :] if home and word.startswith(home + "/") else word

    theirs = tuple(_with_paths(host, without_home) for host in hosts)
    shard = Shard(replace(factory, hosts=theirs, clock=utc_now), config, seconds, mark)
    return pickle.dumps(shard, pickle.HIGHEST_PROTOCOL)


def unpack(content: bytes) -> HostReading:
    reading: HostReading = pickle.loads(content)  # noqa: S301 (our own worker's)
    return reading


class _Sender:
    """What a shard sends before it is finished: signs of life, and each reading."""

    def __init__(self, worker: Any, mark: str) -> None:
        self._worker = worker
        self._mark = mark
        self._sent = 0.0

    def beat(self) -> None:
        if time.monotonic() - self._sent >= BEAT_S:
            self._send(b"")

    def reading(self, reading: HostReading) -> None:
        content = pickle.dumps(reading, pickle.HIGHEST_PROTOCOL)
        # The scheduler keeps the last thousand; a large one comes with the rest of its shard.
        self._send(content if len(content) <= MOST_BYTES else b"")

    def _send(self, content: bytes) -> None:
        self._sent = time.monotonic()
        self._worker.log_event(TOPIC, (self._mark, content))


def read_shard(content: bytes) -> ShardReadings | str:
    """The readings, or why there is none. Raises nothing: Dask would log it with `content`."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    shard: Shard = pickle.loads(content)  # noqa: S301 (our own collector's)
    sender = _Sender(worker, shard.mark)

    def is_wanted() -> bool:
        sender.beat()
        # The run is over, or gone: Dask has released the task, but cannot end a function that runs.
        task = worker.state.tasks.get(key)
        return task is not None and task.state != "cancelled"

    try:
        return _read(shard, is_wanted, sender.reading)
    except ConfigError as error:
        message = "; ".join(error.problems)
    except processes.CannotStart as error:
        message = f"cannot start a process: {error.__cause__}"
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
    return one_line(f"on the Dask worker {worker.name}: {message}") or ""


def _read(
    shard: Shard, is_wanted: Callable[[], bool], on_reading: Callable[[HostReading], None]
) -> ShardReadings:
    given = [_with_paths(host, _with_home) for host in shard.factory.hosts]
    refused = {host.name: "; ".join(why) for host in given if (why := list(unreadable_files([host])))}
    hosts = tuple(host for host in given if host.name not in refused)
    notes: list[tuple[str, Any]] = []
    if not hosts:
        return ShardReadings([], [], refused)
    readings = processes.ask(
        replace(shard.factory, hosts=hosts),
        shard.config,
        processes_for(len(hosts), shard.config.processes),
        on_reading,
        seconds=shard.seconds,
        is_wanted=is_wanted,
        on_note=lambda host, what: notes.append((host, what)),
    )
    return ShardReadings(readings, notes, refused)


def _with_home(word: str) -> str:
    return str(Path(word).expanduser()) if word.startswith("~/") else word


def _with_paths(host: HostConfig, change: Callable[[str], str]) -> HostConfig:
    def path(given: Path | None) -> Path | None:
        return Path(change(str(given))) if given else None

    def command(given: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return tuple(map(change, given)) if given else None

    return replace(
        host,
        key_filename=path(host.key_filename),
        known_hosts=path(host.known_hosts) or host.known_hosts,
        ssh_config=path(host.ssh_config),
        key_passphrase_command=command(host.key_passphrase_command),
        password_command=command(host.password_command),
    )
