-- Of each run in which a host did not answer: the GPUs that it had in its last answer before, which are down.
INSERT INTO new_rows BY NAME
WITH down AS (SELECT host, fetched_at, run_at, status, host_group, interval_s FROM new_rows WHERE level = 3 AND status <> 'ok'),
answers AS (SELECT host, fetched_at AS answered_at FROM new_rows WHERE level = 3 AND status = 'ok')
SELECT d.fetched_at, d.run_at, d.host, d.status, d.host_group, r.gpu_index, r.gpu_uuid, r.gpu_name, r.gpu_bus_id,
    r.mig_device, r.mig_profile, r.gpu_memory_total_mib, r.card, r.model, 'down' AS state, 'down' AS gpu_state,
    CAST([] AS VARCHAR[]) AS held_by, r.share, false AS is_offered, least(r.level, 2)::TINYINT AS level,
    false AS is_partial, d.interval_s
FROM down AS d ASOF JOIN answers AS a ON a.host = d.host AND d.fetched_at >= a.answered_at
JOIN new_rows AS r ON r.host = d.host AND r.fetched_at = a.answered_at
WHERE r.level >= 1 AND r.gpu_index IS NOT NULL
