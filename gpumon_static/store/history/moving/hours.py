"""The hours of GPUs and users as one table, for notebooks and spreadsheets."""

from __future__ import annotations

import csv
from typing import TextIO

from gpumon_static.store.cells import no_formula
from gpumon_static.store.history.engine import filled
from gpumon_static.store.history.reader import Period, Reader

CHUNK = 50_000
"""Rows in memory at once: a year of a large site has millions."""
HEADER = "hour host gpu slice model user busy_s held_s utilization uuid".split()


def export_hours(reader: Reader, asked: Period, file: TextIO) -> int:
    """A row for each hour, GPU or slice, and user since then, oldest first; returns how many."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEADER)
    cursor = reader.engine.connection.execute(filled("questions/user_hours", gpu_runs=reader.gpu_runs(asked)))
    count = 0
    while rows := cursor.fetchmany(CHUNK):
        for hour, host, gpu, slice_, model, user, *numbers, card in rows:
            texts = (no_formula(host), gpu, slice_, no_formula(model), no_formula(user))
            writer.writerow([hour, *texts, *numbers, "" if card.startswith("#") else no_formula(card)])
        count += len(rows)
    return count
