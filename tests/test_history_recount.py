"""The sums of the history beside a plain recount: the same runs, gone through one by one, without a database.

The recount is slow and simple on purpose. It keeps all sightings of a GPU in a list and adds up each table from
its beginning.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumon_static.store.history import record
from gpumon_static.store.history.database import migrate
from gpumon_static.store.history.observed import (
    BUSY,
    DOWN,
    FREE,
    HELD,
    MISSED,
    UNKNOWN,
    HostSighting,
    MachineValues,
    Observed,
    Values,
)
from tests.builders import config

START = 1763110800
INTERVAL = 300
HOUR, DAY = 3600, 86400
STATE_COLUMNS = {FREE: "free_s", BUSY: "busy_s", HELD: "held_s", UNKNOWN: "unknown_s", DOWN: "down_s"}
MEASURED = ("utilization", "memory", "temperature", "power")

Sums = dict[tuple[Any, ...], dict[str, Any]]


class Sample(NamedTuple):
    at: int
    state: int
    users: tuple[str, ...]
    values: Values
    weight: float
    pool: tuple[str, str]
    """Host, model and profile at that time."""
    known: bool
    owner: str | None = None
    """Of the Slurm job that has it."""
    is_told: bool = False


class Recount:
    """What a list of runs amounts to."""

    def __init__(self) -> None:
        self.samples: dict[str, list[Sample]] = defaultdict(list)
        self.pool_runs: Sums = defaultdict(lambda: defaultdict(int))
        self._pool: dict[str, tuple[str, str]] = {}
        """Where a GPU was last seen."""
        self._there: dict[str, bool] = {}
        self.machines: dict[str, list[tuple[int, MachineValues | None]]] = defaultdict(list)

    def add_run(self, seen: list[HostSighting]) -> None:
        met: set[str] = set()
        for host in seen:
            asked = self.machines[host.host]
            if not asked or host.at > asked[-1][0]:
                asked.append((host.at, None if host.gpus is None else host.machine))
            for gpu in host.gpus or ():
                name = gpu.uuid or f"{host.host}/{gpu.position}"
                met.add(name)
                self._pool[name], self._there[name] = (host.host, f"{gpu.model}/{gpu.profile}"), True
                self._add(name, host, gpu)
            for name, (place, _) in self._pool.items():
                if place == host.host and self._there[name] and name not in met:
                    self._lose(name, host)

    def _add(self, name: str, host: HostSighting, gpu: Observed) -> None:
        pool = self._pool[name]
        before = self.samples[name]
        if before and host.at <= before[-1].at:
            return
        before.append(
            Sample(
                host.at,
                gpu.state,
                gpu.users,
                gpu.values,
                gpu.weight,
                pool,
                True,
                gpu.allocated_to,
                gpu.is_told,
            )
        )
        run = self.pool_runs[host.at, *pool]
        run["gpus"] += 1
        run["free"] += gpu.state == FREE
        run["taken"] += gpu.state in (BUSY, HELD)
        run["utilization_n"] += gpu.values.utilization is not None
        run["utilization_sum"] += gpu.values.utilization or 0
        both = gpu.values.memory is not None and gpu.memory_total is not None
        run["memory_sum"] += (gpu.values.memory or 0) if both else 0
        run["memory_total"] += (gpu.memory_total or 0) if both else 0

    def _lose(self, name: str, host: HostSighting) -> None:
        """Gone, or out of reach: then it is still thought to be there."""
        if host.gpus is not None:
            self._there[name] = False
            return
        last = self.samples[name][-1]
        if host.at > last.at:
            pool = self._pool[name]
            self.samples[name].append(Sample(host.at, DOWN, (), Values(), last.weight, pool, False))

    def counted(self, name: str) -> Iterator[tuple[int, int, Sample, tuple[str, str]]]:
        """From, to, as what, and in which pool: that of the sample which closes it."""
        samples = self.samples[name]
        for sample, following in pairwise(samples):
            gap = following.at - sample.at
            yield sample.at, sample.at + (gap if gap <= 1.5 * INTERVAL else INTERVAL), sample, following.pool

    def spans(self, name: str) -> list[tuple[int, int, tuple[str, ...]]]:
        found: list[tuple[int, int, tuple[str, ...]]] = []
        end = None
        for sample in self.samples[name]:
            if end is not None and sample.at - end[0] > 1.5 * INTERVAL:
                found.append((end[0] + INTERVAL, MISSED, ()))
            if not found or found[-1][1:] != (sample.state, sample.users):
                found.append((sample.at, sample.state, sample.users))
            end = sample
        return found

    def since(self, name: str) -> tuple[int, int | None]:
        """In its state, and held by its users."""
        known = [sample for sample in self.samples[name] if sample.known]
        state_since, taken_since = known[0].at, None
        before = None
        for sample in known:
            joined = before is not None and sample.at - before.at <= HOUR
            if not (joined and before and before.state == sample.state):
                state_since = sample.at
            same = joined and before and before.users == sample.users and taken_since is not None
            if sample.state not in (BUSY, HELD):
                taken_since = None
            elif not same:
                taken_since = sample.at
            before = sample
        return state_since, taken_since

    def gpus(self, unit: int) -> Sums:
        sums: Sums = defaultdict(lambda: defaultdict(int))
        for name, samples in self.samples.items():
            for sample in samples:
                if not sample.known:
                    continue
                row = sums[sample.at // unit, name]
                for column, value in zip(MEASURED, sample.values, strict=True):
                    if value is not None:
                        row[f"{column}_n"] += 1
                        row[f"{column}_sum"] += value
                        row[f"{column}_max"] = max(value, row.get(f"{column}_max", value))
            for start, end, sample, _ in self.counted(name):
                for number, seconds in _pieces(start, end, unit):
                    sums[number, name][STATE_COLUMNS[sample.state]] += seconds
        return sums

    def users(self, unit: int) -> Sums:
        sums: Sums = defaultdict(lambda: defaultdict(float))
        for name in self.samples:
            for start, end, sample, _ in self.counted(name):
                for number, seconds in _pieces(start, end, unit):
                    for user in sample.users:
                        share = seconds * sample.weight / len(sample.users)
                        row = sums[number, user, name]
                        row["busy_s" if sample.state == BUSY else "held_s"] += share
                        if sample.values.utilization is not None:
                            row["utilization_s"] += share * sample.values.utilization
                            row["measured_s"] += share
        return sums

    def allocated(self, unit: int) -> Sums:
        """What Slurm had given to jobs, by their owners."""
        sums: Sums = defaultdict(lambda: defaultdict(float))
        for name in self.samples:
            for start, end, sample, _ in self.counted(name):
                for number, seconds in _pieces(start, end, unit) if sample.owner is not None else ():
                    sums[number, sample.owner, name]["allocated_s"] += seconds
                    sums[number, sample.owner, name]["idle_s"] += seconds * (sample.state == HELD)
        return sums

    def pools(self, unit: int) -> Sums:
        sums: Sums = defaultdict(lambda: defaultdict(int))
        for (at, host, model), run in self.pool_runs.items():
            row = sums[at // unit, host, model]
            for column in ("utilization_n", "utilization_sum", "memory_sum", "memory_total"):
                row[column] += run[column]
            row["gpus"] = max(row["gpus"], run["gpus"])
        for name in self.samples:
            for start, end, sample, pool in self.counted(name):
                kind = {FREE: "free_s", BUSY: "taken_s", HELD: "taken_s"}.get(sample.state)
                for number, seconds in _pieces(start, end, unit):
                    if kind:
                        sums[number, *pool][kind] += seconds
        return sums

    def hosts(self, unit: int) -> Sums:
        """When each host answered, and what it measured."""
        sums: Sums = defaultdict(lambda: defaultdict(int))
        for host, asked in self.machines.items():
            for at, values in asked:
                for column, value in (values or MachineValues())._asdict().items():
                    if value is not None:
                        row = sums[at // unit, host]
                        row[f"{column}_n"] += 1
                        row[f"{column}_sum"] += value
                        row[f"{column}_max"] = max(value, row.get(f"{column}_max", value))
            for (at, values), (following, _) in pairwise(asked):
                end = following if following - at <= 1.5 * INTERVAL else at + INTERVAL
                for number, seconds in _pieces(at, end, unit):
                    sums[number, host]["down_s" if values is None else "up_s"] += seconds
        return sums


def _pieces(start: int, end: int, unit: int) -> Iterator[tuple[int, int]]:
    for number in range(start // unit, end // unit + 1):
        seconds = min(end, (number + 1) * unit) - max(start, number * unit)
        if seconds > 0:
            yield number, seconds


# Chance: hosts that fail, GPUs that come, go, move and are cut into slices, users that change

HOSTS = ("node1", "node2", "node3")
GAPS = st.sampled_from([300, 300, 300, 299, 60, 450, 451, 900, 3500, 4000, 90000])
NUMBER = st.one_of(st.none(), st.integers(0, 100))
SLURM = [(None, False), (None, True), ("alice", True), ("bob", True), ("", True)]
"""Not asked or hidden, free, and given to a job of that user; whether that is told."""
USERS = st.sampled_from([("alice",), ("bob",), ("alice", "bob"), ("alice", "bob", "carol"), ("",)])


@st.composite
def observed(draw: st.DrawFn, uuid: str | None, position: int, slice_: int | None = None) -> Observed:
    state = draw(st.sampled_from([FREE, BUSY, HELD, UNKNOWN]))
    values = Values(*(draw(NUMBER) for _ in MEASURED))
    weight = 1.0 if slice_ is None else draw(st.sampled_from([0.5, 1 / 7]))
    owner, is_told = (None, False) if slice_ is not None else draw(st.sampled_from(SLURM))
    return Observed(
        uuid,
        position,
        slice_,
        "A100" if position < 2 else "T4",
        "" if slice_ is None else "1g.10gb",
        weight,
        state,
        draw(USERS) if state in (BUSY, HELD) else (),
        values,
        draw(st.one_of(st.none(), st.just(81920))),
        owner,
        is_told,
    )


@st.composite
def one_run(draw: st.DrawFn, at: int) -> list[HostSighting]:
    """Four GPUs with UUIDs, each in one of the hosts or nowhere, a slice beside the first; one GPU without."""
    gpus: dict[str, list[Observed]] = {host: [] for host in HOSTS}
    for number in range(4):
        place: str | None = draw(st.sampled_from((*[HOSTS[number % 2]] * 6, *HOSTS, None)))
        if place:
            gpus[place].append(draw(observed(f"GPU-{number}", number)))
            if number == 0 and draw(st.booleans()):
                gpus[place].append(draw(observed("MIG-0", number, 0)))
    gpus[HOSTS[2]].append(draw(observed(None, 7)))
    failing = {host for host in HOSTS if draw(st.integers(0, 4)) == 0}
    offsets = st.integers(0, 20)
    return [
        HostSighting(
            host,
            at + draw(offsets),
            None if host in failing else gpus[host],
            MachineValues(*(draw(NUMBER) for _ in MachineValues._fields)),
        )
        for host in HOSTS
    ]


@st.composite
def many_runs(draw: st.DrawFn) -> list[list[HostSighting]]:
    """Few enough that no other interval than the config's is learned from them."""
    at, runs = START, []
    for _ in range(draw(st.integers(2, 9))):
        runs.append(draw(one_run(at)))
        at += draw(GAPS)
    return runs


