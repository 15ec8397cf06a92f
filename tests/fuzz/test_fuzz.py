"""A share of the fuzzers' cases, after everything that was found before. `make fuzz` runs them all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpumon_static.model import Gpu
from tests.builders import gpu, reading
from tests.fuzz import seeds
from tests.fuzz.cases import KINDS, Kind, tried
from tests.fuzz.oracles import check_reading

SEED = 1
CORPUS = [(kind, name) for kind in KINDS.values() for name in kind.corpus()]


@pytest.mark.parametrize(("kind", "name"), CORPUS, ids=[f"{kind.name}-{name}" for kind, name in CORPUS])
def test_what_was_found_once_stays_fixed(tmp_path: Path, kind: Kind, name: str) -> None:
    failure = tried(kind, name, kind.corpus()[name], tmp_path)
    assert failure is None, failure.message


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_comes_in_something_sound_comes_out(tmp_path: Path, kind: str) -> None:
    cases = ((n, KINDS[kind].case(SEED, n)) for n in range(KINDS[kind].share))
    failures = [tried(KINDS[kind], str(n), content, tmp_path) for n, content in cases]
    assert [(f.case, f.message) for f in failures if f] == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_mutated_is_sound_itself(tmp_path: Path, kind: str) -> None:
    for content in KINDS[kind].seeds():
        KINDS[kind].oracle(content, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_is_made_again_by_its_seed_and_number(kind: str) -> None:
    first = [KINDS[kind].case(7, n) for n in range(20)]
    assert first == [KINDS[kind].case(7, n) for n in range(20)]
    assert len(set(first)) > 15
    assert first != [KINDS[kind].case(8, n) for n in range(20)]


@pytest.mark.parametrize(
    "broken",
    [
        gpu(power_w=float("inf")),
        gpu(temperature_c=1e300),
        gpu(name="two\nlines"),
        gpu(name=""),
        gpu(uuid="x" * 5000),
    ],
    ids=["infinite", "out of range", "two lines", "empty", "long"],
)
def test_the_oracle_of_readings_can_fail(broken: Gpu) -> None:
    check_reading(reading("node1", [gpu()]))
    with pytest.raises(AssertionError):
        check_reading(replace(reading("node1"), gpus=(broken,)))


def test_the_seeds_are_read_as_more_than_errors() -> None:
    assert len(seeds.answers_of_hosts()) >= 8 + 4
    assert len(seeds.configs()) == 3
