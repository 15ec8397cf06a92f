"""Readings that nothing real has: everything is new in every run. Each liar passes the gate before it is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from uuid import UUID

from gpumon_static.model import Fault, Gpu, HostReading, MigDevice, Process
from gpumon_static.model.rules import RULES
from tests.builders import busy_gpu, failed, gpu, process, reading

Liar = Callable[[str, Random, int], HostReading]
"""Host, dice and the number of the run to what it sends."""


def text(dice: Random, letters: int) -> str:
    return dice.randbytes(letters // 2).hex()


def uuid(dice: Random) -> str:
    return f"GPU-{UUID(bytes=dice.randbytes(16))}"


def careful(host: str, dice: Random, run: int) -> HostReading:
    """A host like any other in size, below each limit of a run and of an hour."""
    gpus = [
        busy_gpu(
            n, uuid=uuid(dice), name=f"{host} M{run // 12}-{n % 2}", faults=(Fault("ecc-errors", text(dice, 40)),),
            processes=tuple(process(dice.randrange(1, 10**6), user=text(dice, 10), name=text(dice, 12), job=f"slurm:{dice.randrange(10**9)}")
                for _ in range(2)),
        )
        for n in range(8)
    ]  # fmt: skip
    return reading(host, gpus)


def steady(host: str, _dice: Random, _run: int) -> HostReading:
    """The honest twin of the careful one: as many GPUs, users, faults and jobs, the same in every run."""
    faults = (Fault("ecc-errors", "0" * 40),)
    processes = tuple(
        process(n + 1, user=f"user{n}", name="abcdefabcdef", job=f"slurm:{n}") for n in range(2)
    )
    return reading(
        host, [busy_gpu(n, uuid=f"GPU-{host}-{n}", processes=processes, faults=faults) for n in range(8)]
    )


def everything(host: str, dice: Random, _run: int) -> HostReading:
    """As much of everything as the gate lets through."""
    gpus = [
        _gpu(
            n, dice, uuid=uuid(dice), name=text(dice, 96), bus_id=text(dice, 40), device=text(dice, 300),
            faults=tuple(Fault(rule, text(dice, 120)) for rule in RULES),
            processes=tuple(_process(dice, name=text(dice, 200), user=text(dice, 64), job=text(dice, 96), state="R") for _ in range(8)),
        )
        for n in range(128)
    ]  # fmt: skip
    return reading(host, gpus, driver_version=text(dice, 48), warning=text(dice, 200), note=text(dice, 300))


def numbers(host: str, dice: Random, _run: int) -> HostReading:
    """No text at all, and every number another one: of GPUs, slices and processes."""
    gpus = [
        _gpu(
            n, dice, uuid=f"GPU-{UUID(int=n)}", name="A",
            slices=tuple(MigDevice(k, gpu_instance=dice.randrange(1000), compute_instance=dice.randrange(1000),
                memory_used_mib=dice.uniform(0, 1e9), memory_total_mib=dice.uniform(0, 1e9)) for k in range(2)),
            processes=tuple(_process(dice) for _ in range(8)),
        )
        for n in range(128)
    ]  # fmt: skip
    return reading(host, gpus)


def users(host: str, dice: Random, run: int) -> HostReading:
    """As many names as pass, on as many GPUs as there are: others in every hour."""
    names, models = [
        [f"{kind}{run // 12}-{n}" for n in range(most)] for kind, most in (("u", 190), ("M", 15))
    ]
    gpus = [
        busy_gpu(n, uuid=f"GPU-{UUID(int=n)}", name=models[n % 15], utilization=float(dice.randrange(100)),
            processes=tuple(process(n * 8 + k + 1, user=dice.choice(names), name="p") for k in range(4)))
        for n in range(128)
    ]  # fmt: skip
    return reading(host, gpus)


def states(host: str, dice: Random, run: int) -> HostReading:
    """Up and down, with faults that come and go: events."""
    if run % 4 < 2:
        return replace(failed(host), error=text(dice, 2000))
    faults = tuple(Fault(rule, text(dice, 120)) for rule in RULES)
    return reading(host, [gpu(n, uuid=uuid(dice), name=text(dice, 90), faults=faults) for n in range(128)])


LIARS: tuple[Liar, ...] = (careful, everything, numbers, users, states)


def _gpu(index: int, dice: Random, **given: object) -> Gpu:
    readings = {
        name: dice.uniform(0, most)
        for name, most in (
            ("utilization", 100), ("memory_used_mib", 1e9), ("memory_total_mib", 1e9), ("temperature_c", 150),
            ("temperature_limit_c", 150), ("power_w", 2e4), ("power_limit_w", 2e4), ("fan_percent", 100),
        )
    }  # fmt: skip
    return Gpu(index, **(readings | given))  # type: ignore[arg-type]


def _process(dice: Random, **given: object) -> Process:
    numbers_ = {
        "uid": dice.randrange(2**32),
        "memory_mib": dice.uniform(0, 1e9),
        "elapsed_s": dice.randrange(10**9),
    }
    return Process(dice.randrange(1, 2**32), type="C", **(numbers_ | given))  # type: ignore[arg-type]
