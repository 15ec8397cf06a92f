"""The hosts of the demo lab: a pure function of the spec.

The first fourteen show every state there is; a bigger lab has more of the ordinary ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, cycle, islice

from gpumon_static.demo import DEFAULT_HOSTS, models
from gpumon_static.demo.chance import identity
from gpumon_static.demo.jobs import Habit, Lane, Slot
from gpumon_static.demo.models import GpuModel, MigProfile
from gpumon_static.model import Fault, Status


@dataclass(frozen=True)
class DemoSpec:
    seed: int = 1
    hosts: int = DEFAULT_HOSTS
    gpus: int | None = None
    """Of every host; None: as many as each kind of host has."""


@dataclass(frozen=True)
class DemoSlice:
    profile: MigProfile
    uuid: str
    gpu_instance: int


@dataclass(frozen=True)
class DemoGpu:
    index: int
    model: GpuModel
    uuid: str
    bus_id: str
    slices: tuple[DemoSlice, ...] = ()
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class DemoHost:
    name: str
    group: str
    note: str | None
    driver: str
    cuda: str | None
    cpus: int
    ram_gib: int
    gpus: tuple[DemoGpu, ...]
    lanes: tuple[Lane, ...]
    fate: Status = Status.OK
    """REFUSED: nothing listens there; DRIVER: nvidia-smi cannot talk to it."""


@dataclass(frozen=True)
class HostKind:
    """One sort of host; `plan` is how its GPUs are used, from the first on: how many, and how."""

    prefix: str
    group: str
    model: GpuModel
    plan: tuple[tuple[int, Habit], ...]
    driver: str
    cuda: str | None
    cpus: int
    ram_gib: int
    note: str | None = None
    mig: tuple[tuple[MigProfile, Habit], ...] = ()
    """Slices of the first GPU."""
    sick: int | None = None
    """The GPU that has memory errors."""
    fate: Status = Status.OK


@dataclass(frozen=True)
class Naming:
    """How a vendor's tool or driver writes what identifies a card."""

    uuid: Callable[[str], str]
    bus_id: str


NAMINGS = {
    "nvidia": Naming(lambda unique: f"GPU-{unique}", "00000000:{:02X}:00.0"),
    "amd": Naming(lambda unique: f"GPU-{unique.replace('-', '')[:16]}", "0000:{:02x}:00.0"),
}
BUSY, HELD, SHARED, FREE, NORMAL = Habit.BUSY, Habit.HELD, Habit.SHARED, Habit.FREE, Habit.NORMAL
TEAM, COURSE = Habit.TEAM, Habit.COURSE
TEAM_HOSTS = 3
"""Of a kind that share their jobs."""
SLICES = (
    (models.SLICE_3G, BUSY),
    (models.SLICE_2G, NORMAL),
    (models.SLICE_1G, HELD),
    (models.SLICE_1G, FREE),
)

ECC_ERRORS = Fault("ecc-errors", "uncorrected: 2 in DRAM")
SLURM_GROUPS = {"vision", "language", "chemistry"}
"""Slurm manages these (slurm.py). On the others, users log in and start jobs directly."""

