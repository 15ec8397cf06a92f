"""Small readings for tests: every argument has a plain default, so a test names only what it is about."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpumon_static.config.settings import BusyConfig, Config, FetchConfig, HostConfig, PathsConfig, SiteConfig
from gpumon_static.model import Gpu, HostReading, MigDevice, Process, Status

READ_AT = datetime(2025, 11, 14, 9, 10, tzinfo=UTC)
NOW = datetime(2025, 11, 14, 9, 12, tzinfo=UTC)


def process(pid: int = 4711, **changes: Any) -> Process:
    given: dict[str, Any] = {
        "type": "C",
        "name": "python",
        "memory_mib": 40960.0,
        "user": "alice",
        "elapsed_s": 3 * 3600,
    }
    return Process(pid, **(given | changes))


def gpu(index: int = 0, **changes: Any) -> Gpu:
    """An A100 that nobody uses."""
    given: dict[str, Any] = {
        "uuid": f"GPU-0000000{index}-1111-2222-3333-444444444444",
        "name": "NVIDIA A100-SXM4-80GB",
        "utilization": 0.0,
        "memory_used_mib": 4.0,
        "memory_total_mib": 81920.0,
        "temperature_c": 31.0,
        "fan_percent": None,
        "power_w": 52.0,
        "power_limit_w": 400.0,
        "temperature_limit_c": 83.0,
    }
    return Gpu(index, **(given | changes))


def busy_gpu(index: int = 0, **changes: Any) -> Gpu:
    """The same, working for alice."""
    given: dict[str, Any] = {"utilization": 97.0, "memory_used_mib": 41000.0, "processes": (process(),)}
    return gpu(index, **(given | changes))


def slices(count: int, *busy: int) -> tuple[MigDevice, ...]:
    """So many slices of 10 GB; those whose index is in `busy` have a process."""
    return tuple(
        MigDevice(
            index=index,
            gpu_instance=index + 7,
            compute_instance=0,
            uuid=f"MIG-{index}",
            profile="1g.10gb",
            memory_used_mib=5000.0 if index in busy else 10.0,
            memory_total_mib=9728.0,
            processes=(process(user="mia", memory_mib=4990.0),) if index in busy else (),
        )
        for index in range(count)
    )


def reading(host: str = "node1", gpus: Iterable[Gpu] = (), **changes: Any) -> HostReading:
    given: dict[str, Any] = {"fetched_at": READ_AT, "driver_version": "550.90.07", "cuda_version": "12.4"}
    return HostReading(host, gpus=tuple(gpus), **(given | changes))


def failed(host: str, status: Status = Status.TIMEOUT, error: str = "no answer within 10 s") -> HostReading:
    return HostReading(host, READ_AT, status, error)


def host_config(name: str, **changes: Any) -> HostConfig:
    given: dict[str, Any] = {
        "address": name,
        "user": None,
        "port": None,
        "key_filename": None,
        "connect_timeout": 10.0,
        "command_timeout": 30.0,
        "transport": "paramiko",
        "host_keys": "strict",
        "known_hosts": Path("known_hosts"),
    }
    return HostConfig(name, **(given | changes))


def config(*hosts: HostConfig | str, title: str = "GPU Monitor", refresh: int = 0) -> Config:
    return Config(
        path=Path("config.ini"),
        hosts=tuple(host_config(host) if isinstance(host, str) else host for host in hosts),
        fetch=FetchConfig(),
        paths=PathsConfig(Path("data"), Path("site")),
        busy=BusyConfig(),
        site=SiteConfig(title, refresh),
    )
