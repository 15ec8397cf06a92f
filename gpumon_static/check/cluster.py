"""What a check finds of the Dask cluster: workers, their versions, and hosts that none of them may ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpumon_static.check.findings import Finding, Hint, Mark
from gpumon_static.collect.engines.ask import dask_workers
from gpumon_static.config.settings import FetchConfig, HostConfig
from gpumon_static.errors import GpumonError
from gpumon_static.system.command import Command
from gpumon_static.text import count

if TYPE_CHECKING:
    from gpumon_static.collect.engines.dask_cluster import DaskWorker

STEP = "engine"


def look_at_cluster(config: FetchConfig, hosts: Sequence[HostConfig]) -> Iterator[Finding]:
    try:
        workers = dask_workers(config)
    except GpumonError as error:
        yield Finding(
            STEP,
            Mark.FAILED,
            str(error),
            (Hint("is it running?", Command.of("systemctl", "status", "dask-scheduler")),),
        )
        return
    good = [worker for worker in workers if worker.is_ours]
    named = ", ".join(sorted(map(_with_resources, good)))
    message = f"Dask, {config.scheduler}: {count(len(good), 'worker')}{': ' if named else ''}{named}"
    yield Finding(STEP, Mark.OK if good else Mark.FAILED, message, () if good else (_start_line(config),))
    for worker in workers:
        if not worker.is_ours:
            yield Finding(
                STEP,
                Mark.WARNING,
                f"{worker.trouble}: it is not used",
                (Hint("on its machine:", worker.fix),),
            )
    for label, number in Counter(host.worker for host in hosts if host.worker).items():
        if not any(worker.may_ask(label) for worker in good):
            message = f'no Dask worker has the resource "{label}": {count(number, "host")} cannot be asked'
            yield Finding(STEP, Mark.FAILED, message, (_start_line(config, label),))


def _with_resources(worker: DaskWorker) -> str:
    return f"{worker.name} ({', '.join(sorted(worker.resources))})" if worker.resources else worker.name


def _start_line(config: FetchConfig, label: str = "") -> Hint:
    resources = ("--resources", f"{label}=1") if label else ()
    start = Command.of("dask", "worker", config.scheduler or "", *resources)
    return Hint("on a machine that reaches them:", start)
