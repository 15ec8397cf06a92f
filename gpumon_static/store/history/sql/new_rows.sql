-- The rows of the CSV that belong to these runs, with what was decided. The CSV has hosts, their GPUs, slices and
-- processes in order, so that the first row of each is the one that differs from the row before.
CREATE OR REPLACE TEMP TABLE new_rows AS
WITH hosts_seen AS ({hosts}), gpus_seen AS ({gpus})
SELECT {values}, to_timestamp(h.run_at) AS run_at, h.host_group, {card} AS card, g.model,
    coalesce(g.state, CASE WHEN c.status = 'ok' THEN 'up' ELSE 'down' END) AS state,
    coalesce(g.gpu_state, CASE WHEN c.status = 'ok' THEN 'up' ELSE 'down' END) AS gpu_state,
    coalesce(g.held_by, []) AS held_by, g.share, coalesce(g.is_offered, false) AS is_offered,
    CASE WHEN level = 3 THEN h.disk_percent END AS disk_percent,
    -- Processes of the whole of a GPU that is cut into slices come after those of its slices.
    CASE WHEN g.is_cut AND c.mig_device IS NULL THEN 0 ELSE level END::TINYINT AS level,
    $is_partial::BOOLEAN AS is_partial, h.interval_s,
    NULL::INTEGER AS seconds, NULL::INTEGER AS run_seconds
FROM (
    SELECT *, CASE WHEN host IS DISTINCT FROM host_before OR t <> t_before THEN 3
        WHEN gpu_index IS DISTINCT FROM gpu_before THEN 2
        WHEN mig_device IS DISTINCT FROM slice_before THEN 1 ELSE 0 END AS level
    FROM (
        SELECT *, epoch(fetched_at)::BIGINT AS t, lag(host) OVER () AS host_before,
            lag(epoch(fetched_at)::BIGINT) OVER () AS t_before,
            lag(gpu_index) OVER () AS gpu_before, lag(mig_device) OVER () AS slice_before
        FROM {csv}
    )
) AS c
JOIN hosts_seen AS h ON h.host = c.host AND h.t = c.t
LEFT JOIN gpus_seen AS g ON g.host = c.host AND g.t = c.t AND g.gpu_index = c.gpu_index
    AND g.mig_device = coalesce(c.mig_device, -1);
