"""Many hosts that each send the most they may: the run stays within its budget, and everybody keeps their cards."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from gpumon_static.bounds.reading import bounded
from gpumon_static.bounds.run import OF_A_HOST, OF_A_RUN, within_budget
from gpumon_static.commands.render import render
from gpumon_static.config.settings import HistoryConfig, PathsConfig
from gpumon_static.model import Fault, Gpu, HostReading
from gpumon_static.model.rules import RULES
from gpumon_static.store import snapshot
from gpumon_static.survey.state import gpu_state
from tests.builders import NOW, busy_gpu, config, gpu, process, reading

HOSTS, GPUS, PROCESSES = 24, 128, 1024


def flood(host: str) -> HostReading:
    """The most that the gate allows, nearly: long texts, no two of them the same."""

    def one(index: int) -> Gpu:
        processes = tuple(
            process(
                index * 1000 + number + 1,
                name=f"{host} {index} {number}".ljust(200, "x"),
                user=f"{host}-{index}-{number}".ljust(64, "x"),
                command_line="y" * 200,
                memory_mib=float(number),
            )
            for number in range(PROCESSES // GPUS)
        )
        faults = tuple(Fault(rule, "z" * 120) for rule in list(RULES)[:24])
        return busy_gpu(index, name=f"{host} {index}".ljust(96, "m"), faults=faults, processes=processes)

    return bounded(reading(host, map(one, range(GPUS)), warning="w" * 200))


def ordinary(host: str) -> HostReading:
    return reading(host, [busy_gpu(index) for index in range(GPUS)])


def seconds_to_render(directory: Path, readings: list[HostReading]) -> float:
    setup = replace(
        config(*(r.host for r in readings)),
        paths=PathsConfig(directory / "data", directory / "site"),
        history=HistoryConfig(enabled=False),
    )
    snapshot.write(setup.csv_path, readings)
    before = os.times()
    render(setup, NOW)
    # With those of its processes: a large page is made by several.
    return sum(os.times()[:4]) - sum(before[:4])


def test_a_flood_from_many_hosts_is_cut_and_every_gpu_keeps_its_state(tmp_path: Path) -> None:
    given = [flood(f"h{number}") for number in range(HOSTS)]
    run = within_budget(given)
    assert run.line
    assert run.line.startswith("load_data.csv would have ")
    assert f": {HOSTS} hosts cut to " in run.line
    snapshot.write(tmp_path / "load_data.csv", run.readings)
    assert (tmp_path / "load_data.csv").stat().st_size < 1.2 * (OF_A_RUN + HOSTS * OF_A_HOST)
    assert snapshot.read(tmp_path / "load_data.csv") == run.readings
    busy = config().busy
    for before, after in zip(given, run.readings, strict=True):
        assert after.note == "896 processes left out: the run was too large"
        assert [g.index for g in after.gpus] == [g.index for g in before.gpus]
        assert [gpu_state(g, busy) for g in after.gpus] == [gpu_state(g, busy) for g in before.gpus]
        assert all(g.processes and g.faults for g in after.gpus)
        assert after.gpus[0].processes[-1] == replace(
            after.gpus[0].processes[-1], memory_mib=PROCESSES // GPUS - 1.0
        ), "the largest one"


def test_hosts_that_are_small_are_left_as_they_are() -> None:
    small = [reading("small", [busy_gpu(0), gpu(1)]), ordinary("large")]
    run = within_budget([*small, *(flood(f"h{number}") for number in range(HOSTS))])
    assert run.readings[:2] == small


def test_one_process_of_each_user_comes_first() -> None:
    alice = [process(number, user="alice", memory_mib=9000.0, name="n" * 200) for number in range(1, 500)]
    bob = process(999, user="bob", memory_mib=1.0)
    many = [reading(f"h{number}", [busy_gpu(0, processes=(*alice, bob))] * 100) for number in range(HOSTS)]
    after = within_budget(many).readings[0].gpus[0].processes
    assert {one.user for one in after} == {"alice", "bob"}
    assert len(after) < 500


def test_a_usual_run_is_not_touched() -> None:
    """48 MPS clients on each of 8 GPUs, on every host."""
    clients = tuple(process(number, name="python train.py", type="M+C") for number in range(1, 49))
    given = [reading(f"h{n}", [busy_gpu(i, processes=clients) for i in range(8)]) for n in range(HOSTS)]
    run = within_budget(given)
    assert run.line is None
    assert all(after is before for after, before in zip(run.readings, given, strict=True))


def test_a_flood_takes_less_than_twice_the_time_to_render(tmp_path: Path) -> None:
    """Of the same GPUs with one user each."""
    names = [f"h{number}" for number in range(100)]
    usual = seconds_to_render(tmp_path / "usual", [ordinary(name) for name in names])
    flooded = within_budget([flood(name) for name in names]).readings
    assert flooded[0].note == "896 processes and details of faults left out: the run was too large"
    assert seconds_to_render(tmp_path / "flooded", flooded) < 2 * usual