QUERIES = {
    "gpu": "SELECT t.{unit}, g.key, t.* FROM gpu_{unit}s AS t JOIN gpus AS g ON g.id = t.gpu",
    "user": "SELECT t.{unit}, u.name, g.key, t.* FROM user_{unit}s AS t JOIN gpus AS g ON g.id = t.gpu"
    " JOIN users AS u ON u.id = t.user",
    "allocated": "SELECT t.{unit}, u.name, g.key, t.* FROM allocated_{unit}s AS t"
    " JOIN gpus AS g ON g.id = t.gpu JOIN users AS u ON u.id = t.user",
    "pool": "SELECT t.{unit}, h.name, m.name || '/' || m.profile, t.* FROM pool_{unit}s AS t"
    " JOIN hosts AS h ON h.id = t.host JOIN models AS m ON m.id = t.model",
    "machine": "SELECT t.{unit}, h.name, t.* FROM machine_{unit}s AS t JOIN hosts AS h ON h.id = t.host",
}


def table(connection: sqlite3.Connection, name: str, unit: str, keys: int) -> Sums:
    """As the recount has it: what is 0 or NULL is left out."""
    cursor = connection.execute(QUERIES[name].format(unit=unit))
    columns = [entry[0] for entry in cursor.description]
    own = (unit, "gpu", "user", "host", "model")
    return {
        row[:keys]: {c: v for c, v in zip(columns[keys:], row[keys:], strict=True) if c not in own and v}
        for row in cursor
    }


