"""Slurm's answers joined to the readings: which job has which GPU, until when, which host takes jobs.

That a GPU is given to a job is the node's own word. Which job it is: by the job id in the cgroup of its
processes first; by Slurm's number of the GPU only where it has no process, because nvidia-smi may count
differently. What Slurm hides (PrivateData) or
does not answer is unknown, never free. Of jobs that share a GPU the one that ends
last counts, because the GPU is not free before; one whose end is not known is last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpumon_static.config.settings import Config, HostConfig, SlurmCluster
from gpumon_static.model import (
    Allocated,
    Allocation,
    Gpu,
    HostReading,
    JobGpus,
    NodeState,
    SlurmAnswer,
    SlurmJob,
    SlurmNode,
)

JOB = "slurm:"
UNKNOWN = Allocation(Allocated.UNKNOWN)
FREE = Allocation(Allocated.NO)


@dataclass(frozen=True)
class _OnNode:
    """A node, and the jobs that have GPUs of it."""

    node: SlurmNode
    jobs: list[tuple[SlurmJob, JobGpus]] = field(default_factory=list)


def join(
    readings: Sequence[HostReading],
    answers: Mapping[str, HostReading],
    config: Config,
    last_nodes: Mapping[str, str] | None = None,
) -> list[HostReading]:
    """`answers`: by the name under which each cluster was asked. Of hosts of one that failed nothing is free.

    `last_nodes`: hosts that were nodes in the run before, and their names in Slurm.
    """
    hosts = {host.name: host for host in config.hosts}
    joined = {reading.host: reading for reading in readings}
    before = last_nodes or {}
    for cluster in config.clusters:
        answered = answers.get(cluster.asked.name)
        if answered is None or answered.slurm is None:
            named = {host.name for host in config.hosts if host.slurm}
            # Where it is not known which hosts it manages, it may be any.
            managed = cluster.hosts or {*before, *named} or joined.keys()
            joined |= {
                name: _unanswered(joined[name], before.get(name)) for name in managed if name in joined
            }
            continue
        nodes = _nodes(answered.slurm)
        for name in cluster.hosts or joined.keys():
            if name in joined and (found := _joined(joined[name], hosts.get(name), nodes, cluster)):
                joined[name] = found
    return list(joined.values())


def node_of(name: str, host: HostConfig | None, answer: SlurmAnswer) -> SlurmNode | None:
    """The node that is this host."""
    found = _node(name, host, _nodes(answer))
    return found.node if found else None


def _node(name: str, host: HostConfig | None, nodes: Mapping[str, _OnNode]) -> _OnNode | None:
    return nodes.get(_short((host and host.slurm) or name))


def _nodes(answer: SlurmAnswer) -> dict[str, _OnNode]:
    """By the node's name and by its host name, without domain."""
    by_name = {node.name: _OnNode(node) for node in answer.nodes}
    for job in answer.jobs:
        for gpus in job.gpus:
            if gpus.node in by_name:
                by_name[gpus.node].jobs.append((job, gpus))
    # Several nodes may run on one host: its name stands for none of them then.
    hosts = Counter(node.host_name for node in answer.nodes)
    found = {
        _short(on_node.node.host_name): on_node
        for on_node in by_name.values()
        if on_node.node.host_name and hosts[on_node.node.host_name] == 1
    }
    return found | {_short(name): on_node for name, on_node in by_name.items()}


def _short(name: str) -> str:
    return name.partition(".")[0].lower()


def _joined(
    reading: HostReading, host: HostConfig | None, nodes: Mapping[str, _OnNode], cluster: SlurmCluster
) -> HostReading | None:
    on_node = _node(reading.host, host, nodes)
    if on_node is None:
        is_expected = bool(cluster.hosts) or bool(host and host.slurm)
        # PrivateData hides nodes too.
        hidden = tuple(replace(gpu, allocation=UNKNOWN) for gpu in reading.gpus)
        return replace(reading, gpus=hidden) if is_expected else None
    node = on_node.node
    on_node = _OnNode(node, [(job, _believed(gpus, node)) for job, gpus in on_node.jobs])
    about = NodeState(node.name, node.state, node.reason, node.takes_jobs, node.kind)
    given = _Given(reading.gpus, on_node, cluster)
    return replace(reading, node=about, gpus=tuple(given.with_allocations()))


def _unanswered(reading: HostReading, node: str | None) -> HostReading:
    """Of a host whose Slurm does not answer: a GPU without a process may be given to a job."""
    hidden = tuple(replace(gpu, allocation=UNKNOWN) for gpu in reading.gpus)
    return replace(reading, node=NodeState(node), gpus=hidden)


def _believed(gpus: JobGpus, node: SlurmNode) -> JobGpus:
    """The GPUs of a job where its node has so many, and these, in use: users' texts are in its record."""
    too_many = node.gpus_used is not None and gpus.count > node.gpus_used
    elsewhere = node.used is not None and not set(gpus.indexes) <= set(node.used)
    return JobGpus(gpus.node, 0, parts=gpus.parts) if too_many or elsewhere else gpus


