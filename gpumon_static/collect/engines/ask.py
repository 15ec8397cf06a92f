"""Ask hosts: the one door to the engines, for `fetch` and for `show --live`."""

from __future__ import annotations

import os
from collections.abc import Callable

from gpumon_static.collect.engines import processes, threads
from gpumon_static.collect.readers import ReaderFactory
from gpumon_static.config.settings import FetchConfig
from gpumon_static.model import HostReading

MANY_HOSTS = 200
"""From this many hosts on, one process per core is used."""

OnReading = Callable[[HostReading], None]


def ask(
    factory: ReaderFactory, config: FetchConfig, *, on_reading: OnReading = lambda _: None
) -> list[HostReading]:
    """Exactly one reading for each of the factory's hosts, in their order, by the deadline.

    Even a small lab is asked by a process of its own: a host whose answer cannot be read in time costs that
    process, and not the run. Raises `ConfigError` where a file that the config names cannot be used.
    """
    count = processes_for(len(factory.hosts), config.processes)
    try:
        return processes.ask(factory, config, count, on_reading)
    except processes.CannotStart:
        # No process can be started: readings without that protection are better than none.
        return threads.ask(factory, config, on_reading=on_reading)


def processes_for(hosts: int, wanted: int) -> int:
    """`wanted`: `fetch.processes`; 0 chooses."""
    return min(hosts, wanted or (len(os.sched_getaffinity(0)) if hosts >= MANY_HOSTS else 1)) or 1
