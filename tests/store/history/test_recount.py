"""Every question of the history beside a plain recount of the same runs (tests/store/history/recount.py).

Hosts fail, GPUs vanish, move, are renumbered, cut into slices and lose their UUID, users share them, Slurm has
given them to jobs, some runs ask one host only; the times between runs close hours and days, or do not.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gpumon_static.model import Allocated, Allocation, Disk, Gpu, HostReading, Machine, MigDevice
from gpumon_static.store.history import machines, pools, questions
from gpumon_static.store.history.engine import open_engine, parquet
from gpumon_static.store.history.last import open_last
from gpumon_static.store.history.last_day import NO_BYTE, NO_WATTS, read_days, read_spans
from gpumon_static.store.history.layout import LAST_FILE
from gpumon_static.store.history.notes import FolderNotes
from gpumon_static.store.history.reader import Reader
from gpumon_static.store.history.upkeep import closing
from tests.builders import failed, gpu, process, reading
from tests.history_lab import DAY, HOUR, START, HistoryLab, moment
from tests.store.history import answers
from tests.store.history.recount import Place, Recount

EXAMPLES = int(os.environ.get("RECOUNTS", "10"))
HOSTS = ("node1", "node2", "node3")
GROUPS = {"node1": "vision", "node2": "vision"}
GAPS = [300, 300, 300, 299, 60, 450, 451, 900, 3500, 4000, 7300, 90_000, 200_000, 8 * DAY]
PERCENT = st.one_of(st.none(), st.integers(0, 100).map(float))
HOLDERS = st.sampled_from([("alice",), ("bob",), ("alice", "bob"), ("alice", "bob", "carol"), (None,)])
ALLOCATIONS = [
    Allocation(),
    Allocation(Allocated.UNKNOWN),
    Allocation(Allocated.NO),
    Allocation(Allocated.YES, user="alice"),
    Allocation(Allocated.YES),
]


@st.composite
def some_gpu(draw: st.DrawFn, number: int, *, may_be_cut: bool = False) -> Gpu:
    holders = draw(st.one_of(st.just(()), HOLDERS))
    passed = draw(st.sampled_from([3 * HOUR, 100]))
    processes = tuple(
        process(n, user=user, memory_mib=1000.0, elapsed_s=passed) for n, user in enumerate(holders)
    )
    cut: tuple[MigDevice, ...] = ()
    if may_be_cut and draw(st.booleans()):
        cut, processes = draw(some_slices()), ()
    return gpu(
        number,
        uuid=f"GPU-{number}",
        bus_id=draw(st.sampled_from([None, f"0000:0{number}"])),
        name="NVIDIA A100-SXM4-80GB" if number < 2 else "Tesla T4",
        utilization=draw(PERCENT),
        memory_used_mib=draw(st.sampled_from([None, 4.0, 50_000.0])),
        temperature_c=draw(PERCENT),
        power_w=draw(PERCENT),
        processes=processes,
        processes_known=draw(st.sampled_from([True, True, False])) or bool(processes),
        slices=cut,
        mig_mode=bool(cut),
        allocation=draw(st.sampled_from(ALLOCATIONS)),
    )


@st.composite
def some_slices(draw: st.DrawFn) -> tuple[MigDevice, ...]:
    users = draw(st.lists(st.sampled_from([None, "mia", "bob"]), min_size=1, max_size=2))
    return tuple(
        MigDevice(
            index=number,
            gpu_instance=number,
            compute_instance=0,
            uuid=f"MIG-{number}",
            profile="1g.10gb",
            memory_used_mib=5000.0 if user else 10.0,
            memory_total_mib=9728.0,
            processes=(process(user=user, memory_mib=4990.0),) if user else (),
        )
        for number, user in enumerate(users)
    )


@st.composite
def some_machine(draw: st.DrawFn) -> Machine:
    percent = [draw(PERCENT) for _ in range(4)]
    return Machine(
        cpu_utilization=percent[0],
        ram_used_mib=percent[1],
        ram_total_mib=draw(st.sampled_from([None, 80.0])),
        disks=() if percent[2] is None else (Disk("/", percent[2], 100.0), Disk("/home", 1.0, 100.0)),
        load_1m=percent[3],
    )


@st.composite
def gpus_of_hosts(draw: st.DrawFn) -> dict[str, list[Gpu]]:
    """Three GPUs, each in one of the hosts or in none; one that may lose its UUID, one that never had any."""
    found: dict[str, list[Gpu]] = {host: [] for host in HOSTS}
    for number in range(3):
        host = draw(st.sampled_from((*[HOSTS[number % 2]] * 6, *HOSTS, None)))
        if host:
            found[host].append(draw(some_gpu(number, may_be_cut=number == 0)))
    if draw(st.integers(0, 5)):
        lost = draw(some_gpu(3))
        found["node2"].append(replace(lost, uuid=draw(st.sampled_from(["GPU-3", "GPU-3", None]))))
    if draw(st.integers(0, 9)) == 0:
        # A host that lists the GPU of another one, too.
        found["node3"] = [draw(some_gpu(1))]
    found["node3"].append(replace(draw(some_gpu(7)), uuid=None))
    if draw(st.booleans()):
        found["node1"] = [replace(one, index=n) for n, one in enumerate(found["node1"])]
    return found


class Made(NamedTuple):
    at: int
    readings: list[HostReading]


@st.composite
def runs(draw: st.DrawFn) -> list[Made]:
    """Few enough that no other interval than the config's is learned from them."""
    at, made = START + draw(st.sampled_from([-10, 0, 1700])), []
    before: list[HostReading] = []
    for _ in range(draw(st.integers(2, 7))):
        gpus = draw(gpus_of_hosts())
        only = draw(st.sampled_from([None, None, None, None, *HOSTS])) if before else None
        readings = []
        for place, host in enumerate(HOSTS):
            if only not in (None, host):
                readings.append(before[place])
                continue
            is_down = draw(st.integers(0, 4)) == 0
            one = failed(host) if is_down else reading(host, gpus[host], machine=draw(some_machine()))
            readings.append(replace(one, fetched_at=moment(at + draw(st.integers(0, 20)))))
        made.append(Made(at + 20, readings))
        before = readings
        at += draw(st.sampled_from(GAPS))
    return made


