-- How long readings beside the seams of two histories stand for, and their runs: until the next one, as if one
-- collector had made both. A run is followed by the next one of its hosts. What stands for longer was made from the
-- sums of an older version: it stays.
CREATE OR REPLACE TEMP TABLE seams AS
WITH readings AS (
    SELECT host, fetched_at, run_at, seconds, run_seconds, interval_s, is_partial, contains(filename, $label) AS is_added
    FROM read_parquet($paths, union_by_name = true, filename = true) WHERE level = 3
)
SELECT *, lead(epoch(fetched_at)) OVER w - epoch(fetched_at) AS gap, lead(run_at) OVER w AS next_run,
    coalesce(is_added <> lead(is_added) OVER w, is_added) OR is_added AND coalesce(seconds, 0) = 0 AS is_seam
FROM readings WINDOW w AS (PARTITION BY host ORDER BY fetched_at);
CREATE OR REPLACE TEMP TABLE new_seconds AS
SELECT host, fetched_at, seconds AS before, joined_for(gap, seconds, interval_s, $now - epoch(fetched_at))::INTEGER AS seconds
FROM seams WHERE is_seam AND coalesce(seconds, 0) <= 1.5 * interval_s;
CREATE OR REPLACE TEMP TABLE new_run_seconds AS
SELECT run_at, joined_for(min(epoch(next_run)) - epoch(run_at), max(run_seconds), max(interval_s), $now - epoch(run_at))::INTEGER
    AS run_seconds
FROM seams WHERE NOT is_partial GROUP BY run_at
HAVING bool_or(is_seam) AND coalesce(max(run_seconds), 0) <= 1.5 * max(interval_s)
