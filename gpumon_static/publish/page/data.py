"""The page's numbers for the browser: small arrays in one JSON block, a few dozen bytes per GPU.

    {"models": [["A100 80G", "NVIDIA A100-SXM4-80GB", "CUDA_VISIBLE_DEVICES="]], "users": ["Alice"],
     "logins": {"Alice": "asmith"}, "hosts": [HOST, ...]}
    HOST  [anchor, name, group, note, status, ssh port, load per CPU, free RAM MiB, what speaks against it,
           seconds that its reading is older than the newest, [GPU, ...]]
    GPU   [index, kind, model, utilization %, used MiB, total MiB, users, runtime s, °C, W, is offered,
           what chooses it where that is not the index: the UUID of a slice]

`model` and `users` are places in the lists above; on a page without names `users` is how many there are.
assets/data.js reads it and is the only other place that knows the order.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from gpumon_static.publish.page.records import Kind

if TYPE_CHECKING:
    from gpumon_static.publish.page.records import Card, HostView, Page

KINDS = tuple(Kind)

Key = TypeVar("Key")
Model = tuple[str, str, str]
"""Short name, whole name, and what chooses devices for a program."""

# Inside a script element only these could end it or start another; as JSON escapes they mean the same.
ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


class _Places(dict[Key, int]):
    """The place of each text, in the order in which they came."""

    def __missing__(self, text: Key) -> int:
        self[text] = len(self)
        return self[text]


def page_data(page: Page) -> str:
    models: _Places[Model] = _Places()
    users: _Places[str] = _Places()
    hosts = [_host(host, models, users if page.tells_names else None) for host in page.hosts]
    logins = {name: page.logins[name] for name in users if name in page.logins}
    data = {"models": list(models), "users": list(users), "logins": logins, "hosts": hosts}
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(ESCAPES)


def _host(host: HostView, models: _Places[Model], users: _Places[str] | None) -> list[Any]:
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
        [_gpu(card, models, users) for card in host.cards],
    ]


def _gpu(card: Card, models: _Places[Model], users: _Places[str] | None) -> list[Any]:
    numbers = card.numbers
    row = [
        card.index,
        KINDS.index(card.kind),
        models[card.model, card.tooltip.model, numbers.environment],
        _short(numbers.utilization),
        _short(numbers.used_mib),
        _short(numbers.total_mib),
        len(numbers.owners) if users is None else [users[name] for name in numbers.owners],
        numbers.runtime_s,
        _short(numbers.temperature_c),
        _short(numbers.power_w),
        int(numbers.is_offered),
    ]
    return [*row, numbers.device] if numbers.device else row


def _short(number: float | None) -> int | None:
    return None if number is None else round(number)