@st.composite
def periods(draw: st.DrawFn, first: int, last: int) -> tuple[int, int]:
    since = draw(st.integers(first - HOUR, last))
    if draw(st.booleans()):
        since = since // HOUR * HOUR
    until = draw(st.sampled_from([last + 20, last + 5000, draw(st.integers(since, max(since, last)))]))
    return since, max(since, until)


class Known(NamedTuple):
    runs: list[Made]
    since: int
    until: int
    later: int
    """How long after the last run it is asked."""


@st.composite
def known_runs(draw: st.DrawFn) -> Known:
    made = draw(runs())
    return Known(made, *draw(periods(made[0].at, made[-1].at)), draw(st.sampled_from([0, 40, 4000])))


class Asked(NamedTuple):
    """A history, the recount of its runs, and what both are asked for."""

    lab: HistoryLab
    recount: Recount
    since: int
    until: int
    now: int


def check_users(asked: Asked) -> None:
    for part in questions.PARTS:
        found = {
            (use.user, use.part): [
                use.busy_s, use.held_s, use.work_s, use.measured_s, use.allocated_s, use.allocated_idle_s
            ]
            for use in asked.lab.users(asked.since, asked.until, part)
        }  # fmt: skip
        expected = answers.users(asked.recount, asked.since, asked.until, part)
        assert found == {key: pytest.approx(row) for key, row in expected.items()}


def check_gpus(asked: Asked) -> None:
    expected = answers.gpus(asked.recount, asked.since, asked.until)
    found = asked.lab.gpus(asked.since, asked.until)
    assert len(found) == len(expected)
    for use in found:
        place = Place(use.host, use.card, int(use.index.partition(":")[2]) if ":" in use.index else None)
        wanted = expected[place]
        assert replace(use, utilization=wanted.utilization, memory=wanted.memory,
                       temperature=wanted.temperature, power=wanted.power) == wanted  # fmt: skip
        for name in ("utilization", "memory", "temperature", "power"):
            one, other = getattr(use, name), getattr(wanted, name)
            assert (one.mean, one.most) == (pytest.approx(other.mean), other.most)


def check_hosts(asked: Asked) -> None:
    found = {
        use.host: (int(use.index), use.free_s, use.busy_s, use.held_s, use.unknown_s)
        for use in asked.lab.hosts(asked.since, asked.until)
    }
    assert found == answers.hosts(asked.recount, asked.since, asked.until)


