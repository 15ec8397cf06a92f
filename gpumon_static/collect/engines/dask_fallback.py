"""Hosts that no Dask worker can read, read by the collector itself, with its own files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gpumon_static.collect import gate
from gpumon_static.collect.engines import processes
from gpumon_static.collect.engines.shards import processes_for
from gpumon_static.collect.readers import Note, ReaderFactory
from gpumon_static.config.host_sections import unreadable_files
from gpumon_static.config.settings import FetchConfig, HostConfig
from gpumon_static.errors import ConfigError
from gpumon_static.model import HostReading, Status


class OwnReaders:
    def __init__(
        self,
        factory: ReaderFactory,
        config: FetchConfig,
        end: float,
        on_reading: Callable[[HostReading], None],
        on_note: Note,
    ) -> None:
        self._factory = factory
        self._config = config
        self._end = end
        self._on_reading = on_reading
        self._on_note = on_note
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_over = False
        self.hosts: set[str] = set()
        """Those that were begun."""

    def start(self, hosts: Sequence[HostConfig], reason: str) -> None:
        """`reason`: why no worker reads them."""
        self.hosts |= {host.name for host in hosts}
        loop = asyncio.get_running_loop()

        def call(function: Callable[..., None], *given: Any) -> None:
            loop.call_soon_threadsafe(function, *given)

        usable = [host for host in hosts if not any(unreadable_files([host]))]
        for host in hosts:
            if host not in usable:
                message = f"no worker: {reason}; the collector has no key for it"
                self._on_reading(gate.failure(host.name, self._factory.clock(), Status.ERROR, message))
        if usable:
            self._tasks.add(asyncio.create_task(asyncio.to_thread(self._read, usable, reason, call)))

    async def wait(self, seconds: float) -> None:
        """Until some are read, or so many seconds."""
        if self._tasks:
            done, _ = await asyncio.wait(self._tasks, timeout=seconds)
            self._tasks -= done
            # What they have called from their threads comes next.
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(seconds)

    async def close(self) -> None:
        self._is_over = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=processes.SHUTDOWN_S + 1.0)

    def _read(self, hosts: Sequence[HostConfig], reason: str, call: Callable[..., None]) -> None:
        factory = replace(self._factory, hosts=tuple(hosts))
        try:
            processes.ask(
                factory,
                self._config,
                processes_for(len(hosts), self._config.processes),
                lambda reading: call(self._on_reading, reading),
                seconds=max(0.1, self._end - time.monotonic()),
                is_wanted=lambda: not self._is_over,
                on_note=lambda host, what: call(self._on_note, host, what),
            )
        except processes.Unwanted:
            return
        except (ConfigError, processes.CannotStart) as error:
            why = "; ".join(error.problems) if isinstance(error, ConfigError) else "cannot start a process"
            for host in hosts:
                message = f"no worker: {reason}; the collector: {why}"
                call(self._on_reading, gate.failure(host.name, factory.clock(), Status.ERROR, message))
