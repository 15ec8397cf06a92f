"""Files of a version whose readings had fewer fields, or numbers of a narrower type."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from gpumon_static.model import Machine
from gpumon_static.store.history.views import asking
from gpumon_static.store.history.views.moment import lab_then
from tests.builders import gpu, reading
from tests.history_lab import HOUR, INTERVAL, START, HistoryLab

NODE1 = replace(
    reading("node1", [gpu(temperature_c=61.0, temperature_limit_c=90.0)]),
    machine=Machine(cpu_count=8, ram_total_mib=1024.0, ram_used_mib=512.0),
)


@pytest.fixture
def lab(tmp_path: Path) -> HistoryLab:
    """An hour that is closed and runs of the next one, none of which has the limit; RAM is an INTEGER."""
    lab = HistoryLab(tmp_path / "data")
    lab.every(START, START + HOUR + 3 * INTERVAL, NODE1)
    for path in lab.config.history_path.glob("[0-9]*/*.parquet"):
        older = "SELECT * EXCLUDE (gpu_temperature_limit_c) REPLACE (ram_used_mib::INTEGER AS ram_used_mib)"
        about = f"SELECT decode(key), decode(value) FROM parquet_kv_metadata('{path}')"
        notes = ", ".join(f"{key}: '{value}'" for key, value in _rows(about) if key == "runs")
        options = f"FORMAT parquet, KV_METADATA {{{notes}}}" if notes else "FORMAT parquet"
        duckdb.sql(f"COPY ({older} FROM '{path}') TO '{path}.new' ({options})")
        Path(f"{path}.new").replace(path)
    return lab


def _rows(query: str) -> list[tuple[str, str]]:
    found = duckdb.sql(query)
    assert found is not None
    return found.fetchall()


def test_what_they_lack_is_unknown(lab: HistoryLab) -> None:
    asked = "SELECT DISTINCT gpu_temperature_c, gpu_temperature_limit_c, ram_used_mib FROM rows"
    assert lab.rows(asked) == [(61, None, 512)]
    then = lab_then(lab.config.history_path, START, lambda every: every)
    assert then.readings[0].gpus[0].temperature_c == 61
    assert then.readings[0].gpus[0].temperature_limit_c is None
    question = asking.Question("SELECT count(*), count(gpu_temperature_limit_c) FROM readings")
    assert asking.answer(lab.config.history_path, question, lambda answer: answer.cursor.fetchall()) == [
        (16, 0)
    ]
    assert lab.lines == []


def test_runs_of_today_are_added_to_them(lab: HistoryLab) -> None:
    lab.every(START + HOUR + 4 * INTERVAL, START + 2 * HOUR + 4 * INTERVAL, NODE1)
    asked = (
        "SELECT gpu_temperature_limit_c, count(*), sum(ram_used_mib)::INTEGER FROM rows GROUP BY 1 ORDER BY 1"
    )
    assert lab.rows(asked) == [(90, 13, 13 * 512), (None, 16, 16 * 512)]
    assert lab.lines == []
    assert (lab.config.history_path / "2025-11-14/10.parquet").exists()