def check_supply(asked: Asked) -> None:
    for by_group in (False, True):
        answer = asked.lab.supply(asked.since, asked.until, by_group=by_group)
        expected = answers.supply(asked.recount, asked.since, asked.until, by_group=by_group)
        found = {
            (of.model, of.group): {
                "gpus": (of.gpus, of.host_gpus), "first_at": of.first_at, "sums": of.sums, "before": of.before,
                "week": dict(of.week), "slurm": of.slurm, "held_by": dict(of.held_by or ()),
            }
            for of in answer.models
        }  # fmt: skip
        for row in expected.values():
            row["held_by"] = pytest.approx(dict(row["held_by"]))
        assert found == expected


def check_availability(asked: Asked) -> None:
    found = asked.lab.ask(lambda reader: machines.availability(reader, asked.now, reader.newest_run() or 0))
    assert found == answers.availability(asked.recount, asked.now)


def check_machines(asked: Asked) -> None:
    for name in ("24h", "7d", "30d"):
        step, count = pools.RANGES[name]

        def ask(reader: Reader, step: int = step, count: int = count) -> machines.MachinePast:
            return machines.series(reader, step, count, asked.now, reader.newest_run() or 0)

        past = asked.lab.ask(ask)
        width = machines.MACHINE_WIDTH
        found = {
            (host, past.first + n // width): list(values[n : n + width])
            for host, values in past.hosts.items()
            for n in range(0, len(values), width)
            if any(value == value for value in values[n : n + width])
        }
        expected = answers.machines(asked.recount, step, count, asked.now)
        assert found == {key: pytest.approx(means, rel=1e-5, nan_ok=True) for key, means in expected.items()}


def check_pools(asked: Asked) -> None:
    for grid in (*pools.RANGES.values(), pools.RANGES_OF_MANY["30d"]):

        def ask(reader: Reader, grid: pools.Grid = grid) -> pools.RangePast:
            return pools.read_range(reader, grid, asked.now, reader.newest_run() or 0)

        past = asked.lab.ask(ask)
        found = {
            (*pool, past.first + n // pools.WIDTH): list(values[n : n + pools.WIDTH])
            for pool, values in past.pools.items()
            for n in range(0, len(values), pools.WIDTH)
            if any(values[n : n + pools.WIDTH])
        }
        expected = {k: v for k, v in answers.pools(asked.recount, grid, asked.now).items() if any(v)}
        assert found == {key: pytest.approx(numbers, rel=1e-5) for key, numbers in expected.items()}


def check_week(asked: Asked) -> None:
    found = asked.lab.ask(lambda reader: pools.read_week(reader, asked.now))
    numbers = {
        (*pool, hour): (of[2 * hour], of[2 * hour + 1])
        for pool, of in found.items()
        for hour in range(pools.WEEK_HOURS)
        if of[2 * hour + 1]
    }
    assert numbers == answers.week(asked.recount, asked.now)


def check_spells(asked: Asked) -> None:
    found = asked.lab.ask(lambda reader: list(read_spans(reader, asked.now, reader.newest_run() or 0)))
    slots: dict[Place, dict[int, Any]] = {}
    for (host, card, slice_), spans in found:
        place = Place(host, card, None if slice_ < 0 else slice_)
        numbered = {n: (state, users) for first, end, state, users in spans for n in range(first, end)}
        slots |= {place: numbered} if numbered else {}
    expected = answers.slots(asked.recount, asked.now)
    assert {place: set(of) for place, of in slots.items()} == {
        place: set(of) for place, of in expected.items()
    }
    for place, of in expected.items():
        for slot, seconds in of.items():
            by_state: dict[str, int] = {}
            for (state, _), spent in seconds.items():
                by_state[state] = by_state.get(state, 0) + spent
            state, users = slots[place][slot]
            assert by_state[state] == max(by_state.values()), (place, slot)
            assert seconds[state, users] == max(s for (one, _), s in seconds.items() if one == state)
    check_minutes(asked)


def check_minutes(asked: Asked) -> None:
    end = asked.recount.newest
    found = asked.lab.ask(lambda reader: list(read_spans(reader, asked.now, end)))
    expected: dict[Place, dict[str, int]] = {}
    for entry, seconds in asked.recount.counted(end - DAY, end):
        inside = (
            max(0, min(entry.t + seconds, end) - max(entry.t, end - DAY)) if entry.t < end - DAY else seconds
        )
        of = expected.setdefault(entry.place, {})
        of[entry.state] = of.get(entry.state, 0) + inside
    for (host, card, slice_), spans in found:
        of = expected.get(Place(host, card, None if slice_ < 0 else slice_), {})
        wanted = [of.get(state, 0) / 60 for state in ("busy", "held", "free")]
        assert spans.minutes() == pytest.approx(wanted, abs=0.8)


def check_last_day(asked: Asked) -> None:
    found = asked.lab.ask(lambda reader: dict(read_days(reader, asked.now, reader.newest_run() or 0)))
    expected = answers.day_hours(asked.recount, asked.now)
    assert {Place(host, card, None if s < 0 else s) for host, card, s in found} >= {p for p, _ in expected}
    for (host, card, slice_), day in found.items():
        place = Place(host, card, None if slice_ < 0 else slice_)
        for hour in range(24):
            wanted = expected.get((place, hour), [None] * 4)
            assert day.utilization[hour] == rounded(wanted[0], NO_BYTE)
            assert (day.memory[hour] == NO_BYTE) == (wanted[1] is None)
            assert day.temperature[hour] == rounded(wanted[2], NO_BYTE)
            assert day.power[hour] == rounded(wanted[3], NO_WATTS)
        assert day.most == answers.day_most(asked.recount, asked.now, place)


def rounded(value: float | None, unknown: int) -> Any:
    return unknown if value is None else pytest.approx(value, abs=0.5 + 1e-9)


def check_since(asked: Asked) -> None:
    columns = "host, card, mig_device, since, taken_since, known_at, state, looks"
    rows = asked.lab.ask(
        lambda reader: reader.engine.rows(f"SELECT {columns} FROM {parquet([reader.folder / LAST_FILE])}")
    )
    found = {Place(h, c, None if s < 0 else s): tuple(rest) for h, c, s, *rest in rows if c}
    assert found == {
        place: (known.since, known.taken_since, known.entry.t, known.entry.state, known.looks)
        for place, known in asked.recount.known.items()
    }
    of_hosts = {host: (since, state == "up") for host, card, _, since, _, _, state, _ in rows if not card}
    assert of_hosts == asked.recount.host_since


def check_since_made_again(asked: Asked) -> None:
    """Run by run it is joined, all at once it is found in windows: both are the same.

    Moves, and UUIDs that come later, are followed run by run only.
    """
    folder = asked.lab.config.history_path
    columns = "host, card, mig_device, state, held_by, since, taken_since, known_at, gpu_index, model, looks"
    moved = asked.lab.rows(
        "SELECT DISTINCT card FROM rows WHERE (host, gpu_index) IN (SELECT (host, gpu_index) FROM rows WHERE card LIKE '#%')"
        " OR card IN (SELECT card FROM rows GROUP BY card HAVING count(DISTINCT host) > 1)"
    )
    cards = ", ".join(f"'{card}'" for (card,) in [*moved, ("none",)])
    ordered = f"WHERE card NOT IN ({cards}) ORDER BY host, card, mig_device"
    with open_engine(folder) as engine:
        kept = engine.rows(f"SELECT {columns} FROM {parquet([folder / LAST_FILE])} {ordered}")
        (folder / LAST_FILE).rename(folder / "aside")
        try:
            open_last(engine, folder, FolderNotes.read(folder))
        finally:
            (folder / "aside").rename(folder / LAST_FILE)
        assert engine.rows(f"SELECT {columns} FROM last_state {ordered}") == kept


CHECKS: list[Callable[[Asked], None]] = [
    check_since, check_since_made_again, check_users, check_gpus, check_hosts, check_availability, check_machines, check_supply,
    check_pools, check_week, check_spells, check_last_day,
]  # fmt: skip


def close_everything(lab: HistoryLab, now: int) -> None:
    """As runs of the next days would, without one."""
    folder = lab.config.history_path
    with open_engine(folder) as engine:
        closing.tidy(engine, lab.config, FolderNotes.read(folder), now, 300, lab.lines.append)


@given(known=known_runs())
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # One example takes a second: to shrink one would take an hour.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
def test_every_answer_is_that_of_a_plain_recount_before_and_after_days_are_closed(
    known: Known,
) -> None:
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patched:
        patched.setenv("TZ", "UTC")
        lab = HistoryLab(Path(directory), *HOSTS, groups=GROUPS)
        recount = Recount(HOSTS, GROUPS)
        for run in known.runs:
            lab.add_dated(run.readings, run.at)
            recount.add_run(run.readings)
        asked = Asked(lab, recount, known.since, known.until, recount.newest + known.later)
        for check in CHECKS:
            check(asked)
        later = asked._replace(now=recount.newest + 3 * DAY)
        close_everything(lab, later.now)
        for check in CHECKS:
            check(later)
        assert lab.lines == []
