"""The survey as rows of a table: which cells there are, with text and colour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpumon_static.bounds.vendors import vendor_of
from gpumon_static.model import Gpu, Process
from gpumon_static.model.states import State
from gpumon_static.survey.faults import fault_words
from gpumon_static.survey.jobs import Job
from gpumon_static.survey.names import short_model
from gpumon_static.survey.owners import owner
from gpumon_static.survey.slurm.when import clock_time
from gpumon_static.survey.survey import Place, Survey, SurveyedHost
from gpumon_static.survey.totals import Totals, total
from gpumon_static.terminal.amounts import UNITS, memory, percent, percent_of, rounded
from gpumon_static.terminal.layout import Cell, Column, Row
from gpumon_static.text import count, plain
from gpumon_static.times import by_minute, duration

STYLES = {State.FREE: "green", State.BUSY: "", State.HELD: "yellow", State.UNKNOWN: "magenta"}
OWN = "bold cyan"
FAULT = "bold yellow"


@dataclass(frozen=True)
class Look:
    """The options of the view."""

    unit: str = "gib"
    processes: bool = False
    details: bool = False
    seen: bool = False
    me: str = ""
    """Whose processes are marked."""
    every_node: bool = False
    """The host's name in every row, for grep."""
    names: bool = True
    """False: how many users there are, and not who."""
    is_past: bool = False
    """The lab as it was: the survey's time is not now."""


def columns(look: Look) -> list[Column]:
    unit = UNITS[look.unit][0]
    found = [
        Column("node", "Host", least=8, keep_end=True),
        Column("gpu", "GPU", right=True),
        Column("model", "Model", drop=7),
        Column("memory", f"Memory {unit}", right=True),
        Column("share", "Mem", right=True, drop=9),
        Column("utilization", "Util", right=True),
    ]
    if look.details:
        found += [
            Column("fan", "Fan", right=True, drop=8),
            Column("temperature", "Temp", right=True, drop=4),
            Column("power", "Power W", right=True, drop=6),
        ]
    if look.seen:
        found.append(Column("seen", "Seen", right=True, drop=3))
    if not look.processes:
        return [*found, Column("who", "Who", least=18)]
    return [
        *found,
        Column("who", "User", least=11),
        Column("pid", "PID", right=True, drop=5),
        Column("held", unit, right=True),
        Column("time", "Time", right=True, drop=2),
        Column("process", "Process", least=10),
    ]


def host_rows(
    host: SurveyedHost, places: Sequence[Place], name: str, look: Look, survey: Survey
) -> list[Row]:
    """The host with its totals, where it has more than one GPU, then these places."""
    rows: list[Row] = []
    if sum(1 for _ in host.places()) > 1:
        rows.append(_node_row(host, name, look))
    for place in places:
        rows += place_rows(place, name if look.every_node or not rows else "", look, survey.made_at)
    if rows and look.seen and host.reading:
        age = survey.age(host.reading.fetched_at)
        shown = f"{duration(-age.seconds)} ahead" if age.is_ahead else duration(age.seconds)
        rows[0] = rows[0] | {"seen": Cell(shown)}
    return rows


def _node_row(host: SurveyedHost, name: str, look: Look) -> Row:
    sums = total([host])
    row = {"node": Cell(name, "bold"), "gpu": Cell("all", "bold"), **_total_cells(sums, look)}
    free = f"{sums.free} of {sums.gpus} free"
    cut = f"{sums.slices_free} of {sums.slices} slices" if sums.slices else ""
    shown = [*filter(None, (host.slurm_words,)), *host.faults]
    fault = f"! {plain(shown[0])}" if shown else ""
    style = FAULT if fault else "bold green" if sums.free else "bold"
    if look.processes:
        return row | {"who": Cell(free, style), "process": Cell(fault or cut, style)}
    return row | {"who": Cell(fault or ", ".join(filter(None, (free, cut))), style)}


def _total_cells(sums: Totals, look: Look) -> Row:
    power = "–" if sums.power_w is None else f"{sums.power_w:.0f}"
    return {
        "memory": Cell(_of(sums.used_mib, sums.total_mib, look.unit), "bold"),
        "share": Cell(percent(percent_of(sums.used_mib, sums.total_mib)), "bold"),
        "utilization": Cell(percent(sums.utilization), "bold"),
        "power": Cell(power, "bold"),
    }


def place_rows(place: Place, name: str, look: Look, now: datetime) -> Iterator[Row]:
    style = STYLES[place.state]
    row = {"node": Cell(name, "bold"), **_place_cells(place, look, style)}
    faults = [plain(word) for word in fault_words(place.gpu)]
    fault = f"! {', '.join(faults)}" if faults else ""
    if not look.processes:
        yield row | {"who": _who(place, look, fault, style, now)}
        return
    processes = sorted(place.processes, key=lambda p: (-(p.memory_mib or 0), p.pid))
    listed = [_process_cells(process, look) for process in processes]
    if not listed:
        listed.append({"who": Cell(_nobody(place, look), style)})
    if fault:
        where = next((n for n, cells in enumerate(listed) if "process" not in cells), None)
        shown: Row = {"process": Cell(fault, FAULT)}
        listed = [*listed, shown] if where is None else [cells | shown for cells in listed]
    for number, cells in enumerate(listed):
        again = {"node": Cell(name), "gpu": row["gpu"]} if look.every_node else {}
        yield (row if number == 0 else again) | cells


