"""The page's numbers for the browser: rows as arrays in one JSON block, some hundred bytes per GPU.

    {"columns": {"host": ["anchor", "name", ...], "gpu": [...], ...},
     "states": [STATE, ...], "models": [MODEL, ...], "users": ["Alice"], "owners": [["Alice", 1]],
     "programs": ["python"], "labels": ["driver"], "whose": ["of alice"], "logins": {"Alice": "asmith"},
     "hosts": [HOST, ...]}

The rows are the classes of columns.py, whose names are sent once: assets/data.js reads them by name. `model`,
`users`, `owner`, `program`, `whose` and the names of facts are places in the lists above. What is empty at
the end of a row is left out.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from gpumon_static.bounds.vendors import VENDORS
from gpumon_static.model.states import State
from gpumon_static.publish.page.columns import (
    ROWS,
    DetailColumns,
    FaultColumns,
    GpuColumns,
    HostColumns,
    JobColumns,
    ModelColumns,
    MoreColumns,
    NoticeColumns,
    ProcessColumns,
    UserColumns,
    columns_of,
)

if TYPE_CHECKING:
    from gpumon_static.publish.page.records import Card, HostView, JobFact, Notice, Page, ProcessRow

STATES = [[state.mark, state.word, int(state.is_taken)] for state in State]
USUAL_UUID = re.compile("GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
VENDOR_WORDS = [vendor.word for vendor in VENDORS.values()]
NO_PROCESSES = "No processes."
"""The usual sentence, which is left out."""

Key = TypeVar("Key")


# Inside a script element only these could end it or start another; as JSON escapes they mean the same.
ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


class Places(dict[Key, int]):
    """The place of each text, in the order in which they came."""

    def __missing__(self, text: Key) -> int:
        self[text] = len(self)
        return self[text]


@dataclass(frozen=True)
class _Lists:
    """What rows refer to by its place."""

    models: Places[ModelColumns] = field(default_factory=Places)
    users: Places[str] = field(default_factory=Places)
    owners: Places[tuple[str, bool]] = field(default_factory=Places)
    programs: Places[str] = field(default_factory=Places)
    labels: Places[str] = field(default_factory=Places)
    whose: Places[str] = field(default_factory=Places)


def as_json(data: dict[str, Any]) -> str:
    """For a script element."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(ESCAPES)


def page_data(page: Page) -> str:
    lists = _Lists()
    hosts = [_host(host, lists, tells_names=page.tells_names) for host in page.hosts]
    return as_json(
        {
            "columns": columns_of(ROWS),
            "states": STATES,
            "vendors": VENDOR_WORDS,
            "models": list(lists.models),
            "users": list(lists.users),
            "owners": [[name, int(is_name)] for name, is_name in lists.owners],
            "programs": list(lists.programs),
            "labels": list(lists.labels),
            "whose": list(lists.whose),
            "logins": {name: page.logins[name] for name in lists.users if name in page.logins},
            "hosts": hosts,
        }
    )


def _host(host: HostView, lists: _Lists, *, tells_names: bool) -> list[Any]:
    gpus = [_gpu(card, lists, tells_names) for card in host.cards]
    facts = [(lists.labels[fact.label], fact.value) for fact in host.facts]
    return trimmed(host_row(host)._replace(gpus=gpus, facts=facts))


def host_row(host: HostView) -> HostColumns:
    """Without its GPUs and facts."""
    room = host.room
    return HostColumns(
        anchor=host.anchor,
        name=host.full_name,
        group=host.group or "",
        note=host.note or "",
        notice=_notice(host.notice) if host.notice else 0,
        port=room.ssh_port,
        load=room.load_per_cpu,
        ram=room.ram_free_mib,
        against=room.against,
        behind=room.behind_s,
        faults=host.faults,
        facts=[],
        gpus=[],
        slurm=room.slurm or 0,
    )


def _notice(notice: Notice) -> NoticeColumns:
    return NoticeColumns(notice.kind, notice.word, notice.status, notice.reason)


def model_row(card: Card) -> ModelColumns:
    return ModelColumns(card.model, card.tooltip.model, card.numbers.environment, card.numbers.vendor)


def _gpu(card: Card, lists: _Lists, tells_names: bool) -> GpuColumns:
    numbers, tip = card.numbers, card.tooltip
    users = lists.users
    return GpuColumns(
        index=card.index,
        kind=card.state.number,
        model=lists.models[model_row(card)],
        utilization=short_number(numbers.utilization),
        used=short_number(numbers.used_mib),
        total=short_number(numbers.total_mib),
        users=[users[name] for name in numbers.owners] if tells_names else len(numbers.owners),
        runtime=0 if len(tip.processes) == 1 else numbers.runtime_s,
        temperature=short_number(numbers.temperature_c),
        power=short_number(numbers.power_w),
        offered=int(numbers.is_offered),
        device=numbers.device or 0,
        since=card.since_s // 60 if card.since_s is not None else None,
        detail=_detail(card, lists),
    )


def _process(process: ProcessRow, card: Card, lists: _Lists) -> list[Any]:
    used, of_gpu = short_number(card.numbers.used_mib) or 0, card.tooltip.job
    is_of_gpu = of_gpu is not None and process.job == f"slurm:{of_gpu.id}"
    return trimmed(
        ProcessColumns(
            pid=process.pid,
            owner=lists.owners[process.user, process.is_name],
            program=lists.programs[process.name],
            rest="" if process.memory_mib is None else used - process.memory_mib,
            elapsed=process.elapsed_s,
            job=1 if is_of_gpu else process.job or 0,
            ended=int(process.is_gone),
            line=process.command_line or 0,
        )
    )


def _job(job: JobFact, card: Card, lists: _Lists) -> list[Any]:
    will_be_offered = int(card.numbers.ends_at is not None)
    return trimmed(JobColumns(job.id, lists.whose[job.whose], job.ends_at, will_be_offered))


def _detail(card: Card, lists: _Lists) -> list[Any]:
    tip, owners = card.tooltip, lists.owners
    processes = [_process(process, card, lists) for process in tip.processes]
    users = [
        UserColumns(owners[u.name, u.is_name], u.memory_mib, int(u.is_least), u.processes) for u in tip.users
    ]
    return trimmed(
        DetailColumns(
            uuid=_packed(tip.uuid),
            fan=short_number(tip.fan_percent),
            limit=short_number(tip.power_limit_w),
            slowdown=short_number(tip.temperature_limit_c),
            processes=processes or 0,
            sentence=tip.no_processes if tip.no_processes != NO_PROCESSES else 0,
            facts=[[fact.label, fact.value] for fact in tip.facts] or 0,
            faults=[FaultColumns(f.word, f.detail, f.explanation, int(f.is_fault)) for f in tip.faults] or 0,
            more=MoreColumns(tip.more_processes, tip.more_users, users) if tip.more_processes else 0,
            job=_job(tip.job, card, lists) if tip.job else 0,
        )
    )


def _packed(uuid: str | None) -> str | None:
    """The 16 bytes of a usual one in base64, since its digits do not compress: ~q83vEjRWeJCrze8SNFZ4kA"""
    if uuid is None or len(uuid) != 40 or not USUAL_UUID.fullmatch(uuid):
        return uuid
    return "~" + b64encode(bytes.fromhex(uuid[4:].replace("-", ""))).decode()[:22]


def trimmed(row: Iterable[Any]) -> list[Any]:
    """Without what is empty at its end."""
    values = list(row)
    while values and values[-1] in (0, None):
        values.pop()
    return values


def short_number(number: float | None) -> int | None:
    return None if number is None else round(number)
