"""The overview's numbers for the browser: those of publish/page/data.py, with far less of each GPU.

    {"models": [...], "parts": [[name, file], ...], "hosts": [HOST, ...], "users": [], ...}
    HOST     as in data.py, with GPUS for the list of GPUs and 0 for no options of srun, then its part
    GPUS     [kinds, models, MiB in all, [[place, used MiB, device or 0], ...] of those that are offered,
              indexes, ends]
    kinds    a digit for each GPU
    models, MiB, ends   one for all, or a list with one for each; ends are seconds since 1970, or null
    indexes  0 where they are 0, 1, 2, ...

What is empty at the end of GPUS is left out. assets/data.js reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpumon_static.publish.page.data import (
    ESCAPES,
    Model,
    Places,
    host_row,
    kind_number,
    short_number,
    trimmed,
)

if TYPE_CHECKING:
    from gpumon_static.publish.page.records import HostView


@dataclass(frozen=True, slots=True)
class CompactHost:
    row: list[Any]
    """Without its GPUs."""
    slurm: tuple[str, str] | None
    kinds: str
    models: tuple[Model, ...]
    totals: Any
    offered: list[list[Any]]
    indexes: list[str] | int
    ends: Any


def compact(host: HostView) -> CompactHost:
    """A host of a part, for the overview."""
    cards = host.cards
    numbers = [card.numbers for card in cards]
    indexes = [card.index for card in cards]
    return CompactHost(
        row=host_row(host),
        slurm=host.room.slurm,
        kinds="".join(str(kind_number(card)) for card in cards),
        models=tuple((card.model, card.tooltip.model, card.numbers.environment) for card in cards),
        totals=_alike([short_number(one.total_mib) for one in numbers]),
        offered=[
            [place, short_number(one.used_mib), one.device or 0]
            for place, one in enumerate(numbers)
            if one.is_offered
        ],
        indexes=0 if indexes == [str(place) for place in range(len(cards))] else indexes,
        ends=_alike([one.ends_at for one in numbers]),
    )


def overview_data(hosts: Iterable[tuple[CompactHost, int, int]], parts: Sequence[tuple[str, str]]) -> str:
    """Each host with its part and the seconds that the newest data of its part is behind that of all."""
    models: Places[Model] = Places()
    rows = []
    for host, part, behind_s in hosts:
        *row, own_s = host.row
        gpus = trimmed(
            [
                host.kinds,
                _alike([models[model] for model in host.models]) or 0,
                host.totals or 0,
                host.offered or 0,
                host.indexes,
                host.ends or 0,
            ]
        )
        rows.append([*row, own_s + behind_s, gpus, host.slurm or 0, part])
    data = {
        "models": list(models),
        "users": [],
        "owners": [],
        "programs": [],
        "logins": {},
        "parts": parts,
        "hosts": rows,
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(ESCAPES)


def _alike(values: list[Any]) -> Any:
    return values[0] if values and all(value == values[0] for value in values) else values
