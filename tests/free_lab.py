"""A gpus.json for `gpumon-static free`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpumon_static.config.settings import Config
from gpumon_static.model import HostReading, Machine
from gpumon_static.publish.exports.gpus_json import document
from gpumon_static.survey.offers import Wanted, offers
from gpumon_static.survey.survey import build_survey
from tests.builders import NOW, config, gpu, reading

ROOMY = Machine(cpu_count=10, load_1m=1.0, ram_total_mib=512_000.0, ram_used_mib=12_000.0)
V100 = {"name": "Tesla V100-SXM2-32GB", "memory_total_mib": 32510.0}


def found(readings: Sequence[HostReading], wanted: Wanted | None = None, setup: Config | None = None) -> Any:
    setup = setup or config(*(r.host for r in readings))
    return offers(document(build_survey(readings, setup, NOW)), wanted or Wanted(), NOW)


def hosts(readings: Sequence[HostReading], wanted: Wanted | None = None) -> list[str]:
    return [offer.host for offer in found(readings, wanted)]


def roomy(host: str, *gpus: Any, **machine: Any) -> HostReading:
    return reading(host, gpus, machine=replace(ROOMY, **machine))


# As a program


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A directory as render leaves it, with data of this minute."""
    return write(tmp_path / "site", [roomy("n1", gpu(0), gpu(1)), roomy("n2", gpu(0, **V100))])


def write(
    directory: Path, readings: Sequence[HostReading], age: timedelta = timedelta(), refresh: int = 1
) -> Path:
    now = datetime.now(UTC)
    fresh = [replace(r, fetched_at=now - age) for r in readings]
    setup = config(*(r.host for r in readings), refresh=refresh)
    directory.mkdir(exist_ok=True)
    (directory / "gpus.json").write_text(json.dumps(document(build_survey(fresh, setup, now))))
    return directory