def _place_cells(place: Place, look: Look, style: str) -> Row:
    gpu = place.gpu
    profile = f"{plain(place.mig.profile or 'MIG')} " if place.mig else ""
    details = _detail_cells(gpu) if look.details else {}
    return details | {
        "gpu": Cell(place.index, style),
        "model": Cell(profile + plain(short_model(gpu.name)) + _own_number(place), style),
        "memory": Cell(_of(place.memory_used_mib, place.memory_total_mib, look.unit), style),
        "share": Cell(percent(percent_of(place.memory_used_mib, place.memory_total_mib)), style),
        "utilization": Cell(percent(place.utilization), style),
    }


def _detail_cells(gpu: Gpu) -> Row:
    power, limit = rounded(gpu.power_w, ""), rounded(gpu.power_limit_w, "")
    return {
        "fan": Cell(percent(gpu.fan_percent)),
        "temperature": Cell(rounded(gpu.temperature_c, "°C")),
        "power": Cell(f"{power}/{limit}"),
    }


def _own_number(place: Place) -> str:
    """What the vendor's programs call the GPU, where that is not its index on the host."""
    differs = not place.mig and place.device != place.index
    return f" ({vendor_of(place.gpu.vendor).word} {place.device})" if differs else ""


def _of(used_mib: float | None, total_mib: float | None, unit: str) -> str:
    whole = memory(total_mib, unit)
    return f"{memory(used_mib, unit)} / {whole.removesuffix('.0')}"


def _who(place: Place, look: Look, fault: str, style: str, now: datetime) -> Cell:
    if fault and not place.working:
        return Cell(fault, FAULT)
    if not look.names and place.working:
        users = count(len({owner(process).name for process in place.working}), "user")
        return Cell(f"{users}  {fault}".rstrip(), FAULT if fault else style)
    me = look.me
    longest: dict[str, int | None] = {}
    for process in place.working:
        name = owner(process).name
        longest[name] = max(longest.get(name) or 0, process.elapsed_s or 0) or None
    named = {name: plain(name) + ("*" if name == me else "") for name in longest}
    shown = [named[name] + (f" {duration(time)}" if time else "") for name, time in longest.items()]
    words = ", ".join(shown) + (_ends(place) if shown else "") or _nobody(place, look)
    style = OWN if me in longest else FAULT if fault else style
    at = _ends_at(place)
    # Where there is no room for both, the end is worth more than how long it has run.
    who = ", ".join(named.values()) or State.ALLOCATED.word
    short = f"{who} until {clock_time(at, now)}" if at and not fault else ""
    return Cell(f"{words}  {fault}".rstrip(), style, short)


def _nobody(place: Place, look: Look) -> str:
    if place.shown_state is State.ALLOCATED:
        user = place.gpu.allocation.user if look.names else None
        who = plain(user or "a job")
        return f"{State.ALLOCATED.word} to {who}, no process{_ends(place)}"
    if place.gpu.mig_mode and not place.mig and not place.state.is_taken:
        return "MIG, no slices"
    if not place.gpu.processes_known and place.state.is_taken:
        return f"{place.state.word}, processes not listed"
    return f"{place.state.word}, no process" if place.state.is_taken else place.state.word


def _ends(place: Place) -> str:
    at = _ends_at(place)
    return f", ends by {by_minute(at).astimezone():%d %b %H:%M}" if at else ""


def _ends_at(place: Place) -> datetime | None:
    """Until when its job runs at the latest."""
    return None if place.mig else place.gpu.allocation.ends_at


def _process_cells(process: Process, look: Look) -> Row:
    name = owner(process).name
    own = name == look.me
    style = OWN if own else "dim" if process.is_graphics_only else ""
    job = f" ({plain(process.job)})" if process.job else ""
    return {
        "who": Cell(plain(name) + ("*" if own else ""), style),
        "pid": Cell(str(process.pid), style),
        "held": Cell(memory(process.memory_mib, look.unit), style),
        "time": Cell(duration(process.elapsed_s), style),
        "process": Cell(plain(process.name or "–") + job, style),
    }


def job_columns(look: Look) -> list[Column]:
    return [
        Column("job", "Job", least=10),
        Column("who", "User", least=8),
        Column("process", "Process", least=8, drop=2),
        Column("held", UNITS[look.unit][0], right=True, drop=3),
        Column("size", "GPUs, utilization, start"),
        Column("where", "Where", least=10, drop=1),
    ]


def job_row(job: Job, names: Mapping[str, str], look: Look, now: datetime) -> Row:
    style = OWN if look.me in job.users else ""
    more = f" +{len(job.users) - 1}" if len(job.users) > 1 else ""
    where = ", ".join(f"{names.get(host, host)}: {indexes}" for host, indexes in job.by_host)
    return {
        "job": Cell(plain(job.id or "–"), style),
        "who": Cell(plain(job.users[0]) + ("*" if look.me in job.users else "") + more, style),
        "process": Cell(plain(job.program or "–"), style),
        "held": Cell(memory(job.memory_mib, look.unit), style),
        "size": Cell(job.words(now.astimezone()), style),
        "where": Cell(plain(where), style),
    }
