"""What a card tells when asked: its users, its processes and its facts. Capped, whatever a host lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpumon_static.model import GONE, Gpu, MigDevice, Process
from gpumon_static.publish.page import Fact, ProcessRow, Quantity, Tooltip, UserRow
from gpumon_static.publish.words import (
    DASH,
    NOT_KNOWN,
    clip,
    duration,
    memory,
    memory_of,
    percent,
    power_of,
    rounded,
)

MOST_ROWS = 10
USER_LETTERS = 32
TEXT_LETTERS = 96


def owner(process: Process) -> tuple[str, bool]:
    """Who a process belongs to, and whether that is a name or words of ours."""
    if process.user is not None:
        return clip(process.user, USER_LETTERS), True
    if process.uid is not None:
        return f"uid {process.uid}", False
    return ("gone" if process.state == GONE else "unknown user"), False


def by_owner(processes: Iterable[Process]) -> list[tuple[tuple[str, bool], list[Process]]]:
    """The owners with their processes, most memory first."""
    found: dict[tuple[str, bool], list[Process]] = {}
    for process in processes:
        found.setdefault(owner(process), []).append(process)
    return sorted(found.items(), key=lambda item: (-sum(p.memory_mib or 0 for p in item[1]), item[0][0]))


def build_tooltip(host: str, gpu: Gpu, mig: MigDevice | None = None) -> Tooltip:
    processes = mig.processes if mig else gpu.processes
    owners = by_owner(processes)
    ranked = sorted(processes, key=lambda p: (p.memory_mib is None, -(p.memory_mib or 0), p.pid))
    title = f"{host} · GPU {gpu.index}"
    return Tooltip(
        title=f"{title} · slice {mig.index}" if mig else title,
        model=clip(gpu.name or "unknown model", TEXT_LETTERS),
        users=tuple(_user_row(who, held) for who, held in owners[:MOST_ROWS]),
        more_users=max(0, len(owners) - MOST_ROWS),
        processes=tuple(_process_row(p) for p in ranked[:MOST_ROWS]),
        more_processes=max(0, len(ranked) - MOST_ROWS),
        no_processes=None if processes else _no_processes(gpu),
        facts=(*_memory_facts(gpu, mig), *_board_facts(gpu, mig)),
    )


def _user_row(who: tuple[str, bool], processes: Sequence[Process]) -> UserRow:
    return UserRow(who[0], who[1], _sum(processes), count_of_processes(len(processes)))


def count_of_processes(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


def _sum(processes: Sequence[Process]) -> Quantity:
    known = [p.memory_mib for p in processes if p.memory_mib is not None]
    if not known:
        return NOT_KNOWN
    total = memory(sum(known))
    return total if len(known) == len(processes) else Quantity(f"≥ {total.number}", total.unit)


def _process_row(process: Process) -> ProcessRow:
    user, is_name = owner(process)
    return ProcessRow(
        pid=process.pid,
        user=user,
        is_name=is_name,
        name=clip(process.name or DASH, TEXT_LETTERS),
        memory=memory(process.memory_mib),
        runtime=duration(process.elapsed_s),
        job=clip(process.job, TEXT_LETTERS) if process.job else None,
        is_gone=process.state == GONE,
    )


def _no_processes(gpu: Gpu) -> str:
    if not gpu.processes_known:
        return "nvidia-smi gives no list of processes here."
    return "No processes."


def _memory_facts(gpu: Gpu, mig: MigDevice | None) -> list[Fact]:
    used, total = (
        (mig.memory_used_mib, mig.memory_total_mib) if mig else (gpu.memory_used_mib, gpu.memory_total_mib)
    )
    free = total - used if used is not None and total is not None else None
    facts = [Fact("Memory free", str(memory_of(free, total)) if free is not None else DASH)]
    if mig and mig.profile:
        facts.append(Fact("Profile", clip(mig.profile, USER_LETTERS)))
    if gpu.slices and gpu.processes:
        names = [name for (name, _), _ in by_owner(gpu.processes)]
        listed = ", ".join(names[:3]) + (f" + {len(names) - 3} more" if len(names) > 3 else "")
        facts.append(Fact("In no slice", f"{count_of_processes(len(gpu.processes))} of {listed}"))
    return facts


def _board_facts(gpu: Gpu, mig: MigDevice | None) -> list[Fact]:
    uuid = mig.uuid if mig else gpu.uuid
    return [
        Fact("Temperature", str(rounded(gpu.temperature_c, "°C"))),
        Fact("Fan", str(percent(gpu.fan_percent))),
        Fact("Power", str(power_of(gpu.power_w, gpu.power_limit_w))),
        Fact("UUID", clip(uuid, TEXT_LETTERS) if uuid else DASH),
    ]
