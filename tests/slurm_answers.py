"""Answers of scontrol, read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from gpumon_static.bounds.reading import bounded
from gpumon_static.collect.slurm import answer
from gpumon_static.config import file as config_file
from gpumon_static.config.settings import Config
from gpumon_static.model import Allocated, SlurmAnswer
from tests.builders import READ_AT
from tests.slurm_texts import answer as told

ENDS = datetime(2025, 11, 14, 14, 30, tzinfo=UTC)


def read(jobs: str = "", nodes: str = "") -> SlurmAnswer:
    found = bounded(answer.parse("Slurm on login1", told(jobs, nodes), READ_AT)).slurm
    assert found
    return found


# Joining


SETUP = '[common]\nhosts = ["gpu1.lab.example", "gpu2", "desk"]\n'


def configured(tmp_path: Path, text: str = SETUP + '[slurm]\nhost = "login1"\n') -> Config:
    path = tmp_path / "config.ini"
    path.write_text(text)
    return config_file.load(path)


YES, NO, UNKNOWN = Allocated.YES, Allocated.NO, Allocated.UNKNOWN
