-- How each GPU and host stands after these runs: the state before them is one more sample of each, which knows
-- since when it was so. A pause of up to an hour, or one missed run, does not restart "since", unless all that runs
-- there now began in that pause.
WITH starts AS (
    SELECT host, card, coalesce(mig_device, -1) AS mig_device, epoch(fetched_at)::BIGINT AS t,
        min(epoch(started_at))::BIGINT AS oldest
    FROM new_rows WHERE pid IS NOT NULL AND process_type IS DISTINCT FROM 'G' GROUP BY ALL
),
samples AS (
    SELECT host, card, mig_device, known_at AS t, state, held_by, since, taken_since, first_at, looks, gpu_index, gpu_uuid, gpu_name,
        gpu_bus_id, model, mig_profile, host_group, share, memory_total, utilization, memory_used
    FROM last_state
    UNION ALL BY NAME
    SELECT host, card, coalesce(mig_device, -1) AS mig_device, t, state, held_by, gpu_index, gpu_uuid, gpu_name,
        gpu_bus_id, model, mig_profile, host_group, share, memory_total, utilization, memory_used
    FROM new_gpus WHERE is_seen
    UNION ALL BY NAME
    SELECT host, '' AS card, -2 AS mig_device, epoch(fetched_at)::BIGINT AS t,
        CASE WHEN status = 'ok' THEN 'up' ELSE 'down' END AS state, CAST([] AS VARCHAR[]) AS held_by, host_group
    FROM new_rows WHERE level = 3
),
joined AS (
    SELECT *, lag(state) OVER w AS state_before, lag(held_by) OVER w AS held_before,
        coalesce(card = '' OR (t - lag(t) OVER w <= $bridge_s
            AND NOT coalesce(t - lag(t) OVER w > $late_s AND oldest > lag(t) OVER w, false)), false) AS is_bridged
    FROM samples LEFT JOIN starts USING (host, card, mig_device, t) WINDOW w AS (PARTITION BY host, card, mig_device ORDER BY t)
)
SELECT host, card, mig_device, max_by(s, t).gpu_index AS gpu_index, max_by(s, t).gpu_uuid AS gpu_uuid,
    max_by(s, t).gpu_name AS gpu_name, max_by(s, t).gpu_bus_id AS gpu_bus_id, max_by(s, t).model AS model,
    max_by(s, t).mig_profile AS mig_profile, max_by(s, t).host_group AS host_group, max_by(s, t).share AS share,
    max_by(s, t).memory_total AS memory_total, max(t) AS known_at, min(coalesce(first_at, t)) AS first_at, max_by(s, t).state AS state,
    max_by(s, t).held_by AS held_by,
    max(coalesce(since, t)) FILTER (NOT (is_bridged AND state IS NOT DISTINCT FROM state_before)) AS since,
    CASE WHEN max_by(s, t).state IN ('busy', 'held') THEN
        max(coalesce(taken_since, t)) FILTER (state IN ('busy', 'held')
            AND NOT (is_bridged AND coalesce(state_before IN ('busy', 'held'), false) AND held_by IS NOT DISTINCT FROM held_before)) END AS taken_since,
    max_by(s, t).utilization AS utilization, max_by(s, t).memory_used AS memory_used,
    -- Readings that found it as it is now, with these users, one after the other.
    sum(coalesce(looks, 1)) FILTER (t >= started)::BIGINT AS looks, $run_at::BIGINT AS run_at
FROM (
    SELECT host, card, mig_device, t, since, taken_since, first_at, looks, is_bridged, state, state_before, held_by, held_before,
        max(CASE WHEN NOT (is_bridged AND state IS NOT DISTINCT FROM state_before AND held_by IS NOT DISTINCT FROM held_before)
            THEN t END) OVER (PARTITION BY host, card, mig_device) AS started,
        {gpu_index: gpu_index, gpu_uuid: gpu_uuid, gpu_name: gpu_name, gpu_bus_id: gpu_bus_id, model: model,
        mig_profile: mig_profile, host_group: host_group, share: share, memory_total: memory_total, state: state,
        held_by: held_by, utilization: utilization, memory_used: memory_used} AS s
    FROM joined
)
GROUP BY host, card, mig_device HAVING max(t) > $oldest
