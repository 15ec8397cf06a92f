"""Ask the whole lab: its hosts and its Slurm at the same time, in one run, joined to one set of readings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpumon_static.collect.engines.ask import OnReading, ask
from gpumon_static.collect.readers import ReaderFactory
from gpumon_static.collect.slurm.join import join
from gpumon_static.config.settings import Config, HostConfig
from gpumon_static.model import HostReading
from gpumon_static.text import Say
from gpumon_static.times import Clock


@dataclass(frozen=True)
class LabReadings:
    hosts: list[HostReading]
    """In the order in which they were to be asked."""
    slurm: list[HostReading]
    """One for each cluster of the config, whether it answered or not."""
    workers: dict[str, str] = field(default_factory=dict)
    """The scheduler and the workers of Dask, and why one could not be used."""


def ask_lab(
    config: Config,
    hosts: Iterable[HostConfig],
    clock: Clock,
    *,
    on_reading: OnReading = lambda _: None,
    say: Say = lambda _: None,
    last_nodes: Mapping[str, str] | None = None,
    late: Iterable[str] = (),
) -> LabReadings:
    """Exactly one reading per host, and one per cluster, by the deadline. Raises as `ask` does.

    `last_nodes`: hosts that were Slurm nodes in the run before, and their names there.
    `late`: hosts where that one timed out.
    """
    asked = tuple(cluster.asked for cluster in config.clusters)
    factory = ReaderFactory(config.path, (*asked, *hosts), clock, frozenset(late))
    workers: dict[str, str] = {}
    readings = ask(factory, config.fetch, on_reading=on_reading, say=say, on_workers=workers.update)
    questions = {cluster.name for cluster in asked}
    answers = {reading.host: reading for reading in readings if reading.host in questions}
    others = [reading for reading in readings if reading.host not in questions]
    return LabReadings(join(others, answers, config, last_nodes), list(answers.values()), workers)
