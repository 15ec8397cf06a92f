"""The hours of GPUs and users as one table, for notebooks and spreadsheets."""

from __future__ import annotations

import sqlite3
from typing import TextIO

from gpumon_static.store.cells import no_formula

CHUNK = 50_000
"""Rows in memory at once: a year of a large site has millions."""
QUERY = """
    SELECT u.hour * 3600 AS hour, hosts.name AS host, position AS gpu, slice, models.name AS model,
        users.name AS user, busy_s, held_s, utilization_s / nullif(measured_s, 0) AS utilization
    FROM user_hours AS u JOIN users ON users.id = u.user JOIN gpus ON gpus.id = u.gpu
        JOIN hosts ON hosts.id = gpus.host JOIN models ON models.id = gpus.model
    WHERE u.hour >= ? ORDER BY u.hour, hosts.name, position, slice, users.name
"""


def export_hours(connection: sqlite3.Connection, since: int, file: TextIO) -> int:
    """A row for each hour, GPU or slice, and user since then, oldest first; returns how many."""
    # Here it pays: half a second to import, and times and types of millions of rows are right.
    import pandas as pd

    count = 0
    for frame in pd.read_sql_query(QUERY, connection, params=(since // 3600,), chunksize=CHUNK):
        frame["hour"] = pd.to_datetime(frame["hour"], unit="s", utc=True).dt.strftime("%Y-%m-%dT%H:%M:%SZ")
        frame["slice"] = frame["slice"].astype("Int64")
        for column in ("host", "model", "user"):
            frame[column] = frame[column].map(no_formula)
        columns = {"busy_s": 0, "held_s": 0, "utilization": 1}
        frame.round(columns).to_csv(file, index=False, header=count == 0, lineterminator="\n")
        count += len(frame)
    return count
