-- Rows of rntop's log of times of which nothing is known of their host: a row for each time a host was read, and
-- one for each GPU. Its users are not known. The GPU is the one that has its index now.
WITH fresh AS (
    SELECT g.* FROM log AS g ANTI JOIN (
        SELECT host, min(epoch(fetched_at)) AS low, max(epoch(fetched_at) + coalesce(seconds, 0)) AS high
        FROM our_rows GROUP BY host, epoch(run_at)::BIGINT // 3600) AS o
        ON o.host = g.host AND g.t BETWEEN o.low AND o.high
),
cards AS (SELECT host, gpu_index, max(card) AS card FROM {last} WHERE mig_device = -1 AND card <> '' GROUP BY ALL)
SELECT n.* REPLACE (to_timestamp(f.t) AS fetched_at, to_timestamp(f.t) AS run_at, f.host AS host, 'ok' AS status,
    f.gpu_index AS gpu_index, f.utilization AS gpu_utilization, f.memory_used AS gpu_memory_used_mib,
    f.memory_total AS gpu_memory_total_mib, coalesce(c.card, '#' || f.gpu_index) AS card, 'unknown model' AS model,
    f.state AS state, f.state AS gpu_state, CASE WHEN f.state = 'free' THEN [] ELSE [''] END AS held_by, 1.0 AS share,
    false AS is_offered, 2::TINYINT AS level, true AS is_partial, $interval_s::INTEGER AS interval_s, '' AS host_group,
    true AS gpu_processes_known)
FROM fresh AS f LEFT JOIN cards AS c USING (host, gpu_index) LEFT JOIN no_rows AS n ON false
UNION ALL BY NAME
SELECT DISTINCT n.* REPLACE (to_timestamp(f.t) AS fetched_at, to_timestamp(f.t) AS run_at, f.host AS host, 'ok' AS status,
    'up' AS state, 'up' AS gpu_state, CAST([] AS VARCHAR[]) AS held_by, 3::TINYINT AS level, true AS is_partial,
    $interval_s::INTEGER AS interval_s, '' AS host_group, false AS is_offered)
FROM fresh AS f LEFT JOIN no_rows AS n ON false
