"""The samples of `metrics.prom` that are about GPUs and their slices, family by family.

There are dozens per GPU: none of them is kept, and what all families have in common is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from gpumon_static.model import Allocated, Gpu, MigDevice
from gpumon_static.model.facts import declared, sentence
from gpumon_static.model.rules import marked
from gpumon_static.model.states import READ, State
from gpumon_static.survey.names import short_model
from gpumon_static.survey.survey import Place, SurveyedHost


class GpuRow(NamedTuple):
    gpu: Gpu
    state: State
    places: tuple[Place, ...]
    labels: str
    """As they stand in every one of its samples."""


class SliceRow(NamedTuple):
    place: Place
    labels: str


Row = TypeVar("Row", GpuRow, SliceRow)
GpuLines = Callable[[str, Iterable[GpuRow]], Iterator[str]]
"""The name of a family and the GPUs to the lines of its samples; there is none for what is not known."""
SliceLines = Callable[[str, Iterable[SliceRow]], Iterator[str]]


def rows(hosts: Iterable[SurveyedHost]) -> tuple[list[GpuRow], list[SliceRow]]:
    gpus, slices = [], []
    for host in hosts:
        there = written({"host": host.name})
        for gpu in host.gpus:
            labels = f'{there},gpu="{gpu.index}",model="{_escaped(short_model(gpu.name))}"'
            places = host.places_of(gpu)
            gpus.append(GpuRow(gpu, host.state_of(gpu), places, labels))
            for place in places:
                if place.mig:
                    own = {"slice": str(place.mig.index), "profile": place.mig.profile or ""}
                    slices.append(SliceRow(place, f"{labels},{written(own)}"))
    return gpus, slices


def written(labels: Mapping[str, str]) -> str:
    """Labels as the format has them, without their braces."""
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


class PlainGauge(NamedTuple):
    """A gauge that is declared with its field, in model/readings.py."""

    about: str
    field: str
    scale: float

    def of(self, record: object) -> float | None:
        value: float | None = getattr(record, self.field)
        return None if value is None else value * self.scale


def gauges(record: type) -> dict[str, PlainGauge]:
    """By name."""
    found = ((one, one.fact.gauge) for one in declared(record))
    return {
        gauge.name: PlainGauge(sentence(one.fact.about), one.name, gauge.scale)
        for one, gauge in found
        if gauge
    }


def number(value: float) -> str:
    whole = int(value)
    return str(whole) if whole == value else repr(round(value, 6))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _each(value: Callable[[Row], float | None]) -> Callable[[str, Iterable[Row]], Iterator[str]]:
    def lines(name: str, given: Iterable[Row]) -> Iterator[str]:
        for row in given:
            known = value(row)
            if known is not None:
                yield f"{name}{{{row.labels}}} {number(known)}\n"

    return lines


def _plain(gauge: PlainGauge) -> GpuLines:
    return _each(lambda row: gauge.of(row.gpu))


def _plain_of_slice(gauge: PlainGauge) -> SliceLines:
    return _each(lambda row: gauge.of(row.place.mig))


def _about(name: str, given: Iterable[GpuRow]) -> Iterator[str]:
    for row in given:
        uuid, full, bus = map(_escaped, (row.gpu.uuid or "", row.gpu.name or "", row.gpu.bus_id or ""))
        yield f'{name}{{{row.labels},uuid="{uuid}",name="{full}",bus_id="{bus}"}} 1\n'


def _states(name: str, given: Iterable[GpuRow]) -> Iterator[str]:
    return (_state_lines(name, row.labels, row.state) for row in given)


def _state_lines(name: str, labels: str, state: State) -> str:
    return "".join(f'{name}{{{labels},state="{other}"}} {1 if other is state else 0}\n' for other in READ)


def _usable(name: str, given: Iterable[GpuRow]) -> Iterator[str]:
    for row in given:
        is_usable = not row.gpu.slices and any(place.is_usable for place in row.places)
        yield f"{name}{{{row.labels}}} {int(is_usable)}\n"


def _faults(name: str, given: Iterable[GpuRow]) -> Iterator[str]:
    for row in given:
        for rule in _rules(row.gpu):
            yield f"{name}{{{row.labels},{written({'rule': rule})}}} 1\n"


def _rules(gpu: Gpu) -> dict[str, None]:
    return dict.fromkeys(fault.rule for fault in marked(gpu.faults)) if gpu.faults else {}


def _allocated(gpu: Gpu) -> float | None:
    known = gpu.allocation.allocated in (Allocated.YES, Allocated.NO)
    return float(gpu.allocation.allocated is Allocated.YES) if known else None


def _ends_at(gpu: Gpu) -> float | None:
    return gpu.allocation.ends_at.timestamp() if gpu.allocation.ends_at else None


def _slice_states(name: str, given: Iterable[SliceRow]) -> Iterator[str]:
    return (_state_lines(name, row.labels, row.place.state) for row in given)


GPU_FAMILIES: dict[str, tuple[str, GpuLines]] = {
    "gpumon_gpu_info": ("UUID, full name and bus id of the GPU; the value is always 1.", _about),
    "gpumon_gpu_state": (
        "1 for the state the GPU is in (free, busy, held, unknown), 0 for the others.",
        _states,
    ),
    "gpumon_gpu_usable": ("1 if one can run on the whole GPU now; a slice has its state.", _usable),
    **{name: (one.about, _plain(one)) for name, one in gauges(Gpu).items()},
    "gpumon_gpu_processes": (
        "Processes on the GPU and its slices.",
        _each(lambda row: len(row.gpu.all_processes) if row.gpu.processes_known else None),
    ),
    "gpumon_gpu_fault": ("1 for each fault that the GPU has, by rule.", _faults),
    "gpumon_gpu_allocated": (
        "1 if Slurm has given the GPU to a job, 0 if not.",
        _each(lambda row: _allocated(row.gpu)),
    ),
    "gpumon_gpu_job_end_timestamp_seconds": (
        "When that job ends at the latest.",
        _each(lambda row: _ends_at(row.gpu)),
    ),
    "gpumon_gpu_faults": ("How many faults the GPU has.", _each(lambda row: len(_rules(row.gpu)))),
}
SLICE_FAMILIES: dict[str, tuple[str, SliceLines]] = {
    "gpumon_slice_state": ("1 for the state that the MIG slice is in, 0 for the others.", _slice_states),
    **{name: (one.about, _plain_of_slice(one)) for name, one in gauges(MigDevice).items()},
}
