"""What a check finds of each Slurm: whether it answers, and whether it knows the hosts of the lab."""

from __future__ import annotations

from collections.abc import Iterator

from gpumon_static.check.findings import Finding, Hint, Mark
from gpumon_static.collect.engines.ask import ask
from gpumon_static.collect.readers import ReaderFactory
from gpumon_static.collect.slurm.join import node_of
from gpumon_static.config.settings import Config, SlurmCluster
from gpumon_static.errors import GpumonError
from gpumon_static.model import HostReading, SlurmAnswer
from gpumon_static.system.command import Command
from gpumon_static.text import count
from gpumon_static.times import Clock

MOST_NAMED = 5


def look_at_slurm(config: Config, clock: Clock) -> Iterator[Finding]:
    if not config.clusters:
        return
    factory = ReaderFactory(config.path, tuple(cluster.asked for cluster in config.clusters), clock)
    try:
        readings = ask(factory, config.fetch)
    except GpumonError as error:
        yield Finding("slurm", Mark.FAILED, str(error))
        return
    for cluster, reading in zip(config.clusters, readings, strict=True):
        yield _finding(config, cluster, reading)


def _finding(config: Config, cluster: SlurmCluster, reading: HostReading) -> Finding:
    if reading.slurm is None:
        message = f"{cluster.asked.alias}: {reading.status}: {reading.error}"
        return Finding("slurm", Mark.FAILED, message, _next(cluster))
    answer = reading.slurm
    waited = sum(one.gpus for one in answer.waiting)
    message = (
        f"{cluster.asked.alias}: Slurm {answer.version or 'of an unknown version'},"
        f" {count(len(answer.nodes), 'node')} with GPUs, {count(len(answer.jobs), 'job')} on them,"
        f" {count(waited, 'GPU')} waited for"
    )
    message += f"; {reading.note}" if reading.note else ""
    if strangers := _strangers(config, cluster, answer):
        named = ", ".join(strangers[:MOST_NAMED]) + (" ..." if len(strangers) > MOST_NAMED else "")
        fix = Hint('name the node: [hosts.NAME] slurm = "..."; or Slurm hides it (PrivateData)')
        return Finding("slurm", Mark.WARNING, f"{message}; it does not list {named}", (fix, *_next(cluster)))
    return Finding("slurm", Mark.OK, message)


def _strangers(config: Config, cluster: SlurmCluster, answer: SlurmAnswer) -> list[str]:
    """Hosts that it should know: those of `hosts`, or all where it knows none."""
    known = {host.name: node_of(host.name, host, answer) for host in config.hosts}
    expected = cluster.hosts or (() if any(known.values()) else known.keys())
    return [name for name in known if name in expected and known[name] is None]


def _next(cluster: SlurmCluster) -> tuple[Hint, ...]:
    look = Command.constant("scontrol ping; scontrol -o -d show node | head -3")
    return (Hint(f"on {cluster.asked.alias}:", look),)
