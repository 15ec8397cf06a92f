"""Ask hosts: the one door to the engines, for `fetch`, `show --live` and `check`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpumon_static.collect.engines import processes, threads
from gpumon_static.collect.engines.shards import processes_for
from gpumon_static.collect.readers import Note, ReaderFactory, nobody
from gpumon_static.config.settings import FetchConfig
from gpumon_static.errors import GpumonError
from gpumon_static.model import HostReading
from gpumon_static.text import Say

if TYPE_CHECKING:
    from gpumon_static.collect.engines.dask_cluster import DaskWorker

OnReading = Callable[[HostReading], None]
OnWorkers = Callable[[dict[str, str]], None]
"""Takes the scheduler and the workers of Dask, and why one could not be used; empty where it could."""


def ask(
    factory: ReaderFactory,
    config: FetchConfig,
    *,
    on_reading: OnReading = lambda _: None,
    on_note: Note = nobody,
    say: Say = lambda _: None,
    on_workers: OnWorkers = lambda _: None,
) -> list[HostReading]:
    """Exactly one reading for each of the factory's hosts, in their order, by the deadline.

    Even a small lab is asked by a process of its own: a host whose answer cannot be read in time costs that
    process, and not the run. Raises `ConfigError` where a file that the config names cannot be used, and
    `GpumonError` where the engine is not to be had.
    """
    if config.engine == "dask":
        return _ask_dask(factory, config, on_reading, on_note, say, on_workers)
    if config.engine == "threads":
        return threads.ask(factory, config, on_reading=on_reading, on_note=on_note, say=say)
    try:
        count = processes_for(len(factory.hosts), config.processes)
        return processes.ask(factory, config, count, on_reading, on_note=on_note, say=say)
    except processes.CannotStart:
        # No process can be started: readings without that protection are better than none.
        return threads.ask(factory, config, on_reading=on_reading, on_note=on_note, say=say)


def _ask_dask(
    factory: ReaderFactory,
    config: FetchConfig,
    on_reading: OnReading,
    on_note: Note,
    say: Say,
    on_workers: OnWorkers,
) -> list[HostReading]:
    with _needs_dask():
        from gpumon_static.collect.engines import dask_run
    return dask_run.ask(factory, config, on_reading, on_note, say, on_workers)


def dask_workers(config: FetchConfig) -> list[DaskWorker]:
    """The workers of the cluster, whatever their version; raises `GpumonError`."""
    with _needs_dask():
        from gpumon_static.collect.engines import dask_cluster
    return dask_cluster.workers(config)


@contextmanager
def _needs_dask() -> Iterator[None]:
    """Dask takes a second to import, and is not installed by default."""
    try:
        yield
    except ModuleNotFoundError as error:
        message = 'engine = "dask" needs Dask: pip install "gpumon-static[dask]"'
        raise GpumonError(message) from error