SHOWN = (
    HostKind("vision", "vision", models.A100_SXM, ((4, TEAM), (1, HELD), (2, NORMAL), (1, FREE)),
         "550.90.07", "12.4", 128, 1008),
    HostKind("vision", "vision", models.RTX_3090, ((1, SHARED), (2, TEAM), (1, NORMAL)),
         "535.183.01", "12.2", 32, 252),
    HostKind("vision", "vision", models.RTX_3090, ((2, NORMAL), (1, NORMAL), (1, Habit.ALLOCATED)),
         "535.183.01", "12.2", 32, 252),
    HostKind("language", "language", models.H100, ((4, BUSY), (4, NORMAL)), "570.124.06", "12.8", 192, 2015,
         note="reserved for the shared task until Friday"),
    HostKind("language", "language", models.L40S, ((2, NORMAL), (1, SHARED), (1, NORMAL)),
         "580.105.08", "13.0", 64, 504),
    HostKind("language", "language", models.L40S, ((4, NORMAL),), "580.105.08", "13.0", 64, 504,
         fate=Status.REFUSED),
    HostKind("slices", "teaching", models.A100_PCIE, ((1, NORMAL),), "535.183.01", "12.2", 64, 504,
         mig=SLICES, note="the first GPU is cut into MIG slices"),
    HostKind("teach", "teaching", models.T4, ((1, HELD), (1, COURSE), (1, COURSE), (1, COURSE)),
         "525.147.05", "12.0", 24, 126),
    HostKind("chem", "chemistry", models.V100_SXM, ((2, NORMAL), (1, BUSY), (1, NORMAL)),
         "470.256.02", "11.4", 80, 378),
    HostKind("chem", "chemistry", models.V100_PCIE, ((1, Habit.GONE), (1, NORMAL)),
         "525.147.05", "12.0", 40, 189, note="to be retired this year", sick=1),
    HostKind("desk", "graphics", models.RTX_4090, ((1, Habit.DESKTOP),), "550.90.07", "12.4", 24, 126,
         note="lucas sits here: ask first by day"),
    HostKind("render", "graphics", models.RTX_A6000, ((2, NORMAL),), "550.90.07", "12.4", 48, 252,
         fate=Status.DRIVER),
    HostKind("mi300", "language", models.MI300X, ((4, BUSY), (2, NORMAL), (1, HELD), (1, FREE)),
         "6.10.5", None, 192, 2268),
    HostKind("radeon", "graphics", models.RX_7900, ((1, NORMAL), (1, FREE)), "6.10.5", None, 24, 126),
)  # fmt: skip
ORDINARY = tuple(kind for kind in SHOWN if kind.fate is Status.OK and not kind.note)


def build(spec: DemoSpec) -> tuple[DemoHost, ...]:
    counters: Counter[str] = Counter()
    hosts = []
    for kind in islice(chain(SHOWN, cycle(ORDINARY)), spec.hosts):
        counters[kind.prefix] += 1
        hosts.append(_host(kind, counters[kind.prefix], spec))
    return tuple(hosts)


def _host(kind: HostKind, number: int, spec: DemoSpec) -> DemoHost:
    name = f"{kind.prefix}-{number:02}"
    team = f"{spec.seed}/{kind.prefix}/team {(number - 1) // TEAM_HOSTS}"
    count = spec.gpus or sum(width for width, _ in kind.plan) + bool(kind.mig)
    gpus = tuple(_gpu(kind, name, spec.seed, index) for index in range(count))
    return DemoHost(
        name=name,
        group=kind.group,
        note=kind.note,
        driver=kind.driver,
        cuda=kind.cuda,
        cpus=kind.cpus,
        ram_gib=kind.ram_gib,
        gpus=gpus,
        lanes=tuple(
            Lane(
                team if habit is TEAM else f"{spec.seed}/{name}/{places[0].gpu}/{places[0].slice}",
                habit,
                kind.group,
                places,
            )
            for habit, places in _places(kind, count)
        ),
        fate=kind.fate,
    )


def _gpu(kind: HostKind, host: str, seed: int, index: int) -> DemoGpu:
    slices = kind.mig if index == 0 else ()
    naming = NAMINGS[kind.model.vendor]
    return DemoGpu(
        index=index,
        model=kind.model,
        uuid=naming.uuid(identity(seed, host, index)),
        bus_id=naming.bus_id.format(7 + 15 * index),
        slices=tuple(
            DemoSlice(profile, f"MIG-{identity(seed, host, index, number)}", instance)
            for number, ((profile, _), instance) in enumerate(zip(slices, (2, 3, 9, 10), strict=False))
        ),
        faults=(ECC_ERRORS,) if index == kind.sick else (),
    )


def _places(kind: HostKind, count: int) -> Iterator[tuple[Habit, tuple[Slot, ...]]]:
    for number, (_, habit) in enumerate(kind.mig):
        yield habit, (Slot(0, number),)
    first = 1 if kind.mig else 0
    for width, habit in _fitted(kind.plan, count - first):
        yield habit, tuple(Slot(gpu) for gpu in range(first, first + width))
        first += width


def _fitted(plan: Iterable[tuple[int, Habit]], count: int) -> Iterator[tuple[int, Habit]]:
    """The plan cut to `count` GPUs, or followed by ordinary ones, in pairs."""
    for width, habit in chain(plan, cycle([(2, Habit.NORMAL)])):
        if count <= 0:
            return
        yield min(width, count), habit
        count -= width