def without_zeros(sums: Sums) -> Sums:
    return {key: {column: value for column, value in row.items() if value} for key, row in sums.items()}


def assert_equal(found: Sums, expected: Sums) -> None:
    expected = without_zeros(expected)
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        assert found[key] == (pytest.approx(row, rel=1e-9) if row else row), key


@given(runs=many_runs())
@settings(max_examples=60, deadline=None)
def test_all_sums_are_those_of_a_plain_recount(runs: list[list[HostSighting]]) -> None:
    recount = Recount()
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(Path("history.db"), connection)
        for run in runs:
            record.add(connection, config(*HOSTS), run, max(host.at for host in run))
            recount.add_run(run)
        for unit, seconds in (("hour", HOUR), ("day", DAY)):
            assert_equal(table(connection, "gpu", unit, 2), recount.gpus(seconds))
            assert_equal(table(connection, "user", unit, 3), recount.users(seconds))
            assert_equal(table(connection, "allocated", unit, 3), recount.allocated(seconds))
            assert_equal(table(connection, "pool", unit, 3), recount.pools(seconds))
            assert_equal(table(connection, "machine", unit, 2), recount.hosts(seconds))
        _compare_the_rest(connection, recount)


def _compare_the_rest(connection: sqlite3.Connection, recount: Recount) -> None:
    users = dict(connection.execute("SELECT id, name FROM users"))
    crews = {None: ()} | {
        crew: tuple(sorted(users[int(member)] for member in members.split()))
        for crew, members in connection.execute("SELECT id, members FROM crews")
    }
    for number, name in connection.execute("SELECT id, key FROM gpus").fetchall():
        samples = recount.samples[name]
        rows = connection.execute("SELECT at, state, crew, utilization, memory, temperature, power FROM samples"
                                  " WHERE gpu = ? ORDER BY at", (number,))  # fmt: skip
        found = [(at, state, crews[crew], Values(*values)) for at, state, crew, *values in rows]
        assert found == [(s.at, s.state, s.users, s.values) for s in samples]
        rows = connection.execute("SELECT at, state, crew FROM spans WHERE gpu = ? ORDER BY at", (number,))
        assert [(at, state, crews[crew]) for at, state, crew in rows] == recount.spans(name)
        at, state, known_at, *since = connection.execute(
            "SELECT at, state, known_at, since, taken_since FROM latest WHERE gpu = ?", (number,)
        ).fetchone()
        last_known = [sample for sample in samples if sample.known][-1]
        assert (at, state, known_at) == (samples[-1].at, samples[-1].state, last_known.at)
        assert tuple(since) == recount.since(name)
    rows = connection.execute("SELECT count(*), total(gpus), total(free), total(taken) FROM pool_runs")
    runs = recount.pool_runs.values()
    columns = ("gpus", "free", "taken")
    assert rows.fetchone() == (len(runs), *(sum(run[column] for run in runs) for column in columns))
