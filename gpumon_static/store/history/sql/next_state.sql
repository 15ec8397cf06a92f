-- The same after one run, which is what nearly every fetch adds: the state before beside what was seen.
-- Gone are slices that the answer of their host does not have, and GPUs that were missing for too long.
WITH answered AS (SELECT host FROM new_rows WHERE level = 3 AND status = 'ok'),
starts AS (
    SELECT host, card, coalesce(mig_device, -1) AS mig_device, epoch(fetched_at)::BIGINT AS t,
        min(epoch(started_at))::BIGINT AS oldest
    FROM new_rows WHERE pid IS NOT NULL AND process_type IS DISTINCT FROM 'G' GROUP BY ALL
),
samples AS (
    SELECT host, card, coalesce(mig_device, -1) AS mig_device, t, state, held_by, is_seen, gpu_index, gpu_uuid, gpu_name,
        gpu_bus_id, model, mig_profile, host_group, share, memory_total, utilization, memory_used
    FROM new_gpus
    UNION ALL BY NAME
    SELECT host, '' AS card, -2 AS mig_device, epoch(fetched_at)::BIGINT AS t, true AS is_seen,
        CASE WHEN status = 'ok' THEN 'up' ELSE 'down' END AS state, CAST([] AS VARCHAR[]) AS held_by, host_group
    FROM new_rows WHERE level = 3
),
-- One row for each: a pair would double with every run.
latest AS (SELECT DISTINCT ON (host, card, mig_device) * FROM samples LEFT JOIN starts USING (host, card, mig_device, t)),
joined AS (
    SELECT l, n, n.is_seen AND NOT coalesce(l.card = '' OR (n.t - l.known_at <= $bridge_s
            AND NOT coalesce(n.t - l.known_at > $late_s AND n.oldest > l.known_at, false)), false) AS is_apart
    FROM last_state AS l FULL JOIN latest AS n ON l.host = n.host AND l.card = n.card AND l.mig_device = n.mig_device
)
SELECT coalesce(l.host, n.host) AS host, coalesce(l.card, n.card) AS card, coalesce(l.mig_device, n.mig_device) AS mig_device,
    {values},
    CASE WHEN n.is_seen THEN n.t ELSE l.known_at END AS known_at, coalesce(l.first_at, l.known_at, n.t) AS first_at,
    CASE WHEN is_apart OR n.is_seen AND l.state IS DISTINCT FROM n.state THEN n.t ELSE l.since END AS since,
    CASE WHEN CASE WHEN n.is_seen THEN n.state ELSE l.state END NOT IN ('busy', 'held') THEN NULL
        WHEN is_apart OR n.is_seen AND NOT coalesce(l.state IN ('busy', 'held')
            AND l.held_by IS NOT DISTINCT FROM n.held_by, false) THEN n.t
        ELSE coalesce(l.taken_since, l.known_at) END AS taken_since,
    CASE WHEN is_apart OR n.is_seen AND (l.state IS DISTINCT FROM n.state OR l.held_by IS DISTINCT FROM n.held_by) THEN 1
        ELSE coalesce(l.looks, 1) + coalesce(n.is_seen, false)::INTEGER END::BIGINT AS looks,
    $run_at::BIGINT AS run_at
FROM joined
WHERE (n.is_seen OR l.host IS NOT NULL) AND CASE WHEN n.is_seen THEN n.t ELSE l.known_at END > $oldest
    AND NOT (n.host IS NULL AND l.card <> '' AND l.host IN (FROM answered))
