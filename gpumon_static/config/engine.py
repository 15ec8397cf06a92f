"""Whether the settings of the engine fit together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from gpumon_static.config.settings import FetchConfig, HostConfig


def engine_problems(fetch: FetchConfig, hosts: Sequence[HostConfig]) -> Iterator[str]:
    if fetch.engine != "dask":
        return
    if not fetch.scheduler:
        yield 'fetch.scheduler: missing; engine = "dask" needs the address of its scheduler'
    elif fetch.scheduler.startswith("tcp:") and not fetch.insecure_scheduler and not _stays_here(fetch):
        yield (
            f"fetch.scheduler: {fetch.scheduler} is not encrypted, and whoever reaches it can run programs on"
            " the workers; use tls://, or set insecure_scheduler = true"
        )
    if any((fetch.tls_ca, fetch.tls_cert, fetch.tls_key)):
        for name in ("tls_ca", "tls_cert", "tls_key"):
            if not getattr(fetch, name):
                yield f"fetch.{name}: missing; tls_ca, tls_cert and tls_key belong together"
    for host in hosts:
        if host.transport == "local" and not host.worker:
            yield (
                f'host {host.name}: read without SSH, but engine = "dask" asks it on any worker; name one'
                " with [hosts.NAME] worker, or set its address"
            )


def _stays_here(fetch: FetchConfig) -> bool:
    name = urlsplit(fetch.scheduler or "").hostname or ""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