class _Given:
    """The GPUs of one host, while they are given to jobs."""

    def __init__(self, gpus: Sequence[Gpu], on_node: _OnNode, cluster: SlurmCluster) -> None:
        self._gpus = {gpu.index: gpu for gpu in gpus}
        self._node = on_node.node
        self._jobs = on_node.jobs
        self._cluster = cluster
        self._found: dict[int, Allocation] = {}
        self._is_clear = not on_node.node.is_shared
        """It is known of each GPU whether a job has it."""

    def with_allocations(self) -> Iterator[Gpu]:
        by_process = self._by_process()
        for job, gpus in self._jobs:
            left = gpus.count - by_process.pop(job.id, 0)
            self._by_number(left, gpus.indexes, self._allocation(job))
        self._hidden(sum(by_process.values()))
        rest = FREE if self._is_clear else UNKNOWN
        for gpu in self._gpus.values():
            found = self._found.get(gpu.index) or (Allocation(Allocated.YES) if _jobs(gpu) else rest)
            if gpu.slices and not self._is_clear:
                # Which of its slices are given to a job is not known.
                found = replace(found, allocated=Allocated.UNKNOWN)
            yield replace(gpu, allocation=found)

    def _by_process(self) -> dict[str, int]:
        """Jobs by the cgroups of processes: on how many GPUs each is seen, also those that Slurm hides."""
        known = {job.id: job for job, _ in self._jobs}
        seen: dict[str, int] = {}
        for gpu in self._gpus.values():
            for number in _jobs(gpu):
                # A slice is a GPU to Slurm.
                places = sum(f"{JOB}{number}" in {p.job for p in mig.processes} for mig in gpu.slices) or 1
                seen[number] = seen.get(number, 0) + places
            if any(number in known for number in _jobs(gpu)):
                self._found[gpu.index] = self._shared(gpu, known)
        return seen

    def _shared(self, gpu: Gpu, known: Mapping[str, SlurmJob]) -> Allocation:
        """By the jobs of its processes, and by those that Slurm lists on the same GPU."""
        listed = [known[number] for number in _jobs(gpu) if number in known]
        beside = [other for job in listed for other in self._beside(job, gpu.index)]
        found = max(map(self._allocation, listed + beside), key=_last)
        is_hidden = len(listed) < len(_jobs(gpu))
        return replace(found, ends_at=None) if is_hidden else found

    def _beside(self, job: SlurmJob, index: int) -> Iterator[SlurmJob]:
        """The jobs that have a number of this one: that of the GPU, or any where Slurm counts differently."""
        own = {number for one, gpus in self._jobs if one.id == job.id for number in gpus.indexes + gpus.parts}
        at = {number for number in own if self._index(number) == index} or own
        return (other for other, gpus in self._jobs if at.intersection(gpus.indexes + gpus.parts))

    def _by_number(self, left: int, numbers: Iterable[int], allocation: Allocation) -> None:
        """Give the GPUs without a process to a job that has more than are seen of it."""
        # Slurm counts slices as well: its numbers are not those of GPUs then.
        is_cut = any(gpu.slices for gpu in self._gpus.values())
        for number in () if is_cut else numbers:
            gpu = self._gpus.get(self._index(number))
            if left > 0 and gpu and not _works(gpu):
                self._found[gpu.index] = max(self._found.get(gpu.index, allocation), allocation, key=_last)
                left -= 1
        if left > 0:
            self._is_clear = False

    def _hidden(self, seen: int) -> None:
        """The GPUs of jobs that Slurm does not show us. `seen`: those on which a process shows such a job."""
        listed = sum(gpus.count for _, gpus in self._jobs)
        if self._node.gpus_used is None:
            # An idle node has none in use, and prints nothing about it.
            is_idle = (self._node.state or "").startswith("IDLE")
            self._is_clear = self._is_clear and (is_idle or bool(self._jobs))
            return
        numbers = {number for _, gpus in self._jobs for number in gpus.indexes}
        hidden = [number for number in self._node.used or () if number not in numbers]
        self._by_number(self._node.gpus_used - listed - seen, hidden, Allocation(Allocated.YES))

    def _index(self, number: int) -> int:
        """nvidia-smi's index of a GPU, from Slurm's number."""
        order = self._cluster.order
        return order[number] if number < len(order) else number

    def _allocation(self, job: SlurmJob) -> Allocation:
        name = job.name if self._cluster.job_names else None
        return Allocation(
            Allocated.YES, job.id, name, job.user, job.started_at, job.ends_at, job.partition, job.account
        )


def _jobs(gpu: Gpu) -> list[str]:
    """The ids of the Slurm jobs whose processes are on it."""
    jobs = (p.job for p in gpu.all_processes if p.job and p.job.startswith(JOB) and not p.is_graphics_only)
    return list(dict.fromkeys(job.removeprefix(JOB) for job in jobs))


def _works(gpu: Gpu) -> bool:
    return any(not process.is_graphics_only for process in gpu.processes)


def _last(allocation: Allocation) -> float:
    return allocation.ends_at.timestamp() if allocation.ends_at else float("inf")
