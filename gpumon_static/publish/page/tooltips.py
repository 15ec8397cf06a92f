"""The tooltip of a card: its users, its processes and its facts. Capped, whatever a host lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from gpumon_static.bounds.vendors import vendor_of
from gpumon_static.config.settings import BusyConfig
from gpumon_static.model import GONE, Allocated, Gpu, MigDevice, Process, rules
from gpumon_static.publish.page.records import Fact, FaultRow, JobFact, ProcessRow, Tooltip, UserRow
from gpumon_static.publish.page.words import memory
from gpumon_static.survey.owners import USER_LETTERS, Owner, by_owner, owner
from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.state import Slice, ghost_mib, gone_mib
from gpumon_static.text import DASH, clip, count
from gpumon_static.times import by_minute

MOST_ROWS = 10
SHARED = "shared with the CPU"
TEXT_LETTERS = 96
LINE_LETTERS = 200
AT_WORK_PERCENT = 50
SLOW_STATES = {f"P{number}" for number in range(5, 16)}
"""Performance states in which no GPU of NVIDIA computes for long."""


def build_tooltip(gpu: Gpu, cut: Slice | None, tier: Tier, busy: BusyConfig) -> Tooltip:
    mig = cut.mig if cut else None
    processes = mig.processes if mig else gpu.processes
    owners = by_owner(processes) if processes else []
    counted = _counted(len(processes), len(owners)) if tier is Tier.COUNTS and processes else None
    if counted:
        processes, owners = (), []
    ranked = sorted(processes, key=_by_memory) if len(processes) > 1 else processes
    uuid = mig.uuid if mig else gpu.uuid
    return Tooltip(
        model=clip(gpu.name or "unknown model", TEXT_LETTERS),
        users=tuple([_user_row(who, held) for who, held in owners[:MOST_ROWS]]),
        more_users=max(0, len(owners) - MOST_ROWS),
        processes=tuple([_process_row(p) for p in ranked[:MOST_ROWS]]),
        more_processes=max(0, len(ranked) - MOST_ROWS),
        no_processes=None if processes else counted or _no_processes(gpu),
        uuid=clip(uuid, TEXT_LETTERS) if uuid else None,
        fan_percent=gpu.fan_percent,
        power_limit_w=gpu.power_limit_w,
        temperature_limit_c=gpu.temperature_limit_c,
        facts=(
            *_slurm_facts(gpu),
            *_own_number(gpu),
            *_slice_facts(gpu, mig, tier),
            *_ghost_facts(gpu, cut, busy),
            *_slow_facts(gpu),
            *_serial(gpu),
        ),
        faults=_fault_rows(gpu) if gpu.faults else (),
        job=_job_fact(gpu, tier) if gpu.allocation.allocated is Allocated.YES else None,
    )


def _by_memory(process: Process) -> tuple[bool, float, int]:
    return process.memory_mib is None, -(process.memory_mib or 0), process.pid


def _fault_rows(gpu: Gpu) -> tuple[FaultRow, ...]:
    faults = rules.marked(gpu.faults)
    return tuple(
        FaultRow(
            word=clip(rules.word(fault.rule), TEXT_LETTERS),
            detail=clip(fault.detail, TEXT_LETTERS) if fault.detail else "",
            explanation=rules.explanation(fault.rule),
            is_fault=fault in faults,
        )
        for fault in gpu.faults
    )


def _counted(processes: int, users: int) -> str:
    return f"{count_of_processes(processes)} of {count(users, 'user')}."


def _user_row(who: Owner, processes: Sequence[Process]) -> UserRow:
    known = [p.memory_mib for p in processes if p.memory_mib is not None]
    total = round(sum(known)) if known else None
    return UserRow(who.name, who.is_name, total, 0 < len(known) < len(processes), len(processes))


def count_of_processes(number: int) -> str:
    return count(number, "process", "processes")


def _process_row(process: Process) -> ProcessRow:
    user, is_name = owner(process)
    return ProcessRow(
        pid=process.pid,
        user=clip(user, USER_LETTERS),
        is_name=is_name,
        name=clip(process.name or DASH, TEXT_LETTERS),
        memory_mib=None if process.memory_mib is None else round(process.memory_mib),
        elapsed_s=process.elapsed_s,
        job=clip(process.job, TEXT_LETTERS) if process.job else None,
        is_gone=process.state == GONE,
        command_line=clip(process.command_line, LINE_LETTERS) if process.command_line else None,
    )


def _no_processes(gpu: Gpu) -> str:
    if not gpu.processes_known:
        return "The driver gives no list of processes here."
    return "No processes."


def _own_number(gpu: Gpu) -> list[Fact]:
    if not gpu.device:
        return []
    return [Fact(f"{vendor_of(gpu.vendor).word}'s number", clip(gpu.device, USER_LETTERS))]


def _slice_facts(gpu: Gpu, mig: MigDevice | None, tier: Tier) -> list[Fact]:
    facts = [Fact("Memory", SHARED)] if gpu.memory_shared else []
    facts += [Fact("Profile", clip(mig.profile, USER_LETTERS))] if mig and mig.profile else []
    if gpu.slices and gpu.processes:
        names = [name for (name, _), _ in by_owner(gpu.processes)]
        listed = ", ".join(names[:3]) + (f" + {len(names) - 3} more" if len(names) > 3 else "")
        listed = count(len(names), "user") if tier is Tier.COUNTS else listed
        facts.append(Fact("In no slice", f"{count_of_processes(len(gpu.processes))} of {listed}"))
    return facts


def _ghost_facts(gpu: Gpu, cut: Slice | None, busy: BusyConfig) -> list[Fact]:
    """Memory that is in use by no process of any user."""
    unaccounted = ghost_mib(gpu, cut, busy)
    shown = cut.mig if cut else gpu
    gone, total = gone_mib(shown.processes), shown.memory_total_mib
    facts = [Fact("Held by no process", str(memory(unaccounted, total)))] if unaccounted else []
    facts += [Fact("Held by processes that ended", str(memory(gone, total)))] if gone else []
    if cut and (more := len(cut.instance.slices) - 1):
        numbers = ", ".join(str(other.index) for other in islice(cut.beside(), MOST_ROWS))
        rest = f" + {more - MOST_ROWS} more" if more > MOST_ROWS else ""
        facts.append(Fact("Memory shared with", f"slice {numbers}{rest}"))
    if cut:
        facts.append(Fact("Utilization", "not reported per slice"))
    return facts


def _slow_facts(gpu: Gpu) -> list[Fact]:
    """What slows a GPU down that works: at rest, a low clock and a slow link are how it should be."""
    if (gpu.utilization or 0) < AT_WORK_PERCENT:
        return []
    facts = []
    if gpu.performance_state in SLOW_STATES:
        at = f" at {gpu.clock_sm_mhz:.0f} MHz" if gpu.clock_sm_mhz is not None else ""
        facts.append(Fact("Performance state", f"{gpu.performance_state}{at}"))
    now, most = gpu.pcie_generation, gpu.pcie_generation_max
    if now is not None and most is not None and now < most:
        facts.append(Fact("PCIe", f"generation {now} of {most}"))
    return facts


def _serial(gpu: Gpu) -> list[Fact]:
    """Of a GPU with a fault: a replacement is asked for with it."""
    wanted = gpu.serial and rules.marked(gpu.faults)
    return [Fact("Serial number", clip(gpu.serial or "", USER_LETTERS))] if wanted else []


def _slurm_facts(gpu: Gpu) -> list[Fact]:
    unknown = gpu.allocation.allocated is Allocated.UNKNOWN
    return [Fact("Slurm", "does not report whether a job has it")] if unknown else []


def _job_fact(gpu: Gpu, tier: Tier) -> JobFact:
    given = gpu.allocation
    who = f"of {given.user}" if given.user and tier is not Tier.COUNTS else ""
    named = f"({given.job_name})" if given.job_name else ""
    whose = clip(f"{named} {who}".strip(), TEXT_LETTERS)
    return JobFact(clip(given.job or "", USER_LETTERS), whose, ends_seconds(given.ends_at))


def ends_seconds(at: datetime | None) -> int | None:
    """For the browser, which shows minutes."""
    return int(by_minute(at).timestamp()) if at else None
