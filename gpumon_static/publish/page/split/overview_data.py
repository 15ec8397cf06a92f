"""The overview's numbers for the browser: those of publish/page/data.py, with far less of each GPU.

    {"columns": ..., "models": [...], "parts": [[name, file], ...], "hosts": [HOST, ...], "users": [], ...}

A host is a row as in data.py, with a row of `GpusColumns` in the place of its GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumon_static.publish.page.columns import ROWS, HostColumns, ModelColumns, columns_of
from gpumon_static.publish.page.data import (
    STATES,
    VENDOR_WORDS,
    Places,
    as_json,
    host_row,
    model_row,
    short_number,
    trimmed,
)

if TYPE_CHECKING:
    from gpumon_static.publish.page.records import HostView


class GpusColumns(NamedTuple):
    """All GPUs of a host. `models`, `totals` and `ends` are one for all, or a list with one for each."""

    kinds: str
    """A digit for each."""
    models: Any
    totals: Any
    """MiB"""
    offered: list[OfferedColumns] | int
    indexes: list[str] | int
    """0 where they are 0, 1, 2, ..."""
    ends: Any
    """Seconds since 1970, or null."""


class OfferedColumns(NamedTuple):
    """Of a GPU that is offered: its place among those of its host, MiB in use, and as in `GpuColumns`."""

    place: int
    used: int | None
    device: str | int


@dataclass(frozen=True, slots=True)
class CompactHost:
    row: HostColumns
    """Without its GPUs."""
    kinds: str
    models: tuple[ModelColumns, ...]
    totals: Any
    offered: list[OfferedColumns]
    indexes: list[str] | int
    ends: Any


def compact(host: HostView) -> CompactHost:
    """A host of a part, for the overview."""
    cards = host.cards
    numbers = [card.numbers for card in cards]
    indexes = [card.index for card in cards]
    return CompactHost(
        row=host_row(host),
        kinds="".join(str(card.state.number) for card in cards),
        models=tuple(map(model_row, cards)),
        totals=_alike([short_number(one.total_mib) for one in numbers]),
        offered=[
            OfferedColumns(place, short_number(one.used_mib), one.device or 0)
            for place, one in enumerate(numbers)
            if one.is_offered
        ],
        indexes=0 if indexes == [str(place) for place in range(len(cards))] else indexes,
        ends=_alike([one.ends_at for one in numbers]),
    )


def overview_data(hosts: Iterable[tuple[CompactHost, int, int]], parts: Sequence[tuple[str, str]]) -> str:
    """Each host with its part and the seconds that the newest data of its part is behind that of all."""
    models: Places[ModelColumns] = Places()
    rows = []
    for host, part, behind_s in hosts:
        gpus = trimmed(
            GpusColumns(
                kinds=host.kinds,
                models=_alike([models[model] for model in host.models]) or 0,
                totals=host.totals or 0,
                offered=host.offered or 0,
                indexes=host.indexes,
                ends=host.ends or 0,
            )
        )
        rows.append(host.row._replace(behind=host.row.behind + behind_s, gpus=gpus, part=part))
    return as_json(
        {
            "columns": columns_of(ROWS | {"gpus": GpusColumns, "offered": OfferedColumns}),
            "states": STATES,
            "vendors": VENDOR_WORDS,
            "models": list(models),
            "users": [],
            "owners": [],
            "programs": [],
            "labels": [],
            "whose": [],
            "logins": {},
            "parts": parts,
            "hosts": rows,
        }
    )


def _alike(values: list[Any]) -> Any:
    return values[0] if values and all(value == values[0] for value in values) else values
