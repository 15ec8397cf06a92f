"""The page's numbers for the browser: small arrays in one JSON block, some hundred bytes per GPU.

    {"models": [["A100 80G", "NVIDIA A100-SXM4-80GB", "CUDA_VISIBLE_DEVICES="]], "users": ["Alice"],
     "owners": [["Alice", 1]], "programs": ["python"], "logins": {"Alice": "asmith"}, "hosts": [HOST, ...]}
    HOST     [anchor, name, group, note, status, ssh port, load per CPU, free RAM MiB, what speaks against it,
              seconds that its reading is older than the newest, [GPU, ...],
              what srun's options are made of, only where programs are started so]
    GPU      [index, kind, model, utilization %, used MiB, total MiB, users, runtime s (0: of the one
              process), °C, W, is offered, what chooses it where that is not the index, as the UUID of a
              slice, or 0, DETAIL]
    DETAIL   [UUID, fan %, limit W, limit °C, [PROCESS, ...], sentence in their place, [[label, fact], ...],
              [[fault, detail, explanation, is one], ...], MORE, JOB]
    UUID     as it is, or, of the usual kind, ~ and its 16 bytes in base64
    PROCESS  [PID, owner, program, MiB, runtime s, job, has ended, command line]
    MORE     [processes, users, [[owner, MiB, is at least that, processes], ...]], where not all are listed
    JOB      [words, seconds since 1970 by which it ends, the GPU is offered then], of Slurm

`model`, `users`, `owner` and `program` are places in the lists above; on a page without names `users` is how
many there are. What is empty at the end of a DETAIL or PROCESS is left out. assets/data.js and details.js
read it and are the only other places that know the order.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from gpumon_static.publish.page.records import Kind

if TYPE_CHECKING:
    from gpumon_static.publish.page.records import Card, HostView, Page, Tooltip

KINDS = {kind: place for place, kind in enumerate(Kind)}
ALLOCATED = len(KINDS)
"""In the place of a held one: of a Slurm job, without a process."""
USUAL_UUID = re.compile("GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NO_PROCESSES = "No processes."
"""The usual sentence, which is left out."""

Key = TypeVar("Key")
Model = tuple[str, str, str]
"""Short name, whole name, and what chooses devices for a program."""

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

    models: Places[Model] = field(default_factory=Places)
    users: Places[str] = field(default_factory=Places)
    owners: Places[tuple[str, bool]] = field(default_factory=Places)
    programs: Places[str] = field(default_factory=Places)


def page_data(page: Page) -> str:
    lists = _Lists()
    hosts = [_host(host, lists, tells_names=page.tells_names) for host in page.hosts]
    data = {
        "models": list(lists.models),
        "users": list(lists.users),
        "owners": [[name, int(is_name)] for name, is_name in lists.owners],
        "programs": list(lists.programs),
        "logins": {name: page.logins[name] for name in lists.users if name in page.logins},
        "hosts": hosts,
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(ESCAPES)


def _host(host: HostView, lists: _Lists, *, tells_names: bool) -> list[Any]:
    return [
        *host_row(host),
        [_gpu(card, lists, tells_names) for card in host.cards],
        *([host.room.slurm] if host.room.slurm else []),
    ]


def kind_number(card: Card) -> int:
    return ALLOCATED if card.is_allocated else KINDS[card.kind]


def host_row(host: HostView) -> list[Any]:
    """Up to its GPUs."""
    return [
        host.anchor,
        host.full_name,
        host.group or "",
        host.note or "",
        f"{host.notice.kind} {host.notice.word} {host.notice.status}".rstrip() if host.notice else "",
        host.room.ssh_port,
        host.room.load_per_cpu,
        host.room.ram_free_mib,
        host.room.against,
        host.room.behind_s,
    ]


def _gpu(card: Card, lists: _Lists, tells_names: bool) -> list[Any]:
    numbers, tip = card.numbers, card.tooltip
    users = lists.users
    return [
        card.index,
        kind_number(card),
        lists.models[card.model, tip.model, numbers.environment],
        short_number(numbers.utilization),
        short_number(numbers.used_mib),
        short_number(numbers.total_mib),
        [users[name] for name in numbers.owners] if tells_names else len(numbers.owners),
        0 if len(tip.processes) == 1 else numbers.runtime_s,
        short_number(numbers.temperature_c),
        short_number(numbers.power_w),
        int(numbers.is_offered),
        numbers.device or 0,
        _detail(tip, lists, will_be_offered=numbers.ends_at is not None),
    ]


def _detail(tip: Tooltip, lists: _Lists, *, will_be_offered: bool) -> list[Any]:
    owners, programs = lists.owners, lists.programs
    processes = [
        trimmed(
            [p.pid, owners[p.user, p.is_name], programs[p.name], p.memory_mib, p.elapsed_s, p.job or 0,
             int(p.is_gone), p.command_line or 0]
        )
        for p in tip.processes
    ]  # fmt: skip
    users = [[owners[u.name, u.is_name], u.memory_mib, int(u.is_least), u.processes] for u in tip.users]
    return trimmed(
        [
            _packed(tip.uuid),
            short_number(tip.fan_percent),
            short_number(tip.power_limit_w),
            short_number(tip.temperature_limit_c),
            processes or 0,
            tip.no_processes if tip.no_processes != NO_PROCESSES else 0,
            [[fact.label, fact.value] for fact in tip.facts] or 0,
            [[fault.word, fault.detail, fault.explanation, int(fault.is_fault)] for fault in tip.faults] or 0,
            [tip.more_processes, tip.more_users, users] if tip.more_processes else 0,
            trimmed([*tip.job, int(will_be_offered)]) if tip.job else 0,
        ]
    )


def _packed(uuid: str | None) -> str | None:
    """The 16 bytes of a usual one in base64, since its digits do not compress: ~q83vEjRWeJCrze8SNFZ4kA"""
    if uuid is None or len(uuid) != 40 or not USUAL_UUID.fullmatch(uuid):
        return uuid
    return "~" + b64encode(bytes.fromhex(uuid[4:].replace("-", ""))).decode()[:22]


def trimmed(row: list[Any]) -> list[Any]:
    while row and row[-1] in (0, None):
        row.pop()
    return row


def short_number(number: float | None) -> int | None:
    return None if number is None else round(number)
