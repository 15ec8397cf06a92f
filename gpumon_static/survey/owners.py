"""The owners of processes, and who holds which GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gpumon_static.model import Gpu, Process
from gpumon_static.text import clip

USER_LETTERS = 32
UNKNOWN = "unknown user"
"""In the place of a name."""


class Owner(NamedTuple):
    name: str
    is_name: bool
    """False for words of ours in the place of a name."""

    @property
    def is_somebody(self) -> bool:
        return self.is_name or self.name != UNKNOWN


def owner(process: Process) -> Owner:
    if process.user is not None:
        return Owner(process.user, True)
    if process.uid is not None:
        return Owner(f"uid {process.uid}", False)
    return Owner(UNKNOWN, False)


def shown_owner(process: Process) -> Owner:
    """With no more letters than a page has room for."""
    whole = owner(process)
    return whole if len(whole.name) <= USER_LETTERS else whole._replace(name=clip(whole.name, USER_LETTERS))


def owner_of_job(gpu: Gpu) -> Owner:
    """Of the Slurm job that has the GPU."""
    name = gpu.allocation.user
    return Owner(clip(name, USER_LETTERS), not name.startswith("uid ")) if name else Owner(UNKNOWN, False)


def by_owner(processes: Iterable[Process]) -> list[tuple[Owner, list[Process]]]:
    """The owners, as the page shows them, with their processes, most memory first."""
    found: dict[Owner, list[Process]] = {}
    for process in processes:
        found.setdefault(shown_owner(process), []).append(process)
    return sorted(found.items(), key=lambda item: (-sum(p.memory_mib or 0 for p in item[1]), item[0].name))
